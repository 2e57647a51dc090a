"""The state of an input of a stage in one bucket, or in all, for the task that runs its operator (KeyedState).

The rows are looked up in a cache (`bucket_cache.py`); those of a state to which rows are only added, in segments
(`segment_folder.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.connector.spark.source.buckets import bucket_numbers, sorted_by_bucket
from penstock.sql.incremental.keyed.files.manifest import BucketFiles, StateFile
from penstock.sql.incremental.keyed.files.spooled_rows import is_large, spooled
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime.bucket_cache import (
    BucketCache,
    BucketLocation,
    JointCache,
    open_cache,
)
from penstock.sql.incremental.keyed.runtime.held_rows import are_few, held_rows
from penstock.sql.incremental.keyed.runtime.merged_rows import last_end
from penstock.sql.incremental.keyed.runtime.row_segments import RowSegments
from penstock.sql.incremental.keyed.runtime.segment_folder import (
    SegmentFolder,
    is_segment,
)
from penstock.sql.incremental.keyed.tables import positional, typed

_MANY_STORED_ROWS, _MANY_STORED_BYTES = 500_000, 32 << 20
"""Stored rows, and bytes of their files, from which on those that are looked up go by the disk where they are many."""


class BucketState:
    """A KeyedState. Close it when the batch has run, and its file is there.

    `writes`: another batch follows. `ended`: up to which time rows are not needed any more, in microseconds. `writers`
    write its file while the operator goes on: it takes as long to encode one, and to wait for the disk, as to look rows
    up.
    """

    def __init__(
        self,
        location: BucketLocation,
        layout: KeyedLayout,
        batch_id: int,
        *,
        writers: Executor,
        writes: bool = True,
        ended: int | None = None,
    ) -> None:
        self._location = location
        self._layout = layout
        self._batch_id = batch_id
        self._writes = writes
        self._ended = ended
        self._cache: BucketCache | None = None
        self._folder: SegmentFolder | None = None
        self._segments: RowSegments | None = None
        self._writers = writers
        self._writing: Future[tuple[StateFile, pa.Table | None]] | None = None
        self._written: StateFile | None = None

    def rows_of(self, keys: pa.Table) -> pa.Table:
        """Return the stored rows of distinct keys, not added up. Raises StateMismatchError for a damaged file."""
        return _rows_of((self,), self._layout, keys)

    def rows_between(self, after: int | None, until: int) -> pa.Table:
        """Return the stored rows of a span of time, not added up. Raises StateMismatchError as `rows_of`."""
        return _rows_between((self,), self._layout, after, until)

    def write(self, changes: pa.Table) -> None:
        """Write the file of the batch."""
        assert self._writing is None, "a state is written once a batch"
        assert self._written is None, "a state is written once a batch"
        if not changes.num_rows or not self._writes:
            return
        rows = typed(changes, positional(self._layout))
        self._writing = self._writers.submit(self._write_file, rows)

    @property
    def written(self) -> StateFile | None:
        """The file of the batch, durable, None where nothing changed."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            self._written, rows = writing.result()
            if rows is not None:
                self._hold(self._written, rows)
        return self._written

    def _write_file(self, rows: pa.Table) -> tuple[StateFile, pa.Table | None]:
        """Return the file, and its rows where they are kept for the next batch: those of others are let go."""
        batch, location = self._batch_id, self._location
        written = location.files.write(location.bucket, batch, batch, rows)
        file = replace(written, ends=last_end(self._layout, rows))
        held = is_segment(rows) if self._layout.inserts else are_few([file])
        return file, rows if held else None

    def _hold(self, file: StateFile, rows: pa.Table) -> None:
        if self._layout.inserts:
            self._segment_folder().add(file, rows)
        else:
            held_rows().add(self._location.held, file, rows)

    def close(self) -> None:
        """Let others take up the cache."""
        if self._cache is not None:
            self._cache.close()
            self._cache = None
        self._segments = self._folder = None

    @property
    def stored(self) -> BucketFiles:
        """The files of its rows."""
        return self._location.stored

    def opened_cache(self) -> BucketCache | None:
        """Return what its rows are looked up in, None without any; it is open until `close`."""
        if self._cache is None and self._location.stored.files:
            self._cache = open_cache(self._location, self._layout)
        return self._cache

    def opened_segments(self) -> RowSegments:
        """Return the segments of its rows, to which rows are only added."""
        if self._segments is None:
            self._segments = RowSegments((), self._layout)
            if self._location.stored.files:
                self._segments = self._segment_folder().open()
        return self._segments

    def _segment_folder(self) -> SegmentFolder:
        if self._folder is None:
            self._location.begin()
            self._folder = self._location.segments(self._layout, self._ended)
        return self._folder


class AllBuckets:
    """A KeyedState of all buckets: rows are looked up in all of them at once, and written to the bucket of their key.

    `hashed` are the columns of the layout whose hash tells the bucket. Whoever made `buckets` closes them.
    """

    def __init__(
        self, buckets: Sequence[BucketState], layout: KeyedLayout, hashed: Sequence[str]
    ) -> None:
        self._buckets = buckets
        self._layout = layout
        self._hashed = tuple(layout.names.index(name) for name in hashed)

    def rows_of(self, keys: pa.Table) -> pa.Table:
        """Return the stored rows of distinct keys, as a BucketState does."""
        if self._layout.inserts and self._layout.key:
            # those of a key are in its bucket
            key = [self._layout.key.index(self._layout.names[n]) for n in self._hashed]
            asked = sorted_by_bucket(keys, key, len(self._buckets))
            found = [self._buckets[bucket].rows_of(some) for bucket, _, some in asked]
            return pa.concat_tables([self._layout.schema.empty_table(), *found])
        return _rows_of(self._buckets, self._layout, keys)

    def rows_between(self, after: int | None, until: int) -> pa.Table:
        """Return the stored rows of a span of time, as a BucketState does."""
        return _rows_between(self._buckets, self._layout, after, until)

    def write(self, changes: pa.Table) -> None:
        """Write the files of the batch: of a bucket the rows in the order in which they are given."""
        if not is_large(changes):
            for bucket, _, rows in sorted_by_bucket(changes, self._hashed, len(self._buckets)):
                self._buckets[bucket].write(rows)
            return
        # sorted at once they would be in memory, and so would those of buckets that wait to be written
        batches = changes.to_batches()
        numbers = [self._numbers(batch) for batch in batches]
        for number, state in enumerate(self._buckets):
            found = (
                batch.filter(pa.array(of == number))
                for batch, of in zip(batches, numbers, strict=True)
            )
            state.write(spooled(changes.schema, found))
            _ = state.written

    def _numbers(self, rows: pa.RecordBatch) -> npt.NDArray[Any]:
        """Return the bucket of each row; as short numbers, for there are as many as rows."""
        keys = [rows.column(position) for position in self._hashed]
        numbers = bucket_numbers(keys, rows.num_rows, len(self._buckets))
        return numbers.astype(np.min_scalar_type(len(self._buckets)))


def _rows_of(buckets: Sequence[BucketState], layout: KeyedLayout, keys: pa.Table) -> pa.Table:
    if layout.key and not keys.num_rows:
        return layout.schema.empty_table()
    if layout.inserts:
        parts = [bucket.opened_segments().rows_of(keys) for bucket in buckets]
        return typed(pa.concat_tables(parts), layout.schema)
    cache = _joint_cache(buckets)
    if cache is None:
        return layout.schema.empty_table()
    found = cache.rows_of(keys, layout, is_large=_are_many(buckets))
    return typed(found, layout.schema)


def _rows_between(
    buckets: Sequence[BucketState], layout: KeyedLayout, after: int | None, until: int
) -> pa.Table:
    if layout.inserts:
        parts = [bucket.opened_segments().rows_between(after, until) for bucket in buckets]
        return typed(pa.concat_tables(parts), layout.schema)
    cache = _joint_cache(buckets)
    if cache is None:
        return layout.schema.empty_table()
    found = cache.rows_between(after, until, layout, is_large=_are_many(buckets))
    return typed(found, layout.schema)


def _are_many(buckets: Sequence[BucketState]) -> bool:
    """Return whether the rows of a lookup may be more than are held in memory: those of a hot key, or of all."""
    rows = sum(bucket.stored.rows for bucket in buckets)
    size = sum(bucket.stored.bytes for bucket in buckets)
    return rows > _MANY_STORED_ROWS or size > _MANY_STORED_BYTES


def _joint_cache(buckets: Sequence[BucketState]) -> BucketCache | None:
    """Return what the rows of some buckets are looked up in, None where they have none."""
    caches = [cache for bucket in buckets if (cache := bucket.opened_cache()) is not None]
    if len(caches) <= 1:
        return next(iter(caches), None)
    return JointCache(caches)
