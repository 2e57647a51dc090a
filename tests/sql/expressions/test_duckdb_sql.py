"""Event time is the same before Spark runs (DuckDB) and in Spark, for every expression that is allowed."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import PhysicalColumn, Schema
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.model.types import TimestampLtzType, TimestampType
from penstock.connector.event_time.rowtime import evaluate_watermarks
from penstock.connector.scan import Rowtime
from penstock.sql.expressions.expression import timestamp_kind, to_duckdb, to_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = {
    "n": "BIGINT",
    "i": "INT",
    "d": "DOUBLE",
    "s": "STRING",
    "ts": "TIMESTAMP(3)",
    "l": "TIMESTAMP_LTZ(3)",
    "p": "ROW<ms BIGINT, x ROW<y STRING>>",
    "a": "ARRAY<BIGINT>",
    "m": "MAP<STRING, BIGINT>",
}
SCHEMA = Schema(
    columns=tuple(PhysicalColumn(name=name, type=parse_type(kind)) for name, kind in TYPES.items())
)
ARROW = pa.schema(
    [
        ("n", pa.int64()),
        ("i", pa.int32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("ts", pa.timestamp("us")),
        ("l", pa.timestamp("us", "UTC")),
        ("p", pa.struct([("ms", pa.int64()), ("x", pa.struct([("y", pa.string())]))])),
        ("a", pa.list_(pa.int64())),
        ("m", pa.map_(pa.string(), pa.int64())),
    ]
)
EXPRESSIONS = [
    "ts",
    "l",
    "ts - INTERVAL '5' SECOND",
    "ts + INTERVAL '1:30.5' MINUTE TO SECOND",
    "l - INTERVAL '0.001' SECOND",
    "l - INTERVAL '3' HOUR",
    "ts - INTERVAL '1' MONTH",
    "ts - INTERVAL '2' WEEK",
    "TO_TIMESTAMP_LTZ(n, 3)",
    "TO_TIMESTAMP_LTZ(n / 1000, 0)",
    "TO_TIMESTAMP_LTZ(n / 1000, 3)",
    "TO_TIMESTAMP_LTZ(i, 0)",
    "TO_TIMESTAMP_LTZ(d, 0)",
    "TO_TIMESTAMP_LTZ(d * 1000, 3)",
    "TO_TIMESTAMP_LTZ(CAST(d AS BIGINT), 0)",
    "TO_TIMESTAMP_LTZ(n % 100000 - i, 0)",
    "TO_TIMESTAMP_LTZ(p.ms, 3) - INTERVAL '10' SECOND",
    "TO_TIMESTAMP_LTZ(a[1], 3)",
    "TO_TIMESTAMP_LTZ(a[2], 3)",
    "TO_TIMESTAMP_LTZ(m['k'], 3)",
    "TO_TIMESTAMP_LTZ(CAST(s AS BIGINT), 3)",
    "TO_TIMESTAMP(s)",
    "TO_TIMESTAMP(p.x.y)",
    "TO_TIMESTAMP(s, 'yyyy-MM-dd HH:mm:ss')",
    "TO_TIMESTAMP(s, 'yyyy-MM-dd''T''HH:mm:ss.SSS')",
    "TO_TIMESTAMP(REPLACE(SUBSTRING(s, 1, 19), 'T', ' '))",
    "TO_TIMESTAMP(CONCAT(s, ' 10:00:00'))",
    "TO_TIMESTAMP(FROM_UNIXTIME(n / 1000))",
    "TO_TIMESTAMP(FROM_UNIXTIME(i, 'yyyy-MM-dd HH:mm'), 'yyyy-MM-dd HH:mm')",
    "CAST(s AS TIMESTAMP(3))",
    "CAST(s AS TIMESTAMP_LTZ(3))",
    "CAST(l AS TIMESTAMP(3))",
    "CAST(ts AS TIMESTAMP_LTZ(3))",
    "CAST(CAST(ts AS DATE) AS TIMESTAMP(3))",
    "CAST(TO_TIMESTAMP_LTZ(n, 3) AS TIMESTAMP(3)) - INTERVAL '1' SECOND",
    "COALESCE(ts, TO_TIMESTAMP(s))",
    "COALESCE(NULLIF(ts, ts), TO_TIMESTAMP('2026-01-01 00:00:00'))",
    "CASE WHEN n > 0 AND s IS NOT NULL THEN ts WHEN i BETWEEN -5 AND 5 THEN NULL "
    "ELSE ts - INTERVAL '1' DAY END",
    "IF(n IS NULL OR NOT (i >= 0), l, TO_TIMESTAMP_LTZ(n, 3))",
    "LEAST(l, TO_TIMESTAMP_LTZ(n, 3))",
    "GREATEST(ts, TO_TIMESTAMP(s), ts)",
]
TEXTS = [
    "2026-03-29 02:30:00", "2026-03-08 02:30:00", "2026-3-9 1:2:3", "2026-11-01 01:30:00.123456789", "2026-02-30 00:00:00",
    "2026-01-01", "2026-01-01T10:00:00", "2026-01-01T10:00:00.123", "2026-01-01 10:00:00Z",
    "2026-01-01T10:00:00+02:00", "2026-01-01 10:00:00-05:00", "2026-01-01 24:00:00", "2026-01-01 23:59:60",
    "26-01-01 00:00:00", "", " ", "x", "1767225600000", "1767225600.9", "-5", "2026-01-01 1:00", "2026-01-01 ",
    "9999-12-31 23:59:59", "0001-01-01 00:00:00", "2026-01-01 10:00:00 Europe/Berlin", "12:00:00",
]  # fmt: skip
# Local times that the clocks pass twice, or not at all: New York and Lord Howe (half an hour).
CLOCK_CHANGES = [
    datetime(2026, *t, tzinfo=UTC).replace(tzinfo=None)
    for t in ((11, 1, 1, 30), (3, 8, 2, 30), (4, 5, 1, 45), (10, 4, 2, 15))
]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def random_rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows with times around now, at the edges of what is a time, and NULL."""
    dice = random.Random(seed)

    def number() -> int | None:
        near = dice.randrange(1_600_000_000_000, 1_900_000_000_000)
        return dice.choice(
            [None, 0, -1, 253_402_300_799_999, 253_402_300_800_000, -(2**62), near, near, near]
        )

    def stamp() -> datetime | None:
        micros = dice.randrange(1_500_000_000_000_000, 1_900_000_000_000_000)
        times = [EPOCH + timedelta(microseconds=micros)] * 8
        return dice.choice(
            [None, *times, *(change.replace(tzinfo=UTC) for change in CLOCK_CHANGES)]
        )

    def text() -> str | None:
        return dice.choice([None, *TEXTS])

    rows = []
    for _ in range(count):
        local = stamp()
        small = dice.choice([None, 0, -3, 2**31 - 1, dice.randrange(2**31)])
        inner = dice.choice([None, {"y": text()}])
        rows.append(
            {
                "n": number(),
                "i": small,
                "d": dice.choice([None, 0.5, -0.5, 1.9999, 1e18, dice.uniform(1.6e9, 1.9e9)]),
                "s": text(),
                "ts": local.replace(tzinfo=None) if local else None,
                "l": stamp(),
                "p": dice.choice([None, {"ms": number(), "x": inner}]),
                "a": dice.choice([None, [], [number()]]),
                "m": dice.choice([None, {}, {"k": number()}]),
            }
        )
    return rows


def in_duckdb(rows: list[dict[str, Any]], expression: str, time_zone: str) -> list[int | None]:
    """Epoch milliseconds of an expression, as they are found at planning."""
    maps = [row | {"m": None if row["m"] is None else list(row["m"].items())} for row in rows]
    rowtime = Rowtime(
        column="x",
        inputs=tuple(TYPES),
        expression=to_duckdb(expression, SCHEMA),
        instant=timestamp_kind(expression, SCHEMA) is TimestampLtzType,
    )
    return evaluate_watermarks(rowtime, pa.RecordBatch.from_pylist(maps, schema=ARROW), time_zone)


def values(expression: str, **row: Any) -> int | None:
    """The value of one row in UTC."""
    (value,) = in_duckdb([dict.fromkeys(TYPES) | row], expression, "UTC")
    return value


@pytest.mark.parametrize(
    "time_zone", ["UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
)
def test_the_two_engines_agree_on_every_expression(spark: SparkSession, time_zone: str) -> None:
    """Value for value, in zones with and without summer time; NULL where Spark fails or has none.

    ANSI mode is off only so that one bad value does not hide the others: it makes failures NULL.
    """
    rows = random_rows(seed=7, count=200)
    before = {
        key: spark.conf.get(key) for key in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
    }
    spark.conf.set("spark.sql.session.timeZone", time_zone)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        frame = spark.createDataFrame(
            [tuple(row.values()) for row in rows],
            "n BIGINT, i INT, d DOUBLE, s STRING, ts TIMESTAMP_NTZ, l TIMESTAMP, "
            "p STRUCT<ms: BIGINT, x: STRUCT<y: STRING>>, a ARRAY<BIGINT>, m MAP<STRING, BIGINT>",
        )
        found = frame.selectExpr(
            *(f"{micros(e)} AS c{i}" for i, e in enumerate(EXPRESSIONS))
        ).collect()
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)

    wrong = []
    for index, expression in enumerate(EXPRESSIONS):
        here = in_duckdb(rows, expression, time_zone)
        for row, ours, theirs in zip(rows, here, (record[index] for record in found), strict=True):
            if ours != theirs and not (ours is None and may_differ(expression)):
                wrong.append((expression, row, ours, theirs))
    assert wrong == []


def micros(expression: str) -> str:
    """Spark SQL of the epoch milliseconds of an expression."""
    sql = to_spark(expression, SCHEMA)
    if timestamp_kind(expression, SCHEMA) is TimestampType:
        return f"(({sql}) - TIMESTAMP_NTZ '1970-01-01 00:00:00') DIV INTERVAL '0.001' SECOND"
    return f"CAST(floor(unix_micros({sql}) / 1000D) AS BIGINT)"


def may_differ(expression: str) -> bool:
    """Casts of texts: Spark reads more shapes than both engines read alike; numbers that are no time."""
    return "CAST(s" in expression or "FROM_UNIXTIME" in expression


def test_nothing_is_ever_rounded_up() -> None:
    """A time too late would lose rows: halves are cut, as in Flink and Spark."""
    assert values("TO_TIMESTAMP_LTZ(CAST(d AS BIGINT), 0)", d=1.999) == 1000
    assert values("TO_TIMESTAMP_LTZ(CAST(s AS BIGINT), 3)", s="1.9") == 1
    assert values("TO_TIMESTAMP_LTZ(d, 3)", d=1.9) == 1
    assert values("TO_TIMESTAMP_LTZ(n / 1000, 3)", n=1_999) == 1


def test_a_value_that_cannot_be_read_is_null() -> None:
    """A peek at a bad record does not fail; Spark will, with the record's place."""
    assert values("TO_TIMESTAMP(s)", s="yesterday") is None
    assert values("TO_TIMESTAMP_LTZ(CAST(s AS BIGINT), 3)", s="x") is None
    assert values("TO_TIMESTAMP_LTZ(n * n, 3)", n=2**62) is None
    assert values("TO_TIMESTAMP_LTZ(n / 0, 3)", n=1) is None


def test_a_zone_in_a_text_is_never_added_to_a_local_time() -> None:
    """DuckDB would shift it, Spark ignores it: the safe answer is none."""
    assert values("CAST(s AS TIMESTAMP(3))", s="2026-01-01T10:00:00-05:00") is None


def test_a_struct_may_be_deep_and_odd_named() -> None:
    """Fields are taken by name, not by a path that could mean a table."""
    assert """struct_extract(struct_extract("a b", 'c'), 'd''e')""" in to_duckdb("`a b`.c.`d'e`")


@pytest.mark.parametrize(
    ("expression", "function"),
    [
        ("UPPER(s)", "UPPER"),
        ("CURRENT_DATE", "CURRENT_DATE"),
        ("my_function(n)", "MY_FUNCTION"),
        ("SUM(n)", "SUM"),
        ("(SELECT 1)", "(SELECT 1)"),
        ("TO_TIMESTAMP(s, 'MMM')", "the letters 'MMM' of a pattern"),
        ("CAST(n AS TIMESTAMP(3))", "CAST(n AS TIMESTAMP(3))"),
        ("TO_TIMESTAMP_LTZ(s, 'yyyy')", "TO_TIMESTAMP_LTZ of anything but an epoch number"),
        ("SUBSTRING(s, n)", "SUBSTRING"),
        ("s LIKE 'x'", "s LIKE 'x'"),
        ("getenv('HOME')", "GETENV"),
        ("read_text('/etc/passwd')", "READ_TEXT"),
    ],
)
def test_what_is_outside_the_set_is_refused_by_name(expression: str, function: str) -> None:
    """Among it every function that could leave the expression."""
    with pytest.raises(UnsupportedError) as caught:
        to_duckdb(expression, SCHEMA)

    assert caught.value.message.startswith(function)
