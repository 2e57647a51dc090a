"""The planning executor: coordinator, batch planner and split planner together, without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest

from penstock.catalog.errors import BrokerUnavailableError, ConfigError, StateMismatchError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import PhysicalColumn, Schema, Table
from penstock.catalog.model.types import TimestampType
from penstock.connector.contract import Accept, ReadRequest, SplitMetadataClient, SplitSource
from penstock.connector.expression import FieldValue
from penstock.connector.options.watermark import OnFuture, WatermarkSettings
from penstock.connector.scan import (
    Delayed,
    DelayedValue,
    GroupMember,
    Rowtime,
    Scan,
    read_scan,
    write_scan,
)
from penstock.connector.source.alignment import Alignment
from penstock.connector.source.coordinator.discovery import DiscoveringEnumerator
from penstock.connector.source.enumerator import MakeEnumerator, SplitEnumerator
from penstock.connector.source.microbatch.events import AlignmentGroupFetched
from penstock.connector.source.state import (
    MAX_WATERMARK_MS,
    SourceState,
    SplitState,
    decode_state,
    encode_state,
)
from penstock.connector.spark.source import planning
from penstock.connector.spark.source.planning import AlignmentExchange, PlanningExecutor
from penstock.connector.spark.storage_access import store_of
from penstock.connector.storage import StorageAccess
from tests.connector.source.planned_source import Listing, pulled, pushed

if TYPE_CHECKING:
    from tests.s3_server import S3Server

TABLE = Table(
    identifier=Identifier(catalog="c", database="d", name="t"),
    schema=Schema(columns=(PhysicalColumn(name="ts", type=TimestampType(precision=3)),)),
    options=(("connector", "kafka"),),
)
ROWTIME = Rowtime(column="ts", inputs=("ts",), expression="ts", instant=False)
SCAN = Scan(table=TABLE, columns=("ts",), rowtime=ROWTIME, time_zone="UTC", project=".")


@dataclass
class Source:
    """A SplitSource over a listing; one record a second in each split."""

    planner: Listing
    make: Callable[[Listing], MakeEnumerator]
    bounded: bool = False
    tolerates_loss: bool = False
    skips_bad_records: bool = False
    watermark: WatermarkSettings = field(default_factory=WatermarkSettings)
    enumerator_type: type[SplitEnumerator] = DiscoveringEnumerator

    def open_planner(self, _peeked: ReadRequest) -> SplitMetadataClient:
        """Give the listing."""
        return self.planner

    def enumerator(self, _planner: SplitMetadataClient) -> MakeEnumerator:
        """Make the kind of enumerator that was asked for."""
        return self.make(self.planner)


def executor(
    planner: Listing, make: Callable[[Listing], MakeEnumerator] = pushed, **more: object
) -> PlanningExecutor:
    """Make an executor."""
    scan = cast("Scan", more.pop("scan", SCAN))
    source = replace(Source(planner, make), **more)  # type: ignore[arg-type]
    return PlanningExecutor(scan, cast("SplitSource", source))


def batches(
    made: PlanningExecutor, after: SourceState | None = None, limit: int | None = None
) -> Iterator[SourceState]:
    """Plan as Spark does, through the offsets' text, until there is no batch."""
    state = after or SourceState()
    while (planned := made.plan(decode_state(encode_state(state)), limit)) is not None:
        state = decode_state(json.loads(json.dumps(encode_state(planned))))
        assert state == planned
        yield state


def test_startup_positions_are_resolved_once_and_kept_by_the_first_offset() -> None:
    """latest-offset: what comes between two starts of the query is not lost."""
    planner = Listing({"t-0": 3, "t-1": 5}, ends={"t-0": 3, "t-1": 5})
    (first,) = batches(executor(planner))
    planner.starts = {"t-0": 99, "t-1": 99}
    planner.ends["t-1"] = 7
    (second,) = batches(executor(planner), first)

    assert first.positions == {"t-0": 3, "t-1": 5}
    assert [(s.start, s.end) for s in second.splits] == [(3, 3), (5, 7)]
    assert planner.resolved == [(("t-0", "t-1"), True)]


def test_a_partition_found_after_a_restart_starts_at_its_first_record() -> None:
    """The startup mode is for the first listing only (FLINK-32019), and the offset knows which splits there were."""
    planner = Listing({"t-0": 3}, ends={"t-0": 3})
    (first,) = batches(executor(planner))
    planner.starts["t-1"] = planner.ends["t-1"] = 8
    (second,) = batches(executor(planner), first)

    assert [(s.split_id, s.start, s.end) for s in second.splits] == [("t-0", 3, 3), ("t-1", 0, 8)]


def test_a_topic_made_again_fails_the_query_after_a_restart() -> None:
    """Topic ids are part of the coordinator's state in the offset."""
    planner = Listing({"t-0": 0}, ends={"t-0": 3})
    (first,) = batches(executor(planner))
    planner.topic_id = "id-2"

    with pytest.raises(KeyError, match="id-2"):
        executor(planner).plan(first, None)


def test_a_batch_of_an_earlier_process_is_not_read_from_a_topic_made_again() -> None:
    """It was planned, and not committed: Spark runs it again before it plans another one."""
    planner = Listing({"t-0": 0}, ends={"t-0": 3})
    made = executor(planner)
    (first,) = batches(made)
    listings = planner.listings
    made.check_planned(first)
    assert planner.listings == listings

    executor(planner).check_planned(first)
    planner.topic_id = "id-2"
    with pytest.raises(KeyError, match="id-2"):
        executor(planner).check_planned(first)


def test_a_log_that_ends_earlier_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that has just been elected may not know for a moment what is replicated."""
    monkeypatch.setattr(planning, "SHORTER_LOG_PAUSE_S", 0.0)
    planner = Listing({"t-0": 0}, ends={"t-0": 3})
    (first,) = batches(executor(planner))
    planner.ends["t-0"] = 2
    planner.later_ends = [{"t-0": 2}, {"t-0": 2}, {"t-0": 3}]

    assert executor(planner).plan(first, None) is None
    assert planner.looks == 3


@pytest.mark.parametrize("tolerates_loss", [False, True])
def test_a_log_that_stays_shorter_is_a_loss(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tolerates_loss: bool
) -> None:
    """The records that come where others were read would be passed over."""
    monkeypatch.setattr(planning, "SHORTER_LOG_S", 0.0)
    planner = Listing({"t-0": 0}, ends={"t-0": 3})
    (first,) = batches(executor(planner))
    planner.ends["t-0"] = 2
    again = executor(planner, tolerates_loss=tolerates_loss)
    if not tolerates_loss:
        with pytest.raises(LookupError, match="end=2"):
            again.plan(first, None)
        return
    back = again.plan(first, None)

    assert back is not None
    assert back.positions == {"t-0": 2}
    assert "the log ends at 2, and was read to 3" in caplog.text


def test_a_bounded_scan_ends_once_with_the_maximum() -> None:
    """And not before its last split was signalled; a restart afterwards has nothing to do."""
    planner = Listing({"t-0": 0, "t-1": 4}, stops={"t-0": 3, "t-1": 4})
    made = lambda: executor(planner, lambda p: pushed(p, bounded=True), bounded=True)  # noqa: E731
    states = list(batches(made(), limit=2))

    assert [state.watermark_ms for state in states] == [1000, MAX_WATERMARK_MS]
    assert list(batches(made(), states[-1])) == []


def test_a_table_without_partitions_ends() -> None:
    """A bounded scan of nothing closes its windows."""
    planner = Listing({})
    (state,) = batches(executor(planner, lambda p: pushed(p, bounded=True), bounded=True))

    assert state.watermark_ms == MAX_WATERMARK_MS


def test_a_table_that_becomes_bounded_ends_and_one_that_no_longer_is_goes_on() -> None:
    """The same checkpoint, with and without scan.bounded.mode, of a query that follows no watermark."""
    planner = Listing({"t-0": 0}, ends={"t-0": 3}, stops={"t-0": 5})
    scan = replace(SCAN, rowtime=None)
    (endless,) = batches(executor(planner, scan=scan))
    planner.ends["t-0"] = 9
    bounded = executor(planner, lambda p: pushed(p, bounded=True), bounded=True, scan=scan)
    (ended,) = batches(bounded, endless)
    (on,) = batches(executor(planner, scan=scan), ended)

    assert (ended.splits[0].end, ended.splits[0].stop) == (5, 5)
    assert (on.splits[0].start, on.splits[0].end, on.splits[0].stop) == (5, 9, None)


@pytest.mark.parametrize("pulls", [False, True])
def test_a_table_that_was_read_to_its_end_does_not_go_on_with_closed_windows(
    *, pulls: bool
) -> None:
    """Its watermark is the maximum, which never goes back: every further row would be late."""
    planner = Listing({"t-0": 0}, ends={"t-0": 5}, stops={"t-0": 5})
    ends, goes_on = (
        (pulled, lambda p: pulled(p, interval_ms=1000))
        if pulls
        else (lambda p: pushed(p, bounded=True), pushed)
    )
    (ended,) = batches(executor(planner, ends, bounded=True))
    assert ended.watermark_ms == MAX_WATERMARK_MS
    on = executor(planner, goes_on)

    for _ in range(2):
        with pytest.raises(StateMismatchError, match=r"has read c\.d\.t to its end"):
            on.plan(decode_state(encode_state(ended)), None)
    assert on.plan(SourceState(), None) is not None


def test_files_are_pulled_as_batches_need_them_and_leave_the_offset() -> None:
    """A folder: splits are asked for up to the read limit, each read once, finished ones dropped."""
    planner = Listing({f"f{i}": 0 for i in range(6)}, stops={f"f{i}": 4 for i in range(6)})
    states = list(batches(executor(planner, pulled, bounded=True), limit=6))
    read = [
        (s.split_id, s.start, s.end) for state in states for s in state.splits if s.end > s.start
    ]

    assert max(len(state.splits) for state in states) <= 3
    assert sorted(pos for i, a, b in read for pos in [(i, at) for at in range(a, b)]) == [
        (f"f{i}", at) for i in range(6) for at in range(4)
    ]
    assert states[-1].watermark_ms == MAX_WATERMARK_MS


def test_a_folder_goes_on_from_the_offset_alone() -> None:
    """Files seen are not read again; those that nobody had yet come out of the coordinator's state."""
    planner = Listing({f"f{i}": 0 for i in range(4)}, stops={f"f{i}": 4 for i in range(4)})
    states = [next(batches(executor(planner, pulled, bounded=True), limit=4))]
    while (planned := executor(planner, pulled, bounded=True).plan(states[-1], 4)) is not None:
        states.append(decode_state(encode_state(planned)))
    read = sorted(s.split_id for state in states for s in state.splits if s.end > s.start)

    assert read == ["f0", "f1", "f2", "f3"]
    assert planner.listings == 1


def test_a_broker_that_does_not_answer_leaves_planning_as_it_was() -> None:
    """The call that failed is made again with the next attempt."""
    planner = Listing({"t-0": 0}, ends={"t-0": 2}, failures=[BrokerUnavailableError("away")] * 2)
    made = executor(planner)
    for _ in range(2):
        with pytest.raises(BrokerUnavailableError):
            made.plan(SourceState(), None)
    planned = made.plan(SourceState(), None)

    assert planned is not None
    assert planned.positions == {"t-0": 2}
    assert planner.listings == 3


def test_a_replayed_offset_plans_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an offset says does not depend on the process that planned it, only on its clock."""
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000)
    planner = Listing({"t-0": 0, "t-1": 0}, ends={"t-0": 9, "t-1": 9})
    (first,) = batches(executor(planner))
    (again,) = batches(executor(planner))

    assert json.dumps(encode_state(first)) == json.dumps(encode_state(again))


def test_available_now_reads_what_is_there_and_no_more() -> None:
    """Ends are fixed once, before planning."""
    planner = Listing({"t-0": 0}, ends={"t-0": 3})
    made = executor(planner)
    made.freeze_ends()
    planner.ends["t-0"] = 50

    assert [state.positions for state in batches(made)] == [{"t-0": 3}]


@pytest.mark.parametrize("of_clock", [False, True])
def test_tasks_report_no_event_times_of_the_clock(tmp_path: Path, *, of_clock: bool) -> None:
    """An executor's clock that is ahead would make later rows late: planning's own says what the watermark is."""
    rowtime = replace(ROWTIME, of_clock=of_clock)
    write_scan(
        replace(SCAN, rowtime=rowtime, event_times=str(tmp_path / "e")), tmp_path / "scan.json"
    )
    made = executor(Listing({"t-0": 0}, ends={"t-0": 3}), scan=read_scan(tmp_path / "scan.json"))
    (planned,) = batches(made)

    assert (made.report_folder(planned) is None) == of_clock


def test_event_times_are_in_a_store_by_the_keys_that_the_scan_has(
    tmp_path: Path, s3: S3Server
) -> None:
    """The scan comes from a file, which nobody else may read; nothing stands in the environment."""
    location, file = "s3a://penstock/job/event-times/0", tmp_path / "scan.json"
    store = store_of(location, s3.settings)
    assert store is not None
    scan = replace(SCAN, event_times=location, access=StorageAccess(stores=(store,)))
    write_scan(scan, file)
    made = executor(Listing({"t-0": 0}, ends={"t-0": 3}), scan=read_scan(file))
    (planned,) = batches(made)

    assert made.report_folder(planned) is not None
    assert s3.keys() == ["job/event-times/0/_driver"]
    assert file.stat().st_mode & 0o077 == 0
    assert s3.secret_key not in repr(scan)


@pytest.mark.parametrize(
    "delayed",
    [
        None,
        Delayed(column="ts", delay_us=5, unit_us=1000),
        DelayedValue(
            time=FieldValue(path=("bid", "ts"), type=TimestampType(precision=3)), delay_us=5
        ),
    ],
)
def test_tasks_find_the_rowtime_as_the_driver_does(
    tmp_path: Path, delayed: Delayed | DelayedValue | None
) -> None:
    """The file of a scan keeps how it is had without a query."""
    scan = replace(SCAN, rowtime=replace(ROWTIME, delayed=delayed))
    write_scan(scan, tmp_path / "scan.json")

    assert read_scan(tmp_path / "scan.json") == scan


def member(folder: Path, name: str, other: str, planner: Listing) -> PlanningExecutor:
    """Make the executor of one of two tables of a group."""
    report_folder = GroupMember(directory=str(folder / "b"), name=name, others=((other, other),))
    write_scan(replace(SCAN, member=report_folder), folder / f"{name}.json")
    alignment = Alignment(group="g", max_drift_ms=10_000, update_interval_ms=1000)
    made = executor(
        planner,
        scan=read_scan(folder / f"{name}.json"),
        watermark=WatermarkSettings(alignment=alignment),
    )
    made.freeze_ends()
    return made


def plan_patiently(made: PlanningExecutor, after: SourceState, limit: int) -> SourceState | None:
    """Plan, again while the broker is away."""
    while True:
        try:
            return made.plan(after, limit)
        except BrokerUnavailableError:
            continue


@pytest.mark.parametrize("failing", [set(), set(range(2, 40, 3))], ids=["there", "often away"])
def test_two_tables_of_a_query_are_aligned_over_a_board(tmp_path: Path, failing: set[int]) -> None:
    """Asked one after the other, as Spark does: the one ahead waits, and both are read to their ends, once.

    Whatever moment of planning the broker is away at: no range is skipped, and rounds are not counted twice.
    """
    starts = (0, 3600)
    planners = [
        Listing({"t-0": start}, ends={"t-0": start + 200}, failing_peeks=set(failing))
        for start in starts
    ]
    tables = [
        member(tmp_path, "v_0", "v_1", planners[0]),
        member(tmp_path, "v_1", "v_0", planners[1]),
    ]
    states = [SourceState(), SourceState()]
    history: list[tuple[int, int]] = []
    while True:
        planned = [plan_patiently(made, states[i], 50) for i, made in enumerate(tables)]
        if planned == [None, None]:
            break
        for new, old in zip(planned, states, strict=True):
            assert new is None or not old.splits or new.splits[0].start == old.splits[0].end
        states = [new or old for new, old in zip(planned, states, strict=True)]
        slow, fast = (state.splits[0].end - starts[i] for i, state in enumerate(states))
        history.append((slow, fast))

    assert history[-1] == (200, 200)
    assert all(fast == 0 for slow, fast in history if slow < 200)


def test_a_split_that_is_behind_its_log_is_reported() -> None:
    """Deleted records: the split planner words the error."""
    planner = Listing({"t-0": 0}, ends={"t-0": 3})
    state = SourceState(splits=(SplitState(split_id="t-0", owner="t", start=0, end=-1),))
    made = executor(planner)
    (first,) = batches(made)
    behind = replace(first, splits=state.splits)

    with pytest.raises(LookupError, match="t-0"):
        made.plan(behind, None)


FAR_MS = 3_786_912_000_000  # 2090-01-01


@dataclass
class Ahead(Listing):
    """A listing in which the records at some positions are dated 2090."""

    far: frozenset[int] = frozenset()

    def peek(
        self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
    ) -> Mapping[str, pa.RecordBatch]:
        """Give the last record of each range that is accepted."""
        found = {}
        for split_id, (start, end) in ranges.items():
            for position in reversed(range(start, end)):
                at_ms = FAR_MS if position in self.far else position * 1000
                row = pa.record_batch({"ts": pa.array([at_ms * 1000], pa.timestamp("us"))})
                if accept is None or split_id in accept({split_id: row}):
                    found[split_id] = row
                    break
        return found


def test_a_record_of_the_future_does_not_move_the_watermark() -> None:
    """The one before it does; where there is none the split keeps what it had."""
    planner = Ahead({"t-0": 0}, ends={"t-0": 5}, far=frozenset({4, 5, 6}))
    made = executor(planner)
    (first,) = batches(made)
    planner.ends["t-0"] = 7
    (second,) = batches(made, first)
    planner.ends["t-0"] = 8
    (third,) = batches(made, second)

    assert [state.watermark_ms for state in (first, second, third)] == [3000, 3000, 7000]
    assert [state.positions["t-0"] for state in (first, second, third)] == [5, 7, 8]


def test_without_the_option_it_does() -> None:
    """Every row behind it is late then."""
    planner = Ahead({"t-0": 0}, ends={"t-0": 5}, far=frozenset({4}))
    (state,) = batches(executor(planner, watermark=WatermarkSettings(max_future_ms=None)))

    assert (state.watermark_ms, state.clock_ms) == (FAR_MS, None)


def test_an_aligned_split_is_not_held_for_a_record_of_the_future() -> None:
    """Its potential is that of the records that will be delivered."""
    planner = Ahead({"t-0": 0, "t-1": 0}, ends={"t-0": 5, "t-1": 5}, far=frozenset({4}))
    aligned = Alignment(group="g", max_drift_ms=1, update_interval_ms=1000)
    (state,) = batches(executor(planner, watermark=WatermarkSettings(alignment=aligned)))

    assert [split.paused for split in state.splits] == [None, None]
    assert state.limit_ms == 3001


def test_the_clock_of_the_offsets_goes_back_by_no_small_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not while the query runs, nor after a restart; by itself it is no reason for a batch."""
    planner = Listing({"t-0": 0}, ends={"t-0": 1})
    clocks = []
    state = SourceState()
    made = executor(planner)
    for seconds, restarted in ((50, False), (40, False), (45, True), (60, True)):
        monkeypatch.setattr(time, "time_ns", lambda seconds=seconds: seconds * 1_000_000_000)
        made = executor(planner) if restarted else made
        (state,) = batches(made, state)
        clocks.append(state.clock_ms)
        planner.ends["t-0"] += 1
    planner.ends["t-0"] -= 1
    monkeypatch.setattr(time, "time_ns", lambda: 70 * 1_000_000_000)

    assert clocks == [50_000, 50_000, 50_000, 60_000]
    assert list(batches(made, state)) == []


def test_a_wrong_reading_of_the_clock_does_not_open_the_guard_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A record of 2090 is of the future again with the next batch, also for a query that starts from such an offset."""
    far_ns = (FAR_MS + 1000) * 1_000_000
    planner = Ahead({"t-0": 0}, ends={"t-0": 1}, far=frozenset({1, 2, 3}))
    made = executor(planner)
    (state,) = batches(made)
    first_ms = state.clock_ms
    planner.ends["t-0"] = 2
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time_ns", lambda: far_ns)
        (state,) = batches(made, state)
    planner.ends["t-0"] = 3
    old = replace(state, clock_ms=FAR_MS + 1000)
    (again,) = batches(executor(planner), old)

    assert state.watermark_ms == again.watermark_ms == 0
    for clock_ms in (state.clock_ms, again.clock_ms):
        assert first_ms is not None
        assert clock_ms is not None
        assert clock_ms - first_ms < 60_000


def test_a_scan_without_rowtime_has_no_clock_in_its_offsets() -> None:
    """Nothing is told by it."""
    planner = Listing({"t-0": 0}, ends={"t-0": 1})
    (state,) = batches(executor(planner, scan=replace(SCAN, rowtime=None)))

    assert state.clock_ms is None


def test_a_wrong_place_for_dead_letters_fails_before_anything_is_read() -> None:
    """Not years later with the first such record."""
    settings = WatermarkSettings(on_future=OnFuture.DEAD_LETTER, dead_letter_path="nope://a/b")

    with pytest.raises(ConfigError, match=r"scan\.dead-letter\.path"):
        executor(Listing({}), watermark=settings)


# --- the board: what tables of one group, planned in different processes, know of each other ---


NAMES = {"v_0": "orders", "v_1": "payments", "v_2": "refunds"}


def board(directory: Path, name: str) -> AlignmentExchange:
    """Make the board as one of three members sees it."""
    others = tuple((other, table) for other, table in NAMES.items() if other != name)
    return AlignmentExchange(
        GroupMember(directory=str(directory / "board"), name=name, others=others)
    )


def test_a_table_that_has_published_nothing_is_named(tmp_path: Path) -> None:
    """By its table, as a person has to understand why the others wait."""
    orders, payments = board(tmp_path, "v_0"), board(tmp_path, "v_1")

    assert orders.look(0) == AlignmentGroupFetched(lowest_ms=None, silent=("payments", "refunds"))
    payments.publish(0, 5, 8)
    assert orders.look(0) == AlignmentGroupFetched(lowest_ms=5, silent=("refunds",))


def test_the_lowest_of_the_others_counts(tmp_path: Path) -> None:
    """The own potential is not among them, and one that holds nobody does not count."""
    members = {name: board(tmp_path, name) for name in NAMES}
    members["v_0"].publish(0, 1, 1)
    members["v_1"].publish(0, None, None)
    members["v_2"].publish(0, 300, 300)
    members["v_2"].publish(0, 700, 700)

    assert members["v_0"].look(0) == AlignmentGroupFetched(lowest_ms=700)
    assert members["v_2"].look(0) == AlignmentGroupFetched(lowest_ms=1)


def test_a_table_that_had_its_turn_counts_with_what_it_decided(tmp_path: Path) -> None:
    """One that is asked later in the round counts with how far it could get."""
    orders, payments = board(tmp_path, "v_0"), board(tmp_path, "v_1")
    board(tmp_path, "v_2").publish(9, None, None)
    payments.publish(3, 100, 250)

    assert orders.look(3) == AlignmentGroupFetched(lowest_ms=100)
    assert orders.look(4) == AlignmentGroupFetched(lowest_ms=250)


def test_a_board_is_read_by_its_owner_only(tmp_path: Path) -> None:
    """It lies below the session's private directory, and is made where it is missing."""
    board(tmp_path, "v_0").publish(0, 1, 1)

    assert (tmp_path / "board").stat().st_mode & 0o077 == 0
    assert [path.name for path in (tmp_path / "board").iterdir()] == ["v_0.json"]
