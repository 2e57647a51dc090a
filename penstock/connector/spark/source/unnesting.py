"""Make rows of the elements of arrays and maps on Arrow batches, as UNNEST does in Spark; reading tasks call it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.expression import Expression, UnnestedField, Unnesting, fields_of
from penstock.connector.fragments import RowFilter

ROWS_AT_ONCE = 65_536
"""Rows that are made together: as many as a processor's cache holds of some columns."""
BYTES_AT_ONCE = 64 * 1024 * 1024
"""Bytes of the columns that these rows repeat, about: a long text may stand beside many elements."""
_COUNTED = "__unnested"
"""A column without values: rows of which no column is read have their number."""


class RowUnnester:
    """Makes the rows of an unnesting in one task; without one they stay as they are.

    `more` counts them, less the rows that they are made of.
    """

    def __init__(self, unnesting: Unnesting | None, used: Sequence[Expression]) -> None:
        """Rows have the columns that `used` reads."""
        self.more = 0
        self._fields = () if unnesting is None else unnesting.fields
        self._filter = RowFilter(None if unnesting is None else unnesting.condition)
        condition = (
            () if unnesting is None or unnesting.condition is None else (unnesting.condition,)
        )
        read = [field for value in (*used, *condition) for field in fields_of(value)]
        self._names = frozenset(field.path[0] for field in read)

    def rows(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows that those of a batch become, in its order."""
        if not self._fields:
            yield batch
            return
        self.more -= batch.num_rows
        for made in self._made(batch, self._fields):
            passed = self._filter.passing(made)
            self.more += passed.num_rows
            if passed.num_rows:
                yield passed

    def empty(self, none: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the columns that rows have, for one without rows."""
        return next(self._made(none, self._fields))

    def _made(
        self, batch: pa.RecordBatch, fields: Sequence[UnnestedField]
    ) -> Iterator[pa.RecordBatch]:
        if not fields:
            yield batch
            return
        first, *rest = fields
        names = self._names | {later.field.path[0] for later in rest}
        for made in _unnested(batch, first, names):
            yield from self._made(made, rest)


def _unnested(
    batch: pa.RecordBatch, unnested: UnnestedField, names: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    """Yield rows of the elements of one array or map, with those columns of `names` that there are."""
    array = batch.column(unnested.field.path[0])
    if len(unnested.field.path) > 1:
        array = pc.struct_field(array, list(unnested.field.path[1:]))
    starts, lengths = _bounds(array)
    rows = np.maximum(lengths, 1) if unnested.outer else lengths
    parents = np.repeat(np.arange(batch.num_rows), rows)
    within = np.arange(len(parents)) - np.repeat(np.cumsum(rows) - rows, rows)
    repeated = {name: batch.column(name) for name in batch.schema.names if name in names}
    of_elements = {n: values for n, values in _values(array, unnested).items() if n in names}
    size = _rows_at_once(repeated, batch.num_rows)
    for start in range(0, max(len(parents), 1), size):
        piece = slice(start, start + size)
        of, number = parents[piece], within[piece]
        missing = (lengths == 0)[of] if unnested.outer else None
        columns = {name: column.take(pa.array(of)) for name, column in repeated.items()}
        element = pa.array(starts[of] + number, mask=missing)
        columns |= {name: values.take(element) for name, values in of_elements.items()}
        if unnested.numbered:
            columns[unnested.number_column] = pa.array((number + 1).astype(np.int32), mask=missing)
        yield pa.RecordBatch.from_pydict(columns or {_COUNTED: pa.nulls(len(of))})


def _bounds(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return where the elements of each row begin, and how many there are; NULL has none."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(offsets)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return offsets[:-1], lengths


def _values(array: pa.Array, unnested: UnnestedField) -> Mapping[str, pa.Array]:
    """Return the columns of elements, those of all rows behind each other."""
    if isinstance(array, pa.MapArray):
        return {unnested.key_column: array.keys, unnested.value_column: array.items}
    return {unnested.name: array.values}


def _rows_at_once(columns: Mapping[str, pa.Array], rows: int) -> int:
    """Return how many rows may be made together of columns with so many rows."""
    size = sum(_size(column, rows) for column in columns.values())
    return int(max(1, min(ROWS_AT_ONCE, BYTES_AT_ONCE // max(size, 1))))


def _size(column: pa.Array, rows: int) -> int:
    """Return the bytes of the longest text, of other types the mean of a value."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return int(pc.max(pc.binary_length(column)).as_py() or 0)
    return int(column.nbytes // max(rows, 1))
