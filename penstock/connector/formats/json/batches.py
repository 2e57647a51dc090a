"""JSON a batch at a time: lines in, columns out, and which lines did not fit; the fast path of `json`.

One parse when all is well. When the parser refuses a batch, DuckDB finds the lines to leave out, or a column of texts
where numbers are expected; what neither explains is found line by line. The values of a map column are read as a
batch of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import types as t
from penstock.connector.arrow import CalculationError, arrow_type
from penstock.connector.formats.contract import Fields
from penstock.connector.formats.json.columns import (
    Path,
    Wire,
    any_between,
    has_swap,
    is_map,
    to_column,
    wire_type,
)
from penstock.connector.formats.json.lines import (
    INTEGER,
    NUMBER,
    Lines,
    Mask,
    UnreadableError,
    has_long_decimal,
    has_minus_zero,
    is_json,
    kinds_at,
    map_entries,
    read_lines,
)
from penstock.connector.formats.json.options import JsonSettings

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


Node: TypeAlias = tuple[Path, t.LogicalType]
"""A column, or a field of a row in one."""

_TEXT = frozenset({"VARCHAR"})


def is_batchable(fields: Fields) -> bool:
    """Return whether batches of these columns can be read: not maps in arrays, maps of decimals, quotes in names.

    DuckDB, which takes maps apart, finds them by name and keeps no more digits than a double has.
    """
    for path, logical in _nodes(fields, ()):
        match logical:
            case t.ArrayType() if _holds(logical.element, t.MapType, t.MultisetType):
                return False
            case t.MapType() if _holds(logical.value, t.DecimalType):
                return False
            case t.MapType() | t.MultisetType():
                if any('"' in name or "\\" in name for name in path):
                    return False
                if not is_batchable([(VALUE, _value_type(logical))]):
                    return False
    return True


class BatchReader:
    """Reads lines into `fields`. It adapts: a column that had texts is next tried as texts."""

    def __init__(
        self, fields: Fields, settings: JsonSettings, swapped: frozenset[Path] = frozenset()
    ) -> None:
        """`swapped` are scalars expected to come the other way round, which inside of arrays it does not learn."""
        assert is_batchable(fields), "asked before"
        self._fields = tuple(fields)
        self._settings = settings
        self._nodes = tuple(_nodes(fields, ()))
        # as the parser names them; a name with a slash may be mistaken, and then only costs time
        self._node_at: dict[str | None, Node] = {
            "/" + "/".join(node[0]): node for node in self._nodes
        }
        self._swapped = swapped
        self._schema = self._wire_schema()
        self._maps = {
            path: BatchReader([(VALUE, _value_type(logical))], settings)
            for path, logical in self._nodes
            if is_map(logical)
        }

    def read(self, lines: Lines) -> tuple[list[pa.Array], Mask]:
        """Return the columns of the lines that fit, in order, and which those are.

        The lines must look like objects. A line that does not fit is not wrong yet: it needs Flink's own rules.
        """
        fits = ~self._unreliable(lines)
        if not fits.all():
            lines = lines.filter(pa.array(fits))
        table, parsed = self._parse(lines)
        if not parsed.all():
            lines = lines.filter(pa.array(parsed))
            fits[fits] = parsed
        wire = Wire(
            settings=self._settings, swapped=self._swapped, map_at=partial(self._map_at, lines)
        )
        columns = []
        marked = np.zeros(len(lines), np.bool_)
        for (name, logical), values in zip(self._fields, table.columns, strict=True):
            column, unusual = to_column(_one_array(values), logical, (name,), wire)
            if self._settings.fail_on_missing_field and values.null_count:
                unusual = unusual | np.asarray(values.is_null())
            marked |= unusual
            columns.append(column)
        if marked.any():
            usual = pa.array(~marked)
            columns = [column.filter(usual) for column in columns]
            fits[fits] = ~marked
        return columns, fits

    def _unreliable(self, lines: Lines) -> Mask:
        """Return which lines may hold numbers that one of the libraries gets wrong."""
        unreliable = np.zeros(len(lines), np.bool_)
        if any(_holds(logical, t.DecimalType) for _, logical in self._fields):
            unreliable |= has_long_decimal(lines)
        if any(
            _holds(_value_type(logical), t.FloatType, t.DoubleType)
            for _, logical in self._nodes
            if is_map(logical)
        ):
            unreliable |= has_minus_zero(lines)
        return unreliable

    def _parse(self, lines: Lines) -> tuple[pa.Table, Mask]:
        """Parse the lines that can be parsed; returns the table and their indices."""
        fits = np.ones(len(lines), np.bool_)
        done: set[object] = set()
        while True:
            try:
                return read_lines(lines, self._schema), fits
            except UnreadableError as error:
                fit = self._next_test(error, done)(lines)
            fits[fits] = fit
            lines = lines.filter(pa.array(fit))

    def _next_test(self, error: UnreadableError, done: set[object]) -> Callable[[Lines], Mask]:
        """Choose how to find the lines that the parser refused: the cheapest way that was not tried."""
        node = self._node_at.get(error.column)
        if node is not None and node not in done:
            done.add(node)
            return partial(self._fits_by_kind, (node,))
        if not error.mistyped and "syntax" not in done:
            done.add("syntax")
            return _fits_by_syntax
        # what is inside of arrays, kinds do not tell
        if "kinds" not in done and (error.column is None or node is not None):
            done.add("kinds")
            return partial(self._fits_by_kind, self._nodes)
        assert "trial" not in done, "it leaves only lines that can be read"
        done.add("trial")
        return self._fits_by_trial

    def _fits_by_kind(self, nodes: Sequence[Node], lines: Lines) -> Mask:
        """Return which lines hold the kinds of values that columns take; turn columns round where most do not."""
        try:
            fits, kinds = kinds_at(lines, [path for path, _ in nodes])
        except CalculationError:  # such as out of memory: it is a help, not a need
            return np.ones(len(lines), np.bool_)
        for (path, logical), found in zip(nodes, kinds, strict=True):
            usual = _is_one_of(found, _expected(logical, swapped=path in self._swapped))
            if usual.all():
                continue
            if has_swap(logical):
                other = _is_one_of(found, _expected(logical, swapped=path not in self._swapped))
                if other.sum() > usual.sum():
                    usual = other
                    self._swapped ^= {path}
                    self._schema = self._wire_schema()
            fits &= usual
        return fits

    def _fits_by_trial(self, lines: Lines) -> Mask:
        """Return which lines can be read, by the line that the parser names, else by halving."""
        fits = np.ones(len(lines), np.bool_)
        todo = [(0, len(lines))]
        while todo:
            begin, end = todo.pop()
            try:
                read_lines(lines.slice(begin, end - begin), self._schema)
            except UnreadableError as error:
                if end - begin == 1:
                    fits[begin] = False
                elif error.line is not None:
                    line = begin + error.line
                    fits[line] = False
                    todo += [(begin, line), (line + 1, end)]
                else:
                    middle = (begin + end) // 2
                    todo += [(begin, middle), (middle, end)]
        return fits

    def _map_at(
        self, lines: Lines, path: Path, logical: t.LogicalType, objects: pa.Array
    ) -> tuple[pa.Array, Mask]:
        return read_map(lines, path, objects, arrow_type(logical), self._maps[path])

    def _wire_schema(self) -> pa.Schema:
        return pa.schema(
            [(name, wire_type(logical, (name,), self._swapped)) for name, logical in self._fields]
        )


def _fits_by_syntax(lines: Lines) -> Mask:
    """Return which lines are JSON."""
    try:
        return is_json(lines)
    except CalculationError:  # as above
        return np.ones(len(lines), np.bool_)


def _nodes(fields: Fields, above: Path) -> Iterator[tuple[Path, t.LogicalType]]:
    """Return the path and type of each column and field that is inside of rows only."""
    for name, logical in fields:
        path = (*above, name)
        yield path, logical
        if isinstance(logical, t.RowType):
            yield from _nodes([(field.name, field.type) for field in logical.fields], path)


def _holds(logical: t.LogicalType, *kinds: type) -> bool:
    if isinstance(logical, kinds):
        return True
    match logical:
        case t.ArrayType():
            return _holds(logical.element, *kinds)
        case t.MapType():
            return _holds(logical.value, *kinds)
        case t.RowType():
            return any(_holds(field.type, *kinds) for field in logical.fields)
    return False


def _value_type(logical: t.LogicalType) -> t.LogicalType:
    if isinstance(logical, t.MapType):
        return logical.value
    assert isinstance(logical, t.MultisetType), "called for maps"
    return t.IntType(nullable=False)


def _expected(logical: t.LogicalType, *, swapped: bool) -> frozenset[str]:
    """Return the kinds of JSON values that the parser takes for a column."""
    match logical:
        case t.RowType() | t.MapType() | t.MultisetType():
            return frozenset({"OBJECT"})
        case t.ArrayType():
            return frozenset({"ARRAY"})
        case t.DecimalType():
            return NUMBER | _TEXT
        case t.CharType() | t.VarCharType():
            return INTEGER if swapped else _TEXT
        case t.BooleanType():
            return _TEXT if swapped else frozenset({"BOOLEAN"})
        case t.FloatType() | t.DoubleType():
            return _TEXT if swapped else NUMBER
        case t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType():
            return _TEXT if swapped else INTEGER
    return _TEXT


def _is_one_of(found: pa.StringArray, expected: frozenset[str]) -> Mask:
    """Return where a value is of one of the kinds, NULL, or missing."""
    kinds = pa.array(sorted(expected | {"NULL"}))
    return np.asarray(pc.or_(pc.is_in(found, kinds), found.is_null()))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
