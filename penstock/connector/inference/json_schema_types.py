"""JSON Schema's words as types of Flink SQL: what the schema promises, and no more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.inference.inferred_table import InferredColumn

__all__ = ["schema_columns"]

_STRING = t.VarCharType(length=t.MAX_LENGTH)
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
    words = [_words(schema), "required" if required else "not required"]
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


def _words(schema: Mapping[str, Any]) -> str:
    kind: str | Sequence[str] = schema.get("type", "any value")
    text = kind if isinstance(kind, str) else " or ".join(kind)
    return f"{text} ({schema['format']})" if "format" in schema else text
