"""Push with periodic discovery (Flink's KafkaEnumeratorTest)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.coordinator.discovery import DiscoveringEnumerator, SplitStops
from penstock.connector.source.coordinator.events import CallCompleted, SourceEvent
from penstock.connector.source.split import Split
from tests.connector.source.coordinating import Job, World

MINUTE_MS = 60_000


def by_number(split: Split, readers: int) -> int:
    """Own `t-5` as reader 5 of as many as there are."""
    return int(split.split_id.rpartition("-")[2]) % readers


def job(
    world: World,
    *,
    bounded: bool = False,
    interval_ms: int = MINUTE_MS,
    state: Any = None,
    parallelism: int = 2,
) -> Job:
    """A job that was not started."""
    make = partial(
        DiscoveringEnumerator,
        planner=world,
        bounded=bounded,
        discovery_interval_ms=interval_ms,
        owner=by_number,
    )
    return Job(make, state=state, parallelism=parallelism)


def told_stops(of: Job, reader: int) -> list[dict[str, int]]:
    """The stops that a reader was sent for splits it has."""
    events = [e.event for e in of.events(reader) if isinstance(e, SourceEvent)]
    return [dict(event.stops) for event in events if isinstance(event, SplitStops)]


# --- discovery ---


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_without_an_interval_splits_are_listed_once(interval_ms: int) -> None:
    """testRunWithDiscoverPartitionsOnceToCheckNoMoreSplit: an unbounded scan goes on with what it has, and is never told the end."""
    world = World().add("t-0")
    once = job(world, interval_ms=interval_ms).start().register(0, 1)
    once.tick()

    assert world.listings == 1
    assert once.ids(0) == ["t-0"]
    assert once.ends(0) == once.ends(1) == 0


def test_with_an_interval_splits_are_listed_again_and_again() -> None:
    """KafkaEnumeratorTest.testStartWithPeriodicPartitionDiscovery."""
    world = World().add("t-0")
    periodic = job(world).start()
    periodic.tick()
    periodic.tick()

    assert periodic.scheduled[0].every_ms == MINUTE_MS
    assert periodic.scheduled[0].delay_ms == 0
    assert world.listings == 3


def test_readers_that_come_after_the_listing_get_their_splits() -> None:
    """KafkaEnumeratorTest.testReaderRegistrationTriggersAssignments."""
    late = job(World().add("t-0", "t-1", "t-2")).start()
    late.register(0)
    waiting = late.ids(1)
    late.register(1)

    assert waiting == []
    assert (late.ids(0), late.ids(1)) == (["t-0", "t-2"], ["t-1"])


def test_readers_that_come_before_the_listing_get_their_splits() -> None:
    """KafkaEnumeratorTest.testDiscoverPartitionsTriggersAssignments."""
    early = job(World().add("t-0", "t-1", "t-2"))
    early.perform(early.coordinator.start())
    early.register(0, 1)
    early.run_calls()

    assert (early.ids(0), early.ids(1)) == (["t-0", "t-2"], ["t-1"])


def test_splits_found_later_go_to_their_owners_from_the_earliest_position() -> None:
    """FLINK-32019: with the startup mode `latest` what was written before they were found was lost."""
    world = World().add("t-0")
    growing = job(world).start().register(0, 1)
    world.add("t-1", "u-0")
    growing.tick()

    assert [(s.split_id, s.start) for s in growing.given(0)] == [("t-0", 100), ("u-0", 0)]
    assert [(s.split_id, s.start, s.owner) for s in growing.given(1)] == [("t-1", 0, "t")]
    assert world.resolved == [(("t-0",), True), (("t-1", "u-0"), False)]


def test_a_first_listing_that_finds_nothing_is_the_first_all_the_same() -> None:
    """FLINK-32019: a topic that comes up while a pattern is watched is read from its beginning."""
    world = World()
    empty = job(world).start().register(0)
    world.add("t-0")
    empty.tick()

    assert [split.start for split in empty.given(0)] == [0]


def test_the_latest_position_is_resolved_before_a_reader_has_the_split() -> None:
    """FLINK-28303: readers resolved it, and what came between a failure and the next start was lost."""
    world = World().add("t-0")
    failing = job(world).start().register(0)
    world.latest = 500
    failing.fail(0)
    failing.register(0)

    assert [split.start for split in failing.given(0)] == [100, 100]


def test_what_is_new_is_found_while_positions_are_being_resolved() -> None:
    """A listing that comes in between changes nothing; the next one finds it."""
    world = World().add("t-0")
    slow = job(world)
    slow.perform(slow.coordinator.start())
    listing = slow.due.pop()
    slow.handle(CallCompleted(call_id=listing.call_id, result=world.list_splits()))
    world.add("t-2")
    slow.handle(CallCompleted(call_id=listing.call_id, result=world.list_splits()))
    slow.run_calls()
    slow.register(0)
    before = slow.ids(0)
    slow.tick()

    assert before == ["t-0"]
    assert [(s.split_id, s.start) for s in slow.given(0)] == [("t-0", 100), ("t-2", 0)]


def test_a_listing_that_finds_nothing_new_resolves_nothing() -> None:
    """testDiscoverPartitionsPeriodically: and gives nothing to anybody."""
    world = World().add("t-0")
    steady = job(world).start().register(0)
    steady.tick()

    assert len(world.resolved) == 1
    assert steady.ids(0) == ["t-0"]


def test_removed_splits_of_a_topic_that_is_there_are_kept() -> None:
    """F#5991: a listing may leave out what comes back, and then it is not read anew."""
    world = World().add("t-0", "t-2")
    shrinking = job(world).start().register(0)
    del world.owners["t-2"]
    shrinking.tick()
    state = shrinking.checkpoint(1)
    world.add("t-2")
    shrinking.tick()

    assert shrinking.failure is None
    assert state["enumerator"]["assigned"] == ["t-0", "t-2"]
    assert shrinking.ids(0) == ["t-0", "t-2"]


@pytest.mark.parametrize("found", [None, "another"])
def test_a_topic_that_vanished_or_was_made_again_fails_the_job(found: str | None) -> None:
    """Unlike Flink, which reads on at offsets that mean other records."""
    world = World().add("t-0")
    watching = job(world).start().register(0)
    if found is None:
        del world.owners["t-0"], world.topics["t"]
    else:
        world.topics["t"] = found
    watching.tick()

    assert isinstance(watching.failure, LookupError)
    assert str(watching.failure) == f"t was id of t and is {found}"


def test_nothing_is_assigned_from_a_checkpoint_before_its_topics_are_compared() -> None:
    """A topic that was made again while the job was down has other records at those positions."""
    world = World().add("t-0")
    state = job(world).start().checkpoint(1)
    world.topics["t"] = "another"
    restored = job(world, state=state)
    restored.perform(restored.coordinator.start())
    restored.register(0)
    restored.run_calls()

    assert restored.ids(0) == []
    assert isinstance(restored.failure, LookupError)


def test_a_listing_that_fails_fails_the_job_with_its_cause() -> None:
    """KafkaSourceEnumerator: `Failed to list subscribed topic partitions`."""
    world = World(failure=TimeoutError("the broker does not answer"))
    failed = job(world).start()

    assert failed.failure is world.failure


def test_positions_that_cannot_be_resolved_fail_the_job_with_their_cause() -> None:
    """The executor hands over what was raised there."""
    lost = TimeoutError("no offsets")
    failed = job(World().add("t-0"))
    failed.perform(failed.coordinator.start())
    listing = failed.due.pop()
    failed.handle(CallCompleted(call_id=listing.call_id, result=listing.work()))
    failed.handle(CallCompleted(call_id=failed.due.pop().call_id, error=lost))

    assert failed.failure is lost


def test_requests_are_not_needed() -> None:
    """Splits are pushed."""
    asked = job(World().add("t-0")).start().register(0).request(0, 0)

    assert asked.ids(0) == ["t-0"]
    assert asked.failure is None


# --- failure and restore ---


def test_splits_that_come_back_keep_their_positions_and_are_assigned_again() -> None:
    """testAddSplitsBack: at once when their owner is there, else when it comes."""
    back = job(World().add("t-0", "t-1")).start().register(0, 1)
    enumerator = back.coordinator._enumerator
    advanced = Split(split_id="t-1", start=142, owner="t")
    enumerator.add_splits_back([advanced], 1)
    back.fail(0)
    waiting = back.ids(0)
    state = back.checkpoint(1)["enumerator"]
    back.register(0)

    assert back.given(1)[-1] == advanced
    assert waiting == ["t-0"]
    assert state["assigned"] == ["t-1"]
    assert [split["id"] for split in state["unassigned"]] == ["t-0"]
    assert back.ids(0) == ["t-0", "t-0"]


def test_restored_assignments_are_not_assigned_again() -> None:
    """testWorkWithPreexistingAssignments: readers have them in their own state."""
    world = World().add("t-0", "t-2")
    state = job(world).start().register(0).checkpoint(1)
    world.add("t-4")
    restored = job(world, state=state).start().register(0)

    assert [(s.split_id, s.start) for s in restored.given(0)] == [("t-4", 0)]


def test_restored_splits_that_nobody_had_keep_their_positions() -> None:
    """FLINK-38453: without positions in the state they were resolved anew, and records lost or doubled."""
    world = World().add("t-0", "t-1")
    state = job(world).start().register(0).checkpoint(1)
    world.latest = 500
    restored = job(world, state=state).start().register(0, 1)

    assert [(s.split_id, s.start) for s in restored.given(1)] == [("t-1", 100)]
    assert restored.ids(0) == []


def test_a_checkpoint_before_the_first_listing_starts_by_the_startup_mode() -> None:
    """The first discovery was not done then."""
    world = World().add("t-0")
    early = job(world)
    early.perform(early.coordinator.start())
    state = early.checkpoint(1)
    restored = job(world, state=state).start().register(0)

    assert [split.start for split in restored.given(0)] == [100]


def test_a_snapshot_is_the_same_text_whatever_the_order_of_events() -> None:
    """Offsets are compared as text; all of it can be read by a person."""
    one = job(World().add("t-0", "t-1", "u-3")).start().register(0)
    other = job(World().add("u-3", "t-1", "t-0"))
    other.perform(other.coordinator.start())
    other.register(0)
    other.run_calls()

    state = one.checkpoint(1)
    assert list(state["enumerator"].items()) == [
        ("kind", "discovering"),
        ("version", 1),
        ("bounded", False),
        ("discovered", True),
        ("topics", {"t": "id of t", "u": "id of u"}),
        ("assigned", ["t-0"]),
        (
            "unassigned",
            [
                {"id": "t-1", "start": 100, "stop": None, "owner": "t"},
                {"id": "u-3", "start": 100, "stop": None, "owner": "u"},
            ],
        ),
        ("stops", {}),
    ]
    assert str(other.checkpoint(1)) == str(state)


def test_a_restored_snapshot_is_the_same_snapshot() -> None:
    """Before and after the listing that follows it."""
    world = World().add("t-0", "t-1")
    state = job(world).start().register(0).checkpoint(1)
    restored = job(world, state=state)
    restored.perform(restored.coordinator.start())

    assert restored.checkpoint(2) == state
    restored.run_calls()
    assert restored.checkpoint(3) == state


@pytest.mark.parametrize(
    "change", [{"kind": "pulling"}, {"version": 2}, {"offsets": {}}, {"stops": ...}]
)
def test_a_snapshot_that_is_not_known_is_refused(change: dict[str, Any]) -> None:
    """Of another kind, a later version, or with keys more or less."""
    world = World().add("t-0")
    state = {**job(world).start().checkpoint(1)["enumerator"], **change}
    known = {key: value for key, value in state.items() if value is not ...}

    with pytest.raises(StateMismatchError):
        job(world, state={"version": 1, "enumerator": known})


# --- bounded ---


def test_a_bounded_scan_ends_with_its_first_listing() -> None:
    """Readers that are there are told the end after their splits, and so are those to come."""
    world = World(stops={"t-0": 120}).add("t-0")
    bounded = job(world, bounded=True).start().register(0)
    bounded.tick()
    bounded.register(1)

    assert [(s.start, s.stop) for s in bounded.given(0)] == [(100, 120)]
    assert [type(event).__name__ for event in bounded.events(0)] == ["AddSplits", "NoMoreSplits"]
    assert [type(event).__name__ for event in bounded.events(1)] == ["NoMoreSplits"]
    assert world.listings == 1


def test_a_bounded_scan_of_nothing_ends() -> None:
    """An empty pattern is no reason to wait."""
    nothing = job(World(), bounded=True)
    nothing.perform(nothing.coordinator.start())
    nothing.register(0)
    before = nothing.ends(0)
    nothing.run_calls()

    assert before == 0
    assert nothing.ends(0) == 1


def test_a_bounded_split_that_ends_before_its_start_is_empty() -> None:
    """It starts where it stops."""
    world = World(stops={"t-0": 40}).add("t-0")
    bounded = job(world, bounded=True).start().register(0)

    assert [(s.start, s.stop) for s in bounded.given(0)] == [(40, 40)]


def test_a_failed_reader_of_a_bounded_scan_gets_its_splits_before_the_end() -> None:
    """It would end without them."""
    world = World(stops={"t-0": 120}).add("t-0")
    bounded = job(world, bounded=True).start().register(0)
    bounded.fail(0)
    bounded.register(0)

    names = [type(event).__name__ for event in bounded.events(0)]
    assert names == ["AddSplits", "NoMoreSplits"] * 2


def test_a_bounded_split_without_a_stop_fails_the_job() -> None:
    """The scan would never end."""
    assert isinstance(job(World().add("t-0"), bounded=True).start().failure, AssertionError)


def test_a_scan_that_became_bounded_tells_every_reader_the_stops() -> None:
    """Readers have those splits in their state, without an end; the splits that nobody had get theirs too."""
    world = World(stops={"t-0": 200, "t-1": 50}).add("t-0", "t-1")
    state = job(world).start().register(0).checkpoint(1)
    bounded = job(world, bounded=True, state=state, parallelism=2)
    bounded.perform(bounded.coordinator.start())
    bounded.register(0)
    bounded.run_calls()
    bounded.register(1)

    assert told_stops(bounded, 0) == told_stops(bounded, 1) == [{"t-0": 200}]
    assert [(s.split_id, s.start, s.stop) for s in bounded.given(1)] == [("t-1", 100, 50)]
    assert (bounded.ends(0), bounded.ends(1)) == (1, 1)


def test_stops_are_resolved_once_and_told_to_readers_that_come_again() -> None:
    """A reader may go back to a checkpoint from before it was told; another run must not end elsewhere."""
    world = World(stops={"t-0": 200}).add("t-0")
    state = job(world).start().register(0).checkpoint(1)
    bounded = job(world, bounded=True, state=state).start().register(0)
    bounded.fail(0, None)
    bounded.register(0)
    state = bounded.checkpoint(2)
    world.stops = {"t-0": 999}
    restored = job(world, bounded=True, state=state).start().register(0)

    assert told_stops(bounded, 0) == [{"t-0": 200}] * 2
    assert told_stops(restored, 0) == [{"t-0": 200}]


def test_a_scan_that_is_no_longer_bounded_goes_on() -> None:
    """Splits that nobody had lose their stop."""
    world = World(stops={"t-0": 120}).add("t-0")
    state = job(world, bounded=True).start().checkpoint(1)
    unbounded = job(world, state=state).start().register(0)

    assert [(s.start, s.stop) for s in unbounded.given(0)] == [(100, None)]
    assert unbounded.ends(0) == 0
