"""A snapshot in chunks, then a log (MySQL; Flink CDC's HybridSplitAssigner): chunks by request, then one log split.

    chunks ──► unassigned ──► assigned ──► finished ──► all, in a complete checkpoint ──► log made ──► log assigned
               ▲                  │            │
               └──────────────────┴────────────┘ a reader is reset

The log begins where the chunks were read, so nothing may go back to them once it is read: it waits for a checkpoint
that was taken after the last chunk finished, and that completed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol

from penstock.connector.source.coordinator.pull import WaitingReaders
from penstock.connector.source.enumerator import (
    EnumeratorState,
    SplitEnumeratorContext,
    check_snapshot,
    decode_split,
    encode_split,
)
from penstock.connector.source.split import Split

KIND = "phased"
VERSION = 1
KEYS = ("listed", "unassigned", "assigned", "finished", "log", "log_assigned")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksFinished:
    """From a reader: chunks whose rows it has all emitted, each with the log position at which it was read.

    A reader keeps what it reported in its own state and reports all of it again whenever it registers: a report
    made between the coordinator's part of a checkpoint and the reader's would else be in neither.
    """

    positions: Mapping[str, int]


class PhasedMetadataClient(Protocol):
    """Metadata client of a source of two phases, on the driver. Every method may block on I/O.

    Splits go through checkpoints by id, start, stop and owner alone: what else a reader needs of a chunk or of the log
    has to be found from those.
    """

    def chunks(self) -> Sequence[Split]:
        """Cut the snapshot into chunks, in the order in which to read them; an empty table is one chunk."""

    def log(self, finished: Mapping[str, int]) -> Split:
        """Make the log's split, without an end, from the position at which each chunk was read."""


class PhasedEnumerator:
    """A SplitEnumerator of two phases. Readers ask for splits; there is no last one, as the log has no end."""

    pulls: ClassVar[bool] = True

    def __init__(
        self,
        context: SplitEnumeratorContext,
        state: EnumeratorState | None = None,
        *,
        planner: PhasedMetadataClient,
    ) -> None:
        """Make it new or from a snapshot. Raises StateMismatchError for an unknown one."""
        self._context = context
        self._planner = planner
        self._waiting = WaitingReaders(context)
        self._listed = False
        self._unassigned: deque[Split] = deque()
        self._assigned: dict[
            str, int | None
        ] = {}  # who has the chunk, None where a restart hides it
        self._finished: dict[str, int] = {}
        self._finished_by: dict[str, int] = {}  # absent: finished before the restart
        self._held_by_checkpoint: int | None = None  # the first one that has every chunk finished
        self._durable = False
        self._log: Split | None = None  # made and with nobody
        self._log_assigned = False
        if state is not None:
            self._restore(state)

    def start(self) -> None:
        """Cut the chunks, or resume in the phase of the checkpoint."""
        if not self._listed:
            self._context.call_async(self._planner.chunks, self._chunks_listed)
        elif self._durable and self._log is None and not self._log_assigned:
            self._make_log()
        self._signal_backlog()

    def handle_split_request(self, reader: int, location: str | None) -> None:  # noqa: ARG002  of the contract
        """Answer with the next chunk or with the log, now or when there is one."""
        self._waiting.add(reader)
        self._serve()

    def add_splits_back(self, splits: Sequence[Split], reader: int) -> None:
        """Add back the splits of a failed reader, and those that it finished since its checkpoint, whichever that is.

        What its checkpoint does hold as finished it reports again.
        """
        if not self._durable:
            self._held_by_checkpoint = None
            for chunk_id in [i for i, by in self._finished_by.items() if by == reader]:
                del self._finished_by[chunk_id], self._finished[chunk_id]
                self._assigned[chunk_id] = reader
        for split in reversed(splits):
            if split.split_id in self._assigned:
                del self._assigned[split.split_id]
                self._unassigned.appendleft(split)
            elif split.split_id not in self._finished:
                self._log, self._log_assigned = split, False
        self._signal_backlog()
        self._serve()

    def add_reader(self, reader: int) -> None:
        """Wait until it asks."""
        self._waiting.forget(reader)

    def snapshot_state(self, checkpoint_id: int) -> EnumeratorState:
        """Return the chunks by phase, and the log while it is unassigned."""
        if self._snapshot_read and self._held_by_checkpoint is None:
            self._held_by_checkpoint = checkpoint_id
        return {
            "kind": KIND,
            "version": VERSION,
            "listed": self._listed,
            "unassigned": [encode_split(split) for split in self._unassigned],
            "assigned": sorted(self._assigned),
            "finished": dict(sorted(self._finished.items())),
            "log": None if self._log is None else encode_split(self._log),
            "log_assigned": self._log_assigned,
        }

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Switch to the log once the whole snapshot is durable."""
        held = self._held_by_checkpoint
        if not self._durable and held is not None and checkpoint_id >= held:
            self._durable = True
            self._make_log()

    def handle_source_event(self, reader: int, event: object) -> None:
        """Apply a reader's report; chunks that it does not have, or has reported, are ignored."""
        assert isinstance(event, ChunksFinished), f"a reader of chunks sent {event!r}"
        for chunk_id, position in event.positions.items():
            if chunk_id in self._assigned and self._assigned[chunk_id] in {reader, None}:
                del self._assigned[chunk_id]
                self._finished[chunk_id] = position
                self._finished_by[chunk_id] = reader
        self._signal_backlog()

    def close(self) -> None:
        """Nothing: the planner is its opener's."""

    @classmethod
    def source_ids(cls, state: EnumeratorState) -> Mapping[str, str]:  # noqa: ARG003  of the contract
        """None: chunks are of one table."""
        return {}

    @classmethod
    def is_bounded(cls, state: EnumeratorState) -> bool:  # noqa: ARG003  of the contract
        """Return no: the log has no end."""
        return False

    @property
    def _snapshot_read(self) -> bool:
        """Whether every chunk is finished."""
        return self._listed and not self._unassigned and not self._assigned

    def _restore(self, state: EnumeratorState) -> None:
        check_snapshot(state, kind=KIND, version=VERSION, keys=KEYS)
        self._listed = state["listed"]
        self._unassigned.extend(decode_split(value) for value in state["unassigned"])
        self._assigned = dict.fromkeys(state["assigned"])
        self._finished = dict(state["finished"])
        self._log = None if state["log"] is None else decode_split(state["log"])
        self._log_assigned = state["log_assigned"]
        # the checkpoint completed, or nobody would start from it
        self._durable = self._snapshot_read

    def _signal_backlog(self) -> None:
        """Signal a backlog until the last chunk is finished, not until the log is assigned.

        The log waits for a checkpoint, and those may be off during a backlog (FLIP-309).
        """
        self._context.set_processing_backlog(backlog=not self._snapshot_read)

    def _chunks_listed(self, chunks: Sequence[Split] | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        assert chunks, "a snapshot has at least one chunk, whose end says where the log begins"
        self._unassigned.extend(chunks)
        self._listed = True
        self._serve()

    def _make_log(self) -> None:
        self._context.call_async(
            partial(self._planner.log, dict(sorted(self._finished.items()))), self._log_made
        )

    def _log_made(self, log: Split | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        assert log is not None, "a log without a split"
        self._log = log
        self._serve()

    def _serve(self) -> None:
        """Answer the waiting readers, as far as there are splits."""
        while self._unassigned and (reader := self._waiting.take()) is not None:
            chunk = self._unassigned.popleft()
            self._assigned[chunk.split_id] = reader
            self._context.assign_splits({reader: [chunk]})
        if self._log is not None and (reader := self._waiting.take()) is not None:
            log, self._log, self._log_assigned = self._log, None, True
            self._context.assign_splits({reader: [log]})
