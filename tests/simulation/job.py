"""One table's job in the local world, through all its starts: its wires, its checkpoints and its sink."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.catalog.errors import BrokerUnavailableError, RunError
from penstock.connector.local.job import LocalJob
from penstock.connector.local.job_master import JobSettings
from penstock.connector.local.messages import (
    LocalCheckpoint,
    MasterMessage,
    ReaderCrashed,
    SnapshotTaken,
)
from penstock.connector.source.coordinator.events import (
    ReportedWatermark,
    SourceEventReceived,
    SplitRequested,
)
from tests.connector.local.checkpoint_text import decode_checkpoint, encode_checkpoint
from tests.simulation.draw import Drawn
from tests.simulation.ledger import Ledger
from tests.simulation.model import ModelSource
from tests.simulation.outside import Outside
from tests.simulation.scheduler import Run, Violation
from tests.simulation.stepped import (
    SteppedMaster,
    SteppedOutput,
    SteppedWorker,
)
from tests.simulation.stepped_reader import SteppedReader
from tests.simulation.witness import JobWitness

if TYPE_CHECKING:
    from tests.simulation.world_local import LocalWorld

__all__ = ["Job"]

LATE = ReportedWatermark | SplitRequested | SourceEventReceived
"""What may still arrive from a reader that is no more."""


class ReaderLostError(RunError):
    """A reader was killed."""


class Job:
    """One table's job, through all its starts."""

    worker: SteppedWorker
    output: SteppedOutput
    master: SteppedMaster

    def __init__(self, world: LocalWorld, drawn: Drawn) -> None:
        self.world = world
        self.run = world.run
        self.name = drawn.name
        self.drawn = drawn
        self.capacity = drawn.capacity
        self.idle_timeout_ms = drawn.source.watermark.idle_timeout_ms
        self.outside: Outside = drawn.outside
        self.source: ModelSource = drawn.source
        self.ledger = Ledger(drawn.outside)
        self.readers: dict[int, SteppedReader] = {}
        self.wires: dict[int, deque[MasterMessage]] = {}
        self.deliver: Callable[[MasterMessage], None] = _nowhere
        self.witness = JobWitness(self)
        self.last: str | None = None
        self.settings: JobSettings = drawn.settings
        self.ended = False
        self._local: LocalJob | None = None

    def open(self) -> None:
        """Start from the last complete checkpoint, if there is one."""
        self.readers, self.wires, self.witness = {}, {}, JobWitness(self)
        self.world.opening = self
        self._local = LocalJob(
            self.source,
            self.settings,
            clock=_Clock(self.run),
            board=self.world.board,
            restored=None if self.last is None else decode_checkpoint(self.last),
            on_checkpoint=self._completed,
        )
        self._local.__enter__()

    def crash(self) -> None:
        """Stop in the middle of everything."""
        assert self._local is not None, "only a job that was started stops"
        self._local.__exit__(None, None, None)
        self.ledger.discard_all()

    def under_way(self, message: MasterMessage) -> None:
        """A reader sends something to the coordinator."""
        reader: int = message.reader  # type: ignore[union-attr]  readers sign all they send
        if isinstance(message, SnapshotTaken):
            self.ledger.draw_barrier(reader, message.checkpoint_id)
        self.wires.setdefault(reader, deque()).append(message)

    def arrive(self, reader: int) -> None:
        """A reader's next message reaches the coordinator's mailbox."""
        if self.wires.get(reader):
            self.deliver(self.wires[reader].popleft())

    def kill(self, reader: SteppedReader) -> None:
        """End a reader; what was under way to it is lost, and some of what was under way from it."""
        self.run.note("killed", self.name, reader.number)
        if reader.blocked:
            self.run.probe("reader killed while it waits for room")
        if reader.witness.splits:
            self.run.probe("reader killed with splits")
        if any(seen.paused_ms is not None for seen in reader.witness.splits.values()):
            self.run.probe("reader killed with a paused split")
        if reader.operator.finished:
            self.run.probe("reader killed after its last split")
        reader.end()
        wire = self.wires.get(reader.number, ())
        late = (m for m in wire if isinstance(m, LATE))
        self.wires[reader.number] = deque(m for m in late if self.run.chance(50))
        self.deliver(ReaderCrashed(reader=reader.number, error=ReaderLostError("killed")))

    def broke(self, reader: int) -> None:
        """The coordinator learns that a reader is no more: its rows since the checkpoint count for nothing."""
        if self.ledger.awaits_checkpoint:
            self.run.probe("checkpoint given up")
        self.ledger.discard(reader)

    def step_master(self) -> None:
        """Do one step of the coordinator; a job that failed starts again, one that is over is over."""
        if self.ended:
            return
        self.master.step()
        if not self.master.over:
            return
        error = self.master.error
        if error is None:
            self._check_end()
            return
        if not isinstance(error, ReaderLostError | BrokerUnavailableError):
            raise Violation(f"{self.name} failed: {error!r}") from error
        self.run.note("failed", self.name, error)
        self.run.probe("job failed and started again")
        self.crash()
        self.open()

    def take(self) -> None:
        """The consumer takes a batch."""
        self.output.take(0.0)

    @property
    def done(self) -> bool:
        """Whether all that there is came out and counts."""
        return self.ended if self.source.bounded else not self.ledger.missing()

    def group_says(self) -> int | None:
        """Give what the board has for the job's group."""
        alignment = self.source.watermark.alignment
        assert alignment is not None, "only an aligned job has a group"
        return self.world.board.lowest_ms(alignment.group)

    def _check_end(self) -> None:
        if not self.source.bounded:
            raise Violation(f"{self.name} ended, though it is not bounded")
        self.run.note("ended", self.name)
        self.run.probe("bounded job ended")
        self.ended = True
        self.ledger.complete_all()
        if self.ledger.missing():
            raise Violation(f"{self.name} ended without {self.ledger.missing()}")

    def _completed(self, checkpoint: LocalCheckpoint) -> None:
        self.last = encode_checkpoint(checkpoint)
        self.run.note("checkpoint", self.name, checkpoint.checkpoint_id)
        self.run.probe("checkpoint completed")
        self.ledger.complete(checkpoint.checkpoint_id)


@dataclass(frozen=True, slots=True)
class _Clock:
    run: Run

    def now_ms(self) -> int:
        return self.run.now_ms


def _nowhere(_message: MasterMessage) -> None:
    raise AssertionError("a message before the start")
