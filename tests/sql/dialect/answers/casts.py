"""CAST and TRY_CAST: CastFunctionITCase."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from tests.sql.dialect.answers import Answers, local

__all__ = ["ANSWERS"]

ANSWERS: Answers = [
    ("CAST('42' AS INT)", 42),
    ("CAST(CAST(NULL AS INT) AS STRING)", None),
    ("TRY_CAST('non-number' AS INT)", None),
    ("COALESCE(TRY_CAST('non-number' AS INT), 0)", 0),
    ("CAST('1.234' AS INT)", 1),
    ("CAST(' 42 ' AS BIGINT)", 42),
    ("CAST('-3276913443134' AS BIGINT)", -3276913443134),
    ("TRY_CAST('-130' AS TINYINT)", None),
    ("CAST(TRUE AS INT)", 1),
    ("CAST(1.9 AS INT)", 1),
    ("CAST(CAST(12345 AS SMALLINT) AS TINYINT)", 57),
    ("CAST(CAST(-12345 AS SMALLINT) AS TINYINT)", -57),
    ("CAST(CAST(32780 AS INT) AS SMALLINT)", -32756),
    ("CAST(CAST(4294967297 AS BIGINT) AS INT)", 1),
    ("CAST(CAST(9123.87 AS DECIMAL(10, 3)) AS TINYINT)", -93),
    ("CAST(CAST(3276913443134.87 AS DECIMAL(20, 3)) AS INT)", -146603714),
    ("CAST(CAST(123456.789 AS DOUBLE) AS SMALLINT)", -7616),
    ("CAST(CAST(9234567891.12345 AS DOUBLE) AS INT)", 2147483647),
    ("CAST(CAST(9234567891.12345 AS DOUBLE) AS BIGINT)", 9234567891),
    ("CAST(CAST(NULL AS DOUBLE) AS INT)", None),
    ("CAST('1.2' AS DECIMAL(5, 3))", Decimal("1.200")),
    ("CAST(42 AS DECIMAL(5, 3))", Decimal("42.000")),
    ("CAST(12345.678 AS DECIMAL(5, 3))", None),
    ("CAST(CAST(12.678 AS DOUBLE) AS DECIMAL(5, 3))", Decimal("12.678")),
    ("CAST('1.234' AS DOUBLE)", 1.234),
    ("CAST('FalsE' AS BOOLEAN)", False),
    ("CAST(0 AS BOOLEAN)", False),
    ("CAST('2021-09-27 12:34:56.123456789' AS DATE)", date(2021, 9, 27)),
    ("CAST('2021-09-27' AS TIMESTAMP(3))", local(2021, 9, 27)),
    ("CAST('2021-09-27 12:34:56.123456' AS TIMESTAMP(3))", local(2021, 9, 27, 12, 34, 56, 123000)),
    (
        "CAST(CAST('2021-09-24 12:34:56.123456' AS TIMESTAMP(6)) AS TIMESTAMP(0))",
        local(2021, 9, 24, 12, 34, 56),
    ),
    ("CAST(TIMESTAMP '2021-09-24 12:34:56.123456' AS DATE)", date(2021, 9, 24)),
    ("CAST(DATE '2021-09-24' AS TIMESTAMP(3))", local(2021, 9, 24)),
    ("CAST(TRUE AS STRING)", "TRUE"),
    ("CAST(DATE '2021-09-24' AS STRING)", "2021-09-24"),
    ("CAST('abcdef' AS CHAR(3))", "abc"),
    ("CAST('foo' AS CHAR(5))", "foo  "),
    ("CAST('abcdef' AS VARCHAR(3))", "abc"),
    ("CAST(CAST(9.87 AS DECIMAL(4, 3)) AS STRING)", "9.870"),
    ("CAST(X'0041' AS STRING)", "\0A"),
    ("CAST(TIMESTAMP '2026-01-01 10:00:00' AS STRING)", "2026-01-01 10:00:00.000000"),
    ("CAST(CAST('2026-01-01 10:00:00.5' AS TIMESTAMP(3)) AS STRING)", "2026-01-01 10:00:00.500"),
    ("CAST(CAST('2026-01-01 10:00:00.5' AS TIMESTAMP(0)) AS STRING)", "2026-01-01 10:00:00"),
    ("CAST(CAST(ARRAY[1, NULL] AS ARRAY<INT>) AS STRING)", "[1, NULL]"),
    ("CAST(CAST(MAP['a', TRUE] AS MAP<STRING, BOOLEAN>) AS STRING)", "{a=TRUE}"),
    ("CAST(CAST(ROW(1, 'x') AS ROW<a INT, b STRING>) AS STRING)", "(1, x)"),
    ("CAST('a' AS BINARY(2))", b"a\0"),
    ("CAST('foobar' AS VARBINARY(4))", b"foob"),
    ("CAST('ab' AS BYTES)", b"ab"),
]
