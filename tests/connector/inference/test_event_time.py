"""Disorder within splits, and the delay that bears it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog.model.type_parser import parse_type
from penstock.connector.arrow import arrow_schema
from penstock.connector.inference.event_time import (
    disorder_of,
    interval_text,
    lateness_ms,
    propose_delay,
    rowtime_candidates,
)


def test_a_record_is_late_by_what_it_is_behind_the_highest_before_it():
    """As BoundedOutOfOrdernessWatermarks counts it."""
    assert lateness_ms(np.array([10, 30, 20, 25, 40])).tolist() == [0, 0, 10, 5, 0]


def test_a_split_is_summed_up_by_median_99th_percentile_and_most():
    """In ms; one stray among many shows in the last alone."""
    times = np.arange(0, 300_000, 1000)
    times[200] -= 90_000
    found = disorder_of("partition 0", times)

    assert (found.records, found.p50_ms, found.p99_ms, found.max_ms) == (300, 0, 0, 89_000)


@pytest.mark.parametrize(
    ("splits", "delay_ms", "late"),
    [
        ([[0, 1000, 2000]], 1000, 0),
        ([[5000, 1000, 6000]], 10_000, 0),
        # another split's times do not matter
        ([[10_000_000, 10_001_000], [0, 1000]], 1000, 0),
        ([[], [0, 40_000, 0]], 60_000, 0),
    ],
)
def test_the_delay_covers_the_worst_split_and_half_as_much_again(splits, delay_ms, late):
    """Rounded up to what people write."""
    found = propose_delay([np.array(times, np.int64) for times in splits])

    assert (found.delay_ms, found.late) == (delay_ms, late)


def test_a_stray_does_not_choose_the_delay_and_is_counted():
    """One record an hour late among a thousand."""
    times = np.arange(0, 1_000_000, 1000)
    times[500] -= 3_600_000
    found = propose_delay([times])

    assert (found.delay_ms, found.late) == (1000, 1)


@pytest.mark.parametrize(
    ("delay_ms", "text"),
    [
        (10_000, "INTERVAL '10' SECOND"),
        (90_000, "INTERVAL '90' SECOND"),
        (300_000, "INTERVAL '5' MINUTE"),
        (7_200_000, "INTERVAL '2' HOUR"),
        (172_800_000, "INTERVAL '2' DAY"),
    ],
)
def test_a_delay_is_written_in_its_largest_unit(delay_ms, text):
    """As a person would."""
    assert interval_text(delay_ms) == text


# --- which column is event time ---


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
