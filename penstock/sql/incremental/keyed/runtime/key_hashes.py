"""Hashes of the keys of stored rows, and which of the rows that they find have the key that was asked for.

Both treat keys as DuckDB groups them: NULL equals NULL, there is one zero and one NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as at

from penstock.connector.spark.source.buckets import combined
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.tables import (
    is_nested,
    process_duckdb,
    registered,
    storage_type,
)

Hashes = npt.NDArray[np.uint64]


def key_hashes(columns: Sequence[Any], layout: KeyedLayout, rows: int) -> Hashes:
    """Return a hash of each key: keys that are not distinct have the same, in any process of this machine."""
    hashes = np.zeros(rows, np.uint64)
    for column, kind in zip(columns, layout.key_types, strict=True):
        typed = column.cast(storage_type(kind))
        found = _number_hashes(typed) if _is_number(kind) else _duckdb_hashes(typed)
        hashes = _mixed(hashes * np.uint64(31) + found)
    return hashes


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        at.is_signed_integer(kind)
        or at.is_boolean(kind)
        or at.is_date(kind)
        or at.is_timestamp(kind)
    )


def _number_hashes(column: Any) -> Hashes:
    kind = pa.int32() if at.is_date32(column.type) else pa.int64()
    numbers = column.cast(kind).fill_null(0).to_numpy().astype(np.int64)
    hashes = _mixed(numbers.view(np.uint64) + np.uint64(1))
    if column.null_count:
        hashes[column.is_null().to_numpy()] = 0
    return hashes


def _duckdb_hashes(column: Any) -> Hashes:
    """Return the hashes by which DuckDB groups: two zeros, and each NaN, have the same."""
    connection = process_duckdb()
    with registered(connection, "hashed", pa.Table.from_arrays([column], names=["c"])):
        found = connection.sql("SELECT hash(c) FROM hashed").to_arrow_table()
    hashes: Hashes = found.column(0).to_numpy()
    return hashes


def _mixed(hashes: Hashes) -> Hashes:
    """Spread the bits of numbers, as SplitMix64 does."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))


def same_keys(found: Sequence[Any], asked: Sequence[Any]) -> pa.Array | None:
    """Return which keys are not distinct from those at their place in `asked`; None: all are. Hashes may collide."""
    every: Any = None
    for one, other in zip(found, asked, strict=True):
        left, right = pa.chunked_array([one]).cast(other.type), other
        if at.is_floating(other.type) or is_nested(other.type):
            same = _not_distinct(left, right)
        else:
            same = pc.equal(left, right)
            if same.null_count:
                same = pc.coalesce(same, pc.and_(left.is_null(), right.is_null()))
        every = same if every is None else pc.and_(every, same)
    return None if pc.all(every).as_py() is not False else combined(every)


def _not_distinct(left: Any, right: Any) -> Any:
    connection = process_duckdb()
    pairs = pa.Table.from_arrays([left, right], names=["a", "b"])
    with registered(connection, "pairs", pairs):
        query = "SELECT a IS NOT DISTINCT FROM b FROM pairs"
        return connection.sql(query).to_arrow_table().column(0)
