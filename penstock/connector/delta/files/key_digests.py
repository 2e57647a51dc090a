"""Numbers that stand for the keys of rows: equal for equal keys, different for others.

Called by tasks for the keys of deletes, by the driver for those of files. A single key of a type that has 64 bits is
its own number; the others have 128 bits of a digest (MD5) of their values as texts, whose lengths are told.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.catalog.model import types as t

Numbers = npt.NDArray[np.uint64]

_EXACT = (
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.DateType,
    t.TimestampType,
    t.TimestampLtzType,
)
_AS_TEXT = (
    *_EXACT,
    t.BooleanType,
    t.DecimalType,
    t.CharType,
    t.VarCharType,
    t.BinaryType,
    t.VarBinaryType,
)
_LOW = (1 << 64) - 1
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDigests:
    """A number for each key: `low`, and `high` where one of 64 bits is not enough."""

    low: Numbers
    high: Numbers | None = None

    def __len__(self) -> int:
        return len(self.low)

    def taken(self, at: npt.NDArray[Any]) -> KeyDigests:
        """Return those at some places, or where a mask is true."""
        return KeyDigests(low=self.low[at], high=None if self.high is None else self.high[at])

    def to_bytes(self) -> bytes:
        """Write them; `from_bytes` is the inverse."""
        return self.low.tobytes() + (b"" if self.high is None else self.high.tobytes())

    @classmethod
    def from_bytes(cls, data: bytes, *, wide: bool) -> KeyDigests:
        """Read what `to_bytes` wrote; `wide`: they have 128 bits."""
        numbers = np.frombuffer(data, np.uint64)
        if not wide:
            return cls(low=numbers)
        half = len(numbers) // 2
        return cls(low=numbers[:half], high=numbers[half:])

    @classmethod
    def joined(cls, parts: Sequence[KeyDigests], *, wide: bool) -> KeyDigests:
        """Put digests behind each other."""
        if not parts:
            empty = np.empty(0, np.uint64)
            return cls(low=empty, high=empty if wide else None)
        highs = [part.high for part in parts if part.high is not None]
        return cls(
            low=np.concatenate([part.low for part in parts]),
            high=np.concatenate(highs) if wide else None,
        )


def has_digest(kind: t.LogicalType) -> bool:
    """Tell whether keys of a type have a digest: values that are equal have one form."""
    return isinstance(kind, _AS_TEXT)


def is_wide(kinds: Sequence[t.LogicalType]) -> bool:
    """Tell whether keys of some columns have digests of 128 bits."""
    return len(kinds) != 1 or not isinstance(kinds[0], _EXACT)


def key_digests(columns: Sequence[pa.Array | pa.ChunkedArray], *, wide: bool) -> KeyDigests:
    """Return the digests of keys without a NULL, in columns of their stored types."""
    if not wide:
        return KeyDigests(low=_integers(columns[0]).astype(np.int64).view(np.uint64))
    texts = pa.table([_text(column) for column in columns], names=_names(len(columns)))
    if not texts.num_rows:
        return KeyDigests.joined([], wide=True)
    parts = ", ".join(_part(field.name, field.type) for field in texts.schema)
    with _LOCK:
        database = _database(os.getpid())
        database.register("keys", texts)
        try:
            # names are of positions
            keys = f"SELECT md5_number(concat({parts})) AS key FROM keys"  # noqa: S608
            found = database.execute(
                f"SELECT (key & {_LOW})::UBIGINT AS low, (key >> 64)::UBIGINT AS high FROM ({keys})"  # noqa: S608
            ).fetchnumpy()
        finally:
            database.unregister("keys")
    return KeyDigests(low=_plain(found["low"]), high=_plain(found["high"]))


def _names(count: int) -> list[str]:
    return [f"c{number}" for number in range(count)]


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:  # noqa: ARG001  a fork has its own
    # rows of the result are in the order of the keys
    return duckdb.connect(
        config={"preserve_insertion_order": True, "autoinstall_known_extensions": False}
    )


def _plain(values: Any) -> Numbers:
    return np.ascontiguousarray(np.asarray(values), np.uint64)


def _integers(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.integer]:
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    found: npt.NDArray[np.integer] = column.to_numpy(zero_copy_only=False)
    return found


def _text(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return values in a form that is text, or bytes that `_part` makes text of."""
    kind = column.type
    if _is_bytes(kind):
        return column
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        column = pa.array(_integers(column))
    return column.cast(pa.string())


def _is_bytes(kind: pa.DataType) -> bool:
    # tasks get large ones by a setting of Spark, where files have the others
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _part(name: str, kind: pa.DataType) -> str:
    text = f"hex({name})" if _is_bytes(kind) else name
    return f"strlen({text}), ':', {text}"
