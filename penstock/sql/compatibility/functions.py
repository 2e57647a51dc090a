"""Flink's built-in functions: the rows of the table of functions, and those that have a syntax of their own.

Flink's answers to each are in tests/sql/dialect/answers, with their classes in Flink.
"""

from __future__ import annotations

from penstock.sql.compatibility.row import Kind, Row, Status
from penstock.sql.dialect.functions.table import FUNCTIONS, FunctionRow
from penstock.sql.dialect.windows.group_windows import CALLS as GROUP_WINDOWS

__all__ = ["FUNCTION_ROWS"]

# Their examples need columns, or stand where only a query can have them.
ELSEWHERE = ("GROUPING_ID", "GROUP_ID", "CURRENT_WATERMARK", *GROUP_WINDOWS)
JSON = """'{"a": {"b": [1, 2]}}'"""
TEXTS = (
    "NULL inside is NULL; refused where the types of the parts are not known (a user's function)"
)
KEPT_DECIMALS = "zeros at the end of a decimal number are left out; a key that comes twice makes the text no JSON"


def _row(name: str, example: str, note: str = "", status: Status = Status.TRANSLATE) -> Row:
    return Row(Kind.FUNCTION, name, example, status, note)


def _of_table(function: FunctionRow) -> Row:
    if function.refusal is not None:
        return _row(function.name, function.example, function.refusal, Status.REFUSE)
    status = Status.NATIVE if function.native else Status.TRANSLATE
    return _row(function.name, _literal(function), function.note, status)


def _literal(function: FunctionRow) -> str:
    """The example with a number for the column of an aggregate."""
    return function.example.replace("(a", "(7") if function.aggregate else function.example


SYNTAX: tuple[Row, ...] = (
    # --- conditional ---
    _row("CASE value", "CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", status=Status.NATIVE),
    _row("CASE", "CASE WHEN 1 > 2 THEN 'a' ELSE 'z' END", status=Status.NATIVE),
    _row("NULLIF", "NULLIF(5, 0)", status=Status.NATIVE),
    _row("COALESCE", "COALESCE(CAST(NULL AS STRING), 'default')", status=Status.NATIVE),
    _row("IF", "IF(5 > 3, 5, 3)", status=Status.NATIVE),
    _row("IFNULL", "IFNULL(CAST(NULL AS INT), 3)", "written as COALESCE"),
    _row("GREATEST", "GREATEST(1, 3, 2)", "NULL if any argument is"),
    _row("LEAST", "LEAST(3, 1, 2)", "NULL if any argument is"),
    # --- type conversion ---
    _row(
        "CAST",
        "CAST('1.234' AS INT)",
        "whole numbers are cut to their bits, fractions stop at the limits, a DECIMAL that does not fit is NULL; "
        "a text that is a time only for Spark, such as 2026-01-01T10:00, is read",
    ),
    _row("TRY_CAST", "TRY_CAST('non-number' AS INT)"),
    _row(
        "CAST of an array to a text",
        "CAST(ARRAY[TRUE, FALSE] AS STRING)",
        "[TRUE, FALSE]; " + TEXTS,
    ),
    _row("CAST of a map to a text", "CAST(MAP['a', 1] AS STRING)", "{a=1}; a MULTISET too"),
    _row("CAST of a row to a text", "CAST(ROW(1, 'a') AS STRING)", "(1, a)"),
    _row("CAST of an interval to a text", "CAST(INTERVAL '36' HOUR AS STRING)", "+1 12:00:00.000"),
    _row(
        "CAST of an array, a map or a row",
        "CAST(ARRAY[TRUE] AS ARRAY<STRING>)",
        "part by part; two keys of a map that become the same fail the query",
    ),
    _row("CAST of a TIMESTAMP to a TIME", "CAST(TIMESTAMP '2021-09-24 12:34:56' AS TIME)"),
    _row("CAST of a TIME to a TIMESTAMP", "CAST(TIME '12:34:56' AS TIMESTAMP(3))", "on 1970-01-01"),
    # --- arithmetic and strings with a syntax of their own ---
    _row("CEIL", "CEIL(4.5E0)", "a DOUBLE stays a DOUBLE"),
    _row("FLOOR", "FLOOR(4.5E0)", "a DOUBLE stays a DOUBLE"),
    _row("POSITION", "POSITION('test' IN 'xxxtest')"),
    _row("TRIM", "TRIM(BOTH 'abc' FROM 'abcddcba')", status=Status.NATIVE),
    _row("OVERLAY", "OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6 FOR 2)"),
    _row("SUBSTRING", "SUBSTRING('abcdef' FROM -2 FOR 1)"),
    # --- temporal with a syntax of its own ---
    _row("LOCALTIMESTAMP", "LOCALTIMESTAMP", "the time of the micro-batch"),
    _row("CURRENT_DATE", "CURRENT_DATE", "the day of the micro-batch"),
    _row("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP", "the time of the micro-batch"),
    _row("EXTRACT", "EXTRACT(MILLISECOND FROM TIMESTAMP '2020-02-29 01:56:59.987')"),
    _row(
        "FLOOR to a unit", "FLOOR(TIMESTAMP '2020-02-29 01:56:59' TO WEEK)", "weeks begin on Sunday"
    ),
    _row("CEIL to a unit", "CEIL(DATE '1996-11-10' TO MONTH)", "weeks begin on Sunday"),
    # --- JSON ---
    _row("IS JSON", f"{JSON} IS JSON OBJECT", "a key that comes twice makes the text no JSON"),
    _row(
        "JSON_EXISTS", f"JSON_EXISTS({JSON}, '$.a.b[0]' TRUE ON ERROR)", "the path is written out"
    ),
    _row(
        "JSON_VALUE",
        f"JSON_VALUE({JSON}, 'lax $.a.c' RETURNING INT DEFAULT 7 ON EMPTY)",
        f"the path is written out; {KEPT_DECIMALS}",
    ),
    _row(
        "JSON_QUERY",
        f"JSON_QUERY({JSON}, '$.a.b' WITH CONDITIONAL ARRAY WRAPPER)",
        f"the path is written out; {KEPT_DECIMALS}",
    ),
    _row("JSON_OBJECT", "JSON_OBJECT('K1' VALUE 'V1', 'K2' VALUE 2)"),
    _row("JSON_ARRAY", "JSON_ARRAY(1, '2')"),
    _row(
        "JSON_OBJECTAGG",
        "JSON_OBJECTAGG(KEY 'a' VALUE 1)",
        "a key that comes twice is there twice",
    ),
    _row("JSON_ARRAYAGG", "JSON_ARRAYAGG(1)"),
    # --- aggregates ---
    _row("COUNT", "COUNT(DISTINCT 1)", status=Status.NATIVE),
    _row("AVG", "AVG(7)", "whole of whole numbers"),
    _row(
        "SUM",
        "SUM(7)",
        "of whole numbers a BIGINT, which does not overflow as their type would",
        Status.NATIVE,
    ),
    _row("MAX", "MAX(7)", status=Status.NATIVE),
    _row("MIN", "MIN(7)", status=Status.NATIVE),
    _row("STDDEV_POP", "STDDEV_POP(7)", "whole of whole numbers"),
    _row("STDDEV_SAMP", "STDDEV_SAMP(7)", "whole of whole numbers"),
    _row("VAR_POP", "VAR_POP(7)", "whole of whole numbers"),
    _row("VAR_SAMP", "VAR_SAMP(7)", "whole of whole numbers"),
    _row("VARIANCE", "VARIANCE(7)", "whole of whole numbers"),
    _row("FIRST_VALUE", "FIRST_VALUE(7)", "passes over NULL"),
    _row("LAST_VALUE", "LAST_VALUE(7)", "passes over NULL"),
    _row("LAST_VALUE with NULLs", "LAST_VALUE(7 RESPECT NULLS)", "a NULL is a value"),
    _row("ARRAY_AGG without NULLs", "ARRAY_AGG(7 IGNORE NULLS)"),
    _row("LISTAGG", "LISTAGG('a', ';')"),
)

FUNCTION_ROWS: tuple[Row, ...] = (
    *(_of_table(function) for name, function in FUNCTIONS.items() if name not in ELSEWHERE),
    *SYNTAX,
)
"""One row for each function of Flink's page, but for those of groups and windows, which are queries."""
