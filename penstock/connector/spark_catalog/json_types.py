"""Convert types in the JSON of Spark's schemas, which Delta's log uses as well. Loads no engine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")

_PLAIN: dict[str, Callable[..., t.LogicalType]] = {
    "boolean": t.BooleanType,
    "byte": t.TinyIntType,
    "short": t.SmallIntType,
    "integer": t.IntType,
    "long": t.BigIntType,
    "float": t.FloatType,
    "double": t.DoubleType,
    "date": t.DateType,
}
_MICROS = 6


def physical_columns(schema: Mapping[str, Any], *, owner: str) -> tuple[PhysicalColumn, ...]:
    """Return the columns of a schema, comments included. Raises UnsupportedError, with `owner` and the column."""
    columns = []
    for field in schema["fields"]:
        try:
            kind = logical_type(field["type"], nullable=field["nullable"])
        except UnsupportedError as error:
            raise error.within(f"{owner}: column {field['name']!r}") from None
        comment = field["metadata"].get("comment")
        columns.append(PhysicalColumn(name=field["name"], type=kind, comment=comment))
    return tuple(columns)


def logical_type(kind: Any, *, nullable: bool = True) -> t.LogicalType:
    """Return our type for one in the JSON of Spark's and Delta's schemas. Raises UnsupportedError."""
    match kind:
        case {"type": "array", "elementType": element, "containsNull": nulls}:
            return t.ArrayType(element=logical_type(element, nullable=nulls), nullable=nullable)
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nulls}:
            return t.MapType(
                key=logical_type(key, nullable=False),
                value=logical_type(value, nullable=nulls),
                nullable=nullable,
            )
        case {"type": "struct", "fields": fields}:
            return t.RowType(fields=tuple(_row_field(one) for one in fields), nullable=nullable)
        case str():
            return _plain(kind, nullable=nullable)
    raise UnsupportedError(f"there is no type for Spark's {json.dumps(kind)[:80]}")


def _plain(kind: str, *, nullable: bool) -> t.LogicalType:
    if (decimal := _DECIMAL.fullmatch(kind)) is not None:
        precision, scale = int(decimal[1]), int(decimal[2])
        return t.DecimalType(precision=precision, scale=scale, nullable=nullable)
    match kind:
        case "string":
            return t.VarCharType(length=t.MAX_LENGTH, nullable=nullable)
        case "binary":
            return t.VarBinaryType(length=t.MAX_LENGTH, nullable=nullable)
        case "timestamp":
            return t.TimestampLtzType(precision=_MICROS, nullable=nullable)
        case "timestamp_ntz":
            return t.TimestampType(precision=_MICROS, nullable=nullable)
        case "time(6)":
            return t.TimeType(precision=_MICROS, nullable=nullable)
    plain = _PLAIN.get(kind)
    if plain is None:
        raise UnsupportedError(f"there is no type for Spark's {kind}")
    return plain(nullable=nullable)


def _row_field(field: Mapping[str, Any]) -> t.RowField:
    kind = logical_type(field["type"], nullable=field["nullable"])
    return t.RowField(name=field["name"], type=kind, comment=field["metadata"].get("comment"))
