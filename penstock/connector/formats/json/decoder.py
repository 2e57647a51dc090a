"""Decode batches of JSON records by Flink's rules.

A batch goes through `native`, where that package is there, and what is left through `batches` (one parse for all
records). Records that do not fit there are read one by one by the rules of Flink's converters, which decide:
JsonParserToRowDataConverters (the default), and where that one would read on from the middle of a value, or a key is
repeated, JsonToRowDataConverters. All are merged in the order of records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.catalog.errors import BadRecordError
from penstock.catalog.model import types as t
from penstock.connector.arrow import arrow_schema
from penstock.connector.formats.contract import BadValue, Decoded, Fields, Where
from penstock.connector.formats.decoders import count_values
from penstock.connector.formats.json.batches import BatchReader, is_batchable
from penstock.connector.formats.json.columns import Path
from penstock.connector.formats.json.lines import Lines, Mask, looks_like_object, to_lines
from penstock.connector.formats.json.native import NativeReader
from penstock.connector.formats.json.native import Rows as Indexes
from penstock.connector.formats.json.options import JsonSettings
from penstock.connector.formats.json.scalars import scalar_converter
from penstock.connector.formats.json.text import (
    MalformedError,
    NotNullViolation,
    Problem,
    TypeMismatch,
    excerpt,
    parse,
)

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


MAX_BYTES = 1 << 30
"""Values of more bytes are decoded in two halves: Arrow's arrays of texts end at 2 GiB."""

MOST_REFUSED = 0.25
"""Where the package leaves a larger share of a batch, reading it twice costs more than it saves."""


class JsonDecoder:
    """Decodes batches of JSON records."""

    def __init__(
        self, fields: Fields, settings: JsonSettings, swapped: frozenset[Path] = frozenset()
    ) -> None:
        """`swapped`: see BatchReader."""
        self._settings = settings
        self._fields = tuple(fields)
        self._schema = arrow_schema(fields)
        self._gathers = False
        self._native: NativeReader | None = None
        self._records = RecordReader(fields, settings)
        self._batches = BatchReader(fields, settings, swapped) if is_batchable(fields) else None

    def gathering(self) -> JsonDecoder:
        """Return a decoder that lists bad records and raises for none (`CollectsErrors`)."""
        gathers = copy(self)
        gathers._gathers = True  # noqa: SLF001  of this class
        return gathers

    def natively(self, package: ModuleType) -> JsonDecoder:
        """Return a decoder that reads by `penstock-native` what that reads alike (`ReadsNatively`)."""
        native = copy(self)
        native._native = NativeReader.of(package, self._fields, self._settings)  # noqa: SLF001  of this class
        return native

    @property
    def takes_values(self) -> bool:
        """Return whether values are only counted (`TakesValues`)."""
        return not len(self._schema)

    def decode(self, values: Sequence[bytes | None], where: Where) -> Decoded:
        """Decode one batch, see Decoder. Tombstones and empty values give no row, as in Flink, and are counted."""
        if not len(self._schema):
            return count_values(values)
        lines = to_lines(values)
        if isinstance(lines, pa.ChunkedArray) or lines.nbytes > MAX_BYTES:
            return self._decode_halves(values, where)
        columns, read = self._read_batch(lines)
        if np.array_equal(read, np.arange(len(lines))):
            return Decoded(batch=pa.RecordBatch.from_arrays(columns, schema=self._schema))
        bad: list[BadValue] = []
        left = np.ones(len(lines), np.bool_)
        left[read] = False
        rows, sources, skipped = self._read_records(values, np.flatnonzero(left), where, bad)
        merged = self._merge(columns, read, rows, sources, skipped, len(values))
        return replace(merged, bad=tuple(bad))

    def _decode_halves(self, values: Sequence[bytes | None], where: Where) -> Decoded:
        middle = len(values) // 2
        assert middle, "no single record is that large"
        first = self.decode(values[:middle], where)
        second = self.decode(values[middle:], lambda index: where(middle + index))
        kept = np.concatenate([_sources(first), _sources(second) + middle])
        batch = pa.concat_batches([first.batch, second.batch])
        joined = _decoded(batch, kept, len(values), first.skipped + second.skipped)
        later = (replace(value, index=value.index + middle) for value in second.bad)
        return replace(joined, bad=(*first.bad, *later))

    def _read_batch(self, lines: Lines) -> tuple[list[pa.Array], Indexes]:
        """Read what need not be read one by one; returns columns, and the line of each of their rows."""
        if self._native is None:
            columns, fits = self._read_lines(lines)
            return columns, np.flatnonzero(fits)
        columns, refused = self._native.read(lines)
        read = np.delete(np.arange(len(lines)), refused)
        if not len(refused):
            return columns, read
        if len(refused) > MOST_REFUSED * len(lines):
            self._native = None
        others, fits = self._read_lines(lines.take(pa.array(refused)))
        both = [pa.concat_arrays(pair) for pair in zip(columns, others, strict=True)]
        return both, np.concatenate([read, refused[fits]])

    def _read_lines(self, lines: Lines) -> tuple[list[pa.Array], Mask]:
        """Read what one parse for all lines takes; returns its columns and which lines they are."""
        if self._batches is None:
            return [pa.array([], field.type) for field in self._schema], np.zeros(
                len(lines), np.bool_
            )
        fits = looks_like_object(lines)
        columns, read = self._batches.read(lines if fits.all() else lines.filter(pa.array(fits)))
        fits[fits] = read
        return columns, fits

    def _read_records(
        self,
        values: Sequence[bytes | None],
        indexes: npt.NDArray[np.int64],
        where: Where,
        bad: list[BadValue],
    ) -> tuple[list[tuple[Any, ...]], list[int], int]:
        """Read records one by one; returns their rows, where those are from, and how many records were skipped.

        Bad ones go into `bad`, if they are gathered.
        """
        rows: list[tuple[Any, ...]] = []
        sources: list[int] = []
        skipped = 0
        for index in indexes.tolist():
            value = values[index]
            if not value:
                skipped += 1
                continue
            found = self._records.read(value)
            if found.problem is not None:
                skipped += 1
                if self._gathers:
                    # as a whole, the rows before the fault too: what is given back later gives all of them
                    bad.append(BadValue(index=index, error=found.problem))
                    continue
                if not self._settings.ignore_parse_errors:
                    raise self._bad(where(index), found.problem, value)
            rows += found.rows
            sources += [index] * len(found.rows)
        return rows, sources, skipped

    def _merge(
        self,
        columns: list[pa.Array],
        fast: npt.NDArray[np.int64],
        rows: list[tuple[Any, ...]],
        sources: list[int],
        skipped: int,
        values: int,
    ) -> Decoded:
        """Merge the rows of all paths in the order of their records, of which there are `values`."""
        kept = np.concatenate([fast, np.asarray(sources, np.int64)])
        order = np.argsort(kept, kind="stable")
        merged = []
        for index, field in enumerate(self._schema):
            single = pa.array([row[index] for row in rows], field.type)
            merged.append(pa.concat_arrays([columns[index], single]).take(pa.array(order)))
        batch = pa.RecordBatch.from_arrays(merged, schema=self._schema)
        return _decoded(batch, kept[order], values, skipped)

    def _bad(self, where: str, problem: str, value: bytes) -> BadRecordError:
        return BadRecordError(
            f"{where}: {problem}; the record is {excerpt(value)}",
            hint=f"fix the record's producer or the table's columns; '{self._settings.ignore_key}' = 'true' "
            "makes malformed fields NULL and skips and counts malformed records, 'bad-records' = 'dead-letter' of "
            "a table keeps them aside",
        )


def _sources(decoded: Decoded) -> npt.NDArray[np.int64]:
    return np.arange(decoded.batch.num_rows) if decoded.kept is None else decoded.kept


def _decoded(
    batch: pa.RecordBatch, kept: npt.NDArray[np.int64], values: int, skipped: int
) -> Decoded:
    """Leave `kept` out where each record gave one row."""
    identity = values == len(kept) and np.array_equal(kept, np.arange(len(kept)))
    return Decoded(batch=batch, kept=None if identity else kept, skipped=skipped)
