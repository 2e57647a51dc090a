"""Avro's schemas as types of Flink SQL: those of Flink's AvroSchemaConverter, instants as TIMESTAMP_LTZ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.catalog.errors import DefinitionError, UnsupportedError
from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.inference.inferred_table import InferredColumn

__all__ = ["avro_columns"]

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
        return InferredColumn(column=column, remark=f"Avro {_words(field['type'])}")

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


def _words(schema: Any) -> str:
    """Write a schema in few words."""
    match schema:
        case list():
            return " or ".join(map(_words, schema))
        case dict():
            kind = schema.get("type")
            logical = schema.get("logicalType")
            named = f" {schema['name']}" if kind in {"record", "enum", "fixed"} else ""
            return f"{_words(kind)}{named}" + (f" ({logical})" if logical else "")
        case _:
            return str(schema)
