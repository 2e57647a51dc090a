"""Which columns the optional package `penstock-native` reads of JSON records, and how it is asked.

A closed set of types and of forms of values, in which it returns what `batches` and `scalars` do; a record with
anything else it names, and those read it. Who reads records natively has the package, and gives it to the decoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.catalog.model import types as t
from penstock.connector.arrow import arrow_type
from penstock.connector.formats.contract import Fields
from penstock.connector.formats.json.lines import Lines
from penstock.connector.formats.json.options import JsonSettings, TimestampStandard

Rows = npt.NDArray[np.int64]

_KINDS: dict[type[t.LogicalType], str] = {
    t.BooleanType: "BOOLEAN",
    t.TinyIntType: "INT8",
    t.SmallIntType: "INT16",
    t.IntType: "INT32",
    t.BigIntType: "INT64",
    t.FloatType: "FLOAT32",
    t.DoubleType: "FLOAT64",
    t.CharType: "TEXT",
    t.VarCharType: "TEXT",
    t.DateType: "DATE",
    t.TimestampType: "TIMESTAMP",
    t.TimestampLtzType: "TIMESTAMP",
    t.RowType: "ROW",
}
"""Names in `JsonKind` of the package."""


class NativeReader:
    """Reads lines into columns by the package."""

    def __init__(self, package: ModuleType, columns: Sequence[Any]) -> None:
        """`columns` are JsonColumn of the package."""
        self._package = package
        self._columns = tuple(columns)

    @classmethod
    def of(cls, package: ModuleType, fields: Fields, settings: JsonSettings) -> NativeReader | None:
        """Return a reader of `fields`; None where one of them has a type that it does not read."""
        if not all(_is_read(logical) for _, logical in fields):
            return None
        return cls(package, [_column(package, name, logical, settings) for name, logical in fields])

    def read(self, lines: Lines) -> tuple[list[pa.Array], Rows]:
        """Return the columns of the lines that were read, in order, and the places of the others."""
        columns, refused = self._package.read_json(lines, self._columns)
        return columns, np.asarray(refused)


def _is_read(logical: t.LogicalType) -> bool:
    """Return whether a type is read, all fields of a ROW included; the package takes as many levels as types have."""
    if isinstance(logical, t.RowType):
        return all(_is_read(field.type) for field in logical.fields)
    return type(logical) in _KINDS


def _column(package: ModuleType, name: str, logical: t.LogicalType, settings: JsonSettings) -> Any:
    instant = isinstance(logical, t.TimestampLtzType)
    return package.JsonColumn(
        name=name,
        kind=package.JsonKind[_KINDS[type(logical)]],
        type=arrow_type(logical),
        required=settings.fail_on_missing_field or not logical.nullable,
        separator=settings.standard.separator,
        ending=package.JsonEnding[_ending(settings.standard, instant=instant)],
        fields=tuple(
            _column(package, field.name, field.type, settings) for field in _fields(logical)
        ),
    )


def _fields(logical: t.LogicalType) -> Sequence[t.RowField]:
    return logical.fields if isinstance(logical, t.RowType) else ()


def _ending(standard: TimestampStandard, *, instant: bool) -> str:
    if standard.offset:
        return "OFFSET"
    return "UTC" if instant else "NOTHING"
