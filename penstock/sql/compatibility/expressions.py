"""Data types, literals, operators, predicates, constructors and Flink's built-in functions."""

from __future__ import annotations

from penstock.sql.compatibility.row import Kind, Row, Status
from penstock.sql.dialect.functions.row import FunctionRow
from penstock.sql.dialect.functions.table import FUNCTIONS
from penstock.sql.dialect.windows.group_windows import CALLS as GROUP_WINDOWS

SYNONYM = "a synonym: {} is stored and shown"
NO_FRACTION = "digits behind the sixth are cut off: Spark keeps microseconds"
ZONED = "use TIMESTAMP_LTZ"


def _type_row(name: str, example: str, status: Status, note: str = "") -> Row:
    return Row(Kind.TYPE, name, example, status, note)


def _native(*names: str) -> tuple[Row, ...]:
    return tuple(_type_row(name, name, Status.NATIVE) for name in names)


TYPES: tuple[Row, ...] = (
    # --- texts and bytes ---
    _type_row("CHAR", "CHAR", Status.TRANSLATE, "of length 1, as in Flink; a STRING in Spark, padded by CAST"),
    _type_row("CHAR(n)", "CHAR(3)", Status.TRANSLATE, "a STRING in Spark; CAST cuts and pads as Flink's"),
    _type_row("VARCHAR", "VARCHAR", Status.TRANSLATE, "a STRING"),
    _type_row("VARCHAR(n)", "VARCHAR(10)", Status.TRANSLATE, "a STRING in Spark; CAST cuts as Flink's"),
    *_native("STRING"),
    _type_row("BINARY(n)", "BINARY(4)", Status.TRANSLATE, "BINARY in Spark, which has no lengths"),
    _type_row("VARBINARY(n)", "VARBINARY(10)", Status.TRANSLATE, "BINARY in Spark, which has no lengths"),
    _type_row("BYTES", "BYTES", Status.NATIVE, "BINARY in Spark"),
    # --- numbers ---
    *_native("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
    _type_row("INTEGER", "INTEGER", Status.NATIVE, SYNONYM.format("INT")),
    _type_row("DOUBLE PRECISION", "DOUBLE PRECISION", Status.NATIVE, SYNONYM.format("DOUBLE")),
    _type_row("DECIMAL", "DECIMAL", Status.NATIVE, "of precision 10 and scale 0, as in Flink"),
    _type_row("DECIMAL(p, s)", "DECIMAL(10, 2)", Status.NATIVE),
    _type_row("DEC(p)", "DEC(5)", Status.NATIVE, SYNONYM.format("DECIMAL")),
    _type_row("NUMERIC(p, s)", "NUMERIC(12, 4)", Status.NATIVE, SYNONYM.format("DECIMAL")),
    # --- time ---
    *_native("DATE"),
    _type_row("TIME(p)", "TIME(3)", Status.NATIVE, NO_FRACTION),
    _type_row("TIME(p) WITHOUT TIME ZONE", "TIME(0) WITHOUT TIME ZONE", Status.NATIVE, SYNONYM.format("TIME(p)")),
    _type_row("TIMESTAMP(p)", "TIMESTAMP(3)", Status.NATIVE, f"TIMESTAMP_NTZ in Spark; {NO_FRACTION}"),
    _type_row("TIMESTAMP(p) WITHOUT TIME ZONE", "TIMESTAMP(6) WITHOUT TIME ZONE", Status.NATIVE,
         SYNONYM.format("TIMESTAMP(p)")),
    _type_row("TIMESTAMP_LTZ(p)", "TIMESTAMP_LTZ(3)", Status.NATIVE, f"TIMESTAMP in Spark; {NO_FRACTION}"),
    _type_row("TIMESTAMP(p) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH LOCAL TIME ZONE", Status.NATIVE,
         SYNONYM.format("TIMESTAMP_LTZ(p)")),
    _type_row("TIMESTAMP(p) WITH TIME ZONE", "TIMESTAMP(3) WITH TIME ZONE", Status.REFUSE, ZONED),
    _type_row("INTERVAL YEAR TO MONTH", "INTERVAL YEAR(4) TO MONTH", Status.NATIVE,
         "fields and precision are read and not kept: every such interval is YEAR TO MONTH"),
    _type_row("INTERVAL DAY TO SECOND", "INTERVAL DAY(2) TO SECOND(3)", Status.NATIVE,
         "fields and precision are read and not kept: every such interval is DAY TO SECOND"),
    # --- collections ---
    *_native("ARRAY<INT>"),
    _type_row("t ARRAY", "INT NOT NULL ARRAY", Status.NATIVE, SYNONYM.format("ARRAY<t>")),
    *_native("MAP<STRING, INT>"),
    _type_row("MULTISET<t>", "MULTISET<STRING>", Status.TRANSLATE, "a MAP of elements and their counts in Spark"),
    _type_row("t MULTISET", "INT MULTISET", Status.TRANSLATE, SYNONYM.format("MULTISET<t>")),
    _type_row("ROW<name t, ...>", "ROW<id BIGINT, `a b` STRING 'what it is'>", Status.NATIVE,
         "a STRUCT in Spark; comments of fields are kept in the catalog"),
    _type_row("ROW(name t, ...)", "ROW(id BIGINT, name STRING)", Status.NATIVE, SYNONYM.format("ROW<...>")),
    _type_row("NOT NULL", "ARRAY<INT NOT NULL> NOT NULL", Status.OWN,
         "kept in the catalog; the sinks check it, Spark's own types of rows have it for fields only"),
    # --- others ---
    _type_row("VARIANT", "VARIANT", Status.REFUSE, "the type VARIANT is not supported"),
    _type_row("NULL", "NULL", Status.REFUSE, "the type NULL is not supported"),
    _type_row("RAW", "RAW('java.lang.Long', 'AAA')", Status.REFUSE, "the type RAW is not supported"),
    _type_row("STRUCTURED", "STRUCTURED<'com.example.User', name STRING, age INT NOT NULL>", Status.REFUSE,
         "write ROW<"),
    _type_row("BITMAP", "BITMAP", Status.REFUSE, "the type BITMAP is not supported"),
    _type_row("GEOGRAPHY", "GEOGRAPHY", Status.REFUSE, "the type GEOGRAPHY is not supported"),
    _type_row("DESCRIPTOR", "DESCRIPTOR", Status.REFUSE, "the type DESCRIPTOR is not supported"),
)  # fmt: skip
"""Every type of Flink 2.2, its synonyms, and those that are refused."""


def _row(name: str, example: str, status: Status = Status.NATIVE, note: str = "") -> Row:
    return Row(Kind.EXPRESSION, name, example, status, note)


EXPRESSIONS: tuple[Row, ...] = (
    # --- literals ---
    _row("string", "'it''s'", note="two quotes stand for one; a backslash is a backslash"),
    _row("string on several lines", "'a'\n'b'", Status.TRANSLATE, "one string"),
    _row("U&'...'", r"U&'\00e4\\'", Status.TRANSLATE, "four hexadecimal digits behind each backslash"),
    _row("UESCAPE", "U&'!00e4' UESCAPE '!'", Status.TRANSLATE),
    _row("X'...'", "X'1fA0'"),
    _row("whole number", "42"),
    _row("decimal number", "1.50"),
    _row("floating number", "1.5E-3"),
    _row("TRUE, FALSE", "TRUE OR FALSE"),
    _row("NULL", "CAST(NULL AS INT)"),
    _row("DATE", "DATE '2026-01-31'"),
    _row("TIME", "TIME '10:15:30'"),
    _row("TIMESTAMP", "TIMESTAMP '2026-01-31 10:15:30.123'"),
    _row("TIMESTAMP_LTZ", "TIMESTAMP_LTZ '2026-01-31 10:15:30'", note="in the session's time zone"),
    _row("INTERVAL of days to seconds", "INTERVAL '1 02:03:04.500' DAY TO SECOND"),
    _row("INTERVAL of one unit", "INTERVAL '10' MINUTE(3)"),
    _row("INTERVAL of years to months", "INTERVAL '1-6' YEAR TO MONTH"),
    _row("negative INTERVAL", "INTERVAL -'3' DAY"),
    _row("INTERVAL of weeks, quarters", "INTERVAL '2' WEEK", Status.TRANSLATE, "7 days, 3 months"),
    # --- operators ---
    _row("+ - *", "1 + 2 * 3 - 4"),
    _row("/", "7 / 2", Status.TRANSLATE,
         "of two whole numbers a whole number, rounded towards zero; "
         "a DECIMAL by a whole number that is written out has fewer digits behind the point (Spark: 7 is a "
         "DECIMAL(1, 0), Flink: DECIMAL(10, 0)): write `/ CAST(7 AS DECIMAL(10, 0))` for those of Flink; "
         "SUM(x) / COUNT(*) of a DECIMAL(p, s) has more: write `CAST(SUM(x) AS DECIMAL(38, s)) / COUNT(*)`; "
         "0E0 / 0E0 is NaN, which is equal to itself and greater than all numbers in comparisons and in MAX "
         "(Flink: no comparison with it is TRUE but <>)"),
    _row("%", "7 % 2"),
    _row("unary + -", "-(+5)"),
    _row("||", "'a' || 'b'"),
    _row("time and interval", "TIMESTAMP '2026-01-31 10:00:00' + INTERVAL '1' HOUR",
         note="days and months of a TIMESTAMP_LTZ, and TIMESTAMPADD and TIMESTAMPDIFF of it, go by the calendar of "
         "`table.local-time-zone` where Spark computes them: a day is 23 or 25 hours when clocks change, in Flink 24"),
    _row("= <> < <= > >=", "1 <> 2 AND 1 <= 2"),
    _row("!=", "1 != 2", note="written as <>"),
    _row("AND OR NOT", "TRUE AND NOT (FALSE OR FALSE)"),
    # --- predicates ---
    _row("IS [NOT] NULL", "'a' IS NOT NULL"),
    _row("IS [NOT] TRUE, FALSE", "(1 = 1) IS TRUE"),
    _row("IS [NOT] UNKNOWN", "(1 = 1) IS NOT UNKNOWN", Status.TRANSLATE, "as IS NULL"),
    _row("IS [NOT] DISTINCT FROM", "1 IS NOT DISTINCT FROM 2", Status.TRANSLATE),
    _row("BETWEEN", "2 BETWEEN 1 AND 3"),
    _row("BETWEEN SYMMETRIC", "2 NOT BETWEEN SYMMETRIC 3 AND 1", Status.TRANSLATE),
    _row("LIKE", "'abc' LIKE 'a%'", Status.TRANSLATE, "no escape character unless ESCAPE names one"),
    _row("LIKE ... ESCAPE", "'a%c' LIKE 'a!%_' ESCAPE '!'"),
    _row("SIMILAR TO", "'abc' SIMILAR TO 'a(b|c)+'", Status.TRANSLATE),
    _row("IN", "2 IN (1, 2, 3)"),
    _row("OVERLAPS",
         "(DATE '2026-01-01', INTERVAL '2' DAY) OVERLAPS (DATE '2026-01-02', INTERVAL '1' DAY)",
         Status.TRANSLATE),
    _row("AT TIME ZONE", "CONVERT_TZ('2026-01-31 10:00:00', 'UTC', 'Asia/Tokyo')", Status.TRANSLATE,
         "Flink has no AT TIME ZONE: this is what it has"),
    # --- conditions and conversions ---
    _row("CASE WHEN", "CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END"),
    _row("CASE x WHEN", "CASE 2 WHEN 1 THEN 'a' WHEN 2, 3 THEN 'b' END", Status.TRANSLATE,
         "several values of one WHEN are several WHENs"),
    _row("CAST", "CAST('12' AS INT)", Status.TRANSLATE),
    _row("TRY_CAST", "TRY_CAST('x' AS INT)", Status.TRANSLATE),
    _row("CAST of an interval to a number", "CAST(INTERVAL '1' DAY AS INT)", Status.REFUSE,
         "CAST of an interval to a number is supported for INTERVAL '...' MONTH only"),
    # --- constructors and access ---
    _row("ARRAY[...]", "ARRAY[1, 2]", Status.TRANSLATE),
    _row("MAP[...]", "MAP['a', 1, 'b', 2]", Status.TRANSLATE),
    _row("ROW(...)", "ROW(1, 'a')", Status.TRANSLATE),
    _row("element of an array", "ARRAY[10, 20][1]", Status.TRANSLATE, "counted from 1; NULL behind the end"),
    _row("value of a map", "MAP['a', 1]['a']", Status.TRANSLATE),
    _row("field of a row", "CAST(ROW(1, 'a') AS ROW<n INT, s STRING>).n", Status.TRANSLATE),
)  # fmt: skip
"""Flink's literals and its operators (the first tables of its page "System Functions")."""


# Their examples need columns, or stand where only a query can have them.
ELSEWHERE = ("GROUPING_ID", "GROUP_ID", "CURRENT_WATERMARK", *GROUP_WINDOWS)
JSON = """'{"a": {"b": [1, 2]}}'"""
TEXTS = (
    "NULL inside is NULL; refused where the types of the parts are not known (a user's function)"
)
TRAILING_ZEROS = "zeros at the end of a decimal number are left out; a key that comes twice makes the text no JSON"


def _function_row(
    name: str, example: str, note: str = "", status: Status = Status.TRANSLATE
) -> Row:
    return Row(Kind.FUNCTION, name, example, status, note)


def _of_table(function: FunctionRow) -> Row:
    if function.refusal is not None:
        return _function_row(function.name, function.example, function.refusal, Status.REFUSE)
    status = Status.NATIVE if function.native else Status.TRANSLATE
    return _function_row(function.name, _literal(function), function.note, status)


def _literal(function: FunctionRow) -> str:
    """The example with a number for the column of an aggregate."""
    return function.example.replace("(a", "(7") if function.aggregate else function.example


SYNTAX: tuple[Row, ...] = (
    # --- conditional ---
    _function_row("CASE value", "CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", status=Status.NATIVE),
    _function_row("CASE", "CASE WHEN 1 > 2 THEN 'a' ELSE 'z' END", status=Status.NATIVE),
    _function_row("NULLIF", "NULLIF(5, 0)", status=Status.NATIVE),
    _function_row("COALESCE", "COALESCE(CAST(NULL AS STRING), 'default')", status=Status.NATIVE),
    _function_row("IF", "IF(5 > 3, 5, 3)", status=Status.NATIVE),
    _function_row("IFNULL", "IFNULL(CAST(NULL AS INT), 3)", "written as COALESCE"),
    _function_row("GREATEST", "GREATEST(1, 3, 2)", "NULL if any argument is"),
    _function_row("LEAST", "LEAST(3, 1, 2)", "NULL if any argument is"),
    # --- type conversion ---
    _function_row(
        "CAST",
        "CAST('1.234' AS INT)",
        "whole numbers are cut to their bits, fractions stop at the limits, a DECIMAL that does not fit is NULL; "
        "a text that is a time only for Spark, such as 2026-01-01T10:00, is read",
    ),
    _function_row("TRY_CAST", "TRY_CAST('non-number' AS INT)"),
    _function_row(
        "CAST of an array to a text",
        "CAST(ARRAY[TRUE, FALSE] AS STRING)",
        "[TRUE, FALSE]; " + TEXTS,
    ),
    _function_row(
        "CAST of a map to a text", "CAST(MAP['a', 1] AS STRING)", "{a=1}; a MULTISET too"
    ),
    _function_row("CAST of a row to a text", "CAST(ROW(1, 'a') AS STRING)", "(1, a)"),
    _function_row(
        "CAST of an interval to a text", "CAST(INTERVAL '36' HOUR AS STRING)", "+1 12:00:00.000"
    ),
    _function_row(
        "CAST of an array, a map or a row",
        "CAST(ARRAY[TRUE] AS ARRAY<STRING>)",
        "part by part; two keys of a map that become the same fail the query",
    ),
    _function_row("CAST of a TIMESTAMP to a TIME", "CAST(TIMESTAMP '2021-09-24 12:34:56' AS TIME)"),
    _function_row(
        "CAST of a TIME to a TIMESTAMP", "CAST(TIME '12:34:56' AS TIMESTAMP(3))", "on 1970-01-01"
    ),
    # --- arithmetic and strings with a syntax of their own ---
    _function_row("CEIL", "CEIL(4.5E0)", "a DOUBLE stays a DOUBLE"),
    _function_row("FLOOR", "FLOOR(4.5E0)", "a DOUBLE stays a DOUBLE"),
    _function_row("POSITION", "POSITION('test' IN 'xxxtest')"),
    _function_row("TRIM", "TRIM(BOTH 'abc' FROM 'abcddcba')", status=Status.NATIVE),
    _function_row("OVERLAY", "OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6 FOR 2)"),
    _function_row("SUBSTRING", "SUBSTRING('abcdef' FROM -2 FOR 1)"),
    # --- temporal with a syntax of its own ---
    _function_row("LOCALTIMESTAMP", "LOCALTIMESTAMP", "the time of the micro-batch"),
    _function_row("CURRENT_DATE", "CURRENT_DATE", "the day of the micro-batch"),
    _function_row("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP", "the time of the micro-batch"),
    _function_row("EXTRACT", "EXTRACT(MILLISECOND FROM TIMESTAMP '2020-02-29 01:56:59.987')"),
    _function_row(
        "FLOOR to a unit", "FLOOR(TIMESTAMP '2020-02-29 01:56:59' TO WEEK)", "weeks begin on Sunday"
    ),
    _function_row("CEIL to a unit", "CEIL(DATE '1996-11-10' TO MONTH)", "weeks begin on Sunday"),
    # --- JSON ---
    _function_row(
        "IS JSON", f"{JSON} IS JSON OBJECT", "a key that comes twice makes the text no JSON"
    ),
    _function_row(
        "JSON_EXISTS", f"JSON_EXISTS({JSON}, '$.a.b[0]' TRUE ON ERROR)", "the path is written out"
    ),
    _function_row(
        "JSON_VALUE",
        f"JSON_VALUE({JSON}, 'lax $.a.c' RETURNING INT DEFAULT 7 ON EMPTY)",
        f"the path is written out; {TRAILING_ZEROS}",
    ),
    _function_row(
        "JSON_QUERY",
        f"JSON_QUERY({JSON}, '$.a.b' WITH CONDITIONAL ARRAY WRAPPER)",
        f"the path is written out; {TRAILING_ZEROS}",
    ),
    _function_row("JSON_OBJECT", "JSON_OBJECT('K1' VALUE 'V1', 'K2' VALUE 2)"),
    _function_row("JSON_ARRAY", "JSON_ARRAY(1, '2')"),
    _function_row(
        "JSON_OBJECTAGG",
        "JSON_OBJECTAGG(KEY 'a' VALUE 1)",
        "a key that comes twice is there twice",
    ),
    _function_row("JSON_ARRAYAGG", "JSON_ARRAYAGG(1)"),
    # --- aggregates ---
    _function_row("COUNT", "COUNT(DISTINCT 1)", status=Status.NATIVE),
    _function_row("AVG", "AVG(7)", "whole of whole numbers"),
    _function_row(
        "SUM",
        "SUM(7)",
        "of whole numbers a BIGINT, which does not overflow as their type would",
        Status.NATIVE,
    ),
    _function_row("MAX", "MAX(7)", status=Status.NATIVE),
    _function_row("MIN", "MIN(7)", status=Status.NATIVE),
    _function_row("STDDEV_POP", "STDDEV_POP(7)", "whole of whole numbers"),
    _function_row("STDDEV_SAMP", "STDDEV_SAMP(7)", "whole of whole numbers"),
    _function_row("VAR_POP", "VAR_POP(7)", "whole of whole numbers"),
    _function_row("VAR_SAMP", "VAR_SAMP(7)", "whole of whole numbers"),
    _function_row("VARIANCE", "VARIANCE(7)", "whole of whole numbers"),
    _function_row("FIRST_VALUE", "FIRST_VALUE(7)", "passes over NULL"),
    _function_row("LAST_VALUE", "LAST_VALUE(7)", "passes over NULL"),
    _function_row("LAST_VALUE with NULLs", "LAST_VALUE(7 RESPECT NULLS)", "a NULL is a value"),
    _function_row("ARRAY_AGG without NULLs", "ARRAY_AGG(7 IGNORE NULLS)"),
    _function_row("LISTAGG", "LISTAGG('a', ';')"),
)

FUNCTION_ROWS: tuple[Row, ...] = (
    *(_of_table(function) for name, function in FUNCTIONS.items() if name not in ELSEWHERE),
    *SYNTAX,
)
"""One row for each function of Flink's page, but for those of groups and windows, which are queries."""
