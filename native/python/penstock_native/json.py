"""JSON records as Arrow columns, while the GIL is released. Records that are not of the usual form are named."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

import pyarrow as pa

from penstock_native.library import (
    ArrayView,
    ColumnView,
    DecodedView,
    LinesView,
    Memory,
    array_of,
    buffer_of,
    load_library,
    row_of,
)

__all__ = ["JsonColumn", "JsonEnding", "JsonKind", "read_json"]

_NO_MEMORY = 1


class JsonKind(IntEnum):
    """What the values of a column are; the numbers of `Kind::of` in `src/arrays.rs`."""

    BOOLEAN = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT32 = 5
    FLOAT64 = 6
    TEXT = 7
    DATE = 8
    TIMESTAMP = 9
    ROW = 10


class JsonEnding(IntEnum):
    """What a timestamp ends with: the time, `Z`, or an offset or `Z`."""

    NOTHING = 0
    UTC = 1
    OFFSET = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonColumn:
    """A key of the records, and the Arrow type of its column, which has the layout of `kind`.

    `required`: a record without a value is refused; in a field, one that has the ROW without it. `separator` and
    `ending` are of timestamps. `fields` are those of a ROW's Arrow type, in its order; there are at most 64 levels.
    """

    name: str
    kind: JsonKind
    type: pa.DataType
    required: bool = False
    separator: str = " "
    ending: JsonEnding = JsonEnding.NOTHING
    fields: tuple[JsonColumn, ...] = ()


def read_json(
    lines: pa.BinaryArray, columns: Sequence[JsonColumn]
) -> tuple[list[pa.Array], pa.Int64Array]:
    """Read records; returns the columns of those that were read, in order, and the places of all others.

    Raises MemoryError, and RuntimeError for a fault of the library, which has printed it.
    """
    library = _library()
    view = DecodedView()
    given = _lines(lines)
    asked = _columns(columns)
    failed = library.penstock_native_decode_json(given, asked, len(asked), view)
    if failed == _NO_MEMORY:
        raise MemoryError("no memory for the columns of JSON records")
    if failed:
        raise RuntimeError(
            "penstock-native cannot read these JSON records: a fault of it, or an unknown column"
        )
    memory = Memory(library.penstock_native_free_json, view.owner)
    views = (view.arrays[index] for index in range(view.array_count))
    arrays = [_array(views, column, memory) for column in columns]
    refused = buffer_of(view.refused, memory)
    places = pa.Array.from_buffers(pa.int64(), view.refused.size // 8, [None, refused], 0)
    return arrays, places


def _array(views: Iterator[ArrayView], column: JsonColumn, memory: Memory) -> pa.Array:
    """Return the array of the next view, with those of the fields, which follow it."""
    view = next(views)
    if column.kind != JsonKind.ROW:
        return array_of(view, column.type, memory)
    fields = [_array(views, field, memory) for field in column.fields]
    return row_of(view, column.type, fields, memory)


@cache
def _library() -> ctypes.CDLL:
    return load_library()


def _lines(lines: pa.BinaryArray) -> LinesView:
    """Return where the buffers of an array are, which has to live meanwhile."""
    validity, offsets, data = lines.buffers()
    assert lines.type == pa.binary(), "offsets of 32 bits"
    # an array without values may have no offsets
    begin = offsets.address + 4 * lines.offset if len(lines) else None
    return LinesView(
        validity=validity.address if validity is not None else None,
        validity_size=validity.size if validity is not None else 0,
        first_bit=lines.offset,
        offsets=begin,
        length=len(lines),
        data=data.address if data is not None else None,
        data_size=data.size if data is not None else 0,
    )


def _columns(columns: Sequence[JsonColumn]) -> ctypes.Array[ColumnView]:
    """Return columns in the library's order: each before its fields."""
    flat = list(_with_fields(columns))
    # a name that is no Unicode is found in no record
    names = [column.name.encode("utf-8", "surrogatepass") for column in flat]
    return (ColumnView * len(flat))(
        *(
            ColumnView(
                name=name,
                name_size=len(name),
                kind=column.kind,
                separator=ord(column.separator),
                ending=column.ending,
                required=column.required,
                fields=len(column.fields),
            )
            for name, column in zip(names, flat, strict=True)
        )
    )


def _with_fields(columns: Sequence[JsonColumn]) -> Iterator[JsonColumn]:
    for column in columns:
        yield column
        yield from _with_fields(column.fields)
