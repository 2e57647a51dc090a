"""Write functions of dates and times for Spark with Flink's meaning.

A TIMESTAMP has no time zone: what is done to it does not go through the session's, where an hour may be
missing. Weeks begin on Sunday for FLOOR and CEIL, and are ISO weeks for EXTRACT (TimeFunctionsITCase).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from penstock.sql.dialect.functions.time import (
    LTZ_PATTERN,
    LTZ_PLAIN,
    LTZ_ZONE,
    MAX_MILLIS,
    MAX_SECONDS,
    MIN_MILLIS,
    MIN_SECONDS,
)
from penstock.sql.dialect.spark.date_patterns import SINCE_MIDNIGHT, local_date_format
from penstock.sql.dialect.spark.numbers import rounded
from penstock.sql.dialect.spark.types import EPOCH, IN_UTC, TEXTS, TYPES, kind_of, let, operand
from penstock.sql.syntax.parse_errors import NodeError

SECONDS = "extract(SECOND FROM {0})"

EXTRACTED = {
    "YEAR": "extract(YEAR FROM {0})",
    "QUARTER": "extract(QUARTER FROM {0})",
    "MONTH": "extract(MONTH FROM {0})",
    "WEEK": "extract(WEEK FROM {0})",
    "DAY": "extract(DAY FROM {0})",
    "DOY": "dayofyear({0})",
    "DOW": "dayofweek({0})",
    "ISODOW": "weekday({0}) + 1",
    "ISOYEAR": "extract(YEAROFWEEK FROM {0})",
    "HOUR": "extract(HOUR FROM {0})",
    "MINUTE": "extract(MINUTE FROM {0})",
    "SECOND": SECONDS,
    "MILLISECOND": f"{SECONDS} * 1000 % 1000",
    "MICROSECOND": f"{SECONDS} * 1000000 % 1000000",
    "NANOSECOND": f"{SECONDS} * 1000000 % 1000000 * 1000",
    "DECADE": "year({0}) DIV 10",
    "CENTURY": "(year({0}) + 99) DIV 100",
    "MILLENNIUM": "(year({0}) + 999) DIV 1000",
}

OF_INTERVAL = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")

# Milliseconds of a time since the beginning of its day.
OF_DAY = f"({SINCE_MIDNIGHT} DIV INTERVAL '0.001' SECOND)"

LOCAL = (exp.DType.TIMESTAMPNTZ, exp.DType.DATE)

FIXED_UNITS = {
    "SECOND": "1' SECOND", "MINUTE": "1' MINUTE", "HOUR": "1' HOUR", "DAY": "1' DAY", "WEEK": "7' DAY",
}  # fmt: skip

MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}

DAYS = {"DAY": 1, "WEEK": 7}

# The first day of the unit that the date {0} is in, and the day after the unit's last one.
FIRST_DAY = {
    "DAY": "{0}",
    "WEEK": "date_sub({0}, dayofweek({0}) - 1)",
    "MONTH": "trunc({0}, 'MONTH')",
    "QUARTER": "trunc({0}, 'QUARTER')",
    "YEAR": "trunc({0}, 'YEAR')",
    "DECADE": "make_date(year({0}) DIV 10 * 10, 1, 1)",
    "CENTURY": "make_date((year({0}) - 1) DIV 100 * 100 + 1, 1, 1)",
    "MILLENNIUM": "make_date((year({0}) - 1) DIV 1000 * 1000 + 1, 1, 1)",
}

NEXT_DAY = {
    "DAY": "date_add({0}, 1)",
    "WEEK": "date_add({0}, 7)",
    "MONTH": "add_months({0}, 1)",
    "QUARTER": "add_months({0}, 3)",
    "YEAR": "add_months({0}, 12)",
    "DECADE": "add_months({0}, 120)",
    "CENTURY": "add_months({0}, 1200)",
    "MILLENNIUM": "add_months({0}, 12000)",
}

# What a time is past the beginning of its hour, minute, ..., and how long those are.
PAST = {
    "HOUR": "make_dt_interval(0, 0, minute({0}), extract(SECOND FROM {0}))",
    "MINUTE": "make_dt_interval(0, 0, 0, extract(SECOND FROM {0}))",
    "SECOND": "make_dt_interval(0, 0, 0, extract(SECOND FROM {0}) % 1BD)",
    "MILLISECOND": "make_dt_interval(0, 0, 0, extract(SECOND FROM {0}) % 0.001BD)",
}

LENGTHS = {
    "HOUR": "INTERVAL '1' HOUR",
    "MINUTE": "INTERVAL '1' MINUTE",
    "SECOND": "INTERVAL '1' SECOND",
    "MILLISECOND": "INTERVAL '0.001' SECOND",
}

NO_LETTERS = "YWwuecnNAB"
"""Letters of Java's date patterns that Spark refuses."""


# --- EXTRACT, FLOOR, CEIL ---


def extract_sql(writer: SparkGenerator, expression: exp.Extract) -> str:
    """EXTRACT gives a BIGINT; parts of a second are those within it."""
    unit, value = expression.name.upper(), expression.expression
    kind = kind_of(value)
    if kind == exp.DType.INTERVAL and unit not in OF_INTERVAL:
        raise NodeError(
            f"EXTRACT({unit} ...) of an interval is not supported",
            expression,
            f"units are {', '.join(OF_INTERVAL)}",
        )
    if unit == "EPOCH":
        return _epoch(writer, value, kind)
    if unit not in EXTRACTED:
        raise NodeError(
            f"EXTRACT({unit} ...) is not supported",
            expression,
            f"units are {', '.join((*EXTRACTED, 'EPOCH'))}",
        )
    form = EXTRACTED[unit].format(writer.sql(value))
    return f"CAST({form} AS BIGINT)"


def _epoch(writer: SparkGenerator, value: exp.Expr, kind: exp.DType) -> str:
    if kind in LOCAL:
        return f"((CAST({writer.sql(value)} AS TIMESTAMP_NTZ) - {EPOCH}) DIV INTERVAL '1' SECOND)"
    return f"unix_seconds(CAST({writer.sql(value)} AS TIMESTAMP))"


def floor_sql(writer: SparkGenerator, expression: exp.Floor) -> str:
    """FLOOR(x) and FLOOR(time TO unit)."""
    unit = expression.args.get("to")
    if unit is None:
        return rounded(writer, "floor", expression.this)
    name, kind = _cut_unit(expression, unit)
    return let([operand(writer, expression.this)], lambda v: _first(v[0], kind, name))


def ceil_sql(writer: SparkGenerator, expression: exp.Ceil) -> str:
    """CEIL(x) and CEIL(time TO unit)."""
    unit = expression.args.get("to")
    if unit is None:
        return rounded(writer, "ceil", expression.this)
    name, kind = _cut_unit(expression, unit)
    value = operand(writer, expression.this)
    if kind == exp.DType.DATE and name in (*PAST, "DAY"):
        return f"date_add({value}, 1)" if name == "DAY" else value
    return let([value], lambda v: _next(writer, v[0], kind, name))


def _cut_unit(expression: exp.Floor | exp.Ceil, unit: exp.Expr) -> tuple[str, exp.DType]:
    name, kind = unit.name.upper(), kind_of(expression.this)
    what = f"{'FLOOR' if isinstance(expression, exp.Floor) else 'CEIL'}(... TO {name})"
    if kind == exp.DType.TIME and name in PAST:
        raise NodeError(f"{what} of a TIME is not supported", expression, "use a TIMESTAMP")
    if name not in (*FIRST_DAY, *PAST):
        units = ", ".join((*FIRST_DAY, *PAST))
        raise NodeError(f"{what} is not supported", expression, f"units are {units}")
    if kind not in (*LOCAL, exp.DType.TIMESTAMPLTZ):
        raise NodeError(
            f"{what} of a value whose type could not be determined", expression, "cast it first"
        )
    return name, kind


def _first(value: str, kind: exp.DType, unit: str) -> str:
    if unit in FIRST_DAY:
        day = value if kind == exp.DType.DATE else f"CAST({value} AS DATE)"
        first = FIRST_DAY[unit].format(day)
        return first if kind == exp.DType.DATE else f"CAST({first} AS {TYPES[kind]})"
    if kind == exp.DType.DATE:
        return value
    if kind == exp.DType.TIMESTAMPLTZ:
        return f"date_trunc('{unit}', {value})"
    return f"({value} - {PAST[unit].format(value)})"


def _next(writer: SparkGenerator, value: str, kind: exp.DType, unit: str) -> str:
    if unit not in FIRST_DAY:
        first = _first(value, kind, unit)
        return f"if({first} = {value}, {value}, {first} + {LENGTHS[unit]})"
    day = value if kind == exp.DType.DATE else f"CAST({value} AS DATE)"
    first = FIRST_DAY[unit].format(day)
    after = f"CAST({NEXT_DAY[unit].format(first)} AS {TYPES[kind]})"
    return f"if(CAST({first} AS {TYPES[kind]}) = {value}, {value}, {after})"


# --- functions of the table ---


def _timestampadd_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    unit, amount, value = call.expressions
    kind, name = kind_of(value), unit.name
    if kind == exp.DType.TIME:
        raise NodeError("TIMESTAMPADD to a TIME is not supported", call, "use a TIMESTAMP")
    if kind == exp.DType.DATE and name in DAYS:
        return (
            f"date_add({writer.sql(value)}, CAST({operand(writer, amount)} * {DAYS[name]} AS INT))"
        )
    if kind == exp.DType.DATE and name in MONTHS:
        months = f"CAST({operand(writer, amount)} * {MONTHS[name]} AS INT)"
        return f"add_months({writer.sql(value)}, {months})"
    return f"timestampadd({name}, {writer.sql(amount)}, {_local(writer, value)})"


def _timestampdiff_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    unit, first, last = call.expressions
    if kind_of(first) in LOCAL and kind_of(last) in LOCAL and unit.name in FIXED_UNITS:
        # timestampdiff would go through the session's zone, where an hour may be missing
        since = f"({_local(writer, last)} - {_local(writer, first)})"
        return f"CAST({since} DIV INTERVAL '{FIXED_UNITS[unit.name]} AS INT)"
    if unit.name in MONTHS and (form := _months(writer, first, last)) is not None:
        return f"CAST(({form}) DIV {MONTHS[unit.name]} AS INT)"
    return (
        f"CAST(timestampdiff({unit.name}, {_local(writer, first)}, {_local(writer, last)}) AS INT)"
    )


def _months(writer: SparkGenerator, first: exp.Expr, last: exp.Expr) -> str | None:
    """The months between two times; None where they are of kinds that Spark has to bring together.

    As many as may be added to the earlier day, stopping at the last one of a month; between times on such a day one
    less, before the first one too, where that of the last is earlier in its day (DateTimeUtils.subtractMonths).
    """
    kinds = {kind_of(first), kind_of(last)}
    if kinds == {exp.DType.DATE}:
        days = [operand(writer, last), operand(writer, first)]
        return let(days, lambda v: _month_count(v[0], v[1]))
    if kinds == {exp.DType.TIMESTAMPLTZ}:  # by their days in UTC
        times = [IN_UTC.format(operand(writer, side)) for side in (last, first)]
    elif kinds <= set(LOCAL):
        times = [_local(writer, last), _local(writer, first)]
    else:
        return None
    return let(times, _months_of_times)


def _months_of_times(times: Sequence[str]) -> str:
    last, first = (f"CAST({time} AS DATE)" for time in times)
    late, early = (OF_DAY.format(time) for time in times)
    return _month_count(last, first, f"{late} < {early}")


def _month_count(last: str, first: str, earlier_in_day: str = "FALSE") -> str:
    count = f"((year({last}) - year({first})) * 12 + month({last}) - month({first}))"
    moved = f"add_months({first}, {count})"
    return (
        f"CASE WHEN {last} < {first} AND add_months({last}, -{count}) > {first} THEN {count} + 1 "
        f"WHEN {last} >= {first} AND {moved} > {last} THEN {count} - 1 "
        f"WHEN {moved} = {last} AND {earlier_in_day} THEN {count} - 1 ELSE {count} END"
    )


def _local(writer: SparkGenerator, value: exp.Expr) -> str:
    if kind_of(value) == exp.DType.DATE:
        return f"CAST({writer.sql(value)} AS TIMESTAMP_NTZ)"
    return operand(writer, value)


def _date_format_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    value, pattern = call.expressions
    _check_pattern(pattern)
    kind, text = kind_of(value), _local(writer, value)
    if kind in TEXTS:
        text = f"try_cast({writer.sql(value)} AS TIMESTAMP_NTZ)"
    if pattern.is_string and (kind in TEXTS or kind in LOCAL):
        return local_date_format(text, pattern.name)
    return f"date_format({text}, {writer.sql(pattern)})"


def _from_unixtime_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    for pattern in call.expressions[1:]:
        _check_pattern(pattern)
    return writer.func("from_unixtime", *call.expressions)


def _to_timestamp_ltz_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    first, *rest = call.expressions
    kind = kind_of(first)
    if len(rest) == 2:
        return let([operand(writer, e) for e in (first, *rest)], lambda v: LTZ_ZONE.format(*v))
    if rest and (kind in TEXTS or rest[0].is_string):
        return let([operand(writer, e) for e in (first, *rest)], lambda v: LTZ_PATTERN.format(*v))
    if not rest and (kind in TEXTS or isinstance(first, exp.Null)):
        return let([operand(writer, first)], lambda v: LTZ_PLAIN.format(*v))
    precision = rest[0] if rest else None
    if precision is None and kind in exp.DataType.NUMERIC_TYPES:
        precision = exp.Literal.number(3)
    if precision is None or not precision.is_int or precision.name not in ("0", "3"):
        raise NodeError(
            "TO_TIMESTAMP_LTZ of a value whose type could not be determined is not supported",
            call,
            "write TO_TIMESTAMP_LTZ(epoch, 0) for seconds, (epoch, 3) for milliseconds, or cast it first",
        )
    return let([operand(writer, first)], lambda v: _instant(v[0], precision.name))


def overlaps_sql(writer: SparkGenerator, expression: exp.Overlaps) -> str:
    """(a, b) OVERLAPS (c, d): ends belong to a period; b and d may be lengths."""
    periods = [_period(writer, side) for side in (expression.this, expression.expression)]
    (a, b), (c, d) = periods
    nulls = " OR ".join(f"{text} IS NULL" for text in (a, b, c, d))
    return (
        f"CASE WHEN {nulls} THEN NULL ELSE least({a}, {b}) <= greatest({c}, {d}) "
        f"AND least({c}, {d}) <= greatest({a}, {b}) END"
    )


def _period(writer: SparkGenerator, side: exp.Expr) -> tuple[str, str]:
    items = side.expressions
    if len(items) != 2:
        raise NodeError("a period of OVERLAPS has two parts", side)
    begin, end = (operand(writer, item) for item in items)
    length = kind_of(items[1]) == exp.DType.INTERVAL or isinstance(items[1], exp.Interval)
    return begin, f"({begin} + {end})" if length else end


def _instant(value: str, precision: str) -> str:
    low, high, millis = MIN_MILLIS, MAX_MILLIS, f"CAST({value} AS BIGINT)"
    if precision == "0":
        low, high, millis = MIN_SECONDS, MAX_SECONDS, f"CAST({value} * 1000L AS BIGINT)"
    return f"timestamp_millis(CASE WHEN {value} BETWEEN {low}L AND {high}L THEN {millis} END)"


def _check_pattern(pattern: exp.Expr) -> None:
    """Refuse letters that Spark has not, where the pattern is written out."""
    if not pattern.is_string:
        return
    letters = re.sub("'[^']*'", "", pattern.name)
    found = next((letter for letter in letters if letter in NO_LETTERS), None)
    if found is not None:
        year = found in ("Y", "u")
        raise NodeError(
            f"the letter '{found}' of a date pattern is not supported",
            pattern,
            "write yyyy for the year"
            if year
            else "use EXTRACT(... FROM ...) for what it stands for",
        )


FUNCTION_WRITERS: dict[str, Callable[[SparkGenerator, exp.Anonymous], str]] = {
    "DATE_FORMAT": _date_format_sql,
    "FROM_UNIXTIME": _from_unixtime_sql,
    "TIMESTAMPADD": _timestampadd_sql,
    "TIMESTAMPDIFF": _timestampdiff_sql,
    "TO_TIMESTAMP_LTZ": _to_timestamp_ltz_sql,
}
"""Functions of the table in `functions` whose form is no template, by their names."""
