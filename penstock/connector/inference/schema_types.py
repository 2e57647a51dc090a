"""Schemas of others as types of Flink SQL: Avro (Flink's AvroSchemaConverter), JSON Schema, Arrow.

Avro's instants are TIMESTAMP_LTZ; of JSON Schema only what it promises is used; Arrow's are the types of footers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.catalog.errors import DefinitionError, UnsupportedError
from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.inference.inferred_table import InferredColumn

_STRING = t.VarCharType(length=t.MAX_LENGTH)
_BYTES = t.VarBinaryType(length=t.MAX_LENGTH)
_PLAIN: Mapping[str, t.LogicalType] = {
    "boolean": t.BooleanType(),
    "int": t.IntType(),
    "long": t.BigIntType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "string": _STRING,
    "bytes": _BYTES,
    "null": _STRING,
}
_LOGICAL: Mapping[str, t.LogicalType] = {
    "date": t.DateType(),
    "timestamp-millis": t.TimestampLtzType(precision=3),
    "timestamp-micros": t.TimestampLtzType(precision=6),
    "timestamp-nanos": t.TimestampLtzType(precision=9),
    "local-timestamp-millis": t.TimestampType(precision=3),
    "local-timestamp-micros": t.TimestampType(precision=6),
    "local-timestamp-nanos": t.TimestampType(precision=9),
    "uuid": _STRING,
}
"""By Avro's specification an instant and a local time; Flink's legacy mapping has no instants."""


def avro_columns(schema: str, references: Sequence[str] = ()) -> tuple[InferredColumn, ...]:
    """Return the columns of a record's schema; `references` are schemas whose names it uses.

    Raises DefinitionError for what is no schema of a record.
    """
    reader = _SchemaReader()
    try:
        for reference in references:
            reader.type_of(json.loads(reference))
        parsed = json.loads(schema)
        if not (isinstance(parsed, dict) and parsed.get("type") == "record"):
            raise DefinitionError(
                "the Avro schema is not of a record, so it has no columns",
                hint="a topic of single values is read with 'format' = 'raw'",
            )
        reader.name(parsed)
        return tuple(reader.column(field) for field in parsed["fields"])
    except (ValueError, KeyError, TypeError) as error:
        raise DefinitionError(
            f"the Avro schema cannot be read: {type(error).__name__}: {error}"
        ) from error


class _SchemaReader:
    """Reads schemas; knows the names that were defined so far."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: list[str] = []

    def column(self, field: Mapping[str, Any]) -> InferredColumn:
        kind = self.type_of(field["type"])
        column = PhysicalColumn(name=field["name"], type=kind, comment=field.get("doc"))
        return InferredColumn(column=column, remark=f"Avro {_avro_words(field['type'])}")

    def type_of(self, schema: Any) -> t.LogicalType:
        """Return a type; NOT NULL unless the schema is a union with null."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in _PLAIN:
                return replace(_PLAIN[schema], nullable=schema == "null")
            return self._of_name(schema)
        self.name(schema)
        logical = _LOGICAL.get(schema.get("logicalType", ""))
        if logical is not None:
            return replace(logical, nullable=False)
        if schema.get("logicalType") == "decimal":
            scale, precision = schema.get("scale", 0), schema["precision"]
            return t.DecimalType(precision=precision, scale=scale, nullable=False)
        return self._complex(schema)

    def name(self, schema: Mapping[str, Any]) -> None:
        """Remember a named schema, with and without its namespace."""
        if "name" in schema and schema.get("type") in {"record", "error", "enum", "fixed"}:
            namespace = schema.get("namespace")
            self._named[schema["name"]] = schema
            if namespace:
                self._named[f"{namespace}.{schema['name']}"] = schema

    def _of_name(self, name: str) -> t.LogicalType:
        known = self._named.get(name) or self._named.get(name.rpartition(".")[2])
        if known is None:
            raise DefinitionError(f"the Avro schema names {name!r}, which it does not define")
        if name in self._open:
            raise UnsupportedError(
                f"the Avro schema holds {name!r} inside of itself, and SQL has no type for that",
                hint="declare the columns by hand, that one as STRING or BYTES",
            )
        self._open.append(name)
        kind = self.type_of(known)
        self._open.pop()
        return kind

    def _union(self, branches: Sequence[Any]) -> t.LogicalType:
        others = [each for each in branches if each != "null"]
        if len(others) == 1:
            return replace(self.type_of(others[0]), nullable=len(others) < len(branches))
        if not others:
            return _STRING
        fields = tuple(
            t.RowField(name=f"member{number}", type=replace(self.type_of(each), nullable=True))
            for number, each in enumerate(others)
        )
        return t.RowType(fields=fields, nullable=len(others) < len(branches))

    def _complex(self, schema: Mapping[str, Any]) -> t.LogicalType:
        match schema["type"]:
            case "record" | "error":
                self._open.append(schema["name"])
                fields = tuple(
                    t.RowField(
                        name=each["name"], type=self.type_of(each["type"]), comment=each.get("doc")
                    )
                    for each in schema["fields"]
                )
                self._open.pop()
                return t.RowType(fields=fields, nullable=False)
            case "enum":
                return replace(_STRING, nullable=False)
            case "fixed":
                return t.BinaryType(length=schema["size"], nullable=False)
            case "array":
                return t.ArrayType(element=self.type_of(schema["items"]), nullable=False)
            case "map":
                key = replace(_STRING, nullable=False)
                return t.MapType(key=key, value=self.type_of(schema["values"]), nullable=False)
            case other:
                return self.type_of(other)


def _avro_words(schema: Any) -> str:
    """Write a schema in few words."""
    match schema:
        case list():
            return " or ".join(map(_avro_words, schema))
        case dict():
            kind = schema.get("type")
            logical = schema.get("logicalType")
            named = f" {schema['name']}" if kind in {"record", "enum", "fixed"} else ""
            return f"{_avro_words(kind)}{named}" + (f" ({logical})" if logical else "")
        case _:
            return str(schema)


_DEEPEST = 32
_INT = range(-(1 << 31), 1 << 31)


def schema_columns(schema: str) -> tuple[InferredColumn, ...]:
    """Return the columns of an object's schema; those it requires, and that may not be null, are NOT NULL.

    Raises DefinitionError for what is no schema of an object.
    """
    try:
        root = json.loads(schema)
    except ValueError as error:
        raise DefinitionError(f"the JSON schema cannot be read: {error}") from error
    top = _resolved(root, root) if isinstance(root, dict) else {}
    properties = top.get("properties")
    if not isinstance(properties, dict) or not properties:
        raise DefinitionError(
            "the JSON schema is not of an object with properties, so it has no columns",
            hint="a topic of single values is read with 'format' = 'raw'",
        )
    required = set(top.get("required", ()))
    return tuple(
        _column(name, _resolved(each, root), root, required=name in required)
        for name, each in properties.items()
    )


def _column(
    name: str, schema: Mapping[str, Any], root: Mapping[str, Any], *, required: bool
) -> InferredColumn:
    kind = _type(schema, root, depth=0)
    nullable = kind.nullable or not required
    comment = schema.get("description") or schema.get("title")
    words = [_json_words(schema), "required" if required else "not required"]
    return InferredColumn(
        column=PhysicalColumn(name=name, type=replace(kind, nullable=nullable), comment=comment),
        remark=f"{', '.join(filter(None, words))} in the schema",
    )


def _type(schema: Mapping[str, Any], root: Mapping[str, Any], *, depth: int) -> t.LogicalType:
    """Return a type; NOT NULL unless the schema takes null."""
    schema = _resolved(schema, root)
    if depth > _DEEPEST:
        return _STRING
    for word in ("oneOf", "anyOf"):
        branches = [_resolved(each, root) for each in schema.get(word, ())]
        if branches:
            others = [each for each in branches if each.get("type") != "null"]
            nullable = len(others) < len(branches)
            if len(others) != 1:
                return replace(_STRING, nullable=nullable)
            kind = _type(others[0], root, depth=depth + 1)
            return replace(kind, nullable=nullable or kind.nullable)
    names = schema.get(
        "type", "string" if "enum" in schema else "object" if "properties" in schema else None
    )
    named = [names] if isinstance(names, str) else list(names or ())
    nullable = "null" in named or not named
    named = [name for name in named if name != "null"]
    if sorted(named) == ["integer", "number"]:
        named = ["number"]
    kind = _of_name(named[0], schema, root, depth) if len(named) == 1 else _STRING
    return replace(kind, nullable=nullable)


def _of_name(
    name: str, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int
) -> t.LogicalType:
    match name:
        case "boolean":
            return t.BooleanType()
        case "integer":
            bounds = (schema.get("minimum"), schema.get("maximum"))
            small = all(isinstance(each, int) and each in _INT for each in bounds)
            return t.IntType() if small else t.BigIntType()
        case "number":
            return t.DoubleType()
        case "array":
            items = schema.get("items")
            element = _type(items, root, depth=depth + 1) if isinstance(items, dict) else _STRING
            return t.ArrayType(element=element)
        case "object":
            return _object(schema, root, depth)
        case "string":
            formats: dict[str, t.LogicalType] = {
                "date-time": t.TimestampLtzType(precision=3),
                "date": t.DateType(),
            }
            return formats.get(schema.get("format", ""), _STRING)
    return _STRING


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> t.LogicalType:
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties:
        required = set(schema.get("required", ()))
        fields = []
        for name, each in properties.items():
            kind = _type(each, root, depth=depth + 1)
            nullable = kind.nullable or name not in required
            fields.append(t.RowField(name=name, type=replace(kind, nullable=nullable)))
        return t.RowType(fields=tuple(fields))
    values = schema.get("additionalProperties")
    value = _type(values, root, depth=depth + 1) if isinstance(values, dict) else _STRING
    return t.MapType(key=replace(_STRING, nullable=False), value=value)


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a reference inside of the schema; one that leads elsewhere, or round, is any value."""
    for _ in range(_DEEPEST):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if reference is None:
            return schema if isinstance(schema, dict) else {}
        schema = _at(root, str(reference))
    return {}


def _at(root: Mapping[str, Any], reference: str) -> Any:
    if not reference.startswith("#"):
        return {}
    found: Any = root
    for step in filter(None, reference.lstrip("#").split("/")):
        if not isinstance(found, dict):
            return {}
        found = found.get(step.replace("~1", "/").replace("~0", "~"), {})
    return found


def _json_words(schema: Mapping[str, Any]) -> str:
    kind: str | Sequence[str] = schema.get("type", "any value")
    text = kind if isinstance(kind, str) else " or ".join(kind)
    return f"{text} ({schema['format']})" if "format" in schema else text


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
