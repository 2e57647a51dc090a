"""Conditions have the same value in reading tasks (Arrow) and in Spark, for all that the set has."""

from __future__ import annotations

import random
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import ArithmeticException, DateTimeException, NumberFormatException
from sqlglot import exp

from penstock.catalog.model.table import PhysicalColumn, Schema
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.arrow import arrow_schema, arrow_type, python_values
from penstock.connector.expression import (
    Expression,
    FieldValue,
    expression_from_json,
    expression_to_json,
)
from penstock.connector.fragments import evaluate
from penstock.sql.expressions.expression import parse_expression, to_spark
from penstock.sql.expressions.fragments import compile_expression, field_of
from penstock.sql.expressions.value_types import may_fail

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
    "w": "DECIMAL(37, 19)",
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
    "straße", "ΑΣ", "ΑΣΑ", "Σ", "Σ.", "aΣ\u0301b", "İi", "ŉ", "ﬁn", "ǆ", "\u1f80Σ", "\ua7cbx", "\u0277ß", "Ä", "É",
    "a,b", ",a,,b,", ",", "xxaxx", "äxä,ä", "a.b", "a\\b", "!a", "abcabc", "\U0001f986a\U0001f986", "A-B_C",
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
SIZES = (1, 10, 17, 18, 19, 20, 21, 22, 24, 29, 37)
"""Digits of a DECIMAL whose point is behind the 19th from the right."""
WIDE = Context(prec=38)
UNITS = ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
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
READ_TEXTS = [
    "TRY_CAST(s AS INT)",
    "TRY_CAST(s AS BIGINT)",
    "TO_TIMESTAMP(s)",
    "TO_DATE(s)",
    "TRY_CAST(s AS DATE)",
]
NUMBER_TEXTS = (
    "0",
    "-0",
    "+5",
    "007",
    "-2147483648",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "00000000000000000000000012",
    "1.5",
    "1.",
    ".5",
    "-1.999",
    "1e3",
    " 12 ",
    "\t7\n",
    "\x001",
    "\x001.5",
    "1.5\x00",
    "\x7f3\x7f",
    "1 2",
    "--1",
    "+-1",
    "+",
    "-",
    "1.5\n",
    "1.5\r\n",
    "1\u2028",
    "1.5\u2028",
    "0x1F",
    "1L",
    "\u0661",
    "99999999999999999999",
    "1\u00a0",
    "1.5.5",
    "1.5 ",
    " 1.5",
    "12,5",
    "1\x1f",
    "1.\x1f",
)
MOMENT_TEXTS = (
    "2026-01-01",
    "2026-01-01 10:11:12",
    "2026-01-01 10:11:12.1",
    "2026-01-01 10:11:12.123456789",
    "2026-1-2",
    "2026-1-2 3:4:5",
    "2026-01-2 03:4:05.999999",
    "2026-02-29",
    "2024-02-29",
    "1900-02-29",
    "2000-02-29",
    "2026-04-31",
    "2026-13-01",
    "2026-00-01",
    "2026-01-00",
    "0000-01-01",
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59.999",
    "2026-01-01T10:11:12",
    "2026-01-01 24:00:00",
    "2026-01-01 10:60:00",
    "2026-01-01 10:11",
    "2026-01-01 10:11:12 ",
    " 2026-01-01",
    "2026-01-01\n",
    "2026-01-01 10:11:12\r\n",
    "2026-01-01 10:11:12.1234\n",
    "2026-01-01\u2028",
    "2026-01-01 1:1:1\r",
    "2026-01-01\n\n",
    "20260101",
    "26-01-01",
    "2026-01-01 ",
    "2026-01-01 10:11:12.",
    "2026-01-01 10:11:12Z",
    "+2026-01-01",
    "12026-01-01",
    "2026-2-30 1:1:1",
    "2026-01-01 9:09:09.9999999999",
    "2026",
    "2026-1",
    "2026-02",
    "2026-02 ",
    "2026 ",
    "2026 x",
    "2026-02-30 x",
    "2026-02-28Tx\ny",
    "2026-2-28 \u00e4",
    "\t2026-02-28\x7f",
    "\u00a02026-02-28",
    "2026-02-28\u2003",
    "2026-02-28-",
    "2026-02-028",
    "2026-002-28",
    "226-02-28",
    "02026-02-28",
    "9999999-12-31",
    "12345678-01-01",
    "-0001-01-01",
    "-0000-02-29",
    "-9999999-02-29",
    "+10000-01-01",
    "++2026-01-01",
    "2026--01",
    "2026-01-",
    "-",
    "\u0662026-01-01",
    "20260228",
    "20260230",
    "+120260228",
    "2026-01-01t10:11:12",
    "2026-01-01T24:00:00",
    "2026-01-01T23:59:60",
    "2026-28-02",
    "2026-12-02",
    "2026-01-01 10",
    "  2026-01-01 10:11:12.123456  ",
    "2026-01-01 10:11:12.123456",
    "-2026-01-01",
    "+12026-01-01 10",
)
WRITTEN_TIMES = [
    "DATE_FORMAT(ts, 'yyyy-MM-dd')", "DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss.SSSSSS')", "DATE_FORMAT(ts, 'HH:mm')",
    "DATE_FORMAT(ts, 'yyyyMMdd')", "DATE_FORMAT(ts, 'dd/MM/yyyy HH')", "DATE_FORMAT(ts, 'yyyy-MM-dd''T''HH:mm:ss''Z''')",
    "DATE_FORMAT(ts, 'HHmm-')", "DATE_FORMAT(ts, 'yyyy''''MM')", "DATE_FORMAT(ts, 'ss.S ss')", "CAST(ts AS STRING)", "CAST(day AS STRING)",
    "CAST(CAST(ts AS TIMESTAMP(0)) AS STRING)", "CAST(CAST(ts AS TIMESTAMP(6)) AS STRING)",
]  # fmt: skip
NUMBER_CASTS = [
    f"CAST({name} AS {kind})"
    for name, kind in product(
        ("t", "h", "i", "n", "p", "q", "w", "-5", "1.005"),
        ("DECIMAL(3, 0)", "DECIMAL(5, 1)", "DECIMAL(10, 2)", "DECIMAL(19, 0)", "DECIMAL(20, 19)", "DECIMAL(38, 0)", "DECIMAL(38, 18)",
         "DECIMAL(38, 38)", "DECIMAL", "FLOAT", "DOUBLE", "BIGINT", "INT", "TINYINT"),
    )
    if name not in ("-5", "1.005") or kind.startswith("DECIMAL")
]  # fmt: skip
VALUES = [
    "REPEAT(s, 3)", "REPEAT(s, 0)", "REPEAT(v, -1)", "REPEAT('ab', 2)",
    "CAST(d AS FLOAT)", "CAST(d * 1e10 AS FLOAT)", "CAST(r.n AS DECIMAL(3, 0))", "CAST(n * 3 + i AS DECIMAL(4, 1))",
    "TRY_CAST(n AS DECIMAL(3, 1))", "TRY_CAST(q AS DECIMAL(5, 2))", "CAST(CAST(q AS DECIMAL(9, 4)) * p AS DECIMAL(12, 3))",
    "CAST(n AS DECIMAL(12, 2)) + p", "COALESCE(CAST(n AS DECIMAL(3, 0)), 0)", "CAST(ABS(p) AS DECIMAL(4, 1))",
    "CAST(-p AS INT)", "CAST(CHAR_LENGTH(s) AS DECIMAL(1, 0))", "CAST(p * p AS DOUBLE)",
    *NUMBER_CASTS,
    "CAST(n AS INT)", "CAST(n AS SMALLINT)", "CAST(i AS TINYINT)", "CAST(n * 4294967297 AS INT)", "CAST(d AS INT)",
    "CAST(d AS BIGINT)", "CAST(d AS SMALLINT)", "CAST(d * 1e10 AS INT)", "CAST(d * 1e10 AS TINYINT)", "CAST(b AS STRING)",
    "CAST(s AS VARCHAR(2))", "CAST(v AS VARCHAR(20))", *READ_TEXTS,
    "WEEK(ts)", "WEEK(day)", "DAYOFYEAR(ts)", "DAYOFYEAR(day)", "DAYOFWEEK(ts)", "DAYOFWEEK(day)", "EXTRACT(DOW FROM day)",
    "EXTRACT(ISODOW FROM ts)", "EXTRACT(ISOYEAR FROM ts)", "EXTRACT(ISOYEAR FROM day)", "EXTRACT(DOY FROM ts)",
    "EXTRACT(MILLISECOND FROM ts)", "EXTRACT(MICROSECOND FROM ts)", "EXTRACT(EPOCH FROM ts)", "EXTRACT(EPOCH FROM day)",
    "HOUR(tz)", "YEAR(tz)", "EXTRACT(MILLISECOND FROM tz)", "DAYOFWEEK(tz)",
    "ts + INTERVAL '1' DAY", "ts - INTERVAL '5' SECOND", "INTERVAL '90' MINUTE + ts", "ts + INTERVAL '1 02:03' DAY TO MINUTE",
    "ts - INTERVAL '0.000001' SECOND", "tz + INTERVAL '23' HOUR", "tz - INTERVAL '5' MINUTE", "ts + INTERVAL '-5' MINUTE",
    "TIMESTAMPADD(DAY, 1, ts)", "TIMESTAMPADD(WEEK, -1, ts)", "TIMESTAMPADD(HOUR, 25, ts)", "TIMESTAMPADD(SECOND, -1, tz)",
    "TIMESTAMPDIFF(DAY, ts, TIMESTAMP '2026-01-01 00:00:00')", "TIMESTAMPDIFF(HOUR, TIMESTAMP '1999-12-31 23:59:59.5', ts)",
    "TIMESTAMPDIFF(WEEK, day, DATE '2026-01-01')", "TIMESTAMPDIFF(DAY, day, ts)", "TIMESTAMPDIFF(SECOND, ts, ts)",
    *(f"FLOOR(ts TO {unit})" for unit in UNITS), *(f"CEIL(ts TO {unit})" for unit in UNITS[:-3]),
    *(f"FLOOR(day TO {unit})" for unit in ("WEEK", "MONTH", "QUARTER", "YEAR")),
    "CAST(ts AS TIMESTAMP(0))", "CAST(ts AS TIMESTAMP(3))", "CAST(ts AS TIMESTAMP(6))", "CAST(tz AS TIMESTAMP(3))",
    "CAST(tz AS TIMESTAMP(6))", "CAST(tz AS TIMESTAMP_LTZ(3))", "CAST(tz AS TIMESTAMP_LTZ(0))", "CAST(day AS TIMESTAMP(3))",
    "CAST(CAST(tz AS TIMESTAMP(3)) AS DATE)", "TO_TIMESTAMP_LTZ(n, 3)", "TO_TIMESTAMP_LTZ(n, 0)", "TO_TIMESTAMP_LTZ(i)",
    "TO_TIMESTAMP_LTZ(n, 3) > tz", "DATE_FORMAT(tz, 'SSS')", "DATE_FORMAT(day, 'yyyy-MM')", *WRITTEN_TIMES,
    "CONCAT(CAST(day AS STRING), ' ', s)",
    "UPPER(s)", "LOWER(s)", "UPPER('ß')", "LOWER(v)", "REVERSE(s)", "RIGHT(s, 2)", "RIGHT(s, 0)",
    "SUBSTR(s, 2)", "SUBSTR(s, 0, 2)", "SUBSTRING(s, 0, 2)", "SUBSTRING(s, -2)", "SUBSTRING(s, -2, 1)", "SUBSTR(s, -1, 0)",
    "TRIM(BOTH 'x' FROM s)", "TRIM(LEADING ',a' FROM s)", "RTRIM(s, 'ä')", "BTRIM(s, 'xa')", "LTRIM(s, 'x')",
    "CONCAT_WS(',', s, v)", "CONCAT_WS(s, v, 'x', v)", "CONCAT_WS('-', s)", "POSITION('a' IN s)", "POSITION('ä' IN s)",
    "LOCATE(',', s)", "INSTR(s, 'bc')", "INSTR('abc', 'c')", "STARTSWITH(s, 'a')", "ENDSWITH(s, 'ä')", "STARTSWITH(s, '')",
    "REPLACE(s, 'a', 'xy')", "REPLACE(s, ',', '')", "REPLACE(s, 'ß', '$1')", "SPLIT_INDEX(s, ',', 0)",
    "SPLIT_INDEX(s, ',', 1)", "SPLIT_INDEX(s, ',', 4)", "SPLIT_INDEX(s, 'bc', 1)", "SPLIT_INDEX(s, '.', 0)",
    "SPLIT_INDEX('a,b', ',', 1)", "LPAD(s, 4, '*')", "RPAD(s, 4, 'ä')", "LPAD(s, 0, 'x')", "LPAD(s, 1, 'x')",
    "s LIKE 'a!%%' ESCAPE '!'", "s LIKE '%!_%' ESCAPE '!'", "s LIKE '%\\%' ESCAPE '!'", "s LIKE '!!a' ESCAPE '!'",
    "s NOT LIKE 'a#_b' ESCAPE '#'", "s LIKE 'a!%b' ESCAPE '!'",
    "NULLIF(n, 1)", "NULLIF(s, '')", "NULLIF(d, 0.5)", "NULLIF(p, 1)", "NULLIF(i, n)", "COALESCE(d, 0)", "COALESCE(p, 0)",
    "COALESCE(q, p)", "IF(b, d, n)", "CASE WHEN b THEN p ELSE 1 END", "CASE WHEN b THEN 0.5 ELSE q END", "IF(b, 1, 0.5)",
    "n / 7", "i / 2", "t / 3", "n / -7", "(n + 1) / 2", "d / 2", "d / 0.5", "d / d", "n / d", "1 / d",
    "d / n", "d / (0.0 * d)", "0.5 / d", "d / -0.0", "n % 5", "MOD(n, 5)", "MOD(n, 123)", "i % -3", "t % 7", "MOD(t, 100)",
    "n % -1", "ABS(d)", "ABS(p)", "ABS(q)", "ABS(f)", "ABS(i)", "ABS(-5)", "-d", "-p", "-f", "-(-d)", "SIGN(n)", "SIGN(d)",
    "SQRT(d)", "SQRT(n)", "CEIL(d)", "FLOOR(d)", "CEILING(d)", "CEIL(n)", "FLOOR(t)", "CEIL(p)", "FLOOR(p)", "FLOOR(q)",
    "CEIL(q)", "ROUND(p, 1)", "ROUND(p)", "ROUND(q, 3)", "ROUND(q, 20)", "ROUND(q, 0)", "GREATEST(n, i)", "LEAST(n, 5)",
    "GREATEST(s, v, 'b')", "LEAST(day, DATE '2000-01-01')", "GREATEST(p, 0.5)", "LEAST(ts, ts)",
    "t + 1", "t + t", "t - h", "i * 2", "n - i", "n + t", "2 * n", "-i", "-n", "-t", "n * n", "h + h", "1 + 1",
    "d + 1", "d * 0.5", "d - d", "d * i", "n * d", "d + n", "1e0 + i", "d * 1e0", "0.1 + d", "d - 0.3",
    "n * 0.908", "p * 2", "p + 1", "p - p", "p * p", "i + 0.5", "n - 1.25", "t * 0.5", "p + n", "p - 0.125", "100 * p",
    "0.5 * 0.5", "p * 0", "q + p",
    "CAST(t AS SMALLINT)", "CAST(t AS INT)", "CAST(i AS BIGINT)", "CAST(n AS DOUBLE)", "CAST(i AS DOUBLE)",
    "CAST(f AS DOUBLE)", "CAST(n AS STRING)", "CAST(t AS STRING)", "CAST(s AS STRING)", "CAST(ts AS DATE)",
    "CAST(n AS BIGINT)", "CAST(2 AS BIGINT) * p", "CAST('x' AS STRING)", "CAST(CAST(ts AS DATE) AS DATE)",
    "IF(b, 1, 2)", "IF(b, n, 0)", "IF(n > 1, s, v)", "CASE WHEN b THEN s ELSE 'x' END", "CASE WHEN b THEN t WHEN n = 1 THEN i END",
    "CASE i WHEN 1 THEN 'a' WHEN 2 THEN s END", "CASE WHEN b THEN NULL ELSE d END", "CASE WHEN d > 1 THEN ts END",
    "CASE WHEN b IS NULL THEN day WHEN b THEN DATE '2026-01-01' ELSE CAST(ts AS DATE) END",
    "COALESCE(n, i)", "COALESCE(t, i, n)", "COALESCE(s, v, 'x')", "COALESCE(d, d)", "COALESCE(p, p)", "COALESCE(b, FALSE)",
    "CHAR_LENGTH(s)", "CHARACTER_LENGTH(v)", "SUBSTRING(s, 1, 1)", "SUBSTRING(s FROM 2)", "SUBSTRING(s, 2, 0)",
    "SUBSTRING(s, 100)", "LEFT(s, 2)", "LEFT(s, 0)", "TRIM(s)", "LTRIM(s)", "RTRIM(s)", "BTRIM(s)",
    "TRIM(LEADING FROM s)", "TRIM(TRAILING FROM ' a ')", "CONCAT(s, 'x')", "CONCAT(s, v, '-', s)", "s || v", "s || ' ' || s",
    "CONCAT('a', 'b')", "CONCAT(s)",
    "YEAR(ts)", "YEAR(day)", "QUARTER(day)", "MONTH(ts)", "DAYOFMONTH(ts)", "HOUR(ts)", "MINUTE(ts)", "SECOND(ts)",
    "EXTRACT(YEAR FROM ts)", "EXTRACT(DAY FROM day)", "EXTRACT(HOUR FROM ts)", "EXTRACT(SECOND FROM ts)",
    "EXTRACT(QUARTER FROM ts)", "EXTRACT(MINUTE FROM ts)", "EXTRACT(MONTH FROM day)",
    "n", "r.x.d", "1", "'a'", "1.50", "TRUE", "DATE '2026-01-01'", "TIMESTAMP '2026-01-01 10:00:00.5'", "n > 1", "s IS NULL",
    "b AND n > 1", "-5", "-0.5", "1e2", "3000000000",
]  # fmt: skip
ODD_MOMENTS = (
    -62_167_219_200_000_001,
    -62_135_596_800_000_001,
    -99_999_999_999_999_999,
    253_402_300_800_000_000,
    8 * 10**17,
)
"""Microseconds of 1970 of moments before the year 1 and after 9999, which Python has not."""
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

    def decimal(digits: int) -> Decimal:
        edge = dice.choice((10**digits - 1, 10**digits // 2, dice.randint(0, 10**digits)))
        return Decimal(dice.choice((-1, 1)) * min(edge, 10**37 - 1)).scaleb(-19, WIDE)

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
                "w": one([decimal(dice.choice(SIZES)) for _ in range(4)]),
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


def test_every_value_is_in_the_set() -> None:
    """None of those below is compared because Spark would compute it anyway."""
    assert [text for text in VALUES if compiled(text) is None] == []


@pytest.mark.parametrize("values", _parts(VALUES, 40), ids=lambda part: f"from {part[0]}")
def test_the_two_engines_agree_on_every_value(
    spark: SparkSession, values: Sequence[str], tmp_path: Path
) -> None:
    """And on its type; of numbers that do not overflow."""
    rows = [
        row for row in random_rows(seed=5, count=400) if row["n"] is None or abs(row["n"]) < 2**31
    ]
    rows = [
        row for row in rows if all(row[c] is None or abs(row[c]) <= 128 for c in ("t", "h", "i"))
    ]
    assert len(rows) > 100
    rows = [row | {"t": None if abs(row["t"] or 0) > 50 else row["t"]} for row in rows]
    batch = pa.RecordBatch.from_pylist(rows, schema=ARROW)
    pq.write_table(pa.Table.from_batches([batch]), tmp_path / "rows.parquet")
    found = in_spark(spark, values, tmp_path / "rows.parquet")

    for index, text in enumerate(values):
        value = compiled(text)
        assert value is not None, text
        ours, theirs = evaluate(value, batch), found.column(index)
        assert ours.type == theirs.type == arrow_type(value.type), text
        # as texts: NaN is then equal to itself, and 0.0 is not -0.0
        pairs = zip(*(map(repr, python_values(side)) for side in (ours, theirs)), strict=True)
        assert [pair for pair in pairs if pair[0] != pair[1]] == [], text


def test_texts_are_read_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Spaces, signs, fractions and line terminators; one text alone and beside others."""
    texts = [None, *NUMBER_TEXTS, *MOMENT_TEXTS, *TEXTS]
    batch = pa.RecordBatch.from_pydict({"s": texts})
    pq.write_table(pa.Table.from_batches([batch]), tmp_path / "rows.parquet")
    found = in_spark(spark, READ_TEXTS, tmp_path / "rows.parquet")

    wrong = []
    for index, text in enumerate(READ_TEXTS):
        value, theirs = compiled(text), values_of(found.column(index))
        assert value is not None
        wrong += [
            (text, *values)
            for values in zip(texts, values_of(evaluate(value, batch)), theirs, strict=True)
            if values[1] != values[2]
        ]
        alone = [values_of(evaluate(value, batch.slice(row, 1))) for row in range(len(texts))]
        assert alone == [[each] for each in values_of(evaluate(value, batch))], text
    assert wrong == []


def values_of(array: pa.Array) -> list[Any]:
    """The values; of days and moments their numbers, as Python has none of other years."""
    if pa.types.is_date(array.type):
        return array.cast(pa.int32()).to_pylist()
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    return array.to_pylist()


def test_years_without_four_digits_are_written_as_in_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With a sign."""
    micros = pa.array([None, 0, *ODD_MOMENTS, 1])
    days = pc.divide(micros, 86_400_000_000).cast(pa.int32()).cast(pa.date32())
    batch = pa.RecordBatch.from_pydict({"ts": micros.cast(pa.timestamp("us")), "day": days})
    pq.write_table(pa.Table.from_batches([batch]), tmp_path / "rows.parquet")
    times = [f"CAST(FLOOR(ts TO {unit}) AS STRING)" for unit in UNITS]
    found = in_spark(spark, WRITTEN_TIMES + times, tmp_path / "rows.parquet")

    for index, text in enumerate(WRITTEN_TIMES + times):
        value = compiled(text)
        assert value is not None
        assert evaluate(value, batch).to_pylist() == found.column(index).to_pylist(), text


@pytest.mark.parametrize("function", ["UPPER", "LOWER"])
def test_each_letter_has_the_case_that_it_has_in_spark(
    spark: SparkSession, function: str, tmp_path: Path
) -> None:
    """All of Unicode, and letters beside others, as a sigma at the end of a word is another one."""
    dice = random.Random(3)
    around = "aA1 .-'\u0301\u00adßİ\u0131Σ\u03c3ςδΔ\u1fb3\u0277\ua7cb\ua7dd\U0001df41\U00016ebb\U0001f986"
    texts = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    texts += ["".join(dice.choices(around, k=dice.randint(2, 6))) for _ in range(20_000)]
    batch = pa.RecordBatch.from_pydict({"s": texts})
    pq.write_table(pa.Table.from_batches([batch]), tmp_path / "rows.parquet")
    value = compiled(f"{function}(s)")
    assert value is not None

    theirs = in_spark(spark, [f"{function}(s)"], tmp_path / "rows.parquet").column(0)
    differ = pc.not_equal(theirs.combine_chunks(), evaluate(value, batch))
    assert pa.array(texts).filter(differ).to_pylist() == []


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("n + 1", {"n": 2**63 - 1}),
        ("i * i", {"i": 2**31 - 1}),
        ("t + t", {"t": 127}),
        ("h - i", {"h": -1, "i": 2**31 - 1, "b": True}),
        ("-n", {"n": -(2**63)}),
        ("ABS(n)", {"n": -(2**63)}),
        ("n / i", {"n": 1, "i": 0}),
        ("n / i", {"n": -(2**63), "i": -1}),
        ("i / t", {"i": -(2**31), "t": -1}),
        ("n / 0", {"n": 1}),
        ("CAST(s AS INT)", {"s": "2147483648"}),
        ("CAST(s AS BIGINT)", {"s": "1.5x"}),
        ("CAST(s AS INT)", {"s": None, "b": True}),
        ("CAST(s AS DATE)", {"s": "2026-02-30"}),
        ("CAST(s AS DATE)", {"s": "2026-02-28 x", "b": True}),
        (
            "TIMESTAMPDIFF(SECOND, ts, TIMESTAMP '2200-01-01 00:00:00')",
            {"ts": datetime(1900, 1, 1)},
        ),
        ("n % i", {"n": 1, "i": 0}),
        ("n / i", {"n": None, "i": 0, "b": True}),
        ("n % i", {"n": -(2**63), "i": -1, "b": True}),
        ("n % i", {"n": -(2**63), "i": 7, "b": True}),
    ],
)
def test_what_overflows_in_spark_fails_here(
    spark: SparkSession, text: str, row: dict[str, Any], tmp_path: Path
) -> None:
    """In ANSI mode; or it does in neither."""
    value = compiled(text)
    assert value is not None
    assert may_fail(value)
    batch = pa.RecordBatch.from_pylist([dict.fromkeys(TYPES) | row], schema=ARROW)
    pq.write_table(pa.Table.from_batches([batch]), tmp_path / "rows.parquet")
    if "b" in row:
        theirs = in_spark(spark, [text], tmp_path / "rows.parquet").column(0).to_pylist()
        assert evaluate(value, batch).to_pylist() == theirs
        return
    with pytest.raises((ArithmeticException, DateTimeException, NumberFormatException)):
        in_spark(spark, [text], tmp_path / "rows.parquet")
    with pytest.raises(
        pa.ArrowInvalid, match=r"overflow|no whole number|is no day|not in range|divide by zero"
    ):
        evaluate(value, batch)


@pytest.mark.parametrize("rows", [[], [dict.fromkeys(TYPES)] * 3], ids=["none", "of NULLs"])
def test_batches_without_values_are_computed(rows: list[dict[str, Any]]) -> None:
    """Without rows, or with NULLs alone."""
    batch = pa.RecordBatch.from_pylist(rows, schema=ARROW)
    for text in (*VALUES, *CONDITIONS):
        value = compiled(text)
        assert value is not None
        assert len(evaluate(value, batch)) == len(rows), text


@pytest.mark.parametrize("text", CONDITIONS[:: len(CONDITIONS) // 20] + OTHERS + VALUES[::10])
def test_an_expression_travels_as_json(text: str) -> None:
    """And is the same there."""
    condition = compiled(text)
    assert condition is not None

    assert expression_from_json(expression_to_json(condition)) == condition


@pytest.mark.parametrize(
    "text",
    [
        "b AND n + 1 > 2",
        "CASE WHEN b THEN n + 1 ELSE 0 END > 2",
        "COALESCE(n + 1, 0) > 2",
        "f * 2 > 1",
        "q * q * q > 1",
        "n || s = 'a'",
        "UPPER(n) = '1'",
        "UPPER(LOWER(s)) = 'A'",
        "SUBSTRING(s, 1, -1) = 'a'",
        "TRIM(BOTH '' FROM s) = 'a'",
        "s LIKE 'a!b' ESCAPE '!'",
        "s LIKE 'a!' ESCAPE '!'",
        "REPLACE(s, '', 'x') = 'a'",
        "REPLACE(s, v, 'x') = 'a'",
        "POSITION('' IN s) = 1",
        "LOCATE(v, s) = 1",
        "SPLIT_INDEX(s, '', 0) = 'a'",
        "SPLIT_INDEX(s, ',', -1) = 'a'",
        "LPAD(s, 5, 'xy') = 'a'",
        "LPAD(s, 100000, 'x') = 'a'",
        "CONCAT_WS('-', n, s) = 'a'",
        "NULLIF(n + 1, 1) = 5",
        "p / 2 > 1",
        "h / 3000000000 = 0",
        "n / 0.5 > 1",
        "d % 2 = 0",
        "p % 2 = 0",
        "f / 2 > 1",
        "ROUND(d, 2) = 1",
        "ROUND(p, -1) = 1",
        "POWER(d, 2) > 1",
        "GREATEST(d, 1) > 1",
        "CASE WHEN b THEN n / i ELSE 1 END = 1",
        "IF(b, ABS(n), 1) = 1",
        "SUBSTRING(s, n) = 'a'",
        "CAST(s AS SMALLINT) = 1",
        "TRY_CAST(n AS INT) = 1",
        "TRY_CAST(s AS DOUBLE) = 1",
        "CAST(s AS DOUBLE) = 1",
        "CAST(f AS INT) = 1",
        "CAST(d AS DECIMAL(10, 2)) = 1",
        "CAST(s AS DECIMAL(10, 2)) = 1",
        "CAST(IF(b, 1, 0.5) AS DECIMAL(3, 1)) = 1",
        "CAST(COALESCE(p, q) AS INT) = 1",
        "CAST(CAST(n AS DECIMAL(19, 0)) AS INT) = 1",
        "CAST(CAST(n AS DECIMAL(38, 1)) AS DECIMAL(38, 0)) = 1",
        "CAST(p AS STRING) = '1'",
        "IF(b, CAST(s AS INT), 1) = 1",
        "TO_DATE(s, 'yyyy-MM-dd') = day",
        "IF(b, CAST(s AS DATE), day) = day",
        "REPEAT(s, 101) = 'a'",
        "REPEAT(s, n) = 'a'",
        "CAST(d AS STRING) = '1'",
        "CAST(n AS VARCHAR(2)) = 'a'",
        "HOUR(day) = 1",
        "EXTRACT(EPOCH FROM tz) = 1",
        "ts + INTERVAL '1' MONTH = ts",
        "tz + INTERVAL '1' DAY = tz",
        "TIMESTAMPADD(MONTH, 1, ts) = ts",
        "TIMESTAMPADD(DAY, n, ts) = ts",
        "TIMESTAMPDIFF(MONTH, ts, ts) = 1",
        "FLOOR(tz TO DAY) = tz",
        "CEIL(ts TO MONTH) = ts",
        "CAST(ts AS TIMESTAMP(1)) = ts",
        "CAST(ts AS TIMESTAMP_LTZ(3)) = tz",
        "TO_TIMESTAMP_LTZ(s, 3) = tz",
        "DATE_FORMAT(ts, 'MMM') = 'x'",
        "DATE_FORMAT(ts, 'yy') = 'x'",
        "DATE_FORMAT(ts, 'H') = 'x'",
        "DATE_FORMAT(ts, 'HH[mm]') = 'x'",
        "DATE_FORMAT(ts, s) = 'x'",
        "DATE_FORMAT(s, 'yyyy') = 'x'",
        "CAST(tz AS STRING) = 'x'",
        "IF(b, n, s) = 1",
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
