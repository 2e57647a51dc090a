"""The two executors give one watermark: Spark's batches, started anew before each of them, and the local runtime.

Drawn are disorder, records without an event time, bad records, positions without a record, splits that stay silent,
read limits and the ranges of tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.connector.contract import Accept, SplitMetadataClient, SplitSource
from penstock.connector.event_time.reports import EventTimes, RangeReporter
from penstock.connector.options.watermark import WatermarkSettings
from penstock.connector.scan import Scan
from penstock.connector.source.reader.source_operator import SourceOperator
from penstock.connector.source.state import DiscoveredSplit, SourceState, decode_state, encode_state
from penstock.connector.spark.source import planning as executor_module
from penstock.connector.spark.source.offsets import TaskPartition, plan_partitions
from penstock.connector.spark.source.planning import PlanningExecutor
from tests.connector.source.planned_source import Listing, pushed
from tests.connector.spark.source.test_planning import SCAN, Source

IDLE_MS = 1000

GAP, BAD, TIMELESS = "gap", "bad", "no event time"
Record = int | str
"""The event time of a record (ms), or what it is: a position without one, one that is left out, one without a time."""


@dataclass
class Log(Listing):
    """A listing whose records are known; peeks step back over what has no event time, but not for long."""

    records: Mapping[str, Sequence[Record]] = None  # type: ignore[assignment]
    steps: int = 2

    def peek(
        self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
    ) -> Mapping[str, pa.RecordBatch]:
        """Give the last record of each range that is a good one and accepted."""
        found = {}
        for split_id, (start, end) in ranges.items():
            rows = [r for r in self.records[split_id][start:end] if r not in {GAP, BAD}]
            for record in rows[: -1 - (self.steps if accept else 1) : -1]:
                row = _rows([record])
                if accept is None or split_id in accept({split_id: row}):
                    found[split_id] = row
                    break
        return found


def _rows(records: Sequence[Record]) -> pa.RecordBatch:
    times = [None if record == TIMELESS else record * 1000 for record in records]  # type: ignore[operator]
    return pa.record_batch({"ts": pa.array(times, pa.timestamp("us"))})


@dataclass
class Clock:
    """The clock of planning, which a test moves."""

    now_ms: int = 50_000

    def monotonic_ns(self) -> int:
        """Give a time for durations."""
        return self.now_ms * 1_000_000

    time_ns = monotonic_ns


@dataclass
class Batches:
    """A query whose driver is another process before each batch; what is left of it is its checkpoint."""

    log: Log
    folder: str
    limit: int | None
    tasks: int
    idle_timeout_ms: int | None
    state: SourceState = SourceState()  # noqa: RUF009  a frozen value

    def executor(self) -> PlanningExecutor:
        """Start a process."""
        scan = Scan(
            table=SCAN.table,
            columns=SCAN.columns,
            rowtime=SCAN.rowtime,
            time_zone="UTC",
            project=".",
            event_times=self.folder,
        )
        watermark = WatermarkSettings(idle_timeout_ms=self.idle_timeout_ms, max_future_ms=None)
        source = Source(self.log, pushed, watermark=watermark)
        return PlanningExecutor(scan, cast("SplitSource", source))

    def read_all(self) -> None:
        """Plan and run batches, each twice as after a crash, until there is none."""
        while (planned := self.executor().plan(self.state, self.limit)) is not None:
            text = json.dumps(encode_state(planned))
            again = decode_state(json.loads(text))
            for _ in range(2):
                # what ran before the crash was one task of it, perhaps all
                self._run(again, self.executor())
            assert json.dumps(encode_state(again)) == text
            self.state = again

    def _run(self, state: SourceState, executor: PlanningExecutor) -> None:
        planner = cast("SplitMetadataClient", self.log)
        report_folder = executor.report_folder(state)
        for task in plan_partitions(
            state, planner, tasks=self.tasks, tracks_event_time=True, reports=report_folder
        ):
            self._read(task)

    def _read(self, task: TaskPartition) -> None:
        reporter = RangeReporter(task.reports, task.splits, dict(task.known_ms))
        for split in task.splits:
            for _, time_ms in delivered(self.log, split.split_id, split.start, split.stop or 0):
                before_ms = task.watermarks.before_ms if task.watermarks else 0
                late = time_ms is not None and time_ms <= before_ms
                counted = int(late and split.split_id in task.counts_late)
                reporter.take(split.split_id, EventTimes(highest_ms=time_ms, late=counted))
            reporter.finish({split.split_id})


def delivered(log: Log, split_id: str, start: int, stop: int) -> Iterator[tuple[int, int | None]]:
    """Give position and event time of each row of a range."""
    for position in range(start, stop):
        record = log.records[split_id][position]
        if record not in {GAP, BAD}:
            yield position, record if isinstance(record, int) else None


def local_watermark(log: Log, idle_timeout_ms: int | None, clock: Clock) -> int | None:
    """Give the watermark of the local runtime, which sees every row."""
    operator = SourceOperator(idle_timeout_ms=idle_timeout_ms)
    operator.add_splits(log.records, clock.now_ms - IDLE_MS)
    for split_id, records in log.records.items():
        for _, time_ms in delivered(log, split_id, 0, len(records)):
            operator.emit(split_id, time_ms, clock.now_ms)
    operator.probe_idleness(clock.now_ms + 1)
    return operator.watermark_ms


RECORDS = st.lists(st.integers(0, 100) | st.sampled_from([GAP, BAD, TIMELESS]), max_size=8)


@pytest.mark.slow
@settings(deadline=None)  # the first call loads DuckDB
@given(
    st.dictionaries(st.sampled_from(["t-0", "t-1", "t-2"]), RECORDS, min_size=1),
    st.none() | st.integers(1, 5),
    st.integers(1, 4),
    st.none() | st.just(IDLE_MS),
)
def test_the_watermark_is_the_largest_event_time_read_in_both_executors(
    records: dict[str, list[Record]], limit: int | None, tasks: int, idle_timeout_ms: int | None
) -> None:
    """Restarted before every batch, and each batch run twice: the same, also where nothing new comes."""
    # positions without a record end silence at planning, which does not know what they hold
    assume(not idle_timeout_ms or all(not of or {*of} - {GAP, BAD} for of in records.values()))
    clock = Clock()
    log = Log(dict.fromkeys(records, 0), records=dict.fromkeys(records, ()))
    with TemporaryDirectory() as folder, mock.patch.object(executor_module, "time", clock):
        query = Batches(log, folder, limit, tasks, idle_timeout_ms)
        query.read_all()  # nothing is there yet: all splits are silent from now on
        clock.now_ms += IDLE_MS
        log.records = records
        log.ends = {split_id: len(of_split) for split_id, of_split in records.items()}
        query.read_all()
        silent = clock.now_ms
        clock.now_ms += 1
        query.read_all()
        clock.now_ms = silent

    highest = [
        [ms for _, ms in delivered(log, i, 0, len(of)) if ms is not None]
        for i, of in records.items()
    ]
    if idle_timeout_ms is None and all(highest):
        assert query.state.watermark_ms == min(map(max, highest))
    assert query.state.watermark_ms == local_watermark(log, idle_timeout_ms, clock)


def test_a_batch_that_is_replayed_has_the_watermark_that_was_logged(tmp_path: Path) -> None:
    """What its tasks reported before the crash counts for the batch after it."""
    log = Log({"t-0": 0}, records={"t-0": [60_000, 1000]}, ends={"t-0": 2})
    query = Batches(log, str(tmp_path), None, 1, None)
    first = query.executor().plan(query.state, None)
    assert first is not None
    query._run(first, query.executor())
    replayed = query.executor()
    query._run(first, replayed)
    second = replayed.plan(first, None)

    assert (first.watermark_ms, first.watermark_before_ms) == (1000, None)
    assert second is not None
    assert (second.watermark_ms, second.watermark_before_ms) == (60_000, 1000)
    assert [(split.start, split.end) for split in second.splits] == [(2, 2)]
    assert query.executor().plan(second, None) is None


def test_late_rows_of_a_partition_that_is_found_later_are_counted(tmp_path: Path) -> None:
    """Once each, by partition, in the offset: restarts and a batch that runs twice change nothing."""
    log = Log({"t-0": 0}, records={"t-0": [60_000]}, ends={"t-0": 1})
    query = Batches(log, str(tmp_path), 3, 1, None)
    query.read_all()
    log.starts["t-1"] = 0
    log.records = {"t-0": [60_000], "t-1": [10_000, 60_000, 60_001, TIMELESS, 5_000, 90_000]}
    log.ends = {"t-0": 1, "t-1": 6}
    query.read_all()
    (first, later) = query.state.splits
    log.records = {"t-0": [60_000, 99_000], "t-1": [*log.records["t-1"], 7_000]}
    log.ends = {"t-0": 2, "t-1": 7}
    query.read_all()

    assert first.found is None
    assert later.found == DiscoveredSplit(
        at_ms=later.found.at_ms if later.found else 0, until=6, late=3
    )
    # what comes afterwards is late for its own reasons
    assert query.state.splits[1].found == later.found
    assert query.state.watermark_ms == 90_000


def test_a_partition_that_is_found_later_holds_the_watermark(tmp_path: Path) -> None:
    """Its rows are not late because those of the others, read before, are further on than was logged."""
    log = Log({"t-0": 0}, records={"t-0": [80_000, 20_000]}, ends={"t-0": 2})
    query = Batches(log, str(tmp_path), None, 1, None)
    planned = query.executor().plan(query.state, None)
    assert planned is not None
    query._run(planned, query.executor())
    log.starts["t-1"] = 0
    log.records = {**log.records, "t-1": [30_000, 50_000]}
    log.ends = {"t-0": 2, "t-1": 2}
    second = query.executor().plan(planned, None)

    assert second is not None
    assert planned.watermark_ms == second.watermark_before_ms == 20_000
    assert second.watermark_ms == 50_000
    assert [split.watermark_ms for split in second.splits] == [80_000, 50_000]


def test_an_empty_partition_that_is_found_later_stops_the_watermark(tmp_path: Path) -> None:
    """As in Flink: it may have rows of any time, until it is idle."""
    log = Log({"t-0": 0}, records={"t-0": [80_000, 20_000]}, ends={"t-0": 2})
    query = Batches(log, str(tmp_path), None, 1, None)
    first = query.executor().plan(query.state, None)
    assert first is not None
    query._run(first, query.executor())
    log.starts["t-1"] = 0
    log.records = {**log.records, "t-1": []}
    second = query.executor().plan(first, None)

    assert second is not None
    assert (second.watermark_ms, second.splits[1].found) == (20_000, None)
