"""Logical types as Arrow types: the one mapping that formats, readers and the Spark binding share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from penstock.catalog.model import types as t
from penstock.connector.column_checks import check_record_type

__all__ = ["arrow_field", "arrow_schema", "arrow_type", "python_values"]

_PLAIN: dict[type, pa.DataType] = {
    t.BooleanType: pa.bool_(),
    t.TinyIntType: pa.int8(),
    t.SmallIntType: pa.int16(),
    t.IntType: pa.int32(),
    t.BigIntType: pa.int64(),
    t.FloatType: pa.float32(),
    t.DoubleType: pa.float64(),
    t.CharType: pa.string(),
    t.VarCharType: pa.string(),
    t.BinaryType: pa.binary(),
    t.VarBinaryType: pa.binary(),
    t.DateType: pa.date32(),
    t.TimeType: pa.time64("ns"),
    t.TimestampType: pa.timestamp("us"),
    t.TimestampLtzType: pa.timestamp("us", tz="UTC"),
}


def arrow_type(logical: t.LogicalType) -> pa.DataType:
    """Return the Arrow type that Spark reads as `logical`: microseconds, 32-bit offsets, UTC for instants.

    Raises UnsupportedError for types that no record carries (intervals).
    """
    match logical:
        case t.DecimalType():
            return pa.decimal128(logical.precision, logical.scale)
        case t.ArrayType():
            return pa.list_(
                pa.field("element", arrow_type(logical.element), logical.element.nullable)
            )
        case t.MapType():
            return _map(arrow_type(logical.key), logical.value)
        case t.MultisetType():
            return _map(arrow_type(logical.element), t.IntType(nullable=False))
        case t.RowType():
            return pa.struct([arrow_field(field.name, field.type) for field in logical.fields])
    check_record_type(logical)
    return _PLAIN[type(logical)]


def _map(key: pa.DataType, value: t.LogicalType) -> pa.DataType:
    return pa.map_(key, pa.field("value", arrow_type(value), value.nullable))


def arrow_field(name: str, logical: t.LogicalType) -> pa.Field:
    """Return the Arrow field of a column, NOT NULL included."""
    return pa.field(name, arrow_type(logical), nullable=logical.nullable)


def arrow_schema(columns: Iterable[tuple[str, t.LogicalType]]) -> pa.Schema:
    """Return the Arrow schema of named columns."""
    return pa.schema([arrow_field(name, logical) for name, logical in columns])


def python_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return values as Python has them, and as texts those that it has not: dates before the year 1 and after 9999."""
    try:
        return list(array.to_pylist())
    except (OverflowError, ValueError):
        return [_python_value(array, index) for index in range(len(array))]


def _python_value(array: pa.Array | pa.ChunkedArray, index: int) -> Any:
    one = array.slice(index, 1)
    try:
        return one.to_pylist()[0]
    except (OverflowError, ValueError):
        if pa.types.is_temporal(array.type):
            return one.cast(pa.string()).to_pylist()[0]
        return " ".join(one.to_string().split())  # with such a date somewhere in it
