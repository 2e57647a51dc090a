"""Alignment of micro-batches: splits that run ahead of their group wait, exactly at every batch end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from penstock.connector.source.microbatch.batch_plan import BatchPlan, SplitPlan
from penstock.connector.source.microbatch.events import (
    AlignmentGroupFetched,
    BatchPlanned,
    NoNewRecords,
)
from penstock.connector.source.microbatch.planner import BatchPlanner
from penstock.connector.source.state import SourceState, SplitState, decode_state, encode_state
from tests.connector.source.batch_world import World, plan, planned, planner_of, ranges, settings

HOUR = 3_600_000
DAY = 24 * HOUR


def every(step_ms: int, count: int, *, begin: int = 0) -> list[int | None]:
    """Make regular records."""
    return [begin + step_ms * index for index in range(count)]


def split_of(state: SourceState, split_id: str) -> SplitState:
    """Find a split."""
    return next(split for split in state.splits if split.split_id == split_id)


def test_a_fast_split_is_held_within_the_drift() -> None:
    """It is cut where its records pass the slowest split's potential plus the drift; the status says why."""
    world = World({"slow": every(10, 1000), "fast": every(1000, 1000)})
    state = planned(plan(planner_of(world, settings(drift_ms=2000)), world, limit=200))
    fast = split_of(state, "fast")

    assert ranges(state)["slow"] == (0, 100)
    assert state.limit_ms == 990 + 2000
    assert fast.watermark_ms is not None
    assert fast.watermark_ms <= 2990
    assert fast.paused == "ahead of group 'g', which may go to 1970-01-01T00:00:02.990Z"


def test_the_slowest_split_is_read_to_its_cap() -> None:
    """A batch's progress is limited by the read limit and not by the drift."""
    times = {"a": every(1000, 2000), "b": every(1000, 2000, begin=500)}
    world = World(times, stops={"a": 2000, "b": 2000})
    batches = planner_of(world, settings(drift_ms=1))
    count = 0
    while isinstance(plan(batches, world, limit=100), BatchPlanned):
        count += 1

    assert batches.state.positions == {"a": 2000, "b": 2000}
    assert count <= 40 + 10


def test_what_a_held_split_does_not_take_goes_to_the_others() -> None:
    """From the next batch on, nearly all of the read limit."""
    world = World({"slow": every(10, 1000), "fast": every(10, 1000, begin=DAY)})
    batches = planner_of(world, settings(drift_ms=1000))
    first = planned(plan(batches, world, limit=160))
    second = planned(plan(batches, world, limit=160))

    assert ranges(first) == {"slow": (0, 80), "fast": (0, 0)}
    assert ranges(second)["slow"] == (80, 80 + 150)


def test_a_held_split_without_a_record_does_not_hold_the_watermark() -> None:
    """Its first record is known to be above the limit: in Flink it would be read, one too far, and count."""
    world = World({"slow": every(10, 100), "fast": every(10, 100, begin=DAY)})
    state = planned(plan(planner_of(world, settings(drift_ms=1000)), world, limit=40))

    assert state.watermark_ms == split_of(state, "slow").watermark_ms == 190
    assert split_of(state, "fast").watermark_ms == state.limit_ms == 1190


def test_a_leap_in_a_split_does_not_hold_the_watermark() -> None:
    """The split waits before the leap, and counts with the limit instead of its last record."""
    world = World({"slow": every(10, 1000), "leap": [0, *every(10, 10, begin=DAY)]})
    batches = planner_of(world, settings(drift_ms=100))
    plan(batches, world, limit=200)
    state = planned(plan(batches, world, limit=200))

    assert split_of(state, "leap").end == 1
    assert state.watermark_ms == split_of(state, "slow").watermark_ms


def test_a_split_that_the_read_limit_leaves_out_holds_its_group_by_its_next_record() -> None:
    """Nobody knows what was never read: the others would pass it by a whole batch, or more than one."""
    world = World({"a": every(1000, 10), "b": every(1000, 10, begin=5000), "c": [0]})
    state = planned(plan(planner_of(world, settings(drift_ms=100)), world, limit=1))

    assert ranges(state) == {"a": (0, 1), "b": (0, 0), "c": (0, 0)}
    assert state.limit_ms == 100


def test_a_split_that_the_read_limit_leaves_out_lets_the_watermark_pass() -> None:
    """One that was never read, and may not be yet, counts with the group's limit as one that gets a share does."""
    world = World({"a": every(10, 100), "b": every(10, 100, begin=DAY)})
    batches = planner_of(world, settings(drift_ms=1000))
    for _ in range(5):
        state = planned(plan(batches, world, limit=1))
        fast, slow = split_of(state, "b"), split_of(state, "a")

        assert (fast.start, fast.end, fast.watermark_ms) == (0, 0, state.limit_ms)
        assert fast.paused
        assert state.watermark_ms == slow.watermark_ms
    assert slow.end == 5


def test_only_aligned_tables_peek_into_splits_that_the_read_limit_leaves_out() -> None:
    """Nobody waits for them elsewhere; where they wait they are peeked at once."""
    times = {"a": every(10, 10), "b": every(10, 10), "c": every(10, 10)}
    free, held = World(times), World(times)
    plan(planner_of(free), free, limit=1)
    batches = planner_of(held, settings(drift_ms=100))
    plan(batches, held, limit=1)
    plan(batches, held, limit=1)

    assert free.peeks == 1
    assert held.peeks == 3 + 1


def test_an_idle_split_does_not_hold_the_group_and_is_not_paused() -> None:
    """FLINK-39073: what has nothing to read cannot run ahead."""
    world = World({"idle": [0], "live": [0]})
    batches = planner_of(world, settings(drift_ms=100, idle_timeout_ms=1000))
    plan(batches, world)
    world.times["live"] += every(1000, 10, begin=1000)
    held = plan(batches, world, now=500)
    state = planned(plan(batches, world, now=1502))

    assert held == NoNewRecords()
    assert split_of(state, "live").end == 11
    assert (split_of(state, "idle").idle, split_of(state, "idle").paused) == (True, None)


def test_a_paused_split_is_never_idle() -> None:
    """Its records wait (FLINK-35886, FLINK-40093): however long, and it is resumed with the limit."""
    world = World({"slow": [0], "fast": [DAY]})
    batches = planner_of(world, settings(drift_ms=100, idle_timeout_ms=10 * DAY))
    first = planned(plan(batches, world))
    assert plan(batches, world, now=DAY) == NoNewRecords()
    world.times["slow"].append(DAY)
    state = planned(plan(batches, world, now=2 * DAY))

    assert split_of(first, "fast").paused
    assert not split_of(state, "fast").idle
    assert ranges(state) == {"slow": (1, 2), "fast": (0, 1)}


def test_a_split_that_never_had_a_record_does_not_hold_the_group() -> None:
    """A source that never reported is absent in Flink; the table's watermark waits for it all the same."""
    world = World({"empty": [], "full": every(1000, 10)})
    state = planned(plan(planner_of(world, settings(drift_ms=1)), world))

    assert split_of(state, "full").end == 10
    assert state.watermark_ms is None


def test_a_finished_split_leaves_the_group() -> None:
    """Its last watermark holds nobody back (FLINK-35157)."""
    world = World({"short": [0], "long": every(1000, 10)}, stops={"short": 1, "long": 10})
    batches = planner_of(world, settings(drift_ms=1))
    plan(batches, world)

    assert split_of(planned(plan(batches, world)), "long").finished


def test_a_paused_table_that_only_waits_gives_no_batch_and_costs_no_peek() -> None:
    """What was found out about a held split is remembered."""
    world = World({"slow": [0], "fast": every(1000, 100, begin=DAY)})
    batches = planner_of(world, settings(drift_ms=100))
    plan(batches, world, limit=50)
    plan(batches, world, limit=50)
    peeks = world.peeks

    assert [plan(batches, world, limit=50, now=i) for i in range(5)] == [NoNewRecords()] * 5
    assert world.peeks == peeks


def test_a_table_waits_for_the_rest_of_its_group() -> None:
    """Before another table has published, new splits are planned without rows, and the own potential is told."""
    world = World(
        {"a": every(10, 10)}, others=AlignmentGroupFetched(lowest_ms=None, silent=("payments",))
    )
    batches = planner_of(world, settings(drift_ms=50, shares_group=True))
    first = planned(plan(batches, world))
    world.others = AlignmentGroupFetched(lowest_ms=0)
    second = planned(plan(batches, world))

    assert ranges(first) == {"a": (0, 0)}
    assert "payments" in (split_of(first, "a").paused or "")
    assert world.published == [(90, 90), (50, 90)]
    assert ranges(second) == {"a": (0, 6)}


def test_a_table_of_a_group_that_holds_nobody_is_free() -> None:
    """The others are idle, finished or never had a record."""
    world = World({"a": every(1000, 10)}, others=AlignmentGroupFetched(lowest_ms=None))
    state = planned(plan(planner_of(world, settings(drift_ms=1, shares_group=True)), world))

    assert ranges(state) == {"a": (0, 10)}


def test_a_run_with_an_end_goes_on_while_its_group_holds_it() -> None:
    """Spark ends such a run at the first answer that is no batch, so a held table answers with an empty one."""
    world = World({"a": every(10, 10, begin=DAY)}, others=AlignmentGroupFetched(lowest_ms=0))
    batches = planner_of(world, settings(drift_ms=50, shares_group=True))
    texts = [encode_state(planned(plan(batches, world, run_ends=True))) for _ in range(3)]
    world.others = AlignmentGroupFetched(lowest_ms=DAY)
    state = planned(plan(batches, world, run_ends=True))

    assert texts[0] != texts[1] != texts[2]
    assert ranges(state) == {"a": (0, 6)}
    assert state.held == 0


def test_what_has_nothing_left_for_a_run_with_an_end_does_not_hold_it() -> None:
    """A run reads what is there when it starts, and one table may end a day before another."""
    world = World({"short": every(10, 10), "long": every(10, 10, begin=DAY)})
    batches = planner_of(world, settings(drift_ms=50))
    batches.limit_to({"short": 10, "long": 10})
    while isinstance(plan(batches, world, run_ends=True, limit=8), BatchPlanned):
        pass

    assert batches.state.positions == {"short": 10, "long": 10}


# --- a group of tables in a model world ---


@dataclass
class Table:
    """One table of the group: its world, its planner, and the records that its batches held."""

    world: World
    batches: BatchPlanner
    ends: dict[str, int]
    known: dict[str, int | None] = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=dict)

    def step(self, others: AlignmentGroupFetched, *, limit: int | None, restart: bool) -> bool:
        """Plan once and check the batch; gives whether there was one."""
        self.world.others = others
        before = self.batches.state
        if restart and before.splits:
            known = self.batches
            self.batches = BatchPlanner(known._settings, decode_state(encode_state(before)))
            self.batches.limit_to(self.ends)
        effect = plan(self.batches, self.world, limit=limit, run_ends=True)
        if isinstance(effect, NoNewRecords):
            return False
        state = planned(effect)
        self._check(before, state)
        return True

    def _check(self, before: SourceState, state: SourceState) -> None:
        assert encode_state(state) != encode_state(before)
        for split in state.splits:
            assert split.start == self.reads.get(split.split_id, 0), (
                "no record twice, none left out"
            )
            self.reads[split.split_id] = split.end
            self._check_split(split, state.limit_ms)
        active = [self.known[s.split_id] for s in state.splits if not s.finished]
        if state.watermark_ms is not None:
            assert all(ms is not None and state.watermark_ms <= ms for ms in active)
            assert before.watermark_ms is None or state.watermark_ms >= before.watermark_ms

    def _check_split(self, split: SplitState, limit_ms: int | None) -> None:
        times = self.world.times[split.split_id]
        read = [time for time in times[: split.end] if time is not None]
        true = max(read, default=None)
        following = next((time for time in times[split.end :] if time is not None), None)
        waits = split.paused and limit_ms is not None and following is not None
        claimed = limit_ms if waits and following > limit_ms else None
        seen = (self.known.get(split.split_id), true, claimed)
        self.known[split.split_id] = max((ms for ms in seen if ms is not None), default=None)
        if limit_ms is not None and split.end > split.start:
            last = self.world.watermark(split.split_id, split.start, split.end)
            assert last is None or last <= limit_ms, "aligned at the end of the batch"
            assert split.watermark_ms is None or split.watermark_ms <= limit_ms


def step_all(members: Sequence[Table], *, limit: int | None, restart: Table | None = None) -> bool:
    """Ask each table once, in order, as Spark does; gives whether any had a batch."""
    went = [
        table
        for table in members
        if table.step(look(members, table), limit=limit, restart=table is restart)
    ]
    if len(members) > 1 and restart is None:
        reached = [table.world.published[-1][0] for table in members]
        lowest = min((ms for ms in reached if ms is not None), default=None)
        for limit_ms in (table.batches.state.limit_ms for table in went):
            assert limit_ms is None or lowest is None or limit_ms <= lowest + table_drift(members)
    return bool(went)


def table_drift(members: Sequence[Table]) -> int:
    """Give the drift that the tables of a group allow."""
    alignment = members[0].batches._settings.alignment
    assert alignment is not None
    return alignment.max_drift_ms


def look(members: Sequence[Table], table: Table) -> AlignmentGroupFetched:
    """See the others as the board shows them: those before it in this round, those after it in the last one."""
    turn = len(table.world.published)
    told = [other.world.published for other in members if other is not table]
    lows = [last[-1][0 if len(last) > turn else 1] for last in told if last]
    return AlignmentGroupFetched(
        lowest_ms=min((low for low in lows if low is not None), default=None),
        silent=tuple("t" for last in told if not last),
    )


def with_disorder(steps: Sequence[tuple[int, int, bool]], begin: int) -> list[int | None]:
    """Make records that advance by steps, each a little late, some positions empty."""
    times: list[int | None] = []
    at = begin
    for step, late, empty in steps:
        at += step
        times.append(None if empty else at - late)
    return times


split_times = st.builds(
    with_disorder,
    st.lists(
        st.tuples(
            st.integers(0, 50) | st.integers(0, 5000),
            st.integers(0, 20),
            st.sampled_from([0, 0, 1]),
        ),
        max_size=40,
    ),
    st.integers(0, 10_000),
)
tables = st.lists(
    st.dictionaries(st.sampled_from("abcd"), split_times, min_size=1), min_size=1, max_size=3
)


@pytest.mark.slow
@hypothesis_settings(max_examples=200, deadline=None)
@given(
    groups=tables,
    drift=st.integers(1, 3000),
    limit=st.none() | st.integers(1, 60),
    restarts=st.sets(st.integers(0, 40), max_size=4),
)
def test_a_group_of_tables_is_aligned_and_read_to_its_end(
    groups: list[dict[str, list[int | None]]], drift: int, limit: int | None, restarts: set[int]
) -> None:
    """Every record once, no watermark too high or going back, aligned at every batch end, and an end in bounded steps.

    The run ends as Spark's do: when no table has a batch. Restarts forget everything but the offset.
    """
    shared = settings(drift_ms=drift, shares_group=len(groups) > 1)
    members = []
    for times in groups:
        world = World(times)
        table = Table(world, planner_of(world, shared), {i: len(t) for i, t in times.items()})
        table.batches.limit_to(table.ends)
        members.append(table)
    records = sum(len(times) for group in groups for times in group.values())
    rounds, going = 0, True
    while going:
        going = step_all(members, limit=limit, restart=members[0] if rounds in restarts else None)
        rounds += 1
        assert rounds <= 4 * records + 10, "no progress"

    for table in members:
        assert table.batches.state.positions == table.ends


@hypothesis_settings(max_examples=100, deadline=None)
@given(
    times=st.dictionaries(st.sampled_from("abcd"), split_times, min_size=1),
    drift=st.integers(1, 3000),
    limit=st.integers(4, 40),
)
def test_a_batch_is_limited_by_the_read_limit_and_not_by_the_drift(
    times: dict[str, list[int | None]], drift: int, limit: int
) -> None:
    """In each batch a split that its group does not hold takes its share: an eighth of a fair one at the least."""
    world = World(times)
    batches = planner_of(world, settings(drift_ms=drift))
    batches.limit_to({split_id: len(records) for split_id, records in times.items()})
    share = max(1, limit // len(times) // 8)
    positions = dict.fromkeys(times, 0)
    while isinstance(effect := plan(batches, world, limit=limit, run_ends=True), BatchPlanned):
        free = [split for split in effect.state.splits if not split.paused]
        left = {i: len(records) - positions[i] for i, records in times.items()}
        positions = effect.state.positions

        assert not any(left.values()) or any(
            split.end - split.start >= min(share, left[split.split_id]) > 0 for split in free
        )
    assert positions == {split_id: len(records) for split_id, records in times.items()}


def test_tables_advance_together_by_the_read_limit() -> None:
    """Two tables alike, however small the drift: neither is held by what the other has long read."""
    members = []
    for begin in (0, 500):
        world = World({"t": every(1000, 2000, begin=begin)})
        members.append(
            Table(world, planner_of(world, settings(drift_ms=1, shares_group=True)), {"t": 2000})
        )
        members[-1].batches.limit_to({"t": 2000})
    gaps: list[int] = []
    while step_all(members, limit=100):
        first, second = (table.batches.state.watermark_ms or 0 for table in members)
        gaps.append(abs(first - second))

    assert [table.batches.state.positions["t"] for table in members] == [2000, 2000]
    assert len(gaps) <= 2000 // 100 + 5
    # until the first has reached its end; the first round only finds out what there is
    assert max(gaps[1:-2]) <= 1


def test_a_cut_that_is_near_the_limit_is_told_to_the_group_as_it_is() -> None:
    """The next record may be below the limit as well: others must not count from there; the simulation found it."""
    split = SplitState(split_id="a", owner="t", start=4, end=4, watermark_ms=100)
    plan = SplitPlan(split=split, cap=10, waiting=True, known={}, reach_ms=5000)
    batch = BatchPlan(plans={"a": plan}, run_ends=False)
    batch.hold(105, 80, "ahead")

    assert batch.ranges_to_peek() == {}
    assert batch.reached_ms() == 100
