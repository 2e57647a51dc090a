"""A closed set of expressions: what DuckDB computes to the bit as Spark does.

Left out is what differs, or is not known not to: functions of texts and times, casts that lose or refuse values,
FLOAT in arithmetic, quotients of decimals, sums beyond 38 digits. Overflow and division by zero fail, as in ANSI mode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as at
from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.dialect.spark.types import INTEGERS, number_kind
from penstock.sql.incremental.keyed.tables import (
    UntranslatableError,
    cast_text,
    is_nested,
    text_literal,
)
from penstock.sql.syntax.intervals import interval_value
from penstock.sql.syntax.parse_errors import NodeError

MOST_DIGITS = 38

_WHOLE_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Digits of whole numbers as decimals, by the bits of their type."""

_BELOW = "compute it in a subquery that this one reads, or in a query around it"

_INT_LIMIT, _BIGINT_LIMIT = 2**31, 2**63


@dataclass(frozen=True, slots=True)
class SqlValue:
    """An expression in DuckDB's SQL, and its type; None: a NULL that has none yet."""

    sql: str
    type: pa.DataType | None


Find = Callable[[exp.Column], SqlValue]
"""Finds a column; raises UntranslatableError."""


_CASTS = {
    exp.DType.TINYINT: pa.int8(),
    exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: pa.int32(),
    exp.DType.BIGINT: pa.int64(),
    exp.DType.DOUBLE: pa.float64(),
    exp.DType.BOOLEAN: pa.bool_(),
    exp.DType.DATE: pa.date32(),
    exp.DType.TEXT: pa.string(),
    exp.DType.TIMESTAMPNTZ: pa.timestamp("us"),
}


# --- pairs of values ---


def _is_number(kind: pa.DataType) -> bool:
    return bool(at.is_integer(kind) or at.is_decimal128(kind) or at.is_float64(kind))


def _wider(kinds: Sequence[pa.DataType], node: exp.Expr) -> pa.DataType:
    """Return the type that holds values of all types: equal ones, whole numbers, decimals."""
    first = kinds[0]
    if any(map(is_nested, kinds)):
        raise _outside(node)
    if all(kind == first for kind in kinds):
        return first
    if all(map(at.is_integer, kinds)):
        return max(kinds, key=lambda kind: kind.bit_width)
    if all(at.is_integer(kind) or at.is_decimal128(kind) for kind in kinds):
        decimals = [_as_decimal(kind) for kind in kinds]
        scale = max(kind.scale for kind in decimals)
        digits = scale + max(kind.precision - kind.scale for kind in decimals)
        if digits <= MOST_DIGITS:
            return pa.decimal128(digits, scale)
    if all(at.is_integer(kind) or at.is_float64(kind) for kind in kinds):
        return pa.float64()
    raise _outside(node)


def _as_decimal(kind: pa.DataType) -> pa.Decimal128Type:
    """Return the decimal that Spark takes for a type of whole numbers."""
    if at.is_integer(kind):
        return pa.decimal128(_WHOLE_DIGITS[kind.bit_width], 0)
    return kind


def unified(values: Sequence[SqlValue], node: exp.Expr) -> tuple[list[str], pa.DataType | None]:
    """Write values that have to be of one type in that. Raises UntranslatableError."""
    kinds = [value.type for value in values if value.type is not None]
    if not kinds:
        return [value.sql for value in values], None
    kind = _wider(kinds, node)
    return [v.sql if v.type == kind else cast_text(v.sql, kind) for v in values], kind


# --- expressions ---

_COMPARED: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_LOGICAL: dict[type[exp.Expr], str] = {exp.And: "AND", exp.Or: "OR"}
_COMPUTED: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}

_BY_ZERO = "error('[DIVIDE_BY_ZERO] Division by zero')"
_STAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def translate(node: exp.Expr, find: Find) -> SqlValue:
    """Return an expression of Flink's dialect without aggregates for DuckDB. Raises UntranslatableError."""
    if isinstance(node, exp.Anonymous):
        node = _named_function(node)
    kind = type(node)
    if kind in _COMPARED:
        (left, right), _ = unified(_both(node, find), node)
        return SqlValue(f"({left} {_COMPARED[kind]} {right})", pa.bool_())
    if kind in _LOGICAL:
        left, right = (_truth(side, find) for side in (node.this, node.expression))
        return SqlValue(f"({left} {_LOGICAL[kind]} {right})", pa.bool_())
    if kind in _COMPUTED:
        return _computed(node, find)
    form = _FORMS.get(kind)
    if form is None:
        raise _outside(node)
    return form(node, find)


def _joined(node: exp.Expr, find: Find) -> SqlValue:
    """Texts one after the other; of a NULL, NULL."""
    values = _both(node, find)
    if any(value.type != pa.string() for value in values):
        raise _outside(node)
    return SqlValue(f"({values[0].sql} || {values[1].sql})", pa.string())


def _named_function(node: exp.Anonymous) -> exp.Expr:
    """Return the operator that a function of Flink's dialect is another form of."""
    if node.name.upper() != "MOD" or len(node.expressions) != 2:
        raise _outside(node)
    return exp.Mod(this=node.expressions[0], expression=node.expressions[1])


def _outside(node: exp.Expr) -> UntranslatableError:
    return UntranslatableError(f"the expression {to_text(node)}", _BELOW)


def _both(node: exp.Expr, find: Find) -> list[SqlValue]:
    return [translate(side, find) for side in (node.this, node.expression)]


def _truth(node: exp.Expr, find: Find) -> str:
    value = translate(node, find)
    if value.type is not None and not at.is_boolean(value.type):
        raise _outside(node)
    return value.sql


def _column(node: exp.Expr, find: Find) -> SqlValue:
    assert isinstance(node, exp.Column)
    return find(node)


def _literal(node: exp.Expr, _: Find) -> SqlValue:
    assert isinstance(node, exp.Literal)
    if node.is_string:
        return SqlValue(text_literal(node.name), pa.string())
    if node.is_int:
        number = int(node.name)
        if number >= _BIGINT_LIMIT:
            raise _outside(node)
        kind = pa.int32() if number < _INT_LIMIT else pa.int64()
        return SqlValue(cast_text(str(number), kind), kind)
    if re.fullmatch(r"[0-9]*\.?[0-9]*[eE][+-]?[0-9]{1,2}", node.name):
        return SqlValue(cast_text(f"'{node.name}'", pa.float64()), pa.float64())
    found = re.fullmatch(r"([0-9]*)\.([0-9]*)", node.name)
    if found is None:
        raise _outside(node)
    whole, fraction = found[1].lstrip("0"), found[2]
    digits = max(len(whole) + len(fraction), 1)
    if digits > MOST_DIGITS:
        raise _outside(node)
    decimal = pa.decimal128(digits, len(fraction))
    return SqlValue(cast_text(f"'{node.name}'", decimal), decimal)


def _negated(node: exp.Expr, find: Find) -> SqlValue:
    value = translate(node.this, find)
    if value.type is None or not _is_number(value.type):
        raise _outside(node)
    return SqlValue(f"(-{value.sql})", value.type)


def _not(node: exp.Expr, find: Find) -> SqlValue:
    return SqlValue(f"(NOT {_truth(node.this, find)})", pa.bool_())


def _paren(node: exp.Expr, find: Find) -> SqlValue:
    return translate(node.this, find)


def _is(node: exp.Expr, find: Find) -> SqlValue:
    negated = "NOT " if node.args.get("negate") else ""
    if isinstance(node.expression, exp.Null):
        return SqlValue(f"({translate(node.this, find).sql} IS {negated}NULL)", pa.bool_())
    if not isinstance(node.expression, exp.Boolean):
        raise _outside(node)
    word = "TRUE" if node.expression.this else "FALSE"
    return SqlValue(f"({_truth(node.this, find)} IS {negated}{word})", pa.bool_())


def _between(node: exp.Expr, find: Find) -> SqlValue:
    parts = [translate(part, find) for part in (node.this, node.args["low"], node.args["high"])]
    (value, low), _ = unified(parts[:2], node)
    (again, high), _ = unified([parts[0], parts[2]], node)
    if node.args.get("symmetric"):
        raise _outside(node)
    return SqlValue(f"({value} >= {low} AND {again} <= {high})", pa.bool_())


def _in(node: exp.Expr, find: Find) -> SqlValue:
    if node.args.get("query") is not None or not node.expressions:
        raise _outside(node)
    values = [translate(part, find) for part in (node.this, *node.expressions)]
    (value, *rest), _ = unified(values, node)
    return SqlValue(f"({value} IN ({', '.join(rest)}))", pa.bool_())


def _case(node: exp.Expr, find: Find) -> SqlValue:
    branches = node.args["ifs"]
    subject = node.this
    tests = []
    for branch in branches:
        condition = branch.this
        if subject is not None:
            condition = exp.EQ(this=subject.copy(), expression=condition.copy())
        tests.append(_truth(condition, find))
    default = node.args.get("default")
    last = SqlValue("NULL", None) if default is None else translate(default, find)
    values = [*(translate(branch.args["true"], find) for branch in branches), last]
    texts, kind = unified(values, node)
    written = "".join(f" WHEN {test} THEN {text}" for test, text in zip(tests, texts, strict=False))
    return SqlValue(f"CASE{written} ELSE {texts[-1]} END", kind)


def _if(node: exp.Expr, find: Find) -> SqlValue:
    other = node.args.get("false")
    last = SqlValue("NULL", None) if other is None else translate(other, find)
    texts, kind = unified([translate(node.args["true"], find), last], node)
    return SqlValue(
        f"CASE WHEN {_truth(node.this, find)} THEN {texts[0]} ELSE {texts[1]} END", kind
    )


def _coalesce(node: exp.Expr, find: Find) -> SqlValue:
    values = [translate(part, find) for part in (node.this, *node.expressions)]
    texts, kind = unified(values, node)
    return SqlValue(f"coalesce({', '.join(texts)})", kind)


def _nullif(node: exp.Expr, find: Find) -> SqlValue:
    values = _both(node, find)
    (left, right), _ = unified(values, node)
    return SqlValue(
        f"CASE WHEN {left} = {right} THEN NULL ELSE {values[0].sql} END", values[0].type
    )


def _extreme(name: str) -> Callable[[exp.Expr, Find], SqlValue]:
    def written(node: exp.Expr, find: Find) -> SqlValue:
        values = [translate(part, find) for part in (node.this, *node.expressions)]
        texts, kind = unified(values, node)
        nulls = " OR ".join(f"{text} IS NULL" for text in texts)
        return SqlValue(f"CASE WHEN {nulls} THEN NULL ELSE {name}({', '.join(texts)}) END", kind)

    return written


# --- arithmetic ---


def _computed(node: exp.Expr, find: Find) -> SqlValue:
    if isinstance(node.expression, exp.Interval):
        return _shifted(node, find)
    left, right = _both(node, find)
    if left.type is None or right.type is None:
        raise _outside(node)
    kinds, operator = (left.type, right.type), _COMPUTED[type(node)]
    whole = [at.is_integer(kind) or at.is_decimal128(kind) for kind in kinds]
    if all(whole) and any(map(at.is_decimal128, kinds)):
        return _of_decimals(node, _decimal(node.this, left), _decimal(node.expression, right))
    if not all(at.is_integer(kind) or at.is_float64(kind) for kind in kinds):
        raise _outside(node)
    (one, two), kind = unified([left, right], node)
    return SqlValue(f"({one} {operator} {two})", kind)


def _decimal(node: exp.Expr, value: SqlValue) -> SqlValue:
    """A number as a decimal: a literal has the digits that it is written with."""
    assert value.type is not None, "it is a number"
    kind = _as_decimal(value.type)
    node = node.unnest()
    if isinstance(node, exp.Neg):
        node = node.this
    if isinstance(node, exp.Literal) and node.is_int:
        kind = pa.decimal128(len(str(int(node.name))), 0)
    return value if kind == value.type else SqlValue(cast_text(value.sql, kind), kind)


def _of_decimals(node: exp.Expr, left: SqlValue, right: SqlValue) -> SqlValue:
    """Sums, differences and products that need not be rounded (Spark's DecimalPrecision)."""
    one, two = left.type, right.type
    assert one is not None, "it is a decimal"
    assert two is not None, "it is a decimal"
    operator = _COMPUTED[type(node)]
    if isinstance(node, exp.Mul):
        digits, scale = one.precision + two.precision + 1, one.scale + two.scale
    else:
        scale = max(one.scale, two.scale)
        digits = max(one.precision - one.scale, two.precision - two.scale) + scale + 1
    if digits > MOST_DIGITS:
        raise _outside(node)
    kind = pa.decimal128(digits, scale)
    if isinstance(node, exp.Mul):
        return SqlValue(cast_text(f"({left.sql} * {right.sql})", kind), kind)
    texts = [cast_text(value.sql, kind) for value in (left, right)]
    return SqlValue(cast_text(f"({texts[0]} {operator} {texts[1]})", kind), kind)


def _shifted(node: exp.Expr, find: Find) -> SqlValue:
    """A time and an interval of microseconds."""
    value = translate(node.this, find)
    try:
        interval = interval_value(node.expression)
    except NodeError:
        raise _outside(node) from None
    if value.type is None or not at.is_timestamp(value.type) or interval.year_month:
        raise _outside(node)
    if isinstance(node, exp.Mul):
        raise _outside(node)
    sign = "-" if isinstance(node, exp.Sub) else "+"
    return SqlValue(f"({value.sql} {sign} to_microseconds({interval.micros}))", value.type)


def _divided(node: exp.Expr, find: Find) -> SqlValue:
    """Whole numbers: cut towards zero, of the wider type; with a DOUBLE: Java's quotient."""
    left, right = _both(node, find)
    if left.type is None or right.type is None:
        raise _outside(node)
    kinds = (left.type, right.type)
    if all(map(at.is_integer, kinds)):
        # so is the quotient written for Spark; of a type that is not known it is not
        if not all(number_kind(side) in INTEGERS for side in (node.this, node.expression)):
            raise _outside(node)
        (one, two), kind = unified([left, right], node)
        return SqlValue(f"CASE WHEN {two} = 0 THEN {_BY_ZERO} ELSE {one} // {two} END", kind)
    if not all(at.is_integer(kind) or at.is_float64(kind) for kind in kinds):
        raise _outside(node)
    (one, two), kind = unified([left, right], node)
    infinite = (
        f"CASE WHEN isnan({one}) OR {one} = 0 THEN 'NaN'::DOUBLE WHEN {one} > 0 THEN 'Infinity'::DOUBLE "
        f"WHEN {one} < 0 THEN '-Infinity'::DOUBLE END"
    )
    return SqlValue(f"CASE WHEN {two} = 0 THEN {infinite} ELSE {one} / {two} END", kind)


def _remainder(node: exp.Expr, find: Find) -> SqlValue:
    left, right = _both(node, find)
    if not all(v.type is not None and at.is_integer(v.type) for v in (left, right)):
        raise _outside(node)
    (one, two), kind = unified([left, right], node)
    # the least number by -1 is out of DuckDB's range, and 0; NULL stays NULL
    by_one = f"WHEN {two} = -1 THEN {one} - {one}"
    return SqlValue(f"CASE WHEN {two} = 0 THEN {_BY_ZERO} {by_one} ELSE {one} % {two} END", kind)


def _cast(node: exp.Expr, find: Find) -> SqlValue:
    to: exp.DataType = node.args["to"]
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        return _time_literal(node, to)
    kind = _CASTS.get(to.this)
    value = translate(node.this, find)
    had = value.type
    if to.this == exp.DType.DECIMAL and len(to.expressions) == 2:
        digits, scale = (int(part.name) for part in to.expressions)
        kind = pa.decimal128(digits, scale)
    if kind is None:
        raise _outside(node)
    if had is None:
        return SqlValue(cast_text("NULL", kind), kind)
    to_text_or_day = (at.is_integer(had) and kind == pa.string()) or (
        had == pa.timestamp("us") and kind == pa.date32()
    )
    if not (to_text_or_day or _widens(had, kind, to)):
        raise _outside(node)
    return SqlValue(value.sql if had == kind else cast_text(value.sql, kind), kind)


def _widens(had: pa.DataType, kind: pa.DataType, to: exp.DataType) -> bool:
    """Whether a cast keeps all values as they are."""
    if had == kind:
        # of a precision the cast cuts what is finer
        return not (at.is_timestamp(kind) and to.expressions)
    if at.is_integer(had) and at.is_integer(kind):
        return bool(had.bit_width < kind.bit_width)
    if at.is_integer(had):
        if at.is_decimal128(kind):
            return bool(kind.precision - kind.scale >= _WHOLE_DIGITS[had.bit_width])
        return bool(at.is_float64(kind))
    if at.is_decimal128(had) and at.is_decimal128(kind):
        return bool(
            kind.scale >= had.scale and kind.precision - kind.scale >= had.precision - had.scale
        )
    return False


def _time_literal(node: exp.Expr, to: exp.DataType) -> SqlValue:
    text = node.this.name
    if to.this == exp.DType.TEXT:
        return SqlValue(text_literal(text), pa.string())
    if to.this == exp.DType.DATE and _DAY.fullmatch(text):
        return SqlValue(f"CAST('{text}' AS DATE)", pa.date32())
    if to.this == exp.DType.TIMESTAMPNTZ and not to.expressions and _STAMP.fullmatch(text):
        return SqlValue(f"CAST('{text}' AS TIMESTAMP)", pa.timestamp("us"))
    raise _outside(node)


_FORMS: Mapping[type[exp.Expr], Callable[[exp.Expr, Find], SqlValue]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Null: lambda *_: SqlValue("NULL", None),
    exp.Boolean: lambda node, _: SqlValue("TRUE" if node.this else "FALSE", pa.bool_()),
    exp.Paren: _paren,
    exp.Neg: _negated,
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Greatest: _extreme("greatest"),
    exp.Least: _extreme("least"),
    exp.Div: _divided,
    exp.Mod: _remainder,
    exp.Cast: _cast,
    exp.DPipe: _joined,
}
