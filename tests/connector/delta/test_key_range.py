"""Bounds of a batch's keys, as Delta can skip files by them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as s

from penstock.connector.delta.merge import MAX_PARTITIONS, key_literal, measure_keys
from penstock.connector.spark.sink.target_rows import IS_DELETE


@pytest.mark.parametrize(
    ("kind", "value", "literal"),
    [
        (s.ByteType(), -3, "-3Y"),
        (s.ShortType(), 3, "3S"),
        (s.IntegerType(), 3, "3"),
        (s.LongType(), -(2**63), "-9223372036854775808L"),
        (s.StringType(), "Zoë", "'Zoë'"),
        (s.DateType(), "2026-01-02", "DATE '2026-01-02'"),
        (s.TimestampNTZType(), "2026-01-02 03:04:05.6", "TIMESTAMP_NTZ '2026-01-02 03:04:05.6'"),
        (s.TimestampType(), -1, "TIMESTAMP '1969-12-31 23:59:59.999999Z'"),
    ],
)
def test_a_value_is_a_literal_of_its_own_type(kind: s.DataType, value: Any, literal: str) -> None:
    """A cast around either side would hide it from data skipping."""
    assert key_literal(kind, value) == literal


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (s.LongType(), None),
        (s.StringType(), "O'Brien"),
        (s.StringType(), "a\\b"),
        (s.StringType(), "${x}"),
        (s.DateType(), "+10000-01-01"),
        (s.DateType(), "-0001-01-01"),
        (s.TimestampType(), 2**62),
        (s.TimestampType(), -(2**55)),
        (s.DecimalType(10, 2), "1.00"),
        (s.DoubleType(), 1.0),
        (s.BinaryType(), b"x"),
    ],
)
def test_what_cannot_be_told_exactly_is_not_bounded(kind: s.DataType, value: Any) -> None:
    """A bound that is read otherwise than it was meant would leave out a file that holds the key."""
    assert key_literal(kind, value) is None


def test_a_batch_tells_where_its_keys_are(spark: SparkSession) -> None:
    """Lowest and highest, the partitions one by one while they are few; columns with NULL; deletes."""
    many = spark.range(MAX_PARTITIONS + 1).selectExpr(
        "id AS n",
        "CAST(id % 2 AS STRING) AS few",
        "CAST(id AS INT) AS many",
        "DATE'2026-01-01' AS day",
        "nullif(timestamp_micros(id), timestamp_micros(5)) AS at",
        f"id < 3 AS {IS_DELETE}",
    )
    found = measure_keys(many, ("n", "few", "many", "day", "at"), ("few", "many"))

    assert found.rows == MAX_PARTITIONS + 1
    assert found.deletes == 3
    assert found.without == ("at",)
    assert found.within == (
        "t.`n` >= 0L AND t.`n` <= 100L",
        "t.`few` IN ('0', '1')",
        "t.`many` >= 0 AND t.`many` <= 100",
        "t.`day` >= DATE '2026-01-01' AND t.`day` <= DATE '2026-01-01'",
        "t.`at` >= TIMESTAMP '1970-01-01 00:00:00.000000Z' AND "
        "t.`at` <= TIMESTAMP '1970-01-01 00:00:00.000100Z'",
    )
