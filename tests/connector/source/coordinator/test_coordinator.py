"""The coordinator: readers, splits and checkpoints (Flink's SourceCoordinatorTest and its context's)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.coordinator.events import (
    CallCompleted,
    CheckpointCompleted,
    CheckpointTriggered,
    FailJob,
    IsProcessingBacklog,
    ReaderFailed,
    ReaderRegistered,
    ReaderReset,
    SourceEvent,
    SourceEventReceived,
    SplitRequested,
)
from penstock.connector.source.enumerator import EnumeratorState, SplitEnumeratorContext
from penstock.connector.source.split import Split
from tests.connector.source.coordinating import Job, Shares


def shares(job: Job) -> Shares:
    """Look into a job at its enumerator."""
    enumerator = job.coordinator._enumerator
    assert isinstance(enumerator, Shares)
    return enumerator


@pytest.mark.parametrize(
    "event",
    [
        ReaderRegistered(reader=0),
        SplitRequested(reader=0),
        CheckpointTriggered(checkpoint_id=1),
        CheckpointCompleted(checkpoint_id=1),
        ReaderReset(reader=0, checkpoint_id=None),
    ],
)
def test_nothing_is_handled_before_the_start(event: Any) -> None:
    """SourceCoordinatorTest.testThrowExceptionWhenNotStarted: it is a bug of the executor."""
    with pytest.raises(AssertionError, match="before the start"):
        Job(Shares).coordinator.handle(event)


def test_a_coordinator_starts_once() -> None:
    """A second start would list and schedule everything again."""
    job = Job(Shares).start()

    with pytest.raises(AssertionError, match="starts once"):
        job.coordinator.start()


def test_a_reader_that_registers_gets_its_share_and_others_wait() -> None:
    """SourceCoordinatorTest.testReaderRegistration: splits are given to those who are there."""
    job = Job(Shares).start().register(1)

    assert job.ids(1) == ["s1", "s3"]
    assert job.ids(0) == []
    assert shares(job).unassigned == ["s0", "s2"]
    assert job.coordinator.registered_readers == (1,)


def test_a_registration_is_told_to_the_enumerator_once() -> None:
    """Again after the reader failed, and not for a second attempt beside the first."""
    job = Job(Shares).start().register(0, 0)
    job.fail(0)
    job.register(0)

    assert [what for what in shares(job).told if what[0] == "reader"] == [("reader", 0)] * 2


def test_a_reader_that_does_not_exist_cannot_register() -> None:
    """It would be a bug of the executor, and fails the job."""
    job = Job(Shares, parallelism=2).start().register(2)

    assert isinstance(job.failure, AssertionError)


def test_an_event_of_the_source_reaches_the_enumerator() -> None:
    """SourceCoordinatorTest.testHandleSourceEvent; one from a reader that is gone does not."""
    job = Job(Shares).start().register(0)
    job.handle(SourceEventReceived(reader=0, event="hello"))
    job.handle(SourceEventReceived(reader=1, event="late"))

    assert [what for what in shares(job).told if what[0] == "event"] == [("event", 0, "hello")]


def test_an_event_of_the_enumerator_reaches_the_reader() -> None:
    """In order with the splits."""
    job = Job(Shares).start().register(0)
    shares(job).context.send_event(0, "hello")
    job.handle(CheckpointCompleted(checkpoint_id=1))

    assert job.events(0)[-1] == SourceEvent(event="hello")


def test_a_request_carries_where_the_reader_is() -> None:
    """Enumerators may prefer what is near."""
    job = Job(Shares).start().register(0)
    job.handle(SplitRequested(reader=0, location="rack-1"))

    assert shares(job).told[-1] == ("request", 0, "rack-1")


def test_a_request_of_a_reader_that_is_gone_is_dropped() -> None:
    """It asked before it failed."""
    job = Job(Shares).start().register(0)
    job.handle(ReaderFailed(reader=0))
    job.request(0)

    assert job.coordinator.registered_readers == ()
    assert "request" not in [what[0] for what in shares(job).told]


def test_requests_are_dropped_after_the_last_split() -> None:
    """SourceCoordinator drops requests of readers with no-more-splits; those of other readers count."""
    job = Job(Shares).start().register(0, 1)
    shares(job).context.signal_no_more_splits(0)
    job.request(0, 1)

    assert [what[1] for what in shares(job).told if what[0] == "request"] == [1]
    assert job.ends(0) == 1


def test_the_end_is_told_once_to_each_attempt_of_a_reader() -> None:
    """A reader that comes back has forgotten it, and would wait for splits for ever."""
    job = Job(Shares).start().register(0)
    job.checkpoint(1)
    shares(job).context.signal_no_more_splits(0)
    shares(job).context.signal_no_more_splits(0)
    job.fail(0, 1)
    before = job.ends(0)
    job.register(0)

    assert before == 1
    assert job.ends(0) == 2


def test_the_end_is_not_repeated_when_splits_came_back() -> None:
    """The enumerator has to give them first: a reader that ends or is not heard would leave them unread."""
    job = Job(Shares).start().register(0)
    shares(job).context.signal_no_more_splits(0)
    job.fail(0, None)
    job.register(0).request(0)

    assert job.ids(0) == ["s0", "s2", "s0", "s2"]
    assert job.ends(0) == 1
    assert shares(job).told[-1] == ("request", 0, None)


def test_splits_for_a_reader_that_is_not_there_fail_the_job() -> None:
    """It is a bug of the enumerator, and they would be lost."""

    class Careless(Shares):
        def start(self) -> None:
            self.context.assign_splits({0: [Split(split_id="s0", start=0)]})

    assert isinstance(Job(Careless).start().failure, AssertionError)


def test_a_checkpoint_keeps_unassigned_splits_and_forgets_readers() -> None:
    """SourceCoordinatorTest.testCheckpointCoordinatorAndRestore: readers register again with their own state."""
    job = Job(Shares).start().register(0)

    restored = Job(Shares, state=job.checkpoint(1)).start()
    registered = restored.coordinator.registered_readers
    restored.register(0, 1)

    assert registered == ()
    assert restored.ids(0) == []
    assert restored.ids(1) == ["s1", "s3"]


def test_a_failed_reader_gives_back_what_no_complete_checkpoint_holds() -> None:
    """SourceCoordinatorTest.testSubtaskFailedAndRevertUncompletedAssignments."""
    job = Job(Shares).start().register(0)
    job.checkpoint(1, complete=False)
    job.fail(0, None)

    assert shares(job).told[-1] == ("back", ["s0", "s2"], 0)


def test_a_failed_reader_keeps_what_its_checkpoint_holds() -> None:
    """SourceCoordinatorTest.testFailedSubtaskDoNotRevertCompletedCheckpoint: those come with its state."""
    job = Job(Shares).start().register(0)
    job.checkpoint(1)
    job.fail(0, 1)

    assert shares(job).told[-1] == ("back", [], 0)


def test_assignments_between_two_checkpoints_go_back_to_the_first() -> None:
    """testSubtaskFailedAndRevertUncompletedAssignments: the second was taken but never completed."""
    job = Job(Shares).start()
    job.checkpoint(1)
    job.register(0)
    job.checkpoint(2, complete=False)
    job.fail(0, 1)

    assert shares(job).told[-1] == ("back", ["s0", "s2"], 0)


def test_a_complete_checkpoint_is_told_to_the_enumerator() -> None:
    """And clears the assignments that it holds."""
    job = Job(Shares).start().register(0)
    job.checkpoint(7)

    assert shares(job).told[-1] == ("complete", 7)
    assert job.coordinator._tracker._by_checkpoint == {}


@pytest.mark.parametrize(
    ("fails_in", "event"),
    [
        ("reader", ReaderRegistered(reader=0)),
        ("request", SplitRequested(reader=1)),
        ("event", SourceEventReceived(reader=1, event=0)),
        ("snapshot", CheckpointTriggered(checkpoint_id=1)),
        ("complete", CheckpointCompleted(checkpoint_id=1)),
        ("back", ReaderReset(reader=1, checkpoint_id=None)),
    ],
)
def test_a_failure_of_the_enumerator_fails_the_job_with_its_cause(
    fails_in: str, event: Any
) -> None:
    """SourceCoordinatorTest.testErrorThrownFromSplitEnumerator: with nothing else, and for good."""
    job = Job(Shares).start().register(1)
    shares(job).fails_in = fails_in
    effects = job.handle(event)

    assert effects == (FailJob(error=job.failure),)
    assert isinstance(job.failure, ConnectionError)
    assert job.handle(ReaderRegistered(reader=0)) == ()


def test_a_failure_at_the_start_fails_the_job_with_its_cause() -> None:
    """SourceCoordinatorTest.testFailJobWhenExceptionThrownFromStart."""
    job = Job(partial(Shares, fails_in="start")).start()

    assert isinstance(job.failure, ConnectionError)


def test_a_closed_coordinator_handles_nothing_and_closes_its_enumerator_once() -> None:
    """Answers that were on their way come in after the end; a failed job is closed too."""
    job = Job(Shares).start().register(0)
    job.coordinator.close()
    job.coordinator.close()

    assert job.handle(SplitRequested(reader=0)) == ()
    assert shares(job).told[-1] == ("close",)
    assert shares(job).told.count(("close",)) == 1


class Asking(Shares):
    """Asks for two calls, one of them every second, and writes down what they come to."""

    def start(self) -> None:
        self.context.call_async(lambda: "once", partial(self.tell, "once"), delay_ms=5)
        self.context.call_async(lambda: 1 / 0, partial(self.tell, "often"), every_ms=1000)


def test_calls_end_at_their_handlers_and_periodic_ones_again_and_again() -> None:
    """With the outcome of their work or the error that it raised; no two calls have the same id."""
    job = Job(Asking).start()
    job.tick()
    once, often = job.scheduled

    assert once.call_id != often.call_id
    assert (once.delay_ms, once.every_ms, often.delay_ms, often.every_ms) == (5, None, 0, 1000)
    assert [what[0] for what in shares(job).told] == ["once", "often", "often"]
    assert shares(job).told[0] == ("once", "once", None)
    assert isinstance(shares(job).told[1][2], ZeroDivisionError)


def test_a_call_that_nobody_waits_for_fails_the_job() -> None:
    """An outcome that comes twice would be handled twice."""
    job = Job(Asking).start()
    job.handle(CallCompleted(call_id=job.scheduled[0].call_id, result="again"))

    assert isinstance(job.failure, AssertionError)


def test_a_backlog_is_told_to_readers_that_are_there_and_to_those_that_come() -> None:
    """FLIP-309: once each time it changes."""
    job = Job(Shares).start().register(0)
    none_yet = job.events(0)[0]
    shares(job).context.set_processing_backlog(backlog=True)
    shares(job).context.set_processing_backlog(backlog=True)
    job.register(1)
    shares(job).context.set_processing_backlog(backlog=False)
    job.handle(CheckpointCompleted(checkpoint_id=1))
    told = [IsProcessingBacklog(backlog=True), IsProcessingBacklog(backlog=False)]

    assert none_yet not in told
    assert [e for e in job.events(0) if isinstance(e, IsProcessingBacklog)] == told
    assert [e for e in job.events(1) if isinstance(e, IsProcessingBacklog)] == told


def test_a_checkpoint_has_a_version_and_fixed_keys() -> None:
    """Offsets are compared as text."""
    state = Job(Shares).start().checkpoint(1)

    assert list(state) == ["version", "enumerator"]
    assert state["version"] == 1


def test_an_older_checkpoint_is_still_read() -> None:
    """Version 0 was the enumerator's state alone."""
    job = Job(Shares, state={"kind": "shares", "version": 1, "unassigned": ["s2"]}).start()

    assert job.register(0).ids(0) == ["s2"]


@pytest.mark.parametrize(
    "state",
    [
        {"version": 2, "enumerator": {}},
        {"enumerator": {}},
        {"version": 1},
        {"version": 1, "enumerator": {}, "readers": []},
    ],
)
def test_a_checkpoint_that_is_not_known_is_refused(state: dict[str, Any]) -> None:
    """Of a later version, or with keys more or less: Flink refuses trailing bytes."""
    with pytest.raises(StateMismatchError):
        Job(Shares, state=state)


def test_an_enumerator_that_refuses_its_state_makes_no_coordinator() -> None:
    """Before anything is started."""

    def refuse(_context: SplitEnumeratorContext, _state: EnumeratorState | None) -> Shares:
        raise StateMismatchError("of another source")

    with pytest.raises(StateMismatchError):
        Job(refuse, state={"version": 1, "enumerator": {}})
