"""The types in which Spark compares, computes and chooses between values, and what of it is the same in Arrow.

Called by `fragments.py`, which reads expressions. What Spark rounds, or casts as a setting says, is outside of the set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.catalog.model import types as t
from penstock.connector.expression import Constant, Expression, FunctionCall

BOOLEAN = t.BooleanType()
DOUBLE = t.DoubleType()
WHOLE: Mapping[type, tuple[int, int]] = {
    t.TinyIntType: (8, 3),
    t.SmallIntType: (16, 5),
    t.IntType: (32, 10),
    t.BigIntType: (64, 20),
}
"""Bits of whole numbers, and the digits that Spark takes for them beside a DECIMAL."""
MOST_DIGITS = 38
_DIGITS_OF_64_BITS = 18
_OTHERS = (t.BooleanType, t.VarCharType, t.DateType, t.TimestampType, t.TimestampLtzType)
"""Types whose values are compared with those of the same type alone. Not CHAR, which may be padded."""
STRING = t.VarCharType(length=t.MAX_LENGTH)
_OVERFLOWING = ("add", "subtract", "multiply", "abs")
_DIVIDING = ("quotient", "remainder")
_FAILING = ("time_difference", "number_of_text", "day_of_text")
_ZONED = ("local", "date_format")
_UTC = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")
"""Names of the time zone in which tasks compute what hangs on one."""


def may_fail(value: Expression) -> bool:
    """Return whether there are rows for which a value is an error."""
    match value:
        case FunctionCall(function=function, type=kind, arguments=arguments):
            overflows = function in _OVERFLOWING and isinstance(kind, tuple(WHOLE))
            divides = function in _DIVIDING and not _divides_all(arguments[1])
            return overflows or divides or function in _FAILING or any(map(may_fail, arguments))
        case _:
            return False


def hangs_on_zone(value: Expression) -> bool:
    """Return whether tasks compute a value in UTC, and Spark in the session's time zone."""
    match value:
        case FunctionCall(function=function, arguments=arguments):
            return function in _ZONED or any(map(hangs_on_zone, arguments))
        case _:
            return False


def differs_in(zone: str, value: Expression) -> bool:
    """Return whether Spark computes another value than tasks where its session has a time zone."""
    return zone not in _UTC and hangs_on_zone(value)


def _divides_all(divisor: Expression) -> bool:
    """Return whether each whole number has a quotient by a divisor: by -1 the least has none."""
    return isinstance(divisor, Constant) and divisor.value not in (None, 0, -1)


class OutsideError(Exception):
    """An expression is not in the set."""


def aligned(values: Sequence[Expression]) -> list[Expression]:
    """Bring values to the one type in which Spark compares them."""
    kinds = [value.type for value in values]
    if all(isinstance(kind, tuple(WHOLE)) for kind in kinds):
        return _whole(values)
    for other in _OTHERS:
        if all(isinstance(kind, other) for kind in kinds):
            return list(values)
    if all(isinstance(kind, (t.DecimalType, *WHOLE)) for kind in kinds):
        return _decimals(values)
    fractions = (t.DoubleType, t.FloatType)
    if all(isinstance(kind, t.FloatType) for kind in kinds):
        return list(values)
    # of FLOAT and whole numbers the common type hangs on a setting
    floats = any(isinstance(kind, t.FloatType) for kind in kinds)
    taken = fractions if floats else (*fractions, *WHOLE)
    if any(isinstance(kind, fractions) for kind in kinds) and all(
        isinstance(value.type, taken) or _is_decimal_constant(value) for value in values
    ):
        return [as_double(value) for value in values]
    raise OutsideError


def _whole(values: Sequence[Expression]) -> list[Expression]:
    """Bring whole numbers to the widest type; a constant does not widen a column that has its value."""
    bits = max((WHOLE[type(v.type)][0] for v in values if not isinstance(v, Constant)), default=64)
    for value in values:
        if isinstance(value, Constant) and isinstance(value.value, int):
            while bits < 64 and not -(2 ** (bits - 1)) <= value.value < 2 ** (bits - 1):
                bits *= 2
    kind = next(kind for kind, (width, _) in WHOLE.items() if width == bits)()
    return [cast_to(value, kind) for value in values]


def _decimals(values: Sequence[Expression]) -> list[Expression]:
    digits, scale = 0, 0
    for value in values:
        kind = value.type
        before, after = (
            (kind.precision - kind.scale, kind.scale)
            if isinstance(kind, t.DecimalType)
            else (WHOLE[type(kind)][1], 0)
        )
        digits, scale = max(digits, before), max(scale, after)
    if digits + scale > MOST_DIGITS:
        raise OutsideError  # Spark would round
    common = t.DecimalType(precision=digits + scale, scale=scale)
    return [cast_to(value, common) for value in values]


def _is_decimal_constant(value: Expression) -> bool:
    return isinstance(value, Constant) and isinstance(value.type, t.DecimalType)


def big_constant(value: int) -> Constant:
    """Return a whole number of 64 bits."""
    return Constant(value=value, type=t.BigIntType())


def as_double(value: Expression) -> Expression:
    """Return a number as a DOUBLE."""
    if isinstance(value, Constant) and value.value is not None:
        return Constant(value=float(value.value), type=DOUBLE)
    return cast_to(value, DOUBLE)


def cast_to(value: Expression, kind: t.LogicalType) -> Expression:
    """Return a value as one of a type that has it; a constant is then one of that type."""
    if replace(value.type, nullable=True) == kind:
        return value
    if isinstance(value, Constant):
        return Constant(value=value.value, type=kind)
    return FunctionCall(function="cast", arguments=(value,), type=kind)


_EXACT: Mapping[type, tuple[type, ...]] = {
    t.TinyIntType: (t.SmallIntType, t.IntType, t.BigIntType, t.DoubleType),
    t.SmallIntType: (t.IntType, t.BigIntType, t.DoubleType),
    t.IntType: (t.BigIntType, t.DoubleType),
    t.BigIntType: (t.DoubleType,),
    t.FloatType: (t.DoubleType,),
    t.TimestampType: (t.DateType,),
}
"""Types to which a value is cast without a failure, whatever it is."""


def converted(value: Expression, kind: t.LogicalType) -> Expression | None:
    """Return a value as a column of another type takes it, by Spark's CAST; None where tasks do not have that."""
    if isinstance(kind, t.DecimalType):
        before, scale = _digits(value.type)
        fits = 0 <= before <= kind.precision - kind.scale and scale <= kind.scale
        return FunctionCall(function="to_decimal", arguments=(value,), type=kind) if fits else None
    if type(kind) not in _EXACT.get(type(value.type), ()):
        return None
    return FunctionCall(function="cast", arguments=(value,), type=kind)


def _digits(kind: t.LogicalType) -> tuple[int, int]:
    """Return how many digits a number may have before and behind the point; (-1, 0) of another type."""
    if isinstance(kind, t.DecimalType):
        return kind.precision - kind.scale, kind.scale
    # of a BIGINT Spark takes one more than there may be
    return min(WHOLE.get(type(kind), (0, -1))[1], 19), 0


def to_decimal(value: Expression, kind: t.DecimalType) -> Expression:
    """Return a whole number or a DECIMAL as a DECIMAL, which is NULL where it does not fit."""
    before, scale = _digits(value.type)
    if before < 0 or (scale > kind.scale and before + scale >= MOST_DIGITS):
        raise OutsideError
    if before + (scale > kind.scale) > kind.precision - kind.scale:
        _check_written_type(value)
    return FunctionCall(function="to_decimal", arguments=(value,), type=kind)


def of_decimal(value: Expression, kind: t.LogicalType) -> Expression:
    """Return a DECIMAL as a fraction, or as a whole number that is cut to its bits."""
    if isinstance(kind, (t.DoubleType, t.FloatType)):
        return FunctionCall(function="fraction_of_decimal", arguments=(value,), type=kind)
    if not isinstance(kind, tuple(WHOLE)) or _digits(value.type)[0] > _DIGITS_OF_64_BITS:
        raise OutsideError
    _check_written_type(value)
    return FunctionCall(function="whole_of_decimal", arguments=(value,), type=kind)


def _check_written_type(value: Expression) -> None:
    """Raise OutsideError for a choice: where planning does not know its type, Spark's cast may fail."""
    if not isinstance(value, FunctionCall):
        return
    if value.function in ("case", "coalesce", "greatest", "least"):
        raise OutsideError
    for argument in value.arguments:
        _check_written_type(argument)


def computed(function: str, left: Expression, right: Expression) -> Expression:
    """Return arithmetic of two numbers, of the type that Spark gives it."""
    sides = (left, right)
    kinds = [value.type for value in sides]
    if all(isinstance(kind, tuple(WHOLE)) for kind in kinds):
        common = max(kinds, key=lambda kind: WHOLE[type(kind)][0])
        bare = replace(common, nullable=True)
        return FunctionCall(
            function=function, arguments=tuple(cast_to(value, bare) for value in sides), type=bare
        )
    taken = (t.DoubleType, *WHOLE)
    if any(isinstance(kind, t.DoubleType) for kind in kinds) and all(
        isinstance(value.type, taken) or _is_decimal_constant(value) for value in sides
    ):
        return FunctionCall(
            function=function, arguments=tuple(as_double(value) for value in sides), type=DOUBLE
        )
    exact = function in ("add", "subtract", "multiply")
    if exact and all(isinstance(kind, (t.DecimalType, *WHOLE)) for kind in kinds):
        return _decimal(function, *(_as_decimal(value) for value in sides))
    raise OutsideError


def _as_decimal(value: Expression) -> Expression:
    """Bring a number to the DECIMAL that Spark takes it for beside one: of a constant, as many digits as it has."""
    if isinstance(value.type, t.DecimalType):
        return value
    digits = WHOLE[type(value.type)][1]
    if isinstance(value, Constant):
        digits = len(str(abs(int(value.value or 0))))
    return cast_to(value, t.DecimalType(precision=digits, scale=0))


def _decimal(function: str, left: Expression, right: Expression) -> Expression:
    """Compute of DECIMALs what has all digits of the result; else Spark rounds."""
    one, two = left.type, right.type
    assert isinstance(one, t.DecimalType), "it was made one"
    assert isinstance(two, t.DecimalType), "it was made one"
    scale = one.scale + two.scale if function == "multiply" else max(one.scale, two.scale)
    before = max(one.precision - one.scale, two.precision - two.scale)
    digits = one.precision + two.precision if function == "multiply" else before + scale
    if digits + 1 > MOST_DIGITS:
        raise OutsideError
    kind = t.DecimalType(precision=digits + 1, scale=scale)
    return FunctionCall(function=function, arguments=(left, right), type=kind)


def chosen(values: Sequence[Expression]) -> list[Expression]:
    """Bring the values of a choice to one type."""
    kinds = {replace(value.type, nullable=True) for value in values}
    if len(kinds) == 1:
        return list(values)
    if all(isinstance(kind, tuple(WHOLE)) for kind in kinds):
        widest = max(kinds, key=lambda kind: WHOLE[type(kind)][0])
        return [cast_to(value, widest) for value in values]
    if all(isinstance(kind, t.VarCharType) for kind in kinds):
        return list(values)
    if all(isinstance(kind, (t.DecimalType, *WHOLE)) for kind in kinds):
        return _decimals(values)
    if all(isinstance(kind, (t.DoubleType, *WHOLE)) for kind in kinds):
        return [as_double(value) for value in values]
    raise OutsideError
