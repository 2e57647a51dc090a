"""Records of the future: which rows they are, and what becomes of them in a task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from penstock.catalog.errors import BadRecordError, RecordFault
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import PhysicalColumn, Schema, Table
from penstock.catalog.model.types import BigIntType, TimestampType
from penstock.connector.bad_records.collector import BadRecordCollector
from penstock.connector.bad_records.files import DeadLetterDirectory
from penstock.connector.event_time.future_timestamps import (
    FutureTimestampFilter,
    filter_future_rows,
    filters_future_rows,
)
from penstock.connector.event_time.reports import EventTimesReader, RangeReporter
from penstock.connector.options.bad_records import BadRecordSettings
from penstock.connector.options.watermark import OnFuture, WatermarkSettings
from penstock.connector.scan import Delayed, Rowtime, Scan
from penstock.connector.source.records import RawRecord, RecordsWithSplitIds
from penstock.connector.source.split import Split
from penstock.connector.source.state import SourceState, SplitState

SPLIT = Split(split_id="t-0", start=0, stop=100)
QUERIED = Rowtime(
    column="ts", inputs=("ts",), expression='"ts" - to_microseconds(5000)', instant=False
)
PLAIN = Rowtime(
    column="ts",
    inputs=("ts",),
    expression=QUERIED.expression,
    instant=False,
    delayed=Delayed(column="ts", delay_us=5000),
)
TABLE = Table(
    identifier=Identifier(catalog="c", database="d", name="t"),
    schema=Schema(
        columns=(
            PhysicalColumn(name="id", type=BigIntType()),
            PhysicalColumn(name="ts", type=TimestampType(precision=3)),
        )
    ),
    options=(("connector", "kafka"),),
)
times = st.none() | st.integers(-20_000, 20_000)


def batch_of(times_us: Sequence[int | None]) -> pa.RecordBatch:
    """Rows with these times, numbered."""
    return pa.record_batch(
        {
            "id": pa.array(range(len(times_us)), pa.int64()),
            "ts": pa.array(times_us, pa.timestamp("us")),
        }
    )


class Origins:
    """Row i is record 10 + i."""

    def of(self, rows: Sequence[int]) -> Sequence[RawRecord]:
        """Make the records."""
        return [
            RawRecord(position=10 + r, key=None, value=b"%d" % r, where=f"offset {10 + r}")
            for r in rows
        ]


def fetch(times_ms: Sequence[int], *, finished: bool = True) -> RecordsWithSplitIds:
    """A fetch with one batch."""
    batch = batch_of([ms * 1000 for ms in times_ms])
    return RecordsWithSplitIds(
        batches=(("t-0", batch),),
        finished=frozenset({"t-0"} if finished else ()),
        origins={"t-0": Origins()},
    )


def guard(
    on_future: OnFuture,
    not_after_ms: int | None,
    *,
    bad: BadRecordCollector | None = None,
    columns: tuple[str, ...] = ("id",),
) -> FutureTimestampFilter:
    """The guard of a task that reads the split."""
    settings = WatermarkSettings(on_future=on_future, dead_letter_path="letters")
    scan = Scan(table=TABLE, columns=columns, rowtime=PLAIN, time_zone="UTC", project="/nowhere")
    return FutureTimestampFilter(scan, settings, not_after_ms, bad)


def collector(project: Path) -> BadRecordCollector:
    """What keeps the bad records of the task."""
    return BadRecordCollector(
        BadRecordSettings(),
        "c.d.t",
        [SPLIT],
        batch_positions=None,
        staging=None,
        batch_id=None,
        directory=DeadLetterDirectory("letters", project, "c.d.t", [SPLIT]),
    )


def ids(found: Sequence[tuple[str, pa.RecordBatch]]) -> list[int]:
    """The rows that are delivered."""
    return [number for _, batch in found for number in batch.column("id").to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("rowtime", [PLAIN, QUERIED], ids=["plain", "queried"])
@hypothesis_settings(deadline=None)  # the first example compiles the expression
@given(found=st.lists(times, max_size=12), bound_ms=st.integers(-25, 25))
def test_exactly_the_rows_above_the_bound_are_parted(
    rowtime: Rowtime, found: list[int | None], bound_ms: int
) -> None:
    """As row by row: the watermark in ms, rounded down, is above the bound; a row without one stays."""
    watermarks = [None if us is None else (us - 5000) // 1000 for us in found]
    outliers = {row: ms for row, ms in enumerate(watermarks) if ms is not None and ms > bound_ms}
    stays = [row for row in range(len(found)) if row not in outliers]
    sifted = filter_future_rows(rowtime, batch_of(found), "UTC", bound_ms)

    assert sifted.outliers == outliers
    assert sifted.batch.column("id").to_pylist() == stays
    assert sifted.watermark_ms == max(
        (ms for row in stays if (ms := watermarks[row]) is not None), default=None
    )


def test_without_a_bound_every_row_stays() -> None:
    """The highest watermark is told all the same."""
    batch = batch_of([5000, 4_000_000_000_000_000])
    sifted = filter_future_rows(PLAIN, batch, "UTC", None)

    assert sifted.batch is batch
    assert sifted.watermark_ms == 3_999_999_999_995


def test_fail_names_table_record_and_options() -> None:
    """The first such record; the message says what the bound is and the hint what can be done."""
    with pytest.raises(BadRecordError, match=r"table c\.d\.t, offset 11: ") as caught:
        guard(OnFuture.FAIL, 100).batches(fetch([50, 4_000_000, 60, 5_000_000]))

    assert caught.value.fault is RecordFault.FUTURE
    assert "the watermark of this record is 1970-01-01T01:06:39.995Z" in caught.value.message
    assert "records up to 1970-01-01T00:00:00.100Z are accepted" in caught.value.message
    assert "'scan.watermark.on-future' = 'skip'" in (caught.value.hint or "")
    assert "'scan.watermark.max-future'" in (caught.value.hint or "")


def test_a_rowtime_of_the_clock_is_no_matter_of_tasks(tmp_path: Path) -> None:
    """Their clock may be ahead, or a batch comes again days later: no row is of the future, and nothing is reported."""
    report_folder = EventTimesReader(str(tmp_path)).report_folder(
        SourceState(splits=(SplitState(split_id="t-0", owner="t", start=0, end=100),)),
        replayed=False,
    )
    reporter = RangeReporter(report_folder, [SPLIT], {})
    clock = Rowtime(column="ts", inputs=("id",), expression="now()", instant=True, of_clock=True)
    scan = Scan(table=TABLE, columns=("id",), rowtime=clock, time_zone="UTC", project="/nowhere")
    settings = WatermarkSettings(on_future=OnFuture.FAIL)
    made = FutureTimestampFilter(scan, settings, 1, reporter=reporter)
    delivered = made.batches(fetch([1, 2]))

    assert ids(delivered) == [0, 1]
    assert not list(tmp_path.glob("*/*"))


def test_skip_leaves_rows_out_and_counts_them() -> None:
    """A batch with nothing left is not delivered at all."""
    watch = guard(OnFuture.SKIP, 100)
    first = ids(watch.batches(fetch([50, 4_000_000, 60])))
    second = watch.batches(fetch([4_000_000]))

    assert (first, second) == ([0, 2], [])
    assert watch.left_out == 2


def test_dead_letters_are_kept_when_the_range_is_read(tmp_path: Path) -> None:
    """Beside being left out and counted."""
    with closing(collector(tmp_path)) as bad:
        watch = guard(OnFuture.DEAD_LETTER, 100, bad=bad)
        delivered = []
        for records in (fetch([4_000_000, 50], finished=False), fetch([60])):
            delivered += ids(watch.batches(records))
            bad.finish(records.finished)

    (path,) = (tmp_path / "letters" / "c.d.t").iterdir()
    assert (delivered, watch.left_out) == ([1, 0], 1)
    assert json.loads(path.read_text())["position"] == 10


def test_a_task_that_fails_keeps_no_dead_letters(tmp_path: Path) -> None:
    """It is tried again."""
    with closing(collector(tmp_path)) as bad:
        guard(OnFuture.DEAD_LETTER, 100, bad=bad).batches(fetch([4_000_000], finished=False))

    assert list((tmp_path / "letters" / "c.d.t").iterdir()) == []


def test_without_a_bound_nothing_is_looked_at() -> None:
    """The very batches pass, no column is read for it, and readers keep no raw records."""
    watch = guard(OnFuture.FAIL, None)
    records = fetch([4_000_000])

    assert watch.batches(records) is records.batches
    assert watch.columns(("id",)) == ("id",)
    assert not watch.needs_origins


@pytest.mark.parametrize(
    ("on_future", "needed"),
    [(OnFuture.FAIL, True), (OnFuture.SKIP, False), (OnFuture.DEAD_LETTER, True)],
)
def test_raw_records_are_kept_only_where_they_are_told(
    on_future: OnFuture, *, needed: bool
) -> None:
    """To skip a row nobody has to know where it came from."""
    assert guard(on_future, 1).needs_origins is needed


def test_what_the_watermark_is_made_of_is_read_too() -> None:
    """Once, and behind the columns of the query."""
    assert guard(OnFuture.SKIP, 1).columns(("id",)) == ("id", "ts")
    assert guard(OnFuture.SKIP, 1).columns(("ts", "id")) == ("ts", "id")


@pytest.mark.parametrize(
    ("rowtime", "max_future_ms", "on_future", "expected"),
    [
        (PLAIN, 1, OnFuture.SKIP, True),
        (PLAIN, 1, OnFuture.DEAD_LETTER, True),
        (PLAIN, 1, OnFuture.FAIL, False),
        (PLAIN, None, OnFuture.SKIP, False),
        (None, 1, OnFuture.SKIP, False),
    ],
)
def test_rows_are_left_out_only_where_the_watermark_counts(
    rowtime: Rowtime | None, max_future_ms: int | None, on_future: OnFuture, *, expected: bool
) -> None:
    """Then the scan has a column for the count."""
    scan = Scan(table=TABLE, columns=("id",), rowtime=rowtime, time_zone="UTC", project=".")
    settings = WatermarkSettings(
        max_future_ms=max_future_ms, on_future=on_future, dead_letter_path="x"
    )

    assert filters_future_rows(scan, settings) is expected
