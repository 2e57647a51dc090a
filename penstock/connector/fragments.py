"""Compute expressions on Arrow batches, and filter these, as Spark does: what fails there fails here.

Called in reading tasks. Each function has one meaning for the types that planning gives it: arguments of a comparison
are of one type, so that Arrow casts nothing by itself. A fixed cost a batch of some microseconds for each function, and
no Python for a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.errors import SinkError
from penstock.catalog.model import types as t
from penstock.connector.arrow import arrow_type
from penstock.connector.expression import Constant, Expression, FieldValue, FunctionCall
from penstock.connector.file_output import FileColumn
from penstock.connector.functions.casts import CAST_FUNCTIONS
from penstock.connector.functions.numbers import NUMBER_FUNCTIONS
from penstock.connector.functions.patterns import PATTERN_FUNCTIONS
from penstock.connector.functions.texts import TEXT_FUNCTIONS
from penstock.connector.functions.times import TIME_FUNCTIONS

_NOT_COMPUTED = (
    "compute it of a wider type: CAST(... AS BIGINT), CAST(... AS DECIMAL(38, 0)); "
    "a text that may be no number: TRY_CAST; a divisor that may be 0: NULLIF(..., 0)"
)
"""What to write where a value of a row is an error."""


class RowFilter:
    """The filter of a scan in one task; without a condition it lets all rows pass. `left_out` counts the others."""

    def __init__(self, condition: Expression | None) -> None:
        self.left_out = 0
        self._condition = condition

    def passing(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the condition is TRUE."""
        if self._condition is None:
            return batch
        holds = pc.fill_null(evaluate(self._condition, batch), fill_value=False)
        if holds.true_count == batch.num_rows:
            return batch
        passed = batch.filter(holds)
        self.left_out += batch.num_rows - passed.num_rows
        return passed


def evaluate(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    """Return the value for each row. Raises pyarrow.ArrowInvalid for what fails in Spark, too."""
    value = _value(expression, batch)
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, batch.num_rows)
    return value


def fill_column(column: FileColumn, batch: pa.RecordBatch, *, owner: str) -> pa.Array:
    """Return the values of a column of the target, of its Arrow type. Raises SinkError for one that is an error."""
    kind = arrow_type(column.type)
    if column.source is None:
        return pa.nulls(batch.num_rows, kind)
    try:
        found = evaluate(column.source, batch)
    except pa.ArrowInvalid as error:
        raise SinkError(
            f"{owner} does not take a row: column {column.name} cannot be computed: {error}",
            hint=_NOT_COMPUTED,
        ) from error
    return found if found.type.equals(kind) else found.cast(kind)


def _value(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    match expression:
        case FieldValue(path=path, type=kind):
            return _field(batch, path, arrow_type(kind))
        case Constant(value=value, type=kind):
            return _constant(value, kind)
        case FunctionCall(function=function, arguments=arguments, type=kind):
            values = [_value(argument, batch) for argument in arguments]
            return _called(function, values, arrow_type(kind))
        case _:
            assert_never(expression)


def _called(function: str, values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    if any(isinstance(value, pa.Array) for value in values):
        return FUNCTIONS[function](values, kind)
    first, *rest = values
    return FUNCTIONS[function]([pa.array([first.as_py()], first.type), *rest], kind)[0]


def _field(batch: pa.RecordBatch, path: tuple[str, ...], kind: pa.DataType) -> pa.Array:
    array = batch.column(path[0])
    if len(path) > 1:
        # of a row that is NULL all fields are
        array = pc.struct_field(array, list(path[1:]))
    return array if array.type.equals(kind) else array.cast(kind)


def _constant(value: bool | float | str | None, kind: t.LogicalType) -> pa.Scalar:
    if isinstance(kind, t.DecimalType) and value is not None:
        return pa.scalar(Decimal(str(value)), arrow_type(kind))
    return pa.scalar(value, arrow_type(kind))


# --- comparisons ---


def _is_fraction(value: pa.Array) -> bool:
    return bool(pa.types.is_floating(value.type))


def _equal(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    left, right = values
    found = pc.equal(left, right)
    if not _is_fraction(left):
        return found
    # NaN is equal to itself in Spark
    return pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _less(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    left, right = values
    found = pc.less(left, right)
    if not _is_fraction(left):
        return found
    # NaN is larger than any other number in Spark
    return pc.or_(found, pc.and_not(pc.is_nan(right), pc.is_nan(left)))


def _less_equal(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    left, right = values
    if not _is_fraction(left):
        return pc.less_equal(left, right)
    return pc.invert(_less([right, left], kind))


def _distinct(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    left, right = values
    missing = [pc.is_null(left), pc.is_null(right)]
    differ = pc.fill_null(pc.invert(_equal(values, kind)), fill_value=False)
    return pc.or_(differ, pc.xor(*missing))


def _in(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    value, *members = values
    found = pc.is_in(value, value_set=pa.array([m.as_py() for m in members], value.type))
    return pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))


def _case(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    """Choose by conditions, of which there is one less than there are values behind them."""
    count = len(values) // 2
    found = values[-1]
    for condition, value in reversed(list(zip(values[:count], values[count:-1], strict=True))):
        found = pc.if_else(pc.fill_null(condition, fill_value=False), value, found)
    return found


def _date(array: pa.Array) -> pa.Array:
    """Return the day of moments, before 1970 too."""
    return pc.floor_temporal(array, unit="day").cast(pa.date32())


def _cast(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    (value,) = values
    if pa.types.is_timestamp(value.type) and pa.types.is_date(kind):
        return _date(value)
    return value.cast(kind, safe=False)


FUNCTIONS: Mapping[str, Callable[[list[pa.Array], pa.DataType], pa.Array]] = {
    **TEXT_FUNCTIONS,
    **NUMBER_FUNCTIONS,
    **CAST_FUNCTIONS,
    **PATTERN_FUNCTIONS,
    **TIME_FUNCTIONS,
    "cast": _cast,
    "case": _case,
    "coalesce": lambda v, _: pc.coalesce(*v),
    "equal": _equal,
    "less": _less,
    "less_equal": _less_equal,
    "distinct": _distinct,
    "in": _in,
    "is_null": lambda v, _: pc.is_null(v[0]),
    "is_true": lambda v, _: pc.fill_null(v[0], fill_value=False),
    "and": lambda v, _: pc.and_kleene(*v),
    "or": lambda v, _: pc.or_kleene(*v),
    "not": lambda v, _: pc.invert(v[0]),
}
"""What planning may call, by name; the type is that of the result.

The arguments are the values of the rows of a batch, or a scalar, which is the value of all of them.
"""
