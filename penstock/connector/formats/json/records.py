"""JSON one record at a time, by the rules of Flink's converters: the slow path of `json`, and its authority.

The reference is JsonParserToRowDataConverters (Flink's default). Where that one would read on from the middle of
a value, an object in a scalar column, and for repeated keys, JsonToRowDataConverters decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.catalog.model import types as t
from penstock.connector.formats.contract import Fields
from penstock.connector.formats.json.options import JsonSettings
from penstock.connector.formats.json.scalars import scalar_converter
from penstock.connector.formats.json.text import (
    MalformedError,
    NotNullViolation,
    Problem,
    TypeMismatch,
    parse,
)

__all__ = ["RecordReader", "Rows"]

Convert = Callable[[Any], Any]
_MISSING = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The result of a record: rows of column values, and its error, if any."""

    rows: tuple[tuple[Any, ...], ...]
    problem: str | None


class RecordReader:
    """Reads single records into rows of `fields`, as Python values that Arrow takes for those types."""

    def __init__(self, fields: Fields, settings: JsonSettings) -> None:
        self._settings = settings
        self._decimals = any(
            isinstance(part, t.DecimalType) for _, kind in fields for part in t.parts_of(kind)
        )
        self._fields = [self._field(name, logical) for name, logical in fields]

    def read(self, value: bytes) -> Rows:
        """Read one record: an object yields a row, an array a row for each object in it.

        A problem leaves out the row it is in; unless errors are ignored, the caller refuses the whole record.
        """
        try:
            parsed = parse(value)
        except MalformedError as error:
            return Rows(rows=(), problem=f"it is not valid JSON: {error}")
        if not isinstance(parsed, list) or not self._settings.explode_arrays:
            return self._rows([parsed])
        # as in Flink, NULL elements give no row
        return self._rows([element for element in parsed if element is not None])

    def _rows(self, elements: list[Any]) -> Rows:
        rows = []
        problem = None
        for element in elements:
            try:
                rows.append(self._row(element))
            except Problem as error:
                problem = problem or str(error)
            except MalformedError as error:
                problem = problem or f"it is not valid JSON: {error}"
        return Rows(rows=tuple(rows), problem=problem)

    def _row(self, element: Any) -> tuple[Any, ...]:
        if isinstance(element, dict):
            return tuple([read(element) for read in self._fields])
        raise TypeMismatch("it is not a JSON object", element)

    def _field(self, name: str, logical: t.LogicalType) -> Convert:
        """Make the function that takes a field out of an object."""
        convert = self._item(logical)
        default = _MISSING if self._settings.fail_on_missing_field else None

        def field(node: dict[str, Any]) -> Any:
            value = node.get(name, default)
            try:
                if value is _MISSING:
                    raise NotNullViolation("missing")
                return convert(value)
            except Problem as error:
                raise error.within(name) from None

        return field

    def _item(self, logical: t.LogicalType) -> Convert:
        """Make the converter of a type; its argument and result may be None where the type is nullable."""
        convert = self._present(logical)
        ignore = self._settings.ignore_parse_errors
        nullable = logical.nullable

        def item(node: Any) -> Any:
            value = None
            if node is not None:
                try:
                    value = convert(node)
                except TypeMismatch:
                    if not ignore:
                        raise
            if value is None and not nullable:
                raise NotNullViolation(f"NULL, but the column is {logical}")
            return value

        return item

    def _present(self, logical: t.LogicalType) -> Convert:
        """Make the converter of a type; what it gets is never None."""
        match logical:
            case t.RowType():
                return self._row_converter(logical)
            case t.ArrayType():
                return self._array_converter(logical.element)
            case t.MapType():
                return self._map_converter(logical.value)
            case t.MultisetType():
                return self._map_converter(t.IntType(nullable=False))
        return scalar_converter(logical, self._settings.standard, decimals=self._decimals)

    def _row_converter(self, logical: t.RowType) -> Convert:
        fields = [(field.name, self._field(field.name, field.type)) for field in logical.fields]

        def convert(node: Any) -> dict[str, Any]:
            if not isinstance(node, dict):
                raise TypeMismatch("not an object", node)
            return {name: read(node) for name, read in fields}

        return convert

    def _array_converter(self, element: t.LogicalType) -> Convert:
        item = self._item(element)

        def convert(node: Any) -> list[Any]:
            if not isinstance(node, list):
                raise TypeMismatch("not an array", node)
            return [_inside(f"[{index}]", item, value) for index, value in enumerate(node)]

        return convert

    def _map_converter(self, value_type: t.LogicalType) -> Convert:
        item = self._item(value_type)

        def convert(node: Any) -> list[tuple[str, Any]]:
            if not isinstance(node, dict):
                raise TypeMismatch("not an object", node)
            entries = {
                key.encode("utf-8", "replace").decode(): _inside(f"[{key!r}]", item, value)
                for key, value in node.items()
            }
            return list(entries.items())

        return convert


def _inside(step: str, convert: Convert, node: Any) -> Any:
    try:
        return convert(node)
    except Problem as error:
        raise error.within(step) from None
