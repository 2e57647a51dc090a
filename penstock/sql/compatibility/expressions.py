"""Literals, operators, predicates and constructors; functions have rows of their own."""

from __future__ import annotations

from penstock.sql.compatibility.row import Kind, Row, Status

__all__ = ["EXPRESSIONS"]


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
    _row("/", "7 / 2", Status.TRANSLATE, "of two whole numbers a whole number, rounded towards zero"),
    _row("%", "7 % 2"),
    _row("unary + -", "-(+5)"),
    _row("||", "'a' || 'b'"),
    _row("time and interval", "TIMESTAMP '2026-01-31 10:00:00' + INTERVAL '1' HOUR"),
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
