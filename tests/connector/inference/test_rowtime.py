"""Which column is event time."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.catalog.model.type_parser import parse_type
from penstock.connector.arrow import arrow_schema
from penstock.connector.inference.event_time import rowtime_candidates

START = 1_767_225_600  # 2026-01-01, in seconds


def candidates(columns, *splits):
    """Find candidates among columns of Flink types, by splits of rows."""
    fields = [(name, parse_type(kind)) for name, kind in columns.items()]
    schema = arrow_schema(fields)
    batches = [
        pa.RecordBatch.from_pylist(
            [dict(zip(columns, row, strict=True)) for row in rows], schema=schema
        )
        for rows in splits
    ]
    return rowtime_candidates(fields, batches)


@pytest.mark.parametrize(
    ("per_second", "expression"),
    [
        (1, "TO_TIMESTAMP_LTZ(ts, 0)"),
        (10**3, "TO_TIMESTAMP_LTZ(ts, 3)"),
        (10**6, "TO_TIMESTAMP_LTZ(ts / 1000, 3)"),
        (10**9, "TO_TIMESTAMP_LTZ(ts / 1000000, 3)"),
    ],
)
def test_a_number_of_seconds_or_parts_of_them_since_1970_is_a_time(per_second, expression):
    """The unit shows in its size."""
    rows = [((START + n) * per_second,) for n in range(5)]
    (found,) = candidates({"ts": "BIGINT"}, rows)

    assert found.expression == expression
    assert found.times_ms[0].tolist() == [(START + n) * 1000 for n in range(5)]


def test_a_number_that_is_no_time_is_none():
    """Too small, or in no order and not called so."""
    wild = [(START + n * 7919 % 1000,) for n in range(50)]

    assert candidates({"ts": "BIGINT"}, [(n,) for n in range(5)]) == []
    assert candidates({"code": "BIGINT"}, wild) == []


def test_the_time_of_the_event_wins_over_other_times():
    """By its name and by its order; one that is the same everywhere comes last."""
    columns = {
        "updated_at": "TIMESTAMP(3)",
        "event_time": "TIMESTAMP(3)",
        "day_time": "TIMESTAMP(3)",
    }
    rows = [
        (
            pa.scalar((START - n * 9) * 10**6, pa.timestamp("us")).as_py(),
            pa.scalar((START + n) * 10**6, pa.timestamp("us")).as_py(),
            pa.scalar(START * 10**6, pa.timestamp("us")).as_py(),
        )
        for n in range(9)
    ]
    found = candidates(columns, rows)

    assert [each.shown for each in found] == ["event_time", "updated_at", "day_time"]


def test_order_is_looked_at_within_splits_only():
    """A partition that lags behind another says nothing against a column."""
    ahead = [((START + 9000 + n) * 1000,) for n in range(5)]
    behind = [((START + n) * 1000,) for n in range(5)]
    (found,) = candidates({"at": "BIGINT"}, ahead, behind)

    assert "100% of the steps" in found.reason


def test_a_field_of_a_row_may_be_event_time():
    """By a computed column; its words are quoted where SQL has them for itself."""
    rows = [({"time": (START + n) * 1000},) for n in range(5)]
    (found,) = candidates({"payload": "ROW<`time` BIGINT>"}, rows)

    assert found.expression == "TO_TIMESTAMP_LTZ(payload.`time`, 3)"


def test_a_column_that_is_often_null_is_no_event_time():
    """A row without event time is in no window."""
    rows = [(None if n % 2 else (START + n) * 1000,) for n in range(10)]

    assert candidates({"event_time": "BIGINT"}, rows) == []
