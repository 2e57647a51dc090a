"""Values of SQL types as tests write them and as Arrow returns them, converted to one Python value; rows of cells."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from penstock.catalog.errors import DefinitionError, did_you_mean
from penstock.catalog.model import types as t
from penstock.catalog.model.table import ComputedColumn, MetadataColumn, Table
from penstock.catalog.model.types import LogicalType
from penstock.connector.changelog import RowKind

MARKS = ("$split", "$offset", "$timestamp", "$key", "$kind", "$headers", "$raw")
"""What may stand beside the columns of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRow:
    """A row of a source table. `cells` are its columns, as written; texts where `from_csv`.

    `split` is a partition or file, None for the first one; `offset` is None for the next one; `raw` are bytes in the
    place of the record's value, `key` in the place of its key; `timestamp` is an instant as SQL writes it.
    """

    cells: Mapping[str, Any] = field(default_factory=dict)
    split: str | None = None
    offset: int | None = None
    timestamp: str | None = None
    key: bytes | None = None
    kind: RowKind = RowKind.INSERT
    headers: tuple[tuple[str, bytes | None], ...] = ()
    raw: bytes | None = None
    from_csv: bool = False


_BITS: Mapping[type, int] = {
    t.TinyIntType: 8,
    t.SmallIntType: 16,
    t.IntType: 32,
    t.BigIntType: 64,
}

_TEXT = (t.CharType, t.VarCharType)

_BYTES = (t.BinaryType, t.VarBinaryType)

_NESTED = (t.RowType, t.ArrayType, t.MapType, t.MultisetType)


def read_value(value: Any, kind: t.LogicalType) -> Any:
    """Return a value of a type as bool, int, float, Decimal, str, bytes, date, time, datetime, list or dict.

    Times are written as SQL does; a TIMESTAMP_LTZ without an offset is in UTC. Raises DefinitionError.
    """
    if value is None:
        return None
    match kind:
        case t.ArrayType():
            return [read_value(each, kind.element) for each in _a(list, value, kind)]
        case t.MapType():
            pairs = _pairs(value, kind)
            return {read_value(k, kind.key): read_value(v, kind.value) for k, v in pairs}
        case t.MultisetType():
            counts = _pairs(value, kind)
            return {read_value(k, kind.element): read_value(n, t.IntType()) for k, n in counts}
        case t.RowType():
            return _row(value, kind)
        case t.DecimalType():
            return _decimal(value, kind)
    if isinstance(kind, _TEXT):
        return _text(value, kind)
    if type(kind) in _BITS:
        return _integer(value, kind)
    reader = _READERS.get(type(kind))
    if reader is None:
        raise DefinitionError(f"values of type {kind} cannot be written in a test")
    try:
        return reader(value)
    except (TypeError, ValueError) as error:
        raise _no(value, kind) from error


def from_text(text: str, kind: t.LogicalType) -> Any:
    """Read a cell of a CSV file: empty is NULL, nested types are JSON. Raises DefinitionError."""
    if not text:
        return None
    try:
        if isinstance(kind, _NESTED):
            return read_value(json.loads(text), kind)
        if type(kind) in _BITS:
            return read_value(int(text), kind)
        if isinstance(kind, t.FloatType | t.DoubleType):
            return read_value(float(text), kind)
    except ValueError as error:
        raise _no(text, kind) from error
    if isinstance(kind, t.BooleanType) and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return read_value(text, kind)


def plain_text(value: Any) -> Any:
    """Return a value as one of JSON and YAML: times as SQL writes them, instants with a Z, decimals as text."""
    match value:
        case datetime():
            text = value.replace(tzinfo=None).isoformat(sep=" ")
            if value.microsecond:
                text = text.rstrip("0")
            return text if value.tzinfo is None else f"{text}Z"
        case date() | time():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case list():
            return [plain_text(each) for each in value]
        case dict():
            return {str(plain_text(k)): plain_text(v) for k, v in value.items()}
    return value


def _no(value: Any, kind: t.LogicalType, more: str = "") -> DefinitionError:
    return DefinitionError(f"{value!r} is no value of type {kind}{more}")


def _a(wanted: type, value: Any, kind: t.LogicalType) -> Any:
    if not isinstance(value, wanted):
        raise _no(value, kind)
    return value


def _pairs(value: Any, kind: t.LogicalType) -> Sequence[tuple[Any, Any]]:
    """Return the entries of a map: a mapping, or Arrow's list of pairs."""
    if isinstance(value, Mapping):
        return list(value.items())
    return [tuple(pair) for pair in _a(list, value, kind)]


def _row(value: Any, kind: t.RowType) -> dict[str, Any]:
    if isinstance(value, list) and len(value) == len(kind.fields):
        value = {f.name: each for f, each in zip(kind.fields, value, strict=True)}
    given = _a(dict, value, kind)
    unknown = given.keys() - {field.name for field in kind.fields}
    if unknown:
        raise _no(value, kind, f": there is no field {min(map(str, unknown))!r}")
    return {field.name: read_value(given.get(field.name), field.type) for field in kind.fields}


def _integer(value: Any, kind: t.LogicalType) -> int:
    bits = _BITS[type(kind)]
    if not isinstance(value, int) or isinstance(value, bool):
        raise _no(value, kind)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise _no(value, kind, f": it does not fit {bits} bits")
    return value


def _decimal(value: Any, kind: t.DecimalType) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise _no(value, kind)
    try:
        exact = Decimal(str(value))
        scaled = exact.quantize(Decimal(1).scaleb(-kind.scale))
    except InvalidOperation as error:
        raise _no(value, kind) from error
    if scaled != exact:
        raise _no(value, kind, f": it has more than {kind.scale} decimal places")
    return scaled


def _text(value: Any, kind: t.LogicalType) -> str:
    if isinstance(value, str):
        return value
    raise _no(value, kind, ": put it in quotes" if isinstance(value, int | float) else "")


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _float(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _single(value: Any) -> float:
    return float(np.float32(_float(value)))


def _binary(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(memoryview(value))


def _date(value: Any) -> date:
    return value if isinstance(value, date) else date.fromisoformat(value)


def _time(value: Any) -> time:
    return value if isinstance(value, time) else time.fromisoformat(value)


def _timestamp(value: Any) -> datetime:
    found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    if found.tzinfo is not None:
        raise ValueError
    return found


def _instant(value: Any) -> datetime:
    found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


_READERS: Mapping[type, Callable[[Any], Any]] = {
    t.BooleanType: _boolean,
    t.FloatType: _single,
    t.DoubleType: _float,
    t.DateType: _date,
    t.TimeType: _time,
    t.TimestampType: _timestamp,
    t.TimestampLtzType: _instant,
    **dict.fromkeys(_BYTES, _binary),
}


def read_cells(table: Table, row: InputRow, *, metadata: bool) -> dict[str, Any]:
    """Read a row's cells as values of the table's columns; with `metadata` also those that a connector fills.

    Raises DefinitionError for a column that is not there or cannot be given, and for a value of another type.
    """
    columns = {column.name: column for column in table.schema.columns}
    found: dict[str, Any] = {}
    for name, value in row.cells.items():
        column = columns.get(name)
        if column is None:
            raise DefinitionError(
                f"table {table.identifier.name} has no column '{name}'",
                hint=did_you_mean(name, columns) or f"columns are: {', '.join(columns)}",
            )
        if isinstance(column, ComputedColumn):
            raise DefinitionError(
                f"column '{name}' is computed (AS {column.expression}), so a test cannot give it",
                hint="give the columns that it is computed of",
            )
        if isinstance(column, MetadataColumn) and not metadata:
            raise DefinitionError(
                f"column '{name}' is metadata '{column.metadata_key}', which a record has beside its value",
                hint="give it as $timestamp, $offset, $split or $headers; or a whole record as $raw",
            )
        try:
            found[name] = _cell(value, column.type, row)
        except DefinitionError as error:
            raise error.within(f"column '{name}'") from error
    return found


def _cell(value: Any, kind: LogicalType, row: InputRow) -> Any:
    return from_text(value, kind) if row.from_csv else read_value(value, kind)
