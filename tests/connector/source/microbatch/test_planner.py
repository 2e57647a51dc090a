"""The batch planner: micro-batches planned from what the world holds, without I/O."""

from __future__ import annotations

from dataclasses import replace

from penstock.connector.source.microbatch.events import NoNewRecords, PlanRequested, ReportDataLoss
from penstock.connector.source.microbatch.planner import BatchPlanner
from penstock.connector.source.split import Split, SplitOffsets
from penstock.connector.source.state import (
    MAX_WATERMARK_MS,
    SourceState,
    decode_state,
    encode_state,
)
from tests.connector.source.batch_world import World, plan, planned, planner_of, ranges, settings


def test_the_watermark_is_the_minimum_of_what_was_read() -> None:
    """A split that runs ahead does not make the rows of others late."""
    world = World({"t-0": [100, 9000], "t-1": [100, 200]})
    state = planned(plan(planner_of(world), world))

    assert ranges(state) == {"t-0": (0, 2), "t-1": (0, 2)}
    assert state.watermark_ms == 200
    assert state.watermark_before_ms is None


def test_the_peek_is_a_lower_bound_so_the_watermark_never_goes_back() -> None:
    """The last record of a range may be older than one before it."""
    world = World({"t-0": [500]})
    batches = planner_of(world)
    first = planned(plan(batches, world))
    world.times["t-0"].append(400)
    second = planned(plan(batches, world))

    assert (first.watermark_ms, second.watermark_ms) == (500, 500)


def test_nothing_new_is_no_batch() -> None:
    """The second plan of an unchanged world gives no reason for a batch."""
    world = World({"t-0": [100]})
    batches = planner_of(world)
    plan(batches, world)

    assert plan(batches, world, now=60_000) == NoNewRecords()


def test_a_new_split_is_planned_even_without_records() -> None:
    """latest-offset: what comes between two starts of the query is not lost."""
    world = World({"t-0": [1, 2, 3]}, first={"t-0": 3})
    state = planned(plan(planner_of(world), world))
    world.times["t-0"] += [4, 5]
    restarted = BatchPlanner(settings(), decode_state(encode_state(state)))

    assert ranges(state) == {"t-0": (3, 3)}
    assert ranges(planned(plan(restarted, world))) == {"t-0": (3, 5)}


def test_a_split_found_later_holds_the_watermark() -> None:
    """Until it has read as far as the others, as in Flink."""
    world = World({"t-0": [100]})
    batches = planner_of(world)
    plan(batches, world)
    world.times = {"t-0": [100, 7000], "t-1": [150, 160]}
    batches.add_splits([Split(split_id="t-1", start=0, owner="t")])

    assert planned(plan(batches, world)).watermark_ms == 160


def test_an_idle_split_lets_the_watermark_go_on_and_a_record_brings_it_back() -> None:
    """Quiet for longer than the timeout, a split leaves the minimum; the batch has no records, only the watermark."""
    world = World({"t-0": [100], "t-1": [900]})
    batches = planner_of(world, settings(idle_timeout_ms=1000))
    plan(batches, world)
    world.times["t-1"].append(2000)
    held = planned(plan(batches, world, now=500))
    quiet = planned(plan(batches, world, now=1502))
    world.times["t-0"].append(2500)
    back = planned(plan(batches, world, now=1600))

    assert held.watermark_ms == 100
    assert quiet.watermark_ms == 2000
    assert all(split.start == split.end for split in quiet.splits)
    assert not next(split for split in back.splits if split.split_id == "t-0").idle


def test_a_split_whose_records_wait_is_never_idle() -> None:
    """A read limit or a slow batch is no silence (FLINK-40234)."""
    world = World({"t-0": [100] * 10, "t-1": [900] * 10})
    batches = planner_of(world, settings(idle_timeout_ms=1000))
    states = [planned(plan(batches, world, now=now, limit=2)) for now in (0, 5000, 10_000)]

    assert not any(split.idle for state in states for split in state.splits)


def test_quiet_time_before_a_restart_counts() -> None:
    """A pipeline started every hour sees the same idle splits as one that never stops."""
    world = World({"t-0": [], "t-1": [900]})
    first = planned(plan(planner_of(world, settings(idle_timeout_ms=60_000)), world, now=0))
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
    batches = planner_of(world, settings())
    state = planned(plan(batches, world))

    assert ranges(state) == {"t-0": (0, 2), "t-1": (0, 1)}
    assert state.watermark_ms == MAX_WATERMARK_MS
    assert plan(batches, world) == NoNewRecords()


def test_finished_splits_are_not_the_end_while_more_may_come() -> None:
    """Files of a folder that is watched: each ends, the table does not."""
    world = World({"a": [1, 2]}, stops={"a": 2})
    batches = BatchPlanner(settings())
    batches.add_splits(world.splits())
    state = planned(plan(batches, world))

    assert state.splits[0].finished
    assert state.watermark_ms == 2
    assert plan(batches, world) == NoNewRecords()


def test_a_file_that_shrank_is_lost() -> None:
    """It was listed at a size that it no longer has: its end would be waited for without end."""
    world = World({"a": [1, 2]}, stops={"a": 4})
    batches = BatchPlanner(replace(settings(), keeps_finished=False))
    batches.add_splits(world.splits())

    assert isinstance(plan(batches, world), ReportDataLoss)


def test_a_scan_that_never_had_a_split_ends_with_the_maximum() -> None:
    """An empty folder: its windows close."""
    batches = BatchPlanner(settings())
    batches.no_more_splits()

    assert planned(plan(batches, World({}))).watermark_ms == MAX_WATERMARK_MS


def test_the_last_split_may_be_signalled_after_it_was_read() -> None:
    """The watermark then moves to the maximum in a batch of its own."""
    world = World({"a": [1, 2]}, stops={"a": 2})
    batches = BatchPlanner(settings())
    batches.add_splits(world.splits())
    plan(batches, world)
    batches.no_more_splits()

    assert planned(plan(batches, world)).watermark_ms == MAX_WATERMARK_MS


def test_finished_splits_that_were_pulled_leave_the_state() -> None:
    """A folder's files must not pile up in the offsets; dropping one is no reason for a batch."""
    world = World({"a": [1, 2], "b": [3, 4, 5]}, stops={"a": 2, "b": 3})
    batches = planner_of(world, settings(keeps_finished=False))
    first = planned(plan(batches, world, limit=4))
    second = planned(plan(batches, world, limit=4))

    assert ranges(first) == {"a": (0, 2), "b": (0, 2)}
    assert ranges(second) == {"b": (2, 3)}
    assert plan(batches, world, limit=4) == NoNewRecords()


def test_a_scan_that_becomes_bounded_ends() -> None:
    """Splits get their stops while they are read, and windows close."""
    world = World({"t-0": [1, 2], "t-1": [5]})
    batches = planner_of(world)
    plan(batches, world)
    batches.set_stops({"t-0": 2, "t-1": 1})
    batches.no_more_splits()
    last = planned(plan(batches, world))

    assert all(split.start == split.end for split in last.splits)
    assert last.watermark_ms == MAX_WATERMARK_MS
    assert plan(batches, world) == NoNewRecords()


def test_ends_fixed_for_a_run_are_kept() -> None:
    """AvailableNow: nothing past the ends seen at the start, and no split that came later."""
    world = World({"t-0": [1, 2]})
    batches = planner_of(world)
    batches.limit_to({"t-0": 2})
    world.times = {"t-0": [1, 2, 3], "t-1": [4]}
    batches.add_splits([Split(split_id="t-1", start=0, owner="t")])
    state = planned(plan(batches, world))

    assert ranges(state) == {"t-0": (0, 2), "t-1": (0, 0)}
    assert plan(batches, world) == NoNewRecords()


def test_deleted_records_are_reported() -> None:
    """Retention took records that were not read yet: both positions are named."""
    world = World({"t-0": [1, 2, 3, 4]})
    batches = planner_of(world)
    plan(batches, world, limit=1)
    world.first["t-0"] = 3

    assert plan(batches, world) == ReportDataLoss(
        split_id="t-0", position=1, extent=SplitOffsets(first=3, end=4)
    )


def test_a_log_that_became_shorter_is_reported() -> None:
    """Another leader has less of it: new records would take the offsets that were read, and never be read."""
    world = World({"t-0": [1, 2, 3, 4]})
    batches = planner_of(world)
    plan(batches, world)
    world.times["t-0"] = [1, 2, 3]

    assert plan(batches, world) == ReportDataLoss(
        split_id="t-0", position=4, extent=SplitOffsets(first=0, end=3)
    )


def test_a_log_that_became_shorter_is_read_on_from_its_end_where_the_table_tolerates_it() -> None:
    """What comes there is new; the position is in the offset before it comes."""
    world = World({"t-0": [1, 2, 3, 4]})
    batches = planner_of(world, settings(tolerates_loss=True))
    plan(batches, world)
    world.times["t-0"] = [1, 2, 3]
    back = planned(plan(batches, world))
    waits = plan(batches, world)
    world.times["t-0"] = [1, 2, 3, 8, 9]
    restarted = BatchPlanner(settings(tolerates_loss=True), decode_state(encode_state(back)))

    assert ranges(back) == {"t-0": (3, 3)}
    assert back.splits[0].lost == 0
    assert waits == NoNewRecords()
    assert ranges(planned(plan(restarted, world))) == {"t-0": (3, 5)}


def restarted(state: SourceState, **more: bool) -> BatchPlanner:
    """A planner of a new process, from the text of an offset."""
    return BatchPlanner(settings(**more), decode_state(encode_state(state)))


def epochs(state: SourceState) -> list[int | None]:
    """The log's epoch at the end of each range."""
    return [split.epoch for split in state.splits]


def test_a_log_that_was_cut_and_has_grown_again_is_reported() -> None:
    """In a later epoch than that of the offset; its end is past what was read."""
    world = World({"t-0": [1, 2, 3, 4]}, epoch=3)
    before = planned(plan(planner_of(world), world))
    world.epoch, world.times["t-0"], world.cuts = 5, [1, 2, 7, 8, 9], {"t-0": 2}

    assert plan(restarted(before), world) == ReportDataLoss(
        split_id="t-0", position=4, extent=SplitOffsets(first=0, end=2, epoch=5)
    )
    assert world.looks == [{"t-0": (4, 3)}]


def test_a_cut_log_is_read_on_where_it_was_cut_where_the_table_tolerates_it() -> None:
    """What stands there now was not read; it is read once."""
    world = World({"t-0": [1, 2, 3, 4]}, epoch=3)
    before = planned(plan(planner_of(world), world))
    world.epoch, world.times["t-0"], world.cuts = 5, [1, 2, 7, 8, 9], {"t-0": 2}
    batches = restarted(before, tolerates_loss=True)
    back = planned(plan(batches, world))

    assert ranges(back) == {"t-0": (2, 5)}
    assert epochs(back) == [5]
    assert plan(batches, world) == NoNewRecords()
    assert len(world.looks) == 1


def test_a_log_is_looked_at_once_in_each_later_epoch() -> None:
    """Not in the one in which it was read, nor again in a plan without a batch; a restart looks for itself."""
    world = World({"t-0": [1, 2], "t-1": [1, 2]}, epoch=3)
    batches = planner_of(world)
    before = planned(plan(batches, world))
    plan(batches, world)
    same = list(world.looks)
    world.epoch = 4
    quiet = [plan(batches, world), plan(batches, world)]
    once = list(world.looks)
    world.times["t-1"] = [1, 2, 9]
    moved = planned(plan(batches, world))
    world.epoch = 5
    plan(restarted(moved), world)

    assert (epochs(before), same, quiet) == ([3, 3], [], [NoNewRecords(), NoNewRecords()])
    assert once == [{"t-0": (2, 3), "t-1": (2, 3)}]
    assert epochs(moved) == [4, 4]
    assert world.looks[1:] == [{"t-0": (2, 4), "t-1": (3, 4)}]


def test_an_offset_without_an_epoch_is_gone_on_from() -> None:
    """One of an earlier version, or of a source that has none; the next has it, where there is one."""
    world = World({"t-0": [1, 2, 3, 4]})
    before = planned(plan(planner_of(world), world))
    world.epoch, world.times["t-0"] = 5, [1, 2, 3, 4, 5]
    after = planned(plan(restarted(before), world))

    assert (epochs(before), epochs(after), world.looks) == ([None], [5], [])


def test_a_position_without_its_records_has_no_epoch() -> None:
    """Deleted ones, or those of a log that is shorter now: who wrote those before it is not known."""
    world = World({"t-0": [1, 2, 3, 4], "t-1": [1, 2, 3, 4]}, epoch=3)
    batches = planner_of(world, settings(tolerates_loss=True))
    plan(batches, world)
    world.epoch, world.times = 4, {"t-0": [1, 2], "t-1": [None] * 6}
    world.first = {"t-1": 6}

    assert epochs(planned(plan(batches, world))) == [None, None]
    assert world.looks == []


def test_a_position_in_an_open_transaction_is_waited_at() -> None:
    """As one that a group of another isolation level has committed."""
    world = World({"t-0": [1, 2, 3, 4]}, first={"t-0": 3}, open={"t-0": 2})
    batches = planner_of(world)
    state = planned(plan(batches, world))
    waits = plan(batches, world)
    world.open = {}

    assert ranges(state) == {"t-0": (3, 3)}
    assert waits == NoNewRecords()
    assert ranges(planned(plan(batches, world))) == {"t-0": (3, 4)}


def test_deleted_records_are_counted_where_the_table_tolerates_it() -> None:
    """scan.on-data-loss = continue: the scan goes on at the first record that is left."""
    world = World({"t-0": [1, 2, 3, 4]})
    batches = planner_of(world, settings(tolerates_loss=True))
    plan(batches, world, limit=1)
    world.first["t-0"] = 3
    (split,) = planned(plan(batches, world)).splits

    assert (split.start, split.end, split.lost) == (3, 4, 2)


def test_state_is_the_same_text_after_a_restart() -> None:
    """Offsets are compared as text."""
    world = World({"t-1": [1, 2], "t-0": [3]})
    state = planned(plan(planner_of(world), world))

    assert encode_state(decode_state(encode_state(state))) == encode_state(state)
    assert list(encode_state(state)["splits"]) == ["t-0", "t-1"]
