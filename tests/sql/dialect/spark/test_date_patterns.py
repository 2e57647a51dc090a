"""DATE_FORMAT and CONVERT_TZ in sessions whose time zone leaves an hour out, or a midnight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.sql.binding.binder import type_expression
from penstock.sql.dialect.spark.date_patterns import local_date_format
from penstock.sql.dialect.spark.writer import write_spark
from penstock.sql.expressions.expression import parse_expression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONE = "spark.sql.session.timeZone"


@pytest.mark.parametrize("pattern", ["[yyyy]", "yyyy VV", "yyyy#", "-", "'it is'", ""])
def test_a_pattern_with_more_than_letters_of_times_is_written_by_spark(pattern: str) -> None:
    """Or refused by it; so is one without letters, which hangs on no time."""
    escaped = pattern.replace("'", "\\'")
    assert local_date_format("x", pattern) == f"date_format(x, '{escaped}')"


@pytest.fixture
def in_zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Spark with a session of the time zone."""
    before = spark.conf.get(ZONE) or "UTC"
    spark.conf.set(ZONE, request.param)
    yield spark
    spark.conf.set(ZONE, before)


def texts(spark: SparkSession, expressions: list[str]) -> list[str | None]:
    """What Spark writes for expressions of Flink SQL."""
    forms = []
    for text in expressions:
        tree = parse_expression(text)
        type_expression(tree, {})
        forms.append(write_spark(tree))
    row = spark.sql(f"SELECT {', '.join(forms)}").first()
    assert row is not None
    return list(row)


NEW_YORK = "TIMESTAMP '2026-03-08 02:30:00'"
CAIRO = "TIMESTAMP '2026-04-24 00:10:00'"


@pytest.mark.parametrize("in_zone", ["America/New_York"], indirect=True)
def test_an_hour_that_is_not_there_is_written_as_it_is(in_zone: SparkSession) -> None:
    """A TIMESTAMP has no time zone; of an instant the hour is that of the session."""
    assert texts(
        in_zone,
        [
            f"DATE_FORMAT({NEW_YORK}, 'yyyy-MM-dd HH')",
            f"DATE_FORMAT({NEW_YORK}, 'HH:mm:ss.SSS')",
            f"DATE_FORMAT({NEW_YORK}, 'EEE d MMM, h:mm a')",
            f"DATE_FORMAT({NEW_YORK}, 'HH''h'' dd. mm ''o''''clock''')",
            "DATE_FORMAT(CAST(NULL AS TIMESTAMP(3)), 'HH')",
            "DATE_FORMAT('2026-03-08 02:30:00', 'H:mm')",
            "CONVERT_TZ('2026-03-08 02:30:00', 'UTC', 'UTC')",
            "CONVERT_TZ('2026-03-08 02:30:00', 'UTC', 'Asia/Tokyo')",
            "DATE_FORMAT(TO_TIMESTAMP_LTZ(1772955000, 0), 'HH:mm')",
        ],
    ) == [
        "2026-03-08 02",
        "02:30:00.000",
        "Sun 8 Mar, 2:30 AM",
        "02h 08. 30 o'clock",
        None,
        "2:30",
        "2026-03-08 02:30:00",
        "2026-03-08 11:30:00",
        "03:30",
    ]


@pytest.mark.parametrize("in_zone", ["Africa/Cairo"], indirect=True)
def test_a_midnight_that_is_not_there_is_written_as_it_is(in_zone: SparkSession) -> None:
    """The date is that of the TIMESTAMP, and of a DATE the time is midnight."""
    assert texts(
        in_zone,
        [
            f"DATE_FORMAT({CAIRO}, 'yyyy-MM-dd HH:mm')",
            f"DATE_FORMAT({CAIRO}, 'd MMM H:mm')",
            "DATE_FORMAT(DATE '2026-04-24', 'dd HH')",
        ],
    ) == ["2026-04-24 00:10", "24 Apr 0:10", "24 00"]


@pytest.mark.parametrize("in_zone", ["Asia/Tokyo"], indirect=True)
def test_months_between_instants_are_those_in_utc(in_zone: SparkSession) -> None:
    """From 2026-01-30T23:00Z to 2026-02-28T22:00Z it is an hour less than a month; in Tokyo 31 January to 1 March."""
    first, last = "TO_TIMESTAMP_LTZ(1769814000, 0)", "TO_TIMESTAMP_LTZ(1772316000, 0)"

    assert texts(
        in_zone,
        [
            f"CAST(TIMESTAMPDIFF(MONTH, {first}, {last}) AS STRING)",
            f"CAST(TIMESTAMPDIFF(MONTH, CAST({first} AS TIMESTAMP(0)), CAST({last} AS TIMESTAMP(0))) AS STRING)",
        ],
    ) == ["0", "1"]
