"""Functions of numbers as reading tasks compute them: `connector/functions/numbers.py` has those that are named here.

Not in the set: what hangs on the last digit of a library (POWER, EXP, LN), rounding of fractions, quotients of DECIMAL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.model import types as t
from penstock.connector.expression import Constant, Expression, FunctionCall
from penstock.sql.expressions.arguments import (
    Compile,
    FunctionForm,
    constant_number,
    number_constant,
)
from penstock.sql.expressions.value_types import (
    DOUBLE,
    MOST_DIGITS,
    WHOLE,
    OutsideError,
    as_double,
    chosen,
    computed,
)

_FRACTIONS = (t.DoubleType, t.FloatType)
_ORDERED = (*WHOLE, t.DecimalType, t.DateType, t.TimestampType, t.VarCharType)


def _call(function: str, value: Expression, *more: Expression) -> Expression:
    """Return a call whose value has the type of its first argument."""
    kind = replace(value.type, nullable=True)
    return FunctionCall(function=function, arguments=(value, *more), type=kind)


def _divided(tree: exp.Expr, compiled: Compile) -> Expression:
    left, right = compiled(tree.this), compiled(tree.expression)
    whole = isinstance(left.type, tuple(WHOLE)) and isinstance(right.type, tuple(WHOLE))
    if whole and any(isinstance(side.type, t.BigIntType) for side in _constants(left, right)):
        raise OutsideError  # Spark is given a quotient of the type INT
    found = computed("quotient" if whole else "divide", left, right)
    if not whole and not isinstance(found.type, t.DoubleType):
        raise OutsideError
    return found


def _constants(*values: Expression) -> list[Constant]:
    return [value for value in values if isinstance(value, Constant)]


def _remainder(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    sides = [compiled(argument) for argument in arguments]
    if not all(isinstance(side.type, tuple(WHOLE)) for side in sides):
        raise OutsideError
    return computed("remainder", *sides)


def _abs(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    (argument,) = arguments
    value = compiled(argument)
    if not isinstance(value.type, (*WHOLE, *_FRACTIONS, t.DecimalType)):
        raise OutsideError
    return _call("abs", value)


def _sign(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    (argument,) = arguments
    value = compiled(argument)
    if not isinstance(value.type, (*WHOLE, t.DoubleType)):
        raise OutsideError
    return _call("sign", value)


def _sqrt(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    (argument,) = arguments
    value = compiled(argument)
    if not isinstance(value.type, (*WHOLE, t.DoubleType)):
        raise OutsideError
    return FunctionCall(function="sqrt", arguments=(as_double(value),), type=DOUBLE)


def whole(function: str, argument: exp.Expr, compiled: Compile) -> Expression:
    """Return CEIL or FLOOR of a number."""
    value = compiled(argument)
    kind = value.type
    if isinstance(kind, tuple(WHOLE)):
        return value
    if isinstance(kind, t.DoubleType):
        return _call(function, value)
    if not isinstance(kind, t.DecimalType):
        raise OutsideError
    digits = kind.precision - kind.scale + 1 if kind.scale else kind.precision
    result = t.DecimalType(precision=digits, scale=0)
    return FunctionCall(function=function, arguments=(value,), type=result)


def _ceiling(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    (argument,) = arguments
    return whole("ceil", argument, compiled)


def _round(arguments: Sequence[exp.Expr], compiled: Compile) -> Expression:
    argument, *rest = arguments
    value, digits = compiled(argument), constant_number(rest[0]) if rest else 0
    kind = value.type
    if not isinstance(kind, t.DecimalType) or digits < 0:
        raise OutsideError
    scale = min(digits, kind.scale)
    precision = kind.precision - kind.scale + 1 + scale
    if precision > MOST_DIGITS or kind.precision >= MOST_DIGITS:
        raise OutsideError
    return FunctionCall(
        function="round",
        arguments=(value, number_constant(scale)),
        type=t.DecimalType(precision=precision, scale=scale),
    )


def negative(value: Expression) -> Expression:
    """Return a number with the other sign; of whole numbers the least has none."""
    if isinstance(value.type, tuple(WHOLE)):
        return computed("subtract", Constant(value=0, type=value.type), value)
    if not isinstance(value.type, (*_FRACTIONS, t.DecimalType)):
        raise OutsideError
    return _call("negate", value)


def _extreme(function: str) -> Callable[[exp.Expr, Compile], Expression]:
    def form(tree: exp.Expr, compiled: Compile) -> Expression:
        values = chosen([compiled(value) for value in (tree.this, *tree.expressions)])
        if not isinstance(values[0].type, _ORDERED):
            raise OutsideError
        return _call(function, *values)

    return form


def _arithmetic(function: str) -> Callable[[exp.Expr, Compile], Expression]:
    return lambda e, compiled: computed(function, compiled(e.this), compiled(e.expression))


NUMBER_NODES: Mapping[type[exp.Expr], Callable[[exp.Expr, Compile], Expression]] = {
    exp.Mul: _arithmetic("multiply"),
    exp.Div: _divided,
    exp.Mod: lambda e, compiled: _remainder([e.this, e.expression], compiled),
    exp.Greatest: _extreme("greatest"),
    exp.Least: _extreme("least"),
}

NUMBER_FUNCTIONS: Mapping[str, tuple[int, int | None, FunctionForm]] = {
    "MOD": (2, 2, _remainder),
    "ABS": (1, 1, _abs),
    "SIGN": (1, 1, _sign),
    "SQRT": (1, 1, _sqrt),
    "CEILING": (1, 1, _ceiling),
    "ROUND": (1, 2, _round),
}
"""Functions by name, with the least and the largest number of their arguments."""
