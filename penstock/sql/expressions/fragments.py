"""Expressions of queries as reading tasks compute them on Arrow batches; `connector/fragments.py` computes them.

A closed set: what is in it has Spark's result on every value, of Spark's type (tests compare the two). What is not the
same in both for all values of its types is left to Spark. Whole numbers that overflow fail in both: `may_fail` says so,
and such a value is not in the set where Spark may not compute it, behind AND and OR and in CASE.
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
from penstock.sql.expressions.arguments import Compile, FunctionForm, number_constant, text_call
from penstock.sql.expressions.number_functions import (
    NUMBER_FUNCTIONS,
    NUMBER_NODES,
    negative,
    whole,
)
from penstock.sql.expressions.text_functions import TEXT_FUNCTIONS, TEXT_NODES
from penstock.sql.expressions.time_functions import (
    TIME_FUNCTIONS,
    TIME_NODES,
    cut_to_unit,
    local,
    text_of_time,
    to_precision,
)
from penstock.sql.expressions.value_types import (
    BOOLEAN,
    DOUBLE,
    MOST_DIGITS,
    STRING,
    WHOLE,
    OutsideError,
    aligned,
    chosen,
    may_fail,
    of_decimal,
    to_decimal,
)

Columns = Callable[[exp.Column], Expression | None]
"""What a name in a query is, as an expression over the columns that the source delivers; None for anything else."""


def compile_expression(tree: exp.Expr, columns: Columns) -> Expression | None:
    """Return an expression as tasks compute it; None where it is not in the set."""
    try:
        return _compile(tree, columns)
    except OutsideError:
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


def _compile(tree: exp.Expr, columns: Columns) -> Expression:
    form = _FORMS.get(type(tree))
    if form is None:
        raise OutsideError
    return form(tree, columns)


def _sure(tree: exp.Expr, columns: Columns) -> Expression:
    """Compile a value that Spark may not compute for each row."""
    value = _compile(tree, columns)
    if may_fail(value):
        raise OutsideError
    return value


def _condition(tree: exp.Expr, columns: Columns) -> Expression:
    value = _compile(tree, columns)
    if not isinstance(value.type, t.BooleanType):
        raise OutsideError
    return value


def _call(function: str, *arguments: Expression) -> Expression:
    return FunctionCall(function=function, arguments=arguments, type=BOOLEAN)


def _not(value: Expression) -> Expression:
    return _call("not", value)


# --- columns and constants ---


def _column(tree: exp.Expr, columns: Columns) -> Expression:
    assert isinstance(tree, exp.Column)
    value = columns(tree)
    if value is None:
        raise OutsideError
    return value


def _dot(tree: exp.Expr, columns: Columns) -> Expression:
    name = tree.expression
    value = _compile(tree.this, columns) if isinstance(name, exp.Identifier) else None
    value = None if value is None else field_of(value, [name.name])
    if value is None:
        raise OutsideError
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
        raise OutsideError
    if _EXPONENT.fullmatch(text) and isfinite(float(text)):
        return Constant(value=float(text), type=DOUBLE)
    found = _DECIMAL.fullmatch(text)
    if found is None or not any(found.groups()):
        raise OutsideError
    whole, after = found[1].lstrip("0"), found[2]
    if len(whole) + len(after) > MOST_DIGITS:
        raise OutsideError
    kind = t.DecimalType(precision=max(len(whole) + len(after), 1), scale=len(after))
    return Constant(value=f"{whole or '0'}.{after or '0'}", type=kind)


def _negative(tree: exp.Expr, columns: Columns) -> Expression:
    value = _compile(tree.this, columns)
    if not isinstance(value, Constant):
        return negative(value)
    match value.value:
        case bool() | None:
            raise OutsideError
        case int() | float() as number:
            return replace(value, value=-number)
        case str() as text if isinstance(value.type, t.DecimalType):
            negated = text[1:] if text.startswith("-") else f"-{text}"
            return replace(value, value=negated)
        case _:
            raise OutsideError


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _cast_form(tree: exp.Expr, columns: Columns) -> Expression:
    if isinstance(tree.this, exp.Literal) and tree.this.is_string:
        return _typed_literal(tree)
    value, to = _compile(tree.this, columns), tree.args["to"]
    if to.this in (exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ):
        return _cast_to_time(value, to)
    if to.this == exp.DType.VARCHAR and len(to.expressions) == 1:
        return _cut_text(value, to.expressions[0].this)
    if to.this == exp.DType.DECIMAL:
        return to_decimal(value, _decimal_type(to))
    kind = _TARGETS.get(to.this)
    if kind is None or to.expressions:
        raise OutsideError
    if isinstance(value.type, t.DecimalType):
        return of_decimal(value, kind)
    function = _CASTS.get((type(value.type), type(kind)))
    if function is not None:
        return FunctionCall(function=function, arguments=(value,), type=kind)
    if isinstance(kind, t.VarCharType) and isinstance(value.type, (t.DateType, t.TimestampType)):
        return text_of_time(value)
    source = type(value.type)
    known = type(kind) is source or type(kind) in _WIDER.get(source, ())
    if not known:
        raise OutsideError
    if replace(value.type, nullable=True) == kind:
        return value
    return FunctionCall(function="cast", arguments=(value,), type=kind)


def _try_cast(tree: exp.Expr, columns: Columns) -> Expression:
    """Return the number of a text, or a number as a DECIMAL; other casts do not fail, or are left to Spark."""
    value, to = _compile(tree.this, columns), tree.args["to"]
    if to.this == exp.DType.DECIMAL:
        return to_decimal(value, _decimal_type(to))
    kind = _TARGETS.get(to.this)
    of_text = isinstance(value.type, t.VarCharType) and not isinstance(value, Constant)
    if of_text and isinstance(kind, t.DateType):
        return FunctionCall(function="try_day_of_text", arguments=(value,), type=kind)
    if not of_text or not isinstance(kind, (t.IntType, t.BigIntType)):
        raise OutsideError
    return FunctionCall(function="try_number_of_text", arguments=(value,), type=kind)


def _decimal_type(to: exp.DataType) -> t.DecimalType:
    sizes = [int(size.name) for size in to.expressions] or [10]
    return t.DecimalType(precision=sizes[0], scale=sizes[1] if len(sizes) > 1 else 0)


def _cut_text(value: Expression, length: exp.Expr) -> Expression:
    if not isinstance(value.type, t.VarCharType):
        raise OutsideError
    return text_call("substring", value, number_constant(1), number_constant(int(length.name)))


def _cast_to_time(value: Expression, to: exp.DataType) -> Expression:
    digits = int(to.expressions[0].name) if to.expressions else 6
    local_wanted = to.this == exp.DType.TIMESTAMPNTZ
    match value.type:
        case t.DateType() if local_wanted:
            kind = t.TimestampType(precision=digits)
            return FunctionCall(function="cast", arguments=(value,), type=kind)
        case t.TimestampType() if local_wanted:
            return to_precision(value, digits)
        case t.TimestampLtzType():
            return to_precision(local(value) if local_wanted else value, digits)
        case _:
            raise OutsideError


_TARGETS: Mapping[exp.DType, t.LogicalType] = {
    exp.DType.TINYINT: t.TinyIntType(),
    exp.DType.SMALLINT: t.SmallIntType(),
    exp.DType.INT: t.IntType(),
    exp.DType.BIGINT: t.BigIntType(),
    exp.DType.FLOAT: t.FloatType(),
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.TEXT: STRING,
    exp.DType.DATE: t.DateType(),
}
_CASTS: Mapping[tuple[type, type], str] = {
    **{(t.DoubleType, kind): "stopped" for kind in WHOLE},
    **{(t.VarCharType, kind): "number_of_text" for kind in (t.IntType, t.BigIntType)},
    (t.VarCharType, t.DateType): "day_of_text",
    (t.BooleanType, t.VarCharType): "boolean_text",
}
"""Casts that Arrow has otherwise, or not at all."""
_WIDER: Mapping[type, tuple[type, ...]] = {
    **dict.fromkeys(WHOLE, (*WHOLE, t.FloatType, t.DoubleType, t.VarCharType)),
    t.DoubleType: (t.FloatType,),
    t.FloatType: (t.DoubleType,),
    t.TimestampType: (t.DateType,),
}
"""Types that each value of a type has one in, or is cut to, and which Spark finds so, too; a fraction is rounded."""


def _typed_literal(tree: exp.Expr) -> Expression:
    """Read DATE '2026-01-01' and TIMESTAMP '2026-01-01 10:00:00.5'."""
    value, to = tree.this, tree.args["to"]
    if to.this == exp.DType.TEXT and not to.expressions:
        return Constant(value=value.name, type=STRING)
    if to.expressions:
        raise OutsideError
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
    raise OutsideError


# --- conditions ---


def _comparison(function: str, *, swapped: bool = False, negated: bool = False) -> _Form:
    def form(tree: exp.Expr, columns: Columns) -> Expression:
        sides = [_compile(tree.this, columns), _compile(tree.expression, columns)]
        found = _compared(function, *(reversed(sides) if swapped else sides))
        return _not(found) if negated else found

    return form


def _compared(function: str, left: Expression, right: Expression) -> Expression:
    if function in _ORDERS and isinstance(left.type, t.BooleanType):
        raise OutsideError
    return _call(function, *aligned([left, right]))


_ORDERS = ("less", "less_equal")


def _between(tree: exp.Expr, columns: Columns) -> Expression:
    if tree.args.get("symmetric"):
        raise OutsideError
    value, low, high = (_compile(tree.args[name], columns) for name in ("this", "low", "high"))
    return _call("and", _compared("less_equal", low, value), _compared("less_equal", value, high))


_BY_HASH = (*WHOLE, t.VarCharType, t.DateType, t.TimestampType)


def _in(tree: exp.Expr, columns: Columns) -> Expression:
    members = [_compile(member, columns) for member in tree.expressions]
    if not members or tree.args.get("query") is not None:
        raise OutsideError
    value, *members = aligned([_compile(tree.this, columns), *members])
    plain = all(isinstance(member, Constant) for member in members)
    if plain and isinstance(value.type, _BY_HASH):
        return _call("in", value, *members)
    return reduce(
        lambda left, right: _call("or", left, right),
        (_call("equal", value, member) for member in members),
    )


def _is(tree: exp.Expr, columns: Columns) -> Expression:
    match tree.expression:
        case exp.Null():
            return _call("is_null", _compile(tree.this, columns))
        case exp.Boolean(this=wanted):
            value = _condition(tree.this, columns)
            return _call("is_true", value if wanted else _not(value))
        case _:
            raise OutsideError


def _connected(function: str) -> _Form:
    def form(tree: exp.Expr, columns: Columns) -> Expression:
        left, right = _condition(tree.this, columns), _condition(tree.expression, columns)
        if may_fail(right):
            raise OutsideError
        return _call(function, left, right)

    return form


# --- choices ---


def _choice(
    function: str, conditions: Sequence[Expression], values: Sequence[Expression | None]
) -> Expression:
    known = chosen([value for value in values if value is not None])
    kind = known[0].type
    if isinstance(kind, t.VarCharType):
        kind = STRING
    kind = replace(kind, nullable=True)
    missing = Constant(value=None, type=kind)
    rest = iter(known)
    arguments = [missing if value is None else next(rest) for value in values]
    return FunctionCall(function=function, arguments=(*conditions, *arguments), type=kind)


def _case(tree: exp.Expr, columns: Columns) -> Expression:
    subject, branches = tree.this, tree.args["ifs"]
    tests = [
        _condition(branch.this, columns)
        if subject is None
        else _compared("equal", _sure(subject, columns), _sure(branch.this, columns))
        for branch in branches
    ]
    if any(map(may_fail, tests)):
        raise OutsideError
    results = [branch.args["true"] for branch in branches] + [tree.args.get("default")]
    return _choice("case", tests, [_result(result, columns) for result in results])


def _if(tree: exp.Expr, columns: Columns) -> Expression:
    results = [tree.args["true"], tree.args.get("false")]
    test = _condition(tree.this, columns)
    if may_fail(test):
        raise OutsideError
    return _choice("case", [test], [_result(result, columns) for result in results])


def _result(tree: exp.Expr | None, columns: Columns) -> Expression | None:
    if tree is None or isinstance(tree.unnest(), exp.Null):
        return None
    return _sure(tree, columns)


def _coalesce(tree: exp.Expr, columns: Columns) -> Expression:
    return _choice(
        "coalesce", [], [_sure(value, columns) for value in (tree.this, *tree.expressions)]
    )


def _nullif(tree: exp.Expr, columns: Columns) -> Expression:
    value, other = _sure(tree.this, columns), _sure(tree.expression, columns)
    return _choice("case", [_compared("equal", value, other)], [None, value])


# --- functions ---


def _function(tree: exp.Expr, columns: Columns) -> Expression:
    name, arguments = tree.name.upper(), tree.expressions
    least, most, form = _FUNCTIONS.get(name, (0, -1, None))
    if form is None or not least <= len(arguments) <= (most or len(arguments)):
        raise OutsideError
    return form(arguments, lambda argument: _compile(argument, columns))


_FUNCTIONS: Mapping[str, tuple[int, int | None, FunctionForm]] = {
    **TEXT_FUNCTIONS,
    **NUMBER_FUNCTIONS,
    **TIME_FUNCTIONS,
}
_NODES = {**TEXT_NODES, **NUMBER_NODES, **TIME_NODES}


def _by_node(form: Callable[[exp.Expr, Compile], Expression]) -> _Form:
    return lambda e, columns: form(e, lambda argument: _compile(argument, columns))


def _rounded(function: str) -> _Form:
    def form(tree: exp.Expr, columns: Columns) -> Expression:
        def compiled(argument: exp.Expr) -> Expression:
            return _compile(argument, columns)

        if tree.args.get("to") is not None:
            return cut_to_unit(function, tree, compiled)
        return whole(function, tree.this, compiled)

    return form


_Form = Callable[[exp.Expr, Columns], Expression]

_FORMS: Mapping[type[exp.Expr], _Form] = {
    **{kind: _by_node(form) for kind, form in _NODES.items()},
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Paren: lambda e, columns: _compile(e.this, columns),
    exp.Literal: _literal,
    exp.Boolean: lambda e, _: Constant(value=bool(e.this), type=BOOLEAN),
    exp.Neg: _negative,
    exp.Cast: _cast_form,
    exp.TryCast: _try_cast,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Ceil: _rounded("ceil"),
    exp.Floor: _rounded("floor"),
    exp.Anonymous: _function,
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
    exp.Is: _is,
    exp.And: _connected("and"),
    exp.Or: _connected("or"),
    exp.Not: lambda e, columns: _not(_condition(e.this, columns)),
}
