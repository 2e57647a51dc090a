"""Map columns of a batch: DuckDB takes the objects apart, their values are read as a batch of their own.

A map's value becomes the line `{"v": value}`, so that what holds for columns holds for values of maps.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.arrow.duckdb_engine import CalculationError
from penstock.connector.formats.json.columns import any_between
from penstock.connector.formats.json.lines import Lines, Mask
from penstock.connector.formats.json.value_kinds import map_entries

__all__ = ["VALUE", "LineReader", "read_map"]

VALUE = "v"
"""The name of the one field in the lines made of a map's values."""


class LineReader(Protocol):
    """Reads lines of one field, VALUE."""

    def read(self, lines: Lines) -> tuple[list[pa.Array], Mask]:
        """Return the column of the lines that fit, and which do."""


def read_map(
    lines: Lines,
    path: tuple[str, ...],
    objects: pa.StructArray,
    kind: pa.MapType,
    reader: LineReader,
) -> tuple[pa.Array, Mask]:
    """Return the map at `path` of each line, and which maps need to be read one by one.

    `objects` marks the lines that have one.
    """
    try:
        keys, values = map_entries(lines, path)
    except CalculationError:  # such as out of memory
        return _read_halves(lines, path, objects, kind, reader)
    sizes = _sizes(keys)
    if not np.array_equal(sizes, _sizes(values)):
        return pa.nulls(len(lines), kind), np.ones(len(lines), np.bool_)
    names = keys.flatten()
    column, fits = _read_values(values.flatten(), reader)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    maps = _map_array(kind, objects, offsets, [names, column])
    return maps, any_between(~fits, offsets) | _repeated(names, sizes)


def _read_halves(
    lines: Lines,
    path: tuple[str, ...],
    objects: pa.StructArray,
    kind: pa.MapType,
    reader: LineReader,
) -> tuple[pa.Array, Mask]:
    if len(lines) <= 1:
        return pa.nulls(len(lines), kind), np.ones(len(lines), np.bool_)
    middle = len(lines) // 2
    first, marked = read_map(lines.slice(0, middle), path, objects.slice(0, middle), kind, reader)
    second, more = read_map(lines.slice(middle), path, objects.slice(middle), kind, reader)
    return pa.concat_arrays([first, second]), np.concatenate([marked, more])


def _map_array(
    kind: pa.MapType,
    objects: pa.StructArray,
    offsets: npt.NDArray[np.int32],
    entries: list[pa.Array],
) -> pa.Array:
    null = np.asarray(objects.is_null())
    valid = pa.py_buffer(np.packbits(~null, bitorder="little").tobytes()) if null.any() else None
    pairs = pa.StructArray.from_arrays(entries, fields=[kind.key_field, kind.item_field])
    buffers = [valid, pa.py_buffer(offsets.tobytes())]
    return pa.Array.from_buffers(kind, len(objects), buffers, children=[pairs])


def _sizes(lists: pa.ListArray) -> npt.NDArray[np.int64]:
    return np.asarray(pc.list_value_length(lists).fill_null(0)).astype(np.int64)


def _read_values(texts: pa.StringArray, reader: LineReader) -> tuple[pa.Array, Mask]:
    joined = pc.binary_join_element_wise(f'{{"{VALUE}":', texts, "}\n", "")
    lines = pa.BinaryArray.from_buffers(pa.binary(), len(joined), joined.buffers())
    (column,), fits = reader.read(lines)
    if not fits.all():
        column = column.take(pa.array(np.cumsum(fits) - 1, mask=~fits))
    return column, fits


def _repeated(names: pa.StringArray, sizes: npt.NDArray[np.int64]) -> Mask:
    """Return which maps hold a key more than once: of its values the last one counts."""
    repeated = np.zeros(len(sizes), np.bool_)
    if len(sizes) and sizes.max() > 1:
        codes = np.asarray(names.dictionary_encode().indices).astype(np.int64)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        _, first, counts = np.unique(
            owner * (codes.max() + 1) + codes, return_index=True, return_counts=True
        )
        repeated[owner[first[counts > 1]]] = True
    return repeated
