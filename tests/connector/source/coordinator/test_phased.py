"""A snapshot in chunks, then a log (Flink CDC's HybridSplitAssigner)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.coordinator.events import (
    CheckpointCompleted,
    IsProcessingBacklog,
    SourceEventReceived,
)
from penstock.connector.source.coordinator.phased import ChunksFinished, PhasedEnumerator
from penstock.connector.source.split import Split
from tests.connector.source.coordinating import Job


@dataclass
class Table:
    """A PhasedPlanner: chunks by name, and a log that begins where the first of them was read."""

    names: tuple[str, ...] = ("c1", "c2", "c3")
    failure: Exception | None = None
    logs: list[Mapping[str, int]] = field(default_factory=list)

    def chunks(self) -> Sequence[Split]:
        """Cut the table."""
        if self.failure is not None:
            raise self.failure
        return [Split(split_id=name, start=0, stop=1, owner="t") for name in self.names]

    def log(self, finished: Mapping[str, int]) -> Split:
        """Begin the log."""
        self.logs.append(finished)
        return Split(split_id="log", start=min(finished.values()), owner="t")


def job(table: Table, state: Any = None) -> Job:
    """A job that was not started."""
    return Job(partial(PhasedEnumerator, planner=table), state=state)


def finish(of: Job, reader: int, **positions: int) -> None:
    """Let a reader report chunks."""
    of.handle(SourceEventReceived(reader=reader, event=ChunksFinished(positions=positions)))
    of.run_calls()


def complete(of: Job, checkpoint_id: int) -> None:
    """Complete a checkpoint, and run what that leads to."""
    of.handle(CheckpointCompleted(checkpoint_id=checkpoint_id))
    of.run_calls()


def checkpoint(of: Job, checkpoint_id: int) -> Mapping[str, Any]:
    """Take and complete a checkpoint, and run what that leads to."""
    state = of.checkpoint(checkpoint_id, complete=False)
    complete(of, checkpoint_id)
    return state


def read(table: Table) -> Job:
    """A job whose two readers have read all chunks, and wait; no checkpoint was taken."""
    running = job(table).start().register(0, 1).request(0, 1, 0, 0, 1)
    finish(running, 0, c1=11, c3=13)
    finish(running, 1, c2=12)
    return running


def backlog(of: Job, reader: int) -> list[bool]:
    """What a reader was told of the backlog."""
    return [e.backlog for e in of.events(reader) if isinstance(e, IsProcessingBacklog)]


def test_chunks_are_given_one_a_request() -> None:
    """In their order; who asks for more waits, as the log has no end."""
    running = read(Table())

    assert (running.ids(0), running.ids(1)) == (["c1", "c3"], ["c2"])
    assert (running.ends(0), running.ends(1)) == (0, 0)


def test_requests_before_the_chunks_are_cut_are_answered_then() -> None:
    """Cutting a large table takes long."""
    early = job(Table())
    early.perform(early.coordinator.start())
    early.register(0).request(0)
    before = early.ids(0)
    early.run_calls()

    assert before == []
    assert early.ids(0) == ["c1"]


def test_the_log_waits_for_a_complete_checkpoint_of_the_whole_snapshot() -> None:
    """A restart from an older one would read chunks again, at positions that the log has passed."""
    table = Table()
    running = job(table).start().register(0, 1).request(0, 1, 0, 0, 1)
    checkpoint(running, 1)
    finish(running, 0, c1=11, c3=13)
    finish(running, 1, c2=12)
    running.checkpoint(2, complete=False)
    running.run_calls()
    before = len(table.logs)
    complete(running, 2)

    assert before == 0
    assert table.logs == [{"c1": 11, "c2": 12, "c3": 13}]
    assert running.given(0)[-1] == Split(split_id="log", start=11, owner="t")


def test_a_checkpoint_from_before_the_last_chunk_finished_does_not_count() -> None:
    """Though it completes afterwards."""
    table = Table()
    running = job(table).start().register(0).request(0, 0, 0)
    running.checkpoint(1, complete=False)
    finish(running, 0, c1=11, c2=12, c3=13)
    running.checkpoint(2, complete=False)
    complete(running, 1)
    before = len(table.logs)
    complete(running, 2)

    assert before == 0
    assert len(table.logs) == 1


def test_one_reader_alone_gets_the_log() -> None:
    """The one that waits longest."""
    running = read(Table())
    checkpoint(running, 1)
    running.request(0, 1)
    checkpoint(running, 2)

    assert [running.ids(reader).count("log") for reader in (0, 1)] == [1, 0]


def test_a_reader_that_failed_while_it_waited_is_not_served() -> None:
    """Until it asks again: it came back with a chunk of its own, perhaps."""
    running = job(Table(names=("c1",))).start().register(0, 1).request(0, 1)
    running.fail(1)
    running.register(1)
    finish(running, 0, c1=11)
    checkpoint(running, 1)
    before = running.ids(1)
    running.request(1)

    assert before == []
    assert running.ids(1) == ["log"]


def test_a_reader_that_asks_late_gets_the_log() -> None:
    """Nobody waited when it was made."""
    running = job(Table(names=("c1",))).start().register(0).request(0)
    finish(running, 0, c1=11)
    checkpoint(running, 1)
    before = running.ids(0)
    running.request(0)

    assert before == ["c1"]
    assert running.ids(0) == ["c1", "log"]


def test_the_backlog_ends_with_the_snapshot_and_not_with_the_log() -> None:
    """FLIP-309: checkpoints may be off during a backlog, and the log waits for one."""
    running = job(Table(names=("c1",))).start().register(0).request(0)
    before = backlog(running, 0)
    finish(running, 0, c1=11)
    running.register(1)

    assert before == [True]
    assert backlog(running, 0) == [True, False]
    assert backlog(running, 1) == [False]


def test_chunks_of_a_failed_reader_are_given_again() -> None:
    """First of all, and what it had finished since its checkpoint too."""
    table = Table()
    running = job(table).start().register(0, 1).request(0, 0)
    finish(running, 0, c1=11)
    running.fail(0)
    running.request(1, 1, 1)
    finish(running, 1, c1=21, c2=22, c3=23)
    checkpoint(running, 1)

    assert running.ids(1) == ["c1", "c2", "c3"]
    assert table.logs == [{"c1": 21, "c2": 22, "c3": 23}]


def test_a_chunk_in_a_failed_readers_checkpoint_is_finished_when_it_reports_again() -> None:
    """Its reader goes back to the middle of it, so that the first report is no longer true."""
    table = Table(names=("c1",))
    running = job(table).start().register(0).request(0)
    checkpoint(running, 1)
    finish(running, 0, c1=11)
    running.fail(0, 1)
    running.register(0).request(0)
    checkpoint(running, 2)
    before = len(table.logs)
    finish(running, 0, c1=31)
    checkpoint(running, 3)

    assert before == 0
    assert backlog(running, 0)[-1] is False
    assert table.logs == [{"c1": 31}]
    assert running.ids(0) == ["c1", "log"]


def test_a_checkpoint_from_before_a_failure_does_not_count() -> None:
    """It has every chunk finished, and one of them is read again since."""
    table = Table(names=("c1",))
    running = job(table).start().register(0).request(0)
    finish(running, 0, c1=11)
    running.checkpoint(1, complete=False)
    running.fail(0)
    complete(running, 1)
    running.register(0).request(0)
    finish(running, 0, c1=12)
    complete(running, 1)
    before = len(table.logs)
    checkpoint(running, 2)

    assert before == 0
    assert table.logs == [{"c1": 12}]


@pytest.mark.parametrize("chunk", ["c1", "c2", "c9"])
def test_reports_that_are_late_or_of_others_are_harmless(chunk: str) -> None:
    """Of a chunk that was reported, of one that another reader has, and of one that nobody knows."""
    table = Table(names=("c1", "c2"))
    running = job(table).start().register(0, 1).request(0, 1)
    finish(running, 0, c1=11)
    finish(running, 0, **{chunk: 99})
    finish(running, 1, c2=12)
    checkpoint(running, 1)

    assert table.logs == [{"c1": 11, "c2": 12}]


def test_a_report_after_the_log_was_given_is_harmless() -> None:
    """Readers report all they keep whenever they register."""
    table = Table()
    running = read(table)
    checkpoint(running, 1)
    running.fail(1, 1)
    running.register(1)
    finish(running, 1, c2=99)
    checkpoint(running, 2)

    assert len(table.logs) == 1
    assert running.ids(1) == ["c2"]
    assert backlog(running, 0) == [True, False]


def test_the_log_of_a_failed_reader_is_given_to_another() -> None:
    """It was assigned after the checkpoint to which the reader goes back."""
    running = read(Table())
    checkpoint(running, 1)
    running.fail(0, 1)

    assert running.ids(1) == ["c2", "log"]
    assert running.failure is None


def test_the_log_of_a_checkpoint_stays_with_its_reader() -> None:
    """It comes with the reader's state."""
    running = read(Table())
    checkpoint(running, 1)
    checkpoint(running, 2)
    running.fail(0, 2)
    running.register(0).request(0, 1)

    assert running.ids(0).count("log") == 1
    assert running.ids(1).count("log") == 0


# --- restore ---


def test_restored_before_the_chunks_were_cut_it_cuts_them() -> None:
    """Nothing was read."""
    early = job(Table())
    early.perform(early.coordinator.start())
    restored = job(Table(), early.checkpoint(1)).start().register(0).request(0)

    assert restored.ids(0) == ["c1"]


def test_restored_in_the_snapshot_it_goes_on_with_the_other_chunks() -> None:
    """Those that readers had come with them, and are reported by whoever has them now."""
    table = Table()
    running = job(table).start().register(0, 1).request(0, 1)
    finish(running, 0, c1=11)
    restored = job(table, checkpoint(running, 1)).start().register(0).request(0, 0)
    finish(restored, 0, c2=12, c3=13)
    checkpoint(restored, 2)

    assert restored.ids(0) == ["c3", "log"]
    assert backlog(restored, 0) == [True, False]
    assert table.logs == [{"c1": 11, "c2": 12, "c3": 13}]


def test_restored_after_the_snapshot_it_makes_the_log_at_once() -> None:
    """The checkpoint that it came from completed."""
    running = read(Table())
    running.checkpoint(1, complete=False)
    table = Table()
    restored = job(table, running.taken[1]).start().register(0).request(0)

    assert table.logs == [{"c1": 11, "c2": 12, "c3": 13}]
    assert restored.ids(0) == ["log"]
    assert backlog(restored, 0) == [False]


def test_restored_with_a_log_that_nobody_has_it_gives_that() -> None:
    """It is not made anew."""
    running = job(Table(names=("c1",))).start().register(0).request(0)
    finish(running, 0, c1=11)
    checkpoint(running, 1)
    table = Table()
    restored = job(table, running.checkpoint(2)).start().register(0).request(0)

    assert table.logs == []
    assert restored.given(0) == [Split(split_id="log", start=11, owner="t")]


def test_restored_in_the_log_it_gives_nothing() -> None:
    """The reader that has it comes with it."""
    running = read(Table())
    checkpoint(running, 1)
    table = Table()
    restored = job(table, running.checkpoint(2)).start().register(0, 1).request(0, 1)

    assert restored.ids(0) == restored.ids(1) == []
    assert table.logs == []


def test_a_snapshot_can_be_read_and_has_fixed_keys() -> None:
    """Each chunk is in one of three places."""
    running = job(Table()).start().register(0).request(0, 0)
    finish(running, 0, c1=11)

    assert list(running.checkpoint(1)["enumerator"].items()) == [
        ("kind", "phased"),
        ("version", 1),
        ("listed", True),
        ("unassigned", [{"id": "c3", "start": 0, "stop": 1, "owner": "t"}]),
        ("assigned", ["c2"]),
        ("finished", {"c1": 11}),
        ("log", None),
        ("log_assigned", False),
    ]


@pytest.mark.parametrize("change", [{"kind": "pulling"}, {"version": 2}, {"extra": 1}])
def test_a_snapshot_that_is_not_known_is_refused(change: dict[str, Any]) -> None:
    """Of another kind, a later version, or with another key."""
    state = {**job(Table()).start().checkpoint(1)["enumerator"], **change}

    with pytest.raises(StateMismatchError):
        job(Table(), {"version": 1, "enumerator": state})


# --- failures ---


def test_chunks_that_cannot_be_cut_fail_the_job_with_their_cause() -> None:
    """Nothing can be read."""
    table = Table(failure=TimeoutError("no answer"))

    assert job(table).start().failure is table.failure


def test_a_snapshot_without_chunks_is_a_bug_of_the_connector() -> None:
    """An empty table is one chunk: its end says where the log begins."""
    assert isinstance(job(Table(names=())).start().failure, AssertionError)


def test_a_log_that_cannot_be_made_fails_the_job_with_its_cause() -> None:
    """Its beginning may have been purged."""

    class Purged(Table):
        def log(self, finished: Mapping[str, int]) -> Split:
            raise LookupError(str(finished))

    running = read(Purged())
    checkpoint(running, 1)

    assert isinstance(running.failure, LookupError)


def test_an_event_that_is_no_report_fails_the_job() -> None:
    """It is a bug of the connector."""
    running = job(Table()).start().register(0)
    running.handle(SourceEventReceived(reader=0, event="finished"))

    assert isinstance(running.failure, AssertionError)
