"""Batches without columns, as for COUNT(*): rows are counted, nothing is decoded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.connector.formats.contract import Decoded

__all__ = ["batch_of", "count_values", "rows_without_columns"]


def batch_of(arrays: Sequence[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Make a batch of columns, which there may be none of, with `count` rows."""
    if not len(schema):
        return rows_without_columns(count)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_without_columns(count: int) -> pa.RecordBatch:
    """Return `count` rows of no columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))


def count_values(values: Sequence[bytes | None]) -> Decoded:
    """Return a row for each value; tombstones and empty values have none, and are counted.

    A value that the format could not decode, or that holds several rows, counts as one row all the same.
    """
    if all(values):
        return Decoded(batch=rows_without_columns(len(values)))
    kept = np.flatnonzero(np.fromiter(map(bool, values), np.bool_, len(values)))
    batch = rows_without_columns(len(kept))
    return Decoded(batch=batch, kept=kept, skipped=len(values) - len(kept))
