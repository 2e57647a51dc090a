"""The watermark of raw records, evaluated before Spark runs. That Spark says the same: tests/sql/expressions/test_duckdb_sql.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import ComputedColumn, PhysicalColumn, Schema, Table, Watermark
from penstock.catalog.model.types import BigIntType, IntType, RowField, RowType, TimestampType
from penstock.connector.contract import Accept, SplitMetadataClient
from penstock.connector.event_time.rowtime import (
    WatermarkPeeks,
    count_late,
    evaluate_watermarks,
    highest_watermark,
    rows_above,
)
from penstock.connector.scan import Delayed, DelayedValue, Rowtime
from penstock.sql.expressions.expression import to_duckdb
from penstock.sql.expressions.rowtime import rowtime_of


def rowtime(expression: str, *, instant: bool = False) -> Rowtime:
    """A rowtime of an expression in DuckDB's SQL."""
    return Rowtime(column="at", inputs=("at",), expression=expression, instant=instant)


def test_the_watermark_is_epoch_milliseconds_rounded_down():
    """Also before 1970; NULL stays NULL."""
    batch = pa.record_batch({"at": pa.array([0, 1_999, -1, None, -1_000], pa.timestamp("us"))})

    assert evaluate_watermarks(rowtime('"at"'), batch, "UTC") == [0, 1, -1, None, -1]


def test_a_local_time_counts_as_utc_and_an_instant_is_one():
    """Only conversions between the two look at the session's time zone."""
    at, on = pa.timestamp("us"), pa.timestamp("us", "UTC")
    batch = pa.record_batch({"at": pa.array([0], at), "on": pa.array([0], on)})

    assert evaluate_watermarks(rowtime('"at"'), batch, "Asia/Tokyo") == [0]
    assert evaluate_watermarks(rowtime('"on"', instant=True), batch, "Asia/Tokyo") == [0]
    assert evaluate_watermarks(
        rowtime('CAST("at" AS TIMESTAMPTZ)', instant=True), batch, "Asia/Tokyo"
    ) == [-9 * 3_600_000]


def test_a_record_that_fails_costs_no_other_its_watermark():
    """It has none: a watermark that is too low closes windows late, one too high would lose rows."""
    batch = pa.record_batch({"s": ["2024-01-01 00:00:00", "never", None, "2024-01-02 00:00:00"]})

    assert evaluate_watermarks(rowtime('CAST("s" AS TIMESTAMP)'), batch, "UTC") == [
        1_704_067_200_000,
        None,
        None,
        1_704_153_600_000,
    ]


def test_infinity_is_no_time():
    """DuckDB reads it, Spark does not."""
    batch = pa.record_batch({"s": ["infinity", "-infinity"]})

    assert evaluate_watermarks(rowtime('CAST("s" AS TIMESTAMP)'), batch, "UTC") == [None, None]


def test_late_rows_are_those_not_after_the_watermark():
    """By their own time, which is their watermark and the bound; NULL is neither late nor not."""
    at_ms = [1000, 999, 1001, None, -5]
    batch = pa.record_batch({"at": pa.array(at_ms, pa.timestamp("ms")).cast(pa.timestamp("us"))})
    bound = replace(rowtime("\"at\" - INTERVAL '5' SECOND"), bound_us=5_000_000)

    assert count_late(bound, batch, "UTC", 1000) == 3
    assert count_late(bound, batch.slice(3, 1), "UTC", 1000) == 0
    assert count_late(rowtime('"at"'), batch, "UTC", 1000) == 0


def test_a_batch_of_nothing_has_no_watermarks():
    """No rows in, none out."""
    batch = pa.record_batch({"at": pa.array([], pa.timestamp("us"))})

    assert evaluate_watermarks(rowtime('"at"'), batch, "UTC") == []


def test_an_unknown_time_zone_is_refused():
    """With a hint of what would do."""
    batch = pa.record_batch({"at": pa.array([0], pa.timestamp("us"))})

    with pytest.raises(UnsupportedError, match="Mars/Olympus"):
        evaluate_watermarks(rowtime('"at"'), batch, "Mars/Olympus")


def test_the_highest_of_a_batch_is_that_of_its_rows():
    """In one value; records without a watermark and infinities do not count."""
    batch = pa.record_batch({"s": ["2024-01-01 00:00:00", "never", "infinity", None]})
    timed = rowtime('CAST("s" AS TIMESTAMP)')
    known = [at for at in evaluate_watermarks(timed, batch, "UTC") if at is not None]

    assert highest_watermark(timed, batch, "UTC") == max(known) == 1_704_067_200_000
    assert highest_watermark(timed, batch.slice(1), "UTC") is None


@given(
    at=st.lists(st.none() | st.integers(-(10**6), 10**6)),
    delay_us=st.integers(-5000, 5000),
    instant=st.booleans(),
)
def test_a_plain_watermark_needs_no_query(
    at: list[int | None], delay_us: int, *, instant: bool
) -> None:
    """The highest of a delivered time less a constant is what the query gives, nothing in a batch of nothing."""
    batch = pa.record_batch({"at": pa.array(at, pa.timestamp("us", "UTC" if instant else None))})
    queried = rowtime(f'TRY("at" - to_microseconds({delay_us}))', instant=instant)
    plain = replace(queried, delayed=Delayed(column="at", delay_us=delay_us))

    assert highest_watermark(plain, batch, "UTC") == highest_watermark(queried, batch, "UTC")


@given(
    rows=st.lists(
        st.tuples(st.none() | st.integers(0, 2), *[st.none() | st.integers(-(10**6), 10**6)] * 2)
    ),
    fields=st.booleans(),
)
def test_a_computed_time_needs_no_query(
    rows: list[tuple[int | None, int | None, int | None]], *, fields: bool
) -> None:
    """As the table of a test of the benchmark has it: NULL where no branch holds, or the field's row is NULL."""
    kinds, one, two = zip(*rows, strict=True) if rows else ((), (), ())
    at = pa.array(two, pa.timestamp("us"))
    inner = pa.StructArray.from_arrays(
        [at], ["at"], mask=pa.array([fields and k == 1 for k in kinds], pa.bool_())
    )
    batch = pa.record_batch(
        {"n": pa.array(kinds, pa.int32()), "ts": pa.array(one, pa.timestamp("us")), "p": inner}
    )
    row = RowType(fields=(RowField(name="at", type=TimestampType(precision=6)),))
    table = Table(
        identifier=Identifier(catalog="c", database="d", name="t"),
        schema=Schema(
            columns=(
                PhysicalColumn(name="n", type=IntType()),
                PhysicalColumn(name="ts", type=TimestampType(precision=6)),
                PhysicalColumn(name="p", type=row),
                ComputedColumn(
                    name="at", expression="CASE WHEN n = 0 THEN ts WHEN n = 1 THEN p.`at` END"
                ),
            ),
            watermark=Watermark(column="at", expression="`at` - INTERVAL '4' SECOND"),
        ),
        options=(("connector", "kafka"),),
    )
    computed = rowtime_of(table)
    assert computed is not None
    assert isinstance(computed.delayed, DelayedValue)
    queried = replace(computed, delayed=None)

    assert highest_watermark(computed, batch, "UTC") == highest_watermark(queried, batch, "UTC")


def test_rows_above_a_bound_are_found_with_their_watermarks():
    """The bound itself is not above; the watermark is rounded down before it is compared."""
    batch = pa.record_batch({"at": pa.array([1_999, 2_000, 999, None, 9_000], pa.timestamp("us"))})

    assert rows_above(rowtime('"at"'), batch, "UTC", 1) == {1: 2, 4: 9}
    assert rows_above(rowtime('"at"'), batch, "UTC", 9) == {}


@given(
    found=st.lists(st.none() | st.integers(-(10**15), 10**15)),
    precision=st.sampled_from([0, 3]),
    seconds=st.integers(-5, 5),
)
def test_an_epoch_number_needs_no_query(
    found: list[int | None], precision: int, seconds: int
) -> None:
    """The highest is what the query gives, numbers that are no time of any engine left out."""
    schema = Schema(columns=(PhysicalColumn(name="at", type=BigIntType()),))
    expression = f"TO_TIMESTAMP_LTZ(`at`, {precision}) - INTERVAL '{seconds}' SECOND"
    queried = rowtime(to_duckdb(expression, schema), instant=True)
    unit_us = 1000 if precision else 1_000_000
    delayed = Delayed(column="at", delay_us=seconds * 1_000_000, unit_us=unit_us)
    batch = pa.record_batch({"at": pa.array(found, pa.int64())})

    assert highest_watermark(replace(queried, delayed=delayed), batch, "UTC") == highest_watermark(
        queried, batch, "UTC"
    )


# --- watermarks from peeks: records of the future do not count, and cost nothing where there ---


ROWTIME = Rowtime(column="ts", inputs=("ts",), expression='"ts"', instant=False)
BOUND_MS = 100


@dataclass
class Records:
    """A planner over lists of watermarks (ms); None is a record that has none. Steps back one by one."""

    times_ms: Mapping[str, list[int | None]]
    peeks: int = 0

    def peek(
        self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
    ) -> Mapping[str, pa.RecordBatch]:
        """Give the last record of each range that is accepted."""
        self.peeks += 1
        found = {}
        for split_id, (start, end) in ranges.items():
            for at_ms in reversed(self.times_ms[split_id][start:end]):
                row = _row(at_ms)
                if accept is None or split_id in accept({split_id: row}):
                    found[split_id] = row
                    break
        return found


def _row(at_ms: int | None) -> pa.RecordBatch:
    at = None if at_ms is None else at_ms * 1000
    return pa.record_batch({"ts": pa.array([at], pa.timestamp("us"))})


def look(records: Records, not_after_ms: int | None = BOUND_MS) -> dict[str, int]:
    """The watermarks of whole splits."""
    peeks = WatermarkPeeks(
        planner=cast("SplitMetadataClient", records), rowtime=ROWTIME, time_zone="UTC"
    )
    return peeks.look({i: (0, len(times)) for i, times in records.times_ms.items()}, not_after_ms)


def test_the_last_record_within_the_bound_counts() -> None:
    """One whose clock is ahead is stepped over, and so is one before it that has no watermark."""
    records = Records({"a": [5, 7, None, 900], "b": [3, 100], "c": [900, 901]})

    assert look(records) == {"a": 7, "b": 100}
    assert records.peeks == 2


def test_where_each_last_record_has_a_watermark_one_peek_is_all() -> None:
    """The usual case costs what it cost before; a split without records is not checked again."""
    records = Records({"a": [5, 7], "b": []})

    assert look(records) == {"a": 7}
    assert records.peeks == 1


def test_a_record_without_an_event_time_is_stepped_over() -> None:
    """With and without a bound; where there is nothing else there is no watermark."""
    times: dict[str, list[int | None]] = {"a": [5, 7, None, None], "b": [None], "c": [8]}

    assert look(Records(times)) == {"a": 7, "c": 8}
    assert look(Records(times), None) == {"a": 7, "c": 8}


def test_where_none_of_many_records_has_an_event_time_the_search_ends() -> None:
    """Its task tells, which looks at all of them; the other splits have their answer."""
    times: dict[str, list[int | None]] = {"a": [5, *[None] * 100], "b": [7, None]}

    assert look(Records(times)) == {"b": 7}


def test_without_a_bound_every_record_counts() -> None:
    """The option is off."""
    assert look(Records({"a": [5, 900]}), None) == {"a": 900}


def test_of_several_rows_of_one_record_the_highest_counts() -> None:
    """A JSON array is one record."""

    class OfTwoRows(Records):
        def peek(
            self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
        ) -> Mapping[str, pa.RecordBatch]:
            times = pa.array([9000, 4000], pa.timestamp("us"))
            return dict.fromkeys(ranges, pa.record_batch({"ts": times}))

    assert look(OfTwoRows({"a": [0], "b": [0]})) == {"a": 9, "b": 9}


@pytest.mark.slow
@settings(deadline=None)  # each step back is a query of DuckDB
@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.none() | st.integers(90, 110))))
def test_what_is_found_is_the_watermark_of_a_record_that_is_delivered(
    times_ms: dict[str, list[int | None]],
) -> None:
    """So it is a lower bound of the highest one, and no split has one that has no such record."""
    found = look(Records(times_ms))
    delivered = {
        i: [ms for ms in times if ms is not None and ms <= BOUND_MS]
        for i, times in times_ms.items()
    }

    assert all(ms in delivered[split_id] for split_id, ms in found.items())
    for split_id, times in times_ms.items():
        last_is_far = bool(times) and (times[-1] or 0) > BOUND_MS
        assert not last_is_far or (split_id in found) == bool(delivered[split_id])
