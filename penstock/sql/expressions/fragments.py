"""Expressions of queries as reading tasks compute them on Arrow batches; `connector/fragments.py` computes them.

A closed set: what is in it has Spark's result on every value, and fails on none (tests compare the two). What is not
the same in both for all values of its types is left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from math import isfinite

from sqlglot import exp

from penstock.catalog.model import types as t
from penstock.connector.expression import Constant, Expression, FieldValue, FunctionCall

Columns = Callable[[exp.Column], Expression | None]
"""What a name in a query is, as an expression over the columns that the source delivers; None for anything else."""


def compile_expression(tree: exp.Expr, columns: Columns) -> Expression | None:
    """Return an expression as tasks compute it; None where it is not in the set."""
    try:
        return _compile(tree, columns)
    except _OutsideError:
        return None


def field_of(value: Expression, names: Sequence[str]) -> Expression | None:
    """Return the field of a column's rows that `names` lead to; None where there is none."""
    for name in names:
        if not isinstance(value, FieldValue) or not isinstance(value.type, t.RowType):
            return None
        kind = next((field.type for field in value.type.fields if field.name == name), None)
        if kind is None:
            return None
        value = FieldValue(path=(*value.path, name), type=kind)
    return value


class _OutsideError(Exception):
    """An expression is not in the set."""


def _compile(tree: exp.Expr, columns: Columns) -> Expression:
    form = _FORMS.get(type(tree))
    if form is None:
        raise _OutsideError
    return form(tree, columns)


# --- types ---

_BOOLEAN = t.BooleanType()
_DOUBLE = t.DoubleType()
_WHOLE: Mapping[type, tuple[int, int]] = {
    t.TinyIntType: (8, 3),
    t.SmallIntType: (16, 5),
    t.IntType: (32, 10),
    t.BigIntType: (64, 20),
}
"""Bits of whole numbers, and the digits that Spark takes for them beside a DECIMAL."""
_MOST_DIGITS = 38
_OTHERS = (t.BooleanType, t.VarCharType, t.DateType, t.TimestampType, t.TimestampLtzType)
"""Types whose values are compared with those of the same type alone. Not CHAR, which may be padded."""


def _aligned(values: Sequence[Expression]) -> list[Expression]:
    """Bring values to the one type in which Spark compares them."""
    kinds = [value.type for value in values]
    if all(isinstance(kind, tuple(_WHOLE)) for kind in kinds):
        return _whole(values)
    for other in _OTHERS:
        if all(isinstance(kind, other) for kind in kinds):
            return list(values)
    if all(isinstance(kind, (t.DecimalType, *_WHOLE)) for kind in kinds):
        return _decimals(values)
    fractions = (t.DoubleType, t.FloatType)
    if all(isinstance(kind, t.FloatType) for kind in kinds):
        return list(values)
    # of FLOAT and whole numbers the common type hangs on a setting
    floats = any(isinstance(kind, t.FloatType) for kind in kinds)
    taken = fractions if floats else (*fractions, *_WHOLE)
    if any(isinstance(kind, fractions) for kind in kinds) and all(
        isinstance(value.type, taken) or _is_decimal_constant(value) for value in values
    ):
        return [_double(value) for value in values]
    raise _OutsideError


def _whole(values: Sequence[Expression]) -> list[Expression]:
    """Bring whole numbers to the widest type; a constant does not widen a column that has its value."""
    bits = max((_WHOLE[type(v.type)][0] for v in values if not isinstance(v, Constant)), default=64)
    for value in values:
        if isinstance(value, Constant) and isinstance(value.value, int):
            while bits < 64 and not -(2 ** (bits - 1)) <= value.value < 2 ** (bits - 1):
                bits *= 2
    kind = next(kind for kind, (width, _) in _WHOLE.items() if width == bits)()
    return [_cast(value, kind) for value in values]


def _decimals(values: Sequence[Expression]) -> list[Expression]:
    digits, scale = 0, 0
    for value in values:
        kind = value.type
        before, after = (
            (kind.precision - kind.scale, kind.scale)
            if isinstance(kind, t.DecimalType)
            else (_WHOLE[type(kind)][1], 0)
        )
        digits, scale = max(digits, before), max(scale, after)
    if digits + scale > _MOST_DIGITS:
        raise _OutsideError  # Spark would round
    common = t.DecimalType(precision=digits + scale, scale=scale)
    return [_cast(value, common) for value in values]


def _is_decimal_constant(value: Expression) -> bool:
    return isinstance(value, Constant) and isinstance(value.type, t.DecimalType)


def _double(value: Expression) -> Expression:
    if isinstance(value, Constant) and value.value is not None:
        return Constant(value=float(value.value), type=_DOUBLE)
    return _cast(value, _DOUBLE)


def _cast(value: Expression, kind: t.LogicalType) -> Expression:
    if replace(value.type, nullable=True) == kind:
        return value
    if isinstance(value, Constant):
        return Constant(value=value.value, type=kind)
    return FunctionCall(function="cast", arguments=(value,), type=kind)


def _condition(tree: exp.Expr, columns: Columns) -> Expression:
    value = _compile(tree, columns)
    if not isinstance(value.type, t.BooleanType):
        raise _OutsideError
    return value


def _call(function: str, *arguments: Expression) -> Expression:
    return FunctionCall(function=function, arguments=arguments, type=_BOOLEAN)


def _not(value: Expression) -> Expression:
    return _call("not", value)


# --- columns and constants ---


def _column(tree: exp.Expr, columns: Columns) -> Expression:
    assert isinstance(tree, exp.Column)
    value = columns(tree)
    if value is None:
        raise _OutsideError
    return value


def _dot(tree: exp.Expr, columns: Columns) -> Expression:
    name = tree.expression
    value = _compile(tree.this, columns) if isinstance(name, exp.Identifier) else None
    value = None if value is None else field_of(value, [name.name])
    if value is None:
        raise _OutsideError
    return value


_DECIMAL = re.compile(r"(\d*)\.(\d*)", re.ASCII)
_EXPONENT = re.compile(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d{1,3}", re.ASCII)


def _literal(tree: exp.Expr, _: Columns) -> Expression:
    text = tree.name
    if tree.args["is_string"]:
        return Constant(value=text, type=t.VarCharType(length=t.MAX_LENGTH))
    return _number(text)


def _number(text: str) -> Constant:
    if text.isdecimal() and text.isascii():
        value = int(text)
        if value < 2**31:
            return Constant(value=value, type=t.IntType())
        if value < 2**63:
            return Constant(value=value, type=t.BigIntType())
        raise _OutsideError
    if _EXPONENT.fullmatch(text) and isfinite(float(text)):
        return Constant(value=float(text), type=_DOUBLE)
    found = _DECIMAL.fullmatch(text)
    if found is None or not any(found.groups()):
        raise _OutsideError
    whole, after = found[1].lstrip("0"), found[2]
    if len(whole) + len(after) > _MOST_DIGITS:
        raise _OutsideError
    kind = t.DecimalType(precision=max(len(whole) + len(after), 1), scale=len(after))
    return Constant(value=f"{whole or '0'}.{after or '0'}", type=kind)


def _negative(tree: exp.Expr, columns: Columns) -> Expression:
    value = _compile(tree.this, columns)
    if not isinstance(value, Constant):
        raise _OutsideError
    match value.value:
        case bool() | None:
            raise _OutsideError
        case int() | float() as number:
            return replace(value, value=-number)
        case str() as text if isinstance(value.type, t.DecimalType):
            negated = text[1:] if text.startswith("-") else f"-{text}"
            return replace(value, value=negated)
        case _:
            raise _OutsideError


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _typed_literal(tree: exp.Expr, _: Columns) -> Expression:
    """Read DATE '2026-01-01' and TIMESTAMP '2026-01-01 10:00:00.5'."""
    value, to = tree.this, tree.args["to"]
    if not isinstance(value, exp.Literal) or not value.is_string or to.expressions:
        raise _OutsideError
    text = value.name
    try:
        if to.this == exp.DType.DATE and _DAY.fullmatch(text):
            days = date.fromisoformat(text).toordinal() - _EPOCH.toordinal()
            return Constant(value=days, type=t.DateType())
        if to.this == exp.DType.TIMESTAMPNTZ and _MOMENT.fullmatch(text):
            moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
            micros = (moment - _EPOCH) // timedelta(microseconds=1)
            return Constant(value=micros, type=t.TimestampType(precision=6))
    except ValueError:
        pass  # no day of the calendar: Spark says so
    raise _OutsideError


# --- conditions ---


def _comparison(function: str, *, swapped: bool = False, negated: bool = False) -> _Form:
    def form(tree: exp.Expr, columns: Columns) -> Expression:
        sides = [_compile(tree.this, columns), _compile(tree.expression, columns)]
        found = _compared(function, *(reversed(sides) if swapped else sides))
        return _not(found) if negated else found

    return form


def _compared(function: str, left: Expression, right: Expression) -> Expression:
    if function in _ORDERS and isinstance(left.type, t.BooleanType):
        raise _OutsideError
    return _call(function, *_aligned([left, right]))


_ORDERS = ("less", "less_equal")


def _between(tree: exp.Expr, columns: Columns) -> Expression:
    if tree.args.get("symmetric"):
        raise _OutsideError
    value, low, high = (_compile(tree.args[name], columns) for name in ("this", "low", "high"))
    return _call("and", _compared("less_equal", low, value), _compared("less_equal", value, high))


_BY_HASH = (*_WHOLE, t.VarCharType, t.DateType, t.TimestampType)


def _in(tree: exp.Expr, columns: Columns) -> Expression:
    members = [_compile(member, columns) for member in tree.expressions]
    if not members or tree.args.get("query") is not None:
        raise _OutsideError
    value, *members = _aligned([_compile(tree.this, columns), *members])
    plain = all(isinstance(member, Constant) for member in members)
    if plain and isinstance(value.type, _BY_HASH):
        return _call("in", value, *members)
    return reduce(
        lambda left, right: _call("or", left, right),
        (_call("equal", value, member) for member in members),
    )


def _like(tree: exp.Expr, columns: Columns) -> Expression:
    value, pattern = _compile(tree.this, columns), tree.expression
    plain = isinstance(pattern, exp.Literal) and pattern.is_string and "\\" not in pattern.name
    if not plain or not isinstance(value.type, t.VarCharType):
        raise _OutsideError
    found = _call("like", value, _compile(pattern, columns))
    return _not(found) if tree.args.get("negate") else found


def _is(tree: exp.Expr, columns: Columns) -> Expression:
    match tree.expression:
        case exp.Null():
            return _call("is_null", _compile(tree.this, columns))
        case exp.Boolean(this=wanted):
            value = _condition(tree.this, columns)
            return _call("is_true", value if wanted else _not(value))
        case _:
            raise _OutsideError


def _connected(function: str) -> _Form:
    def form(tree: exp.Expr, columns: Columns) -> Expression:
        left, right = _condition(tree.this, columns), _condition(tree.expression, columns)
        return _call(function, left, right)

    return form


_Form = Callable[[exp.Expr, Columns], Expression]

_FORMS: Mapping[type[exp.Expr], _Form] = {
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Paren: lambda e, columns: _compile(e.this, columns),
    exp.Literal: _literal,
    exp.Boolean: lambda e, _: Constant(value=bool(e.this), type=_BOOLEAN),
    exp.Neg: _negative,
    exp.Cast: _typed_literal,
    exp.EQ: _comparison("equal"),
    exp.NEQ: _comparison("equal", negated=True),
    exp.LT: _comparison("less"),
    exp.GT: _comparison("less", swapped=True),
    exp.LTE: _comparison("less_equal"),
    exp.GTE: _comparison("less_equal", swapped=True),
    exp.NullSafeNEQ: _comparison("distinct"),
    exp.NullSafeEQ: _comparison("distinct", negated=True),
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.Is: _is,
    exp.And: _connected("and"),
    exp.Or: _connected("or"),
    exp.Not: lambda e, columns: _not(_condition(e.this, columns)),
}
