"""The coordinator: batches planned from what the world holds, without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.connector.source.batch_events import (
    BatchPlanned,
    Effect,
    EventTimesPeeked,
    ExtentsFetched,
    FetchExtents,
    ListSplits,
    NothingNew,
    PeekEventTimes,
    PlanRequested,
    PositionsResolved,
    ReportChanged,
    ReportLost,
    ResolvePositions,
    SplitsListed,
)
from penstock.connector.source.batch_planner import BatchPlanner, BatchPlannerSettings
from penstock.connector.source.split import Discovery, Extent
from penstock.connector.source.state import (
    MAX_WATERMARK_MS,
    SourceState,
    decode_state,
    encode_state,
)


@dataclass
class World:
    """A model of the outside: each split a list of event times, position i holds times[i]."""

    times: dict[str, list[int]]
    topic_id: str = "id-1"
    first: dict[str, int] = field(default_factory=dict)
    stops: dict[str, int] = field(default_factory=dict)
    start_latest: bool = False
    listings: int = 0

    def perform(
        self, effect: Effect
    ) -> SplitsListed | PositionsResolved | ExtentsFetched | EventTimesPeeked | None:
        """Perform an effect; None for one that ends the planning."""
        match effect:
            case ListSplits():
                self.listings += 1
                discovery = Discovery(
                    owners=dict.fromkeys(self.times, "t"), incarnations={"t": self.topic_id}
                )
                return SplitsListed(discovery=discovery)
            case ResolvePositions():
                late = self.start_latest and effect.first_listing
                starts = {
                    i: len(self.times[i]) if late else self.first.get(i, 0)
                    for i in effect.split_ids
                }
                return PositionsResolved(
                    starts=starts, stops={i: self.stops[i] for i in effect.stop_ids}
                )
            case FetchExtents():
                return ExtentsFetched(
                    extents={
                        i: Extent(first=self.first.get(i, 0), end=len(self.times[i]))
                        for i in effect.split_ids
                    }
                )
            case PeekEventTimes():
                return EventTimesPeeked(
                    watermarks_ms={i: self.times[i][to - 1] for i, (_, to) in effect.ranges.items()}
                )
        return None


def settings(
    *,
    idle_timeout_ms: int | None = None,
    tolerates_loss: bool = False,
    interval: int = 0,
    bounded: bool = False,
) -> BatchPlannerSettings:
    """Make settings for a scan that tracks event time."""
    return BatchPlannerSettings(
        tracks_event_time=True,
        bounded=bounded,
        discovery_interval_ms=interval,
        idle_timeout_ms=idle_timeout_ms,
        tolerates_loss=tolerates_loss,
    )


def plan(
    coordinator: BatchPlanner, world: World, *, now: int = 0, limit: int | None = None
) -> Effect:
    """Drive a coordinator until it has decided."""
    effect = coordinator.handle(PlanRequested(now_ms=now, wall_ms=1_000_000 + now, limit=limit))
    while (event := world.perform(effect)) is not None:
        effect = coordinator.handle(event)
    return effect


def planned(effect: Effect) -> SourceState:
    """Take the state of a planned batch."""
    assert isinstance(effect, BatchPlanned)
    return effect.state


def ranges(state: SourceState) -> Mapping[str, tuple[int, int]]:
    """Give the ranges of a batch."""
    return {split.split_id: (split.start, split.end) for split in state.splits}


def test_the_watermark_is_the_minimum_of_what_was_read() -> None:
    """A split that runs ahead does not make the rows of others late."""
    state = planned(plan(BatchPlanner(settings()), World({"t-0": [100, 9000], "t-1": [100, 200]})))

    assert ranges(state) == {"t-0": (0, 2), "t-1": (0, 2)}
    assert state.watermark_ms == 200
    assert state.watermark_before_ms is None


def test_the_peek_is_a_lower_bound_so_the_watermark_never_goes_back() -> None:
    """The last record of a range may be older than one before it."""
    world = World({"t-0": [500]})
    coordinator = BatchPlanner(settings())
    first = planned(plan(coordinator, world))
    world.times["t-0"].append(400)
    second = planned(plan(coordinator, world))

    assert (first.watermark_ms, second.watermark_ms) == (500, 500)


def test_nothing_new_is_no_batch() -> None:
    """The second plan of an unchanged world gives no reason for a batch."""
    world = World({"t-0": [100]})
    coordinator = BatchPlanner(settings())
    plan(coordinator, world)

    assert plan(coordinator, world, now=60_000) == NothingNew()


def test_a_resolved_start_is_planned_even_without_records() -> None:
    """latest-offset: what comes between two starts of the query is not lost."""
    world = World({"t-0": [1, 2, 3]}, start_latest=True)
    state = planned(plan(BatchPlanner(settings()), world))
    world.times["t-0"] += [4, 5]
    restarted = planned(plan(BatchPlanner(settings(), decode_state(encode_state(state))), world))

    assert ranges(state) == {"t-0": (3, 3)}
    assert ranges(restarted) == {"t-0": (3, 5)}


def test_a_split_found_later_starts_at_its_first_record() -> None:
    """The startup mode is for the first listing only (FLINK-32019), and the new split holds the watermark."""
    world = World({"t-0": [100]}, start_latest=True)
    coordinator = BatchPlanner(settings(interval=1000))
    plan(coordinator, world)
    world.times = {"t-0": [100, 7000], "t-1": [50, 60]}
    state = planned(plan(coordinator, world, now=1000))

    assert ranges(state) == {"t-0": (1, 2), "t-1": (0, 2)}
    assert state.watermark_ms == 60


def test_discovery_happens_once_without_an_interval() -> None:
    """An interval of 0 lists at the start and never again."""
    world = World({"t-0": [100]})
    coordinator = BatchPlanner(settings(interval=0))
    for now in (0, 10_000, 1_000_000):
        plan(coordinator, world, now=now)

    assert world.listings == 1


def test_an_idle_split_lets_the_watermark_go_on_and_a_record_brings_it_back() -> None:
    """Quiet for longer than the timeout, a split leaves the minimum; the batch has no records, only the watermark."""
    world = World({"t-0": [100], "t-1": [900]})
    coordinator = BatchPlanner(settings(idle_timeout_ms=1000))
    plan(coordinator, world)
    world.times["t-1"].append(2000)
    held = planned(plan(coordinator, world, now=500))
    quiet = planned(plan(coordinator, world, now=1502))
    world.times["t-0"].append(2500)
    back = planned(plan(coordinator, world, now=1600))

    assert held.watermark_ms == 100
    assert quiet.watermark_ms == 2000
    assert all(split.start == split.end for split in quiet.splits)
    assert not next(split for split in back.splits if split.split_id == "t-0").idle


def test_a_split_whose_records_wait_is_never_idle() -> None:
    """A read limit or a slow batch is no silence (FLINK-40234)."""
    world = World({"t-0": [100] * 10, "t-1": [900] * 10})
    coordinator = BatchPlanner(settings(idle_timeout_ms=1000))
    states = [planned(plan(coordinator, world, now=now, limit=2)) for now in (0, 5000, 10_000)]

    assert not any(split.idle for state in states for split in state.splits)


def test_quiet_time_before_a_restart_counts() -> None:
    """A pipeline started every hour sees the same idle splits as one that never stops."""
    world = World({"t-0": [], "t-1": [900]})
    first = planned(plan(BatchPlanner(settings(idle_timeout_ms=60_000)), world, now=0))
    world.times["t-1"].append(950)
    later = BatchPlanner(settings(idle_timeout_ms=60_000), first)
    effect = later.handle(PlanRequested(now_ms=5, wall_ms=1_000_000 + 3_600_000, limit=None))
    while (event := world.perform(effect)) is not None:
        effect = later.handle(event)

    assert first.watermark_ms is None
    assert planned(effect).watermark_ms == 950


def test_a_bounded_scan_ends_with_the_maximum() -> None:
    """Every split read to its stop: the watermark is the maximum, and then there is nothing more."""
    world = World({"t-0": [1, 2, 3], "t-1": [5]}, stops={"t-0": 2, "t-1": 1})
    coordinator = BatchPlanner(settings(bounded=True))
    state = planned(plan(coordinator, world))

    assert ranges(state) == {"t-0": (0, 2), "t-1": (0, 1)}
    assert state.watermark_ms == MAX_WATERMARK_MS
    assert plan(coordinator, world) == NothingNew()


def test_a_table_that_becomes_bounded_ends() -> None:
    """A checkpoint of the unbounded table goes on to the stops, and its windows close."""
    world = World({"t-0": [1, 2], "t-1": [5]})
    state = planned(plan(BatchPlanner(settings()), world))
    world.stops = {"t-0": 2, "t-1": 1}
    bounded = BatchPlanner(settings(bounded=True), state)
    last = planned(plan(bounded, world))

    assert all(split.start == split.end for split in last.splits)
    assert last.watermark_ms == MAX_WATERMARK_MS
    assert plan(bounded, world) == NothingNew()


def test_ends_fixed_for_a_run_are_kept() -> None:
    """AvailableNow: nothing past the ends seen at the start, and no split that came later."""
    world = World({"t-0": [1, 2]})
    coordinator = BatchPlanner(settings())
    coordinator.limit_to({"t-0": 2})
    world.times = {"t-0": [1, 2, 3], "t-1": [4]}
    state = planned(plan(coordinator, world))

    assert ranges(state) == {"t-0": (0, 2), "t-1": (0, 0)}
    assert plan(coordinator, world) == NothingNew()


def test_deleted_records_are_reported() -> None:
    """Retention took records that were not read yet: both positions are named."""
    world = World({"t-0": [1, 2, 3, 4]})
    coordinator = BatchPlanner(settings())
    plan(coordinator, world, limit=1)
    world.first["t-0"] = 3

    assert plan(coordinator, world) == ReportLost(
        split_id="t-0", position=1, extent=Extent(first=3, end=4)
    )


def test_deleted_records_are_counted_where_the_table_tolerates_it() -> None:
    """scan.on-data-loss = continue: the scan goes on at the first record that is left."""
    world = World({"t-0": [1, 2, 3, 4]})
    coordinator = BatchPlanner(settings(tolerates_loss=True))
    plan(coordinator, world, limit=1)
    world.first["t-0"] = 3
    (split,) = planned(plan(coordinator, world)).splits

    assert (split.start, split.end, split.lost) == (3, 4, 2)


def test_a_topic_made_again_is_reported_after_a_restart() -> None:
    """The id of the topic is part of the state."""
    world = World({"t-0": [1, 2]})
    state = planned(plan(BatchPlanner(settings()), world))
    world.topic_id = "id-2"

    assert plan(BatchPlanner(settings(), state), world) == ReportChanged(
        owner="t", known="id-1", found="id-2"
    )


def test_state_is_the_same_text_after_a_restart() -> None:
    """Offsets are compared as text."""
    state = planned(plan(BatchPlanner(settings()), World({"t-1": [1, 2], "t-0": [3]})))

    assert encode_state(decode_state(encode_state(state))) == encode_state(state)
    assert list(encode_state(state)["splits"]) == ["t-0", "t-1"]
