"""Sort the rows that a task reads into the buckets of keyed operators, as Arrow that goes through Spark whole.

Called in reading tasks. Spark moves a few rows of bytes in place of the rows themselves. Buckets are those of Spark's
`pmod(hash(key), buckets)`, so that it makes no difference who finds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.arrow import arrow_type
from penstock.connector.expression import (
    BUCKET,
    ENCODED,
    FIRST,
    INPUT,
    BucketedInput,
    BucketedRows,
    Expression,
    fields_of,
)
from penstock.connector.fragments import evaluate
from penstock.connector.spark.source.first_phase import FirstPhase

ROWS_AT_ONCE = 131_072
BYTES_AT_ONCE = 16 << 20
"""Rows, and their bytes, that wait to be sorted together: fewer are a piece of each bucket more, more take memory."""


class RowBuckets:
    """The buckets of the rows of one task. `merged` counts the rows that were read, less those that Spark gets."""

    def __init__(self, rows: BucketedRows) -> None:
        self.merged = 0
        self._rows = rows
        self._inputs = [_InputRows(one) for one in rows.inputs]

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows; yields pieces of buckets when there are enough rows for them."""
        self.merged += batch.num_rows
        for rows in self._inputs if batch.num_rows else ():
            rows.add(batch)
        waiting = sum(rows.count for rows in self._inputs), sum(rows.size for rows in self._inputs)
        if waiting[0] >= ROWS_AT_ONCE or waiting[1] >= BYTES_AT_ONCE:
            yield from self.finish()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield a row for each bucket and input that has rows waiting."""
        for number, rows in enumerate(self._inputs):
            pieces = list(rows.take(self._rows.buckets))
            if pieces:
                self.merged -= len(pieces)
                yield pa.RecordBatch.from_pydict(
                    {
                        BUCKET: pa.array([bucket for bucket, _, _ in pieces], pa.int32()),
                        INPUT: pa.array([number] * len(pieces), pa.int32()),
                        FIRST: pa.array([first for _, first, _ in pieces], pa.int64()),
                        ENCODED: pa.array([encoded for _, _, encoded in pieces], pa.binary()),
                    }
                )


class _InputRows:
    """The rows of an input that wait: `count` of them, of `size` bytes."""

    def __init__(self, of: BucketedInput) -> None:
        self.count = self.size = 0
        self._taken = 0
        self._of = of
        self._waiting: list[pa.RecordBatch] = []
        self._schema = pa.schema(
            [
                pa.field(f"c{n}", arrow_type(column.value.type))
                for n, column in enumerate(of.columns)
            ]
        )
        self._groups = None if of.groups is None else FirstPhase(of.groups)
        values = (
            [column.value for column in of.columns] if of.groups is None else of.groups.inputs()
        )
        self._read = sorted({field.path[0] for value in values for field in fields_of(value)})

    def add(self, batch: pa.RecordBatch) -> None:
        """Take those of the rows that are read that belong to the input."""
        rows = self._belonging(batch)
        if not rows.num_rows:
            return
        for found in [rows] if self._groups is None else self._groups.add(rows):
            self._wait(found)

    def _wait(self, rows: pa.RecordBatch) -> None:
        columns = [
            _typed(column.value, rows, kind)
            for column, kind in zip(self._of.columns, self._schema.types, strict=True)
        ]
        found = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._waiting.append(found)
        self.count += found.num_rows
        self.size += found.nbytes

    def take(self, buckets: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield what waits as pieces of buckets, in the order in which it was read: number, place, rows.

        Places grow with each row, so that rows of a bucket that are given one from that of their piece stay in order.
        """
        for found in () if self._groups is None else self._groups.finish():
            self._wait(found)
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self.count, self.size = [], 0, 0
        for bucket, start, found in sorted_by_bucket(rows, self._of.key, buckets):
            yield bucket, self._taken + start, _encoded(found)
        self._taken += rows.num_rows

    def _belonging(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.select(self._read) if self._read else batch
        if self._of.condition is None:
            return rows
        holds = pc.fill_null(evaluate(self._of.condition, batch), fill_value=False)
        return rows if holds.true_count == batch.num_rows else rows.filter(holds)


def decoded(pieces: Iterable[pa.Scalar]) -> Iterator[pa.Table]:
    """Return the rows of pieces of a bucket, of columns by position."""
    for piece in pieces:
        yield pa.ipc.open_stream(piece.as_buffer()).read_all()


def _typed(value: Expression, rows: pa.RecordBatch, kind: pa.DataType) -> pa.Array:
    found = evaluate(value, rows)
    return found if found.type.equals(kind) else found.cast(kind)


def combined(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    found = column.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found


def _encoded(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


# --- Spark's hash: Murmur3, 32 bits, of each column with the hash of those before it as seed ---

_Hashes = npt.NDArray[np.uint32]
_SEED = 42


def sorted_by_bucket(
    rows: pa.Table, key: Sequence[int], buckets: int
) -> Iterator[tuple[int, int, pa.Table]]:
    """Yield the rows of each bucket that has some, by the columns at the positions `key`, in the order of `rows`.

    With the number of the bucket and of rows that were yielded before.
    """
    keys = [combined(rows.column(position)) for position in key]
    numbers = bucket_numbers(keys, rows.num_rows, buckets)
    sizes = np.bincount(numbers, minlength=buckets)
    if np.count_nonzero(sizes) > 1:
        rows = rows.take(pa.array(np.argsort(numbers, kind="stable")))
    start = 0
    for bucket, size in enumerate(sizes.tolist()):
        if size:
            yield bucket, start, rows.slice(start, size)
        start += size


def is_hashed(kind: pa.DataType) -> bool:
    """Return whether `bucket_numbers` takes a key of a type: whole numbers, texts, days and moments."""
    return bool(
        pa.types.is_signed_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date32(kind)
        or (pa.types.is_timestamp(kind) and kind.unit == "us")
    )


def bucket_numbers(keys: Sequence[pa.Array], rows: int, buckets: int) -> npt.NDArray[np.int32]:
    """Return the bucket of each row; whole numbers are hashed as BIGINT, and a NULL changes nothing."""
    if not keys:
        return np.zeros(rows, np.int32)
    hashes = np.full(rows, _SEED, np.uint32)
    for key in keys:
        found = _hashed(key, hashes)
        hashes = np.where(_valid(key), found, hashes) if key.null_count else found
    return hashes.view(np.int32) % np.int32(buckets)


def _hashed(key: pa.Array, seeds: _Hashes) -> _Hashes:
    if pa.types.is_string(key.type):
        return _of_texts(key, seeds)
    if pa.types.is_date32(key.type):
        days = _numbers(key.cast(pa.int32()))
        return _finished(_mixed(seeds, days.view(np.uint32)), 4)
    longs = _numbers(key.cast(pa.int64())).view(np.uint64)
    low = (longs & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    high = (longs >> np.uint64(32)).astype(np.uint32)
    return _finished(_mixed(_mixed(seeds, low), high), 8)


def _numbers(key: pa.Array) -> npt.NDArray[Any]:
    return np.ascontiguousarray(key.fill_null(0).to_numpy(zero_copy_only=False))


def _valid(key: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = key.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _of_texts(key: pa.Array, seeds: _Hashes) -> _Hashes:
    """Hash four bytes at a time, then each that is left over as a signed number."""
    _, offsets, content = key.buffers()
    bounds = np.frombuffer(offsets, np.int32)[key.offset : key.offset + len(key) + 1]
    content_bytes = np.frombuffer(content or b"", np.uint8)
    starts, sizes = bounds[:-1].astype(np.int64), np.diff(bounds)
    words, hashes = sizes // 4, seeds.copy()
    for word in range(int(words.max(initial=0))):
        has = np.flatnonzero(words > word)
        at = starts[has] + 4 * word
        value = np.zeros(len(has), np.uint32)
        for byte in range(4):
            value |= content_bytes[at + byte].astype(np.uint32) << np.uint32(8 * byte)
        hashes[has] = _mixed(hashes[has], value)
    for position in range(3):
        has = np.flatnonzero(sizes % 4 > position)
        at = starts[has] + 4 * words[has] + position
        signed = content_bytes[at].view(np.int8).astype(np.int32).view(np.uint32)
        hashes[has] = _mixed(hashes[has], signed)
    return _finished(hashes, sizes.astype(np.uint32))


def _mixed(hashes: _Hashes, value: _Hashes) -> _Hashes:
    mixed = _rotated(value * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(hashes ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(hashes: _Hashes, size: int | _Hashes) -> _Hashes:
    found = hashes ^ np.uint32(size) if isinstance(size, int) else hashes ^ size
    found = (found ^ (found >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    found = (found ^ (found >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return found ^ (found >> np.uint32(16))


def _rotated(value: _Hashes, bits: int) -> _Hashes:
    return (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))
