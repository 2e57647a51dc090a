"""Functions of dates and times as reading tasks compute them: `connector/functions/times.py` has those named here.

What hangs on the session's time zone is computed in UTC alone (`hangs_on_zone`): all of a TIMESTAMP_LTZ but its
comparisons, and DATE_FORMAT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.model import types as t
from penstock.connector.expression import Expression, FunctionCall
from penstock.sql.dialect.functions.time import MAX_MILLIS, MAX_SECONDS, MIN_MILLIS, MIN_SECONDS
from penstock.sql.expressions.arguments import (
    Compile,
    FunctionForm,
    constant_number,
    constant_text,
    number_constant,
    text_call,
    text_constant,
    text_of,
)
from penstock.sql.expressions.value_types import (
    WHOLE,
    OutsideError,
    big_constant,
    cast_to,
    computed,
)
from penstock.sql.syntax.intervals import DAY_TIME, interval_value

_LONGEST = 400_000 * DAY_TIME["DAY"]
"""Microseconds: a moment of the years 1 to 9999 that is moved so far is one of 64 bits."""
_PARTS = {
    "YEAR": "year",
    "QUARTER": "quarter",
    "MONTH": "month",
    "WEEK": "week",
    "DAY": "day",
    "DOY": "day_of_year",
    "DOW": "day_of_week",
    "ISODOW": "iso_day_of_week",
    "ISOYEAR": "iso_year",
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
    "MILLISECOND": "millisecond",
    "MICROSECOND": "microsecond",
    "EPOCH": "epoch",
}
_OF_TIMES = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_UNITS = ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_LENGTHS = {**DAY_TIME, "WEEK": 7 * DAY_TIME["DAY"]}


def local(value: Expression) -> Expression:
    """Return a DATE or TIMESTAMP as it is, an instant as the TIMESTAMP that it is in the session's time zone."""
    if isinstance(value.type, t.TimestampLtzType):
        kind = t.TimestampType(precision=value.type.precision)
        return FunctionCall(function="local", arguments=(value,), type=kind)
    if not isinstance(value.type, (t.DateType, t.TimestampType)):
        raise OutsideError
    return value


def _part(unit: str, value: exp.Expr, compiled: Compile) -> Expression:
    argument = compiled(value)
    # the epoch of an instant is rounded otherwise than that of a TIMESTAMP
    moment = argument if unit == "EPOCH" else local(argument)
    if unit not in _PARTS or not isinstance(moment.type, (t.DateType, t.TimestampType)):
        raise OutsideError
    if isinstance(moment.type, t.DateType) and unit in _OF_TIMES:
        raise OutsideError
    return FunctionCall(function=_PARTS[unit], arguments=(moment,), type=t.BigIntType())


def _part_function(unit: str) -> FunctionForm:
    return lambda arguments, compiled: _part(unit, arguments[0], compiled)


# --- intervals ---


def _moved(moment: Expression, micros: int) -> Expression:
    """Return a TIMESTAMP or an instant that is so much later; days of an instant hang on its zone."""
    kind = moment.type
    within = _LONGEST if isinstance(kind, t.TimestampType) else DAY_TIME["DAY"] - 1
    if not isinstance(kind, (t.TimestampType, t.TimestampLtzType)) or abs(micros) > within:
        raise OutsideError
    return FunctionCall(
        function="moved",
        arguments=(moment, big_constant(micros)),
        type=replace(kind, nullable=True),
    )


def _sum(function: str, sign: int) -> Callable[[exp.Expr, Compile], Expression]:
    def form(tree: exp.Expr, compiled: Compile) -> Expression:
        left, right = tree.this, tree.expression
        if sign > 0 and isinstance(left, exp.Interval):
            left, right = right, left
        if not isinstance(right, exp.Interval):
            return computed(function, compiled(left), compiled(right))
        length = _length(right)
        return _moved(compiled(left), sign * length)

    return form


def _length(node: exp.Interval) -> int:
    try:
        value = interval_value(node)
    except ValueError:
        raise OutsideError from None
    if value.year_month:
        raise OutsideError
    return value.micros


def _timestampadd(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    unit, amount, value = arguments
    length = _LENGTHS.get(unit.name)
    if length is None:
        raise OutsideError
    return _moved(compiled(value), constant_number(amount) * length)


def _timestampdiff(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    unit, first, last = arguments
    sides = [compiled(side) for side in (last, first)]
    known = all(isinstance(side.type, (t.DateType, t.TimestampType)) for side in sides)
    if unit.name not in _LENGTHS or not known:
        raise OutsideError
    return FunctionCall(
        function="time_difference",
        arguments=(*sides, big_constant(_LENGTHS[unit.name])),
        type=t.IntType(),
    )


# --- units ---


def cut_to_unit(function: str, tree: exp.Expr, compiled: Compile) -> Expression:
    """Return FLOOR or CEIL of a time to a unit."""
    value, unit = compiled(tree.this), tree.args["to"].name.upper()
    of_day = isinstance(value.type, t.DateType)
    if not isinstance(value.type, (t.DateType, t.TimestampType)) or unit not in _UNITS:
        raise OutsideError
    if function == "ceil" and unit in ("MONTH", "QUARTER", "YEAR"):
        raise OutsideError  # Arrow takes the next one of the first moment of one
    if of_day and (function == "ceil" or unit in (*_OF_TIMES, "DAY")):
        raise OutsideError
    return FunctionCall(
        function=f"{function}_time",
        arguments=(value, text_constant(unit.lower())),
        type=replace(value.type, nullable=True),
    )


def to_precision(value: Expression, digits: int) -> Expression:
    """Return a time with so many digits of a second; what is finer is dropped."""
    kind = value.type
    assert isinstance(kind, (t.TimestampType, t.TimestampLtzType)), "it has digits"
    wanted = replace(kind, precision=digits, nullable=True)
    if digits >= min(kind.precision, 6):
        return replace(value, type=wanted)
    units = {0: "second", 3: "millisecond"}
    if digits not in units:
        raise OutsideError
    cut = text_constant(units[digits])
    return FunctionCall(function="floor_time", arguments=(value, cut), type=wanted)


# --- instants and texts ---


def _instant(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    number, *precision = arguments
    value, digits = compiled(number), constant_number(precision[0]) if precision else 3
    if not isinstance(value.type, tuple(WHOLE)) or digits not in (0, 3):
        raise OutsideError
    micros, low, high = (
        (1_000_000, MIN_SECONDS, MAX_SECONDS) if digits == 0 else (1_000, MIN_MILLIS, MAX_MILLIS)
    )
    bounds = (big_constant(each) for each in (micros, low, high))
    return FunctionCall(
        function="instant",
        arguments=(cast_to(value, t.BigIntType()), *bounds),
        type=t.TimestampLtzType(precision=3),
    )


_LETTERS = {"y": (4,), "M": (2,), "d": (2,), "H": (2,), "m": (2,), "s": (2,), "S": range(1, 7)}
"""Letters of a pattern and how often they may stand there: those whose digits hang on nothing but the time."""
_PLAIN = frozenset(" -/.:,;_()")


def check_pattern(pattern: str) -> None:
    """Raise OutsideError for a pattern with other letters, or with a letter of another meaning."""
    rest = pattern
    while rest:
        letter = rest[0]
        if letter == "'":
            end = rest.find("'", 1)
            # two quotes are one, and inside of a quoted text, too
            if end < 1 or rest[end + 1 : end + 2] == "'":
                raise OutsideError
            rest = rest[end + 1 :]
            continue
        count = len(rest) - len(rest.lstrip(letter))
        if count not in _LETTERS.get(letter, ()) and letter not in _PLAIN:
            raise OutsideError
        rest = rest[count:]


def _to_timestamp(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    (argument,) = arguments
    text = text_of(argument, compiled)
    return FunctionCall(
        function="to_timestamp", arguments=(text,), type=t.TimestampType(precision=3)
    )


def _to_date(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    (argument,) = arguments
    return FunctionCall(
        function="try_day_of_text", arguments=(text_of(argument, compiled),), type=t.DateType()
    )


def _date_format(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    value, pattern = arguments
    moment, letters = local(compiled(value)), constant_text(pattern)
    check_pattern(letters)
    return text_call("date_format", moment, text_constant(letters))


def text_of_time(value: Expression) -> Expression:
    """Return the text that CAST gives of a DATE or a TIMESTAMP: all digits of the second that its type has."""
    match value.type:
        case t.DateType():
            width = len("2026-01-01")
        case t.TimestampType(precision=digits):
            width = len("2026-01-01 10:00:00") + (1 + min(digits, 6) if digits else 0)
        case _:
            raise OutsideError
    return text_call("text_of_time", value, number_constant(width))


TIME_NODES: Mapping[type[exp.Expr], Callable[[exp.Expr, Compile], Expression]] = {
    exp.Add: _sum("add", 1),
    exp.Sub: _sum("subtract", -1),
    exp.Extract: lambda e, compiled: _part(e.this.name.upper(), e.expression, compiled),
}

TIME_FUNCTIONS: Mapping[str, tuple[int, int | None, FunctionForm]] = {
    **{
        name: (1, 1, _part_function(name))
        for name in ("YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND")
    },
    "DAYOFYEAR": (1, 1, _part_function("DOY")),
    "DAYOFMONTH": (1, 1, _part_function("DAY")),
    "DAYOFWEEK": (1, 1, _part_function("DOW")),
    "TIMESTAMPADD": (3, 3, _timestampadd),
    "TIMESTAMPDIFF": (3, 3, _timestampdiff),
    "TO_TIMESTAMP_LTZ": (1, 2, _instant),
    "TO_TIMESTAMP": (1, 1, _to_timestamp),
    "TO_DATE": (1, 1, _to_date),
    "DATE_FORMAT": (2, 2, _date_format),
}
"""Functions by name, with the least and the largest number of their arguments."""
