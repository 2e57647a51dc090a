"""Conditions have the same value in reading tasks (Arrow) and in Spark, for all that the set has."""

from __future__ import annotations

import random
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

from penstock.catalog.model.table import PhysicalColumn, Schema
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.arrow import arrow_schema
from penstock.connector.expression import (
    Expression,
    FieldValue,
    expression_from_json,
    expression_to_json,
)
from penstock.connector.fragments import evaluate
from penstock.sql.expressions.expression import parse_expression, to_spark
from penstock.sql.expressions.fragments import compile_expression, field_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

TYPES = {
    "b": "BOOLEAN",
    "t": "TINYINT",
    "h": "SMALLINT",
    "i": "INT",
    "n": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "p": "DECIMAL(10, 2)",
    "q": "DECIMAL(20, 8)",
    "s": "STRING",
    "v": "VARCHAR(20)",
    "c": "CHAR(3)",
    "y": "BYTES",
    "day": "DATE",
    "ts": "TIMESTAMP(3)",
    "tz": "TIMESTAMP_LTZ(6)",
    "r": "ROW<n BIGINT, s STRING, x ROW<d DOUBLE>>",
    "a": "ARRAY<BIGINT>",
}
SCHEMA = Schema(
    columns=tuple(PhysicalColumn(name=name, type=parse_type(kind)) for name, kind in TYPES.items())
)
ARROW = arrow_schema([(column.name, column.type) for column in SCHEMA.physical])
TEXTS = (
    "", " ", "a", "A", "ab", "a\nb", "a%b", "a_b", "b", "abc", "ä", "ß", "a\u0301", "\U0001f986", "\uffff", "\u00a0",
    "a\u0000b", "é", "z\U00010000", "%", "_", "NaN", "1",
)  # fmt: skip
WHOLE = (0, 1, -1, 2, 5, 100, 127, -128)
LARGE = (2**31 - 1, -(2**31), 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 16_777_217)
FRACTIONS = (
    0.0,
    -0.0,
    1.0,
    0.5,
    0.1,
    -2.5,
    1e300,
    5e-324,
    float("inf"),
    float("-inf"),
    float("nan"),
)
DAYS = (date(1970, 1, 1), date(1582, 10, 4), date(1, 1, 1), date(9999, 12, 31), date(2026, 3, 29))
MOMENTS = tuple(
    datetime(1970, 1, 1) + timedelta(microseconds=micros)
    for micros in (0, 1, -1, 1_700_000_000_123_456, -62_135_596_800_000_000, 1_774_749_600_000_000)
)
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
PAIRS = [
    *product(("t", "h", "i", "n"), ("t", "n", "1", "-1", "0", "127", "200", "3000000000", "9007199254740993")),
    *product(("f", "d"), ("f", "d", "0.5", "0.1", "-2.5", "1e0", "1e300", "-0.0")),
    *product(("d",), ("t", "i", "n", "1", "-1", "9007199254740993")),
    *product(("p", "q"), ("p", "q", "t", "n", "i", "1", "-1", "0.5", "100.005", "12345678901.5")),
    *product(("n", "i", "100"), ("0.5", "1.0", "p")),
    *product(("s", "v"), ("s", "v", "'a'", "''", "'ß'", "'a%b'", "'\U0001f986'", "'\\'", "'it''s'")),
    *product(("day",), ("day", "DATE '1970-01-01'", "DATE '1582-10-04'", "DATE '0001-01-01'", "DATE '9999-12-31'")),
    *product(("ts",), ("ts", "TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '2026-03-29 02:00:00.000001'")),
    ("tz", "tz"), ("r.n", "n"), ("r.n", "5"), ("r.x.d", "d"), ("r.s", "'a'"), ("1", "2"),
]  # fmt: skip
OTHERS = [
    "b", "NOT b", "b = TRUE", "b <> b", "b IS TRUE", "b IS NOT TRUE", "b IS FALSE", "b IS NOT FALSE", "b IS UNKNOWN",
    "n IS NULL", "n IS NOT NULL", "r IS NULL", "r.n IS NULL", "r.x IS NULL", "r.x.d IS NOT NULL", "a IS NULL",
    "c IS NULL", "y IS NOT NULL", "TRUE", "FALSE",
    "n IN (1, 5, 9223372036854775807)", "n NOT IN (1, 2)", "t IN (1, 200)", "i IN (n, 5)", "d IN (0.5, 1e0)",
    "d NOT IN (0.0)", "d IN (d, f)", "p IN (1, 0.5)", "s IN ('a', '', 'ß')", "s NOT IN ('a', 'b')", "s IN (v, 'b')",
    "day IN (DATE '1970-01-01')", "ts IN (TIMESTAMP '1970-01-01 00:00:00')", "b IN (TRUE)", "1 IN (1, 2)",
    "n BETWEEN -1 AND 5", "n NOT BETWEEN t AND 100", "d BETWEEN -2.5 AND 1e0", "s BETWEEN 'a' AND 'b'", "n BETWEEN i AND h",
    "s LIKE 'a%'", "s LIKE '%a'", "s LIKE '%b%'", "s LIKE '_'", "s LIKE '__'", "s LIKE 'a_b'", "s LIKE ''", "s LIKE '%'",
    "s LIKE 'a%b'", "s NOT LIKE '%a%'", "v LIKE '_%_'", "s LIKE 'ß'", "s LIKE '%.%'", "s LIKE '[a]%'", "s LIKE 'a'",
    "s LIKE '\U0001f986'", "s LIKE '(a|b)'", "'abc' LIKE 'a%'", "s LIKE '%%'", "s LIKE 'a__'", "s LIKE '^a$'",
    "n > 1 AND s = 'a'", "n > 1 OR s = 'a'", "NOT (n > 1 AND b)", "NOT (n > 1 OR b)", "(n > 1) IS UNKNOWN",
    "b AND (n IS NULL OR d > 0.5)", "n > 1 AND n < 100 AND d <> 0.5 AND s LIKE '%a%'", "(b OR FALSE) AND (TRUE OR b)",
    "(n > 1) = b", "(n > 1) IS NOT TRUE", "((s)) = (('a'))", "NOT NOT b", "b IS NULL = FALSE",
]  # fmt: skip
CONDITIONS = [
    *(f"{left} {word} {right}" for left, right in PAIRS for word in COMPARISONS),
    *OTHERS,
]


def _parts(given: Sequence[str], size: int) -> list[Sequence[str]]:
    return [given[start : start + size] for start in range(0, len(given), size)]


def compiled(text: str) -> Expression | None:
    """A condition over the columns of SCHEMA."""

    def column(node: exp.Column) -> Expression | None:
        first, *rest = [part.name for part in node.parts]
        if first not in TYPES:
            return None
        return field_of(FieldValue(path=(first,), type=parse_type(TYPES[first])), rest)

    return compile_expression(parse_expression(text), column)


def random_rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows of values at the edges of their types, and NULLs."""
    dice = random.Random(seed)

    def one(values: Sequence[Any]) -> Any:
        return None if dice.random() < 0.15 else dice.choice(values)

    def single(value: float | None) -> float | None:
        if value is None or abs(value) == 1e300:
            return None
        return float(struct.unpack("f", struct.pack("f", value))[0])

    rows = []
    for _ in range(count):
        moment = one(MOMENTS)
        inner = one([{"n": one(LARGE + WHOLE), "s": one(TEXTS), "x": one([{"d": one(FRACTIONS)}])}])
        rows.append(
            {
                "b": one((True, False)),
                "t": one(WHOLE),
                "h": one((*WHOLE, 32767, -32768)),
                "i": one((*WHOLE, 2**31 - 1, -(2**31))),
                "n": one(WHOLE + LARGE),
                "f": single(one(FRACTIONS)),
                "d": one((*FRACTIONS, float(2**53))),
                "p": one(
                    [Decimal(text) for text in ("0.00", "1.00", "0.50", "-1.00", "99999999.99")]
                ),
                "q": one(
                    [Decimal(text) for text in ("0", "0.5", "100.005", "-1", "12345678901.5")]
                ),
                "s": one(TEXTS),
                "v": one(TEXTS),
                "c": one(("a", "a  ", "abc")),
                "y": one((b"", b"a", b"\xff")),
                "day": one(DAYS),
                "ts": moment,
                "tz": None if moment is None else moment.replace(tzinfo=UTC),
                "r": inner,
                "a": one(([], [1], [None])),
            }
        )
    return rows


def test_every_condition_is_in_the_set() -> None:
    """None of those below is compared because Spark would run it anyway."""
    assert [text for text in CONDITIONS if compiled(text) is None] == []


def in_spark(spark: SparkSession, conditions: Sequence[str], rows: Path) -> pa.Table:
    """The value of each condition for each row, by Spark as people run it: in ANSI mode."""
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    frame = spark.read.parquet(str(rows)).coalesce(1)
    texts = (f"{to_spark(text, SCHEMA)} AS c{i}" for i, text in enumerate(conditions))
    return frame.selectExpr(*texts).toArrow()


@pytest.mark.parametrize(
    "conditions", list(_parts(CONDITIONS, 100)), ids=lambda part: f"from {part[0]}"
)
def test_the_two_engines_agree_on_every_condition(
    spark: SparkSession, conditions: Sequence[str], tmp_path: Path
) -> None:
    """Value for value, NULL and NaN among them; in a time zone that no value depends on."""
    batch = pa.RecordBatch.from_pylist(random_rows(seed=11, count=150), schema=ARROW)
    pq.write_table(pa.Table.from_batches([batch]), tmp_path / "rows.parquet")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        found = in_spark(spark, conditions, tmp_path / "rows.parquet")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")

    rows = batch.to_pylist()
    wrong = []
    for index, text in enumerate(conditions):
        condition = compiled(text)
        assert condition is not None, text
        ours = evaluate(condition, batch).to_pylist()
        theirs = found.column(index).to_pylist()
        wrong += [
            (text, row, one, other)
            for row, one, other in zip(rows, ours, theirs, strict=True)
            if one is not other
        ]
    assert [one[0] for one in wrong[:10]] == [], wrong[0]


@pytest.mark.parametrize("text", CONDITIONS[:: len(CONDITIONS) // 20] + OTHERS)
def test_an_expression_travels_as_json(text: str) -> None:
    """And is the same there."""
    condition = compiled(text)
    assert condition is not None

    assert expression_from_json(expression_to_json(condition)) == condition


@pytest.mark.parametrize(
    "text",
    [
        "UPPER(s) = 'A'",
        "n + 1 > 2",
        "f > 1",
        "f = n",
        "d = p",
        "c = 'a'",
        "y = y",
        "a = a",
        "r = r",
        "s = 1",
        "n = '1'",
        "ts > day",
        "ts = tz",
        "tz > TIMESTAMP '2026-01-01 00:00:00'",
        "day = DATE '2026-02-30'",
        "ts > TIMESTAMP '2026-01-01'",
        "b < TRUE",
        "s LIKE v",
        "s LIKE 'a\\%'",
        "s LIKE 'a!%' ESCAPE '!'",
        "s SIMILAR TO 'a'",
        "n IN (1, NULL)",
        "n BETWEEN SYMMETRIC 5 AND 1",
        "n = NULL",
        "q = 1234567890123456789012345678901.5",
        "n = 99999999999999999999",
        "d = 1e400",
        "EXISTS (SELECT 1)",
        "n IN (SELECT 1)",
        "unknown > 1",
        "r.unknown = 1",
        "NOT n",
        "n AND b",
        "n IS TRUE",
        "RAND() < 0.5",
    ],
)
def test_what_may_differ_is_left_to_spark(text: str) -> None:
    """Types that Spark casts, failures, patterns with an escape, functions."""
    assert compiled(text) is None
