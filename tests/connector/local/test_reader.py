"""A reader's thread, without the thread: what it does with time, rows and events."""

from __future__ import annotations

import threading
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.connector.local.job_master import GroupWatermarks
from penstock.connector.local.messages import (
    MasterMessage,
    ReaderCheckpoint,
    SnapshotTaken,
    TakeSnapshot,
)
from penstock.connector.local.reader import Emission, LocalReader, Output, ReaderContext
from penstock.connector.source.coordinator.events import (
    AddSplits,
    NoMoreSplits,
    ReportedWatermark,
    SplitRequested,
    WatermarkAlignment,
)
from penstock.connector.source.reader.reader import SourceReader
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split
from penstock.connector.source.state import MAX_WATERMARK_MS
from tests.connector.local.scripted import ROWTIME, ScriptedReader, World

TIMEOUT_MS = 1000


class Bench:
    """A reader on the test's own thread, with a clock that the test moves, and what came out of it."""

    def __init__(self, restored: ReaderCheckpoint | None = None) -> None:
        self.at_ms = 0
        self.posted: list[MasterMessage] = []
        self.output: Output = Output(capacity=100)
        context = ReaderContext(
            open_reader=lambda: SourceReader(
                lambda: ScriptedReader(World({"a": [], "b": [], "c": []}))
            ),
            output=self.output,
            post=self.posted.append,
            clock=self,
            rowtime=ROWTIME,
            time_zone="UTC",
            idle_timeout_ms=TIMEOUT_MS,
            report_interval_ms=100,
        )
        self._context = context
        self.reader = LocalReader(0, context, restored or ReaderCheckpoint())
        self.reader._reader.start()

    def now_ms(self) -> int:
        return self.at_ms

    def write_into(self, output: Output) -> None:
        """Take another output from now on."""
        self.reader._context = replace(self._context, output=output)

    def emit(self, **watermarks_ms: int) -> None:
        """Have a fetch of one record a split."""
        batches = tuple(
            (split_id, pa.record_batch({"ts": [at_ms]}))
            for split_id, at_ms in watermarks_ms.items()
        )
        self.reader._emit(RecordsWithSplitIds(batches=batches))

    def pass_time(self, at_ms: int) -> None:
        """Let time pass, and the reader notice."""
        self.at_ms = at_ms
        self.reader._on_time()

    @property
    def idle(self) -> set[str]:
        return {split.split_id for split in self.reader.status.splits if split.idle}


class SlowConsumer(Output):
    """An output without room, whose consumer takes ten seconds for each batch."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench = bench

    @property
    def has_room(self) -> bool:
        return False

    def put(self, emission: Emission) -> bool:
        self._bench.at_ms += 10 * TIMEOUT_MS
        return True


@pytest.fixture
def bench():
    """A reader with the splits a and b."""
    made = Bench()
    made.reader._on(AddSplits(splits=(Split(split_id="a", start=0), Split(split_id="b", start=0))))
    yield made
    made.reader._reader.close()


def test_a_slow_consumer_makes_no_split_idle(bench: Bench) -> None:
    """FLINK-40234: the time that batches wait to be taken is not silence of their splits."""
    bench.write_into(SlowConsumer(bench))
    bench.emit(a=1, b=2)
    bench.pass_time(bench.at_ms)
    assert bench.idle == set()
    bench.pass_time(bench.at_ms + TIMEOUT_MS + 1)

    assert bench.idle == {"a", "b"}


def test_a_watermark_is_reported_when_it_changed(bench: Bench) -> None:
    """At the interval; an idle reader reports the maximum, and its old value when it is back."""
    bench.emit(a=5)
    bench.pass_time(100)
    bench.emit(b=7)
    bench.pass_time(150)
    bench.pass_time(200)
    bench.pass_time(300)
    bench.pass_time(100 + 2 * TIMEOUT_MS)
    bench.emit(a=5)
    bench.pass_time(300 + 2 * TIMEOUT_MS)
    reported = [m.watermark_ms for m in bench.posted if isinstance(m, ReportedWatermark)]

    assert reported == [5, MAX_WATERMARK_MS, 5]


def test_a_split_above_the_limit_is_held_and_the_status_says_at_what(bench: Bench) -> None:
    """Until the limit is raised."""
    bench.emit(a=50, b=7)
    bench.reader._on(WatermarkAlignment(limit_ms=20))
    bench.reader._publish()
    held = {split.split_id: split.held_at_ms for split in bench.reader.status.splits}
    bench.reader._on(WatermarkAlignment(limit_ms=50))
    bench.reader._publish()

    assert held == {"a": 20, "b": None}
    assert not any(split.held_at_ms for split in bench.reader.status.splits)


def test_a_reader_asks_for_a_split_once_until_one_comes(bench: Bench) -> None:
    """When its last one ends; not after no-more-splits."""
    requests = lambda: sum(isinstance(m, SplitRequested) for m in bench.posted)  # noqa: E731  read twice
    bench.reader._emit(RecordsWithSplitIds(finished=frozenset({"a"})))
    assert requests() == 0
    bench.reader._emit(RecordsWithSplitIds(finished=frozenset({"b"})))
    bench.reader._request_split()
    assert requests() == 1
    bench.reader._on(AddSplits(splits=(Split(split_id="c", start=0),)))
    bench.reader._on(NoMoreSplits())
    bench.reader._emit(RecordsWithSplitIds(finished=frozenset({"c"})))

    assert requests() == 1
    assert bench.reader.status.watermark_ms == MAX_WATERMARK_MS


def test_event_time_goes_into_a_checkpoint_and_comes_back() -> None:
    """Flink's starts over; here neither a split's watermark nor the reader's goes back."""
    before = Bench()
    splits = (Split(split_id="a", start=3), Split(split_id="b", start=0))
    before.reader._on(AddSplits(splits=splits))
    before.emit(a=50, b=7)
    before.reader._on(TakeSnapshot(checkpoint_id=1))
    before.reader._reader.close()
    taken = before.posted[-1]
    assert isinstance(taken, SnapshotTaken)
    after = Bench(taken.part)
    after.reader._on(AddSplits(splits=taken.part.splits))
    after.reader._reader.close()

    assert taken.part == ReaderCheckpoint(
        splits=splits, watermark_ms=7, split_watermarks_ms={"a": 50, "b": 7}
    )
    assert after.reader.status.watermark_ms == 7
    assert [split.watermark_ms for split in after.reader.status.splits] == [50, 7]


def test_records_of_the_future_are_left_out_and_counted(bench: Bench) -> None:
    """They do not move the watermark, and nothing fails for them; without a bound they are like any other."""
    bench.reader._context = replace(bench.reader._context, not_after_ms=lambda: 100)
    bench.emit(a=101, b=7)
    bench.emit(a=100)
    bench.reader._publish()
    bounded = {split.split_id: split.watermark_ms for split in bench.reader.status.splits}
    bench.reader._context = replace(bench.reader._context, not_after_ms=lambda: None)
    bench.emit(a=101)
    taken = [bench.output.take(0) for _ in range(3)]

    assert bounded == {"a": 100, "b": 7}
    assert bench.reader.status.skipped == 1
    assert [(e.split_id, e.batch["ts"][0].as_py()) for e in taken if e] == [
        ("b", 7),
        ("a", 100),
        ("a", 101),
    ]


# --- the bounded output and the board: backpressure, the end of waiting, who holds a group ---


WAIT_S = 10.0
ROWS = Emission(reader=0, split_id="a", batch=pa.record_batch({"n": [1]}), watermark_ms=None)


def test_a_full_output_holds_the_reader_until_rows_are_taken() -> None:
    """That is the backpressure."""
    output, passed = Output(capacity=1), threading.Event()
    output.put(ROWS)
    assert not output.has_room
    thread = threading.Thread(target=lambda: output.put(ROWS) and passed.set())
    thread.start()
    assert not passed.wait(0.05)
    output.take(WAIT_S)

    assert passed.wait(WAIT_S)
    thread.join()


def test_a_closed_output_lets_readers_go_and_keeps_what_it_has() -> None:
    """Nobody takes new rows, those that are there can still be had."""
    output, refused = Output(capacity=1), threading.Event()
    output.put(ROWS)
    thread = threading.Thread(target=lambda: output.put(ROWS) or refused.set())
    thread.start()
    output.close()

    assert refused.wait(WAIT_S)
    assert output.take(0) == ROWS
    assert output.take(WAIT_S) is None
    thread.join()


def test_the_slowest_source_of_a_group_counts() -> None:
    """Groups are apart; a source that never published, or left, holds nobody."""
    board = GroupWatermarks()
    board.publish("g", "a", 42)
    board.publish("g", "b", 44)
    board.publish("other", "c", 1)
    assert board.lowest_ms("g") == 42
    board.publish("g", "a", None)

    assert board.lowest_ms("g") == 44
    assert board.lowest_ms("nobody") is None
