"""Interval literals amount to what the SQL standard says."""

from __future__ import annotations

import pytest

from penstock.sql.syntax.intervals import read_interval

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "first", "last", "micros"),
    [
        ("10", "SECOND", None, 10 * SECOND),
        ("0.5", "SECOND", None, SECOND // 2),
        (".25", "SECOND", None, SECOND // 4),
        ("-10", "SECOND", None, -10 * SECOND),
        ("+ 3", "MINUTE", None, 180 * SECOND),
        ("1:30", "HOUR", "MINUTE", 90 * 60 * SECOND),
        ("-1:30", "MINUTE", "SECOND", -90 * SECOND),
        ("1 2:3:4.5", "DAY", "SECOND", (86_400 + 2 * 3600 + 3 * 60 + 4) * SECOND + SECOND // 2),
        ("1 2", "DAY", "HOUR", 26 * 3600 * SECOND),
        ("2", "WEEK", None, 14 * 86_400 * SECOND),
    ],
)
def test_a_day_time_interval_is_a_number_of_microseconds(
    text: str, first: str, last: str | None, micros: int
) -> None:
    """Fields add up; the sign is that of the whole."""
    value = read_interval(text, first, last)

    assert (value.micros, value.year_month) == (micros, False)


@pytest.mark.parametrize(
    ("text", "first", "last", "months"),
    [
        ("2", "YEAR", None, 24),
        ("-3", "MONTH", None, -3),
        ("1-6", "YEAR", "MONTH", 18),
        ("1", "QUARTER", None, 3),
    ],
)
def test_a_year_month_interval_is_a_number_of_months(
    text: str, first: str, last: str | None, months: int
) -> None:
    """It has no fixed length in time."""
    value = read_interval(text, first, last)

    assert (value.months, value.year_month) == (months, True)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("x", "SECOND", None),
        ("1:2", "SECOND", None),
        ("1", "HOUR", "MINUTE"),
        ("1.5", "DAY", None),
        ("", "DAY", None),
    ],
)
def test_a_text_that_does_not_fit_its_unit_is_refused(
    text: str, first: str, last: str | None
) -> None:
    """The message shows a right one."""
    with pytest.raises(ValueError, match="write for instance INTERVAL '"):
        read_interval(text, first, last)


def test_units_of_the_two_families_do_not_mix() -> None:
    """There is no interval from days to months."""
    with pytest.raises(ValueError, match="no interval from DAY to MONTH"):
        read_interval("1", "DAY", "MONTH")


def test_milliseconds_are_cut_towards_zero() -> None:
    """Flink keeps milliseconds."""
    assert [read_interval(t, "SECOND", None).millis for t in ("0.0019", "-0.0019")] == [1, -1]
