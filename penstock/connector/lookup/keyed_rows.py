"""Keys and their rows as columns: the distinct keys of a batch, the key of each row, the rows of each key.

Keys are compared as Arrow compares values of one type; a key with a NULL part matches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]

NONE = -1
"""The number of the key of a row that has none, or another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctKeys:
    """The distinct keys of a batch: `columns` has an array for each of their parts.

    `of_row` is the number of each row's key: its place in these arrays, -1 where the row has none.
    """

    columns: tuple[pa.Array, ...]
    of_row: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRanges:
    """Where the rows of each key stand in a table: `counts` rows from `starts` on."""

    starts: Numbers
    counts: Numbers


def distinct_keys(parts: Sequence[pa.Array]) -> DistinctKeys:
    """Find the distinct keys of a batch, in the order of their first rows."""
    names = [str(index) for index in range(len(parts))]
    distinct = pa.table(list(parts), names).drop_null().group_by(names, use_threads=False)
    found = distinct.aggregate([]).combine_chunks()
    columns = tuple(_array(found.column(name)) for name in names)
    return DistinctKeys(columns=columns, of_row=key_numbers(parts, columns))


def key_numbers(rows: Sequence[pa.Array], keys: Sequence[pa.Array]) -> Numbers:
    """Return the number that the key of each row has in `keys`, -1 where it is not among them.

    Both have an array for each part, of the same types; `keys` has each key once.
    """
    names = [str(index) for index in range(len(keys))]
    numbers = np.full(len(rows[0]), NONE, np.int64)
    of_rows = pa.table([*rows, pa.array(np.arange(len(numbers)))], [*names, "row"])
    of_keys = pa.table([*keys, pa.array(np.arange(len(keys[0])))], [*names, "key"])
    found = of_rows.join(of_keys, names, join_type="inner")
    numbers[found.column("row").to_numpy()] = found.column("key").to_numpy()
    return numbers


def group_rows(rows: pa.Table, numbers: Numbers, keys: int) -> tuple[pa.Table, RowRanges]:
    """Bring the rows of each of so many keys together; rows without a number are left out."""
    order = np.argsort(numbers, kind="stable")
    order = order[np.searchsorted(numbers[order], 0) :]
    counts = np.bincount(numbers[order], minlength=keys).astype(np.int64)
    return rows.take(pa.array(order)), RowRanges(starts=np.cumsum(counts) - counts, counts=counts)


def take_rows(rows: pa.Table, ranges: RowRanges) -> pa.Table:
    """Select the rows of each place, one place after the other."""
    ends = np.cumsum(ranges.counts)
    # the n-th row of a place stands n behind its first one
    behind = np.arange(ends[-1] if len(ends) else 0) - np.repeat(
        ends - ranges.counts, ranges.counts
    )
    return rows.take(pa.array(np.repeat(ranges.starts, ranges.counts) + behind, pa.int64()))


def rows_as_lists(rows: pa.Table, ranges: RowRanges, of_row: Numbers) -> pa.ListArray:
    """Return for each row of a batch the rows of its key, as a list of structs; none for a row without a key."""
    has_key = of_row != NONE
    counts = np.zeros(len(of_row), np.int64)
    counts[has_key] = ranges.counts[of_row[has_key]]
    starts = np.zeros(len(of_row), np.int64)
    starts[has_key] = ranges.starts[of_row[has_key]]
    found = take_rows(rows, RowRanges(starts=starts, counts=counts))
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
    fields = [_array(column) for column in found.columns]
    structs = pa.StructArray.from_arrays(fields, fields=list(rows.schema))
    return pa.ListArray.from_arrays(offsets, structs)


def _array(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
