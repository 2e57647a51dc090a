"""A snapshot and a log under faults: late and lost reports, readers that fail, checkpoints that never complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.source.coordinator.events import (
    AddSplits,
    CheckpointCompleted,
    IsProcessingBacklog,
    ReaderFailed,
    ReaderReset,
    SourceEventReceived,
)
from penstock.connector.source.coordinator.phased import ChunksFinished, PhasedEnumerator
from penstock.connector.source.split import Split
from tests.connector.source.coordinating import Job

READERS = 2
CHUNKS = ("c0", "c1", "c2")


class Table:
    """A PhasedPlanner of a few chunks."""

    def chunks(self) -> Sequence[Split]:
        """Cut the table."""
        return [Split(split_id=name, start=0, stop=1) for name in CHUNKS]

    def log(self, finished: Mapping[str, int]) -> Split:
        """Begin the log where the first chunk was read."""
        return Split(split_id="log", start=min(finished.values()))


@dataclass
class Reader:
    """What a reader has in its state: splits it reads, and chunks it has read with the position of that."""

    reads: list[str] = field(default_factory=list)
    read: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Reader:
        """Take its part of a checkpoint."""
        return Reader(reads=list(self.reads), read=dict(self.read))


@dataclass
class Checkpoint:
    """The coordinator's part and the readers'."""

    coordinator: Mapping[str, Any] | None = None
    readers: list[Reader] = field(default_factory=lambda: [Reader() for _ in range(READERS)])

    @property
    def has_snapshot(self) -> bool:
        """Whether each chunk is read, by one reader, in this checkpoint."""
        return sorted(chunk for reader in self.readers for chunk in reader.read) == list(CHUNKS)


class Cluster:
    """A job whose readers report by a mailbox: what is in it when they fail is lost."""

    def __init__(self) -> None:
        self.last: tuple[int | None, Checkpoint] = (None, Checkpoint())
        self.positions = 0
        self.restart()

    def restart(self) -> None:
        """Start from the last complete checkpoint."""
        checkpoint = self.last[1]
        self.last = (None, checkpoint)
        self.pending: tuple[int, Checkpoint] | None = None
        self.next_id = 1
        self.readers = [reader.copy() for reader in checkpoint.readers]
        self.mail: list[list[ChunksFinished]] = [[] for _ in range(READERS)]
        make = partial(PhasedEnumerator, planner=Table())
        self.job = Job(make, parallelism=READERS, state=checkpoint.coordinator)
        self.job.start()

    @property
    def registered(self) -> Sequence[int]:
        """The readers that are there."""
        return tuple(self.job.coordinator.registered_readers)

    def step(self, what: str, reader: int) -> None:
        """Let something happen, and hand readers what they were sent."""
        there = reader in self.registered
        match what:
            case "register" if not there:
                self.job.register(reader)
                self.mail[reader] = [ChunksFinished(positions=dict(self.readers[reader].read))]
            case "ask" if there:
                self.job.request(reader)
            case "read" if there:
                self.read(reader)
            case "report" if there and self.mail[reader]:
                event = self.mail[reader].pop(0)
                self.job.handle(SourceEventReceived(reader=reader, event=event))
            case "fail" if there:
                self.fail(reader)
            case "checkpoint" if len(self.registered) == READERS:
                self.trigger()
            case "complete":
                self.complete()
            case "restart":
                self.restart()
        self.job.run_calls()
        self.deliver()

    def read(self, reader: int) -> None:
        """Read the first chunk that the reader has."""
        state = self.readers[reader]
        chunk = next((i for i in state.reads if i != "log"), None)
        if chunk is not None:
            self.positions += 1
            state.reads.remove(chunk)
            state.read[chunk] = self.positions
            self.mail[reader].append(ChunksFinished(positions={chunk: self.positions}))

    def fail(self, reader: int) -> None:
        """Let a reader go back to the last complete checkpoint; one that is under way is given up."""
        checkpoint_id, checkpoint = self.last
        self.pending = None
        self.mail[reader] = []
        self.readers[reader] = checkpoint.readers[reader].copy()
        self.job.handle(ReaderFailed(reader=reader))
        self.job.handle(ReaderReset(reader=reader, checkpoint_id=checkpoint_id))

    def trigger(self) -> None:
        """Take both parts of a checkpoint; reports that are on their way are in neither."""
        state = self.job.checkpoint(self.next_id, complete=False)
        readers = [reader.copy() for reader in self.readers]
        self.pending = (self.next_id, Checkpoint(coordinator=state, readers=readers))
        self.next_id += 1

    def complete(self) -> None:
        """Complete the checkpoint that is under way."""
        if self.pending is not None:
            self.last, self.pending = self.pending, None
            checkpoint_id = self.last[0]
            assert checkpoint_id is not None
            self.job.handle(CheckpointCompleted(checkpoint_id=checkpoint_id))

    def deliver(self) -> None:
        """Give readers their splits: a log only when no restart can go back to a chunk."""
        assert self.job.failure is None
        for reader, event in self.job.sent:
            if isinstance(event, AddSplits):
                names = [split.split_id for split in event.splits]
                assert "log" not in names or self.last[1].has_snapshot
                self.readers[reader].reads += names
            else:
                assert isinstance(event, IsProcessingBacklog)
        self.job.sent.clear()

    def settle(self) -> None:
        """Let all go well until the log is read."""
        for reader in range(READERS):
            self.step("register", reader)
        for _ in range(len(CHUNKS) + 2):
            for what in ("ask", "read", "report", "report", "report"):
                for reader in range(READERS):
                    self.step(what, reader)
        for what in ("checkpoint", "complete", "checkpoint", "complete"):
            self.step(what, 0)


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["register", "ask", "read", "report", "fail", "checkpoint", "complete", "restart"]
        ),
        st.integers(0, READERS - 1),
    ),
    max_size=80,
)


@given(steps=steps)
def test_the_log_is_read_once_and_only_after_every_chunk_for_good(
    steps: list[tuple[str, int]],
) -> None:
    """Each chunk is read by one reader, the log by one, and never while a restart could read a chunk again."""
    cluster = Cluster()
    for what, reader in steps:
        cluster.step(what, reader)
    for reader in range(READERS):
        while cluster.mail[reader]:
            cluster.step("report", reader)
    cluster.settle()

    assert sorted(chunk for reader in cluster.readers for chunk in reader.read) == list(CHUNKS)
    assert [name for reader in cluster.readers for name in reader.reads] == ["log"]
