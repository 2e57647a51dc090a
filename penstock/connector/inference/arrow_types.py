"""Arrow's types, as footers of Parquet and ORC files give them, as types of Flink SQL."""

from __future__ import annotations

import pyarrow as pa

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model import types as t

__all__ = ["logical_type"]

_FRACTION = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def logical_type(arrow: pa.DataType, *, nullable: bool = True) -> t.LogicalType:
    """Return the type that takes every value of an Arrow type. Raises UnsupportedError for what SQL has no type for."""
    kinds = pa.types
    if kinds.is_dictionary(arrow):
        return logical_type(arrow.value_type, nullable=nullable)
    if kinds.is_decimal(arrow):
        return t.DecimalType(precision=arrow.precision, scale=arrow.scale, nullable=nullable)
    if kinds.is_timestamp(arrow):
        kind = t.TimestampType if arrow.tz is None else t.TimestampLtzType
        return kind(precision=_FRACTION[arrow.unit], nullable=nullable)
    if kinds.is_time(arrow):
        return t.TimeType(precision=_FRACTION[arrow.unit], nullable=nullable)
    if kinds.is_fixed_size_binary(arrow):
        return t.BinaryType(length=arrow.byte_width, nullable=nullable)
    if kinds.is_list(arrow) or kinds.is_large_list(arrow) or kinds.is_fixed_size_list(arrow):
        field = arrow.value_field
        return t.ArrayType(
            element=logical_type(field.type, nullable=field.nullable), nullable=nullable
        )
    if kinds.is_map(arrow):
        item = arrow.item_field
        value = logical_type(item.type, nullable=item.nullable)
        return t.MapType(key=logical_type(arrow.key_type), value=value, nullable=nullable)
    if kinds.is_struct(arrow):
        fields = tuple(
            t.RowField(name=each.name, type=logical_type(each.type, nullable=each.nullable))
            for each in arrow
        )
        return t.RowType(fields=fields, nullable=nullable)
    return _plain(arrow, nullable=nullable)


def _plain(arrow: pa.DataType, *, nullable: bool) -> t.LogicalType:
    """Unsigned numbers need the next larger type."""
    match str(arrow):
        case "bool":
            return t.BooleanType(nullable=nullable)
        case "int8":
            return t.TinyIntType(nullable=nullable)
        case "int16" | "uint8":
            return t.SmallIntType(nullable=nullable)
        case "int32" | "uint16":
            return t.IntType(nullable=nullable)
        case "int64" | "uint32":
            return t.BigIntType(nullable=nullable)
        case "uint64":
            return t.DecimalType(precision=20, scale=0, nullable=nullable)
        case "halffloat" | "float":
            return t.FloatType(nullable=nullable)
        case "double":
            return t.DoubleType(nullable=nullable)
        case "date32[day]" | "date64[ms]":
            return t.DateType(nullable=nullable)
        case "string" | "large_string" | "string_view" | "null":
            return t.VarCharType(length=t.MAX_LENGTH, nullable=nullable)
        case "binary" | "large_binary" | "binary_view":
            return t.VarBinaryType(length=t.MAX_LENGTH, nullable=nullable)
    raise UnsupportedError(
        f"the type {arrow} of a file's schema has no name in Flink SQL",
        hint="declare the other columns by hand: a table need not name all of them",
    )
