"""Aggregates over ROWS: AggregateITCase, ArrayAggFunctionITCase, PercentileAggFunctionITCase, JsonAggregationFunctionsITCase."""

from __future__ import annotations

import math
from decimal import Decimal

from tests.sql.dialect.answers import Answers

__all__ = ["ANSWERS", "COLUMNS", "ROWS"]

COLUMNS = {
    "i": "INT",
    "l": "BIGINT",
    "d": "DOUBLE",
    "c": "DECIMAL(5, 0)",
    "s": "STRING",
}
ROWS = [
    (2900, 1, 1.0, Decimal(1), "x"),
    (2500, 1, 2.0, Decimal(1), "y"),
    (2600, 3, 3.0, Decimal(2), None),
    (None, 2**53 + 1, None, None, "x"),
]
ANSWERS: Answers = [
    ("COUNT(*)", 4),
    ("COUNT(i)", 3),
    ("COUNT(DISTINCT s)", 2),
    ("AVG(i)", 2666),
    ("AVG(i) FILTER (WHERE i > 2500)", 2750),
    ("AVG(l)", (2**53 + 6) // 4),
    ("AVG(l) FILTER (WHERE l < 10)", 1),
    ("AVG(d)", 2.0),
    ("AVG(c)", Decimal("1.333333")),
    ("SUM(i)", 8000),
    ("SUM(DISTINCT c)", Decimal(3)),
    ("MAX(i)", 2900),
    ("MIN(s)", "x"),
    ("VAR_POP(i)", 28889),
    ("STDDEV_POP(i)", 169),
    ("VAR_SAMP(d)", 1.0),
    ("VARIANCE(d)", 1.0),
    ("VAR_POP(d)", 2 / 3),
    ("STDDEV_SAMP(d)", 1.0),
    ("STDDEV(d) FILTER (WHERE d < 2)", None),
    ("STDDEV_POP(d)", math.sqrt(2 / 3)),
    ("FIRST_VALUE(s) FILTER (WHERE i = 2600 OR l > 10)", "x"),
    ("LAST_VALUE(i) FILTER (WHERE i = 2900 OR l > 10)", 2900),
    ("LISTAGG(s) FILTER (WHERE i IS NOT NULL)", "x,y"),
    ("LISTAGG(DISTINCT s, ';') FILTER (WHERE s = 'x')", "x"),
    ("ARRAY_AGG(i) FILTER (WHERE s = 'x')", [2900, None]),
    ("ARRAY_AGG(DISTINCT i) FILTER (WHERE s = 'x') IGNORE NULLS", [2900]),
    ("ARRAY_AGG(i) FILTER (WHERE s = 'z')", None),
    ("ARRAY_AGG(i IGNORE NULLS) FILTER (WHERE s = 'x')", [2900]),
    ("ARRAY_AGG(i RESPECT NULLS) FILTER (WHERE s = 'x')", [2900, None]),
    ("LAST_VALUE(i IGNORE NULLS) FILTER (WHERE s = 'x')", 2900),
    ("FIRST_VALUE(i RESPECT NULLS) FILTER (WHERE i IS NULL)", None),
    ("COLLECT(s)", {"x": 2, "y": 1}),
    ("COLLECT(DISTINCT s)", {"x": 1, "y": 1}),
    ("CAST(COLLECT(s) FILTER (WHERE s = 'x') AS STRING)", "{x=2}"),
    ("CAST(ARRAY_AGG(i > 1) FILTER (WHERE s = 'x') AS CHAR(15))", "[TRUE, NULL]   "),
    ("PERCENTILE(i, 0.25)", 2550.0),
    ("PERCENTILE(i, ARRAY[0.0, 1.0])", [2500.0, 2900.0]),
    ("PERCENTILE(i, 0.5, CASE WHEN i = 2900 THEN 5 WHEN i = 2500 THEN -1 END)", 2900.0),
    ("APPROX_COUNT_DISTINCT(s)", 2),
    ("JSON_OBJECTAGG(KEY s VALUE i) FILTER (WHERE i < 2900 AND s IS NOT NULL)", '{"y":2500}'),
    ("JSON_ARRAYAGG(s) FILTER (WHERE c = 2)", "[]"),
    ("JSON_ARRAYAGG(i NULL ON NULL) FILTER (WHERE s = 'x')", "[2900,null]"),
]
