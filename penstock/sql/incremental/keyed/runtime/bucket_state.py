# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The state of an input of a stage in one bucket, or in all, for the task that runs its operator (KeyedState).

The rows are looked up in a cache, a DuckDB file on the local disk of the executor, which any of its workers takes up,
and in the memory of the worker (`held_rows.py`), which has those of the newest files: all of a small state. The cache
has the files of committed batches only. It is made anew, from the files, where it is missing, damaged, of another
state, behind by more than there is, or in use. Rows of a state to which rows are only added are looked up in segments
(`segment_folder.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.connector.spark.source.buckets import bucket_numbers, sorted_by_bucket
from penstock.sql.incremental.keyed.files.manifest import BucketFiles, BucketId, StateFile
from penstock.sql.incremental.keyed.files.spooled_rows import is_large, spooled
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime.cache_folders import begin_state, state_folder
from penstock.sql.incremental.keyed.runtime.held_rows import HeldBucket, are_few, held_rows
from penstock.sql.incremental.keyed.runtime.merged_rows import folded_rows, last_end
from penstock.sql.incremental.keyed.runtime.row_segments import RowSegments
from penstock.sql.incremental.keyed.runtime.segment_folder import (
    SegmentedBucket,
    SegmentFolder,
    is_segment,
)
from penstock.sql.incremental.keyed.tables import (
    fetched,
    positional,
    process_duckdb,
    storage_type,
    text_literal,
    timestamp_text,
    typed,
)

_MANY_STORED_ROWS, _MANY_STORED_BYTES = 500_000, 32 << 20
"""Stored rows, and bytes of their files, from which on those that are looked up go by the disk where they are many."""

_FEWEST_ADDED = 100_000
"""Rows that are added to a cache before those of equal dimensions become one, and as many as it had when they did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLocation:
    """Where the state of an input is: the files as of the batch before, and the folder of caches on this machine."""

    files: StateFiles
    state_id: str
    bucket: BucketId
    stored: BucketFiles
    caches: Path

    @property
    def cache(self) -> Path:
        """The file of the cache."""
        name = f"{self.bucket.stage}-{self.bucket.input}-{self.bucket.bucket}.duckdb"
        return state_folder(self.caches, self.files.location, self.state_id) / name

    def segments(self, layout: KeyedLayout, ended: int | None) -> SegmentFolder:
        """The folder of segments, of a state to which rows are only added."""
        bucket = SegmentedBucket(
            files=self.files,
            bucket=self.bucket,
            stored=self.stored,
            folder=self.cache.with_suffix(".segments"),
            layout=layout,
        )
        return SegmentFolder(bucket, ended)

    def begin(self) -> None:
        """Prepare for what is on the disk of the executor."""
        begin_state(state_folder(self.caches, self.files.location, self.state_id))

    @property
    def held(self) -> HeldBucket:
        """The name of the bucket among those that a worker holds."""
        return self.files.location, self.state_id, self.bucket


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
        self._cache: _HeldCache | None = None
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
        is_kept = is_segment(rows) if self._layout.inserts else are_few([file])
        return file, rows if is_kept else None

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

    def opened_cache(self) -> _HeldCache | None:
        """Return what its rows are looked up in, None without any; it is open until `close`."""
        if self._cache is None and self._location.stored.files:
            self._cache = _opened(self._location, self._layout)
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


def _joint_cache(buckets: Sequence[BucketState]) -> _HeldCache | None:
    """Return what the rows of some buckets are looked up in, None where they have none."""
    caches = [cache for bucket in buckets if (cache := bucket.opened_cache()) is not None]
    if len(caches) <= 1:
        return next(iter(caches), None)
    return _Caches(caches)


# --- the cache ---

_HELD = "held"
"""The table of rows in memory."""


class _HeldCache:
    """Rows that the memory of the worker holds; `held` None: there is no row."""

    def __init__(self) -> None:
        self._duckdb = process_duckdb()
        self.held: pa.Table | None = None

    def close(self) -> None:
        """Nothing is open."""

    def hold(
        self, location: BucketLocation, layout: KeyedLayout, files: Sequence[StateFile]
    ) -> None:
        """Look for rows in some files, too, which are few."""
        schema = positional(layout)

        def read(file: StateFile) -> pa.Table:
            return pa.concat_tables(location.files.read(location.bucket, file, schema))

        self.held = held_rows().rows_of(location.held, files, read)

    @property
    def attached(self) -> list[str]:
        """The tables of rows that are not held."""
        return []

    def _relations(self) -> list[str]:
        """The tables of rows."""
        return self.attached if self.held is None else [*self.attached, _HELD]

    def _fetched(self, query: str, *, is_large: bool) -> pa.Table:
        """Return what a query over the relation `stored` gives."""
        rows = " UNION ALL ".join(f"SELECT * FROM {name}" for name in self._relations())
        text = query.format(stored=f"({rows})" if " UNION " in rows else self._relations()[0])
        if self.held is None:
            return fetched(self._duckdb, text, is_large=is_large)
        with self._registered(_HELD, self.held):
            return fetched(self._duckdb, text, is_large=is_large)

    def rows_of(self, keys: pa.Table, layout: KeyedLayout, *, is_large: bool) -> pa.Table:
        """Return the rows of some keys; all rows where the layout has none."""
        rows = "SELECT r.* FROM {stored} AS r"
        if not layout.key:
            return self._fetched(rows, is_large=is_large)
        # a time with a zone would be compared as a time of this machine's zone
        columns = [column.cast(storage_type(column.type)) for column in keys.columns]
        names = [f"k{n}" for n in range(len(layout.key))]
        same = " AND ".join(
            f"r.c{layout.names.index(name)} IS NOT DISTINCT FROM asked.k{n}"
            for n, name in enumerate(layout.key)
        )
        with self._registered("asked", pa.Table.from_arrays(columns, names=names)):
            return self._fetched(f"{rows} SEMI JOIN asked ON {same}", is_large=is_large)

    def rows_between(
        self, after: int | None, until: int, layout: KeyedLayout, *, is_large: bool
    ) -> pa.Table:
        """Return the rows whose time is later than `after` and at most `until`, in microseconds since the epoch."""
        assert layout.rowtime is not None, "rows are looked up by it"
        column = f"r.c{layout.names.index(layout.rowtime)}"
        within = f"{column} <= {timestamp_text(until)}"
        if after is not None:
            within += f" AND {column} > {timestamp_text(after)}"
        rows = f"SELECT r.* FROM {{stored}} AS r WHERE {within}"
        return self._fetched(rows, is_large=is_large)

    @contextmanager
    def _registered(self, name: str, rows: pa.Table) -> Iterator[None]:
        self._duckdb.register(name, rows)
        try:
            yield
        finally:
            self._duckdb.unregister(name)


class _Caches(_HeldCache):
    """The rows of several caches, which are open for as long as this is used."""

    def __init__(self, caches: Sequence[_HeldCache]) -> None:
        super().__init__()
        held = [cache.held for cache in caches if cache.held is not None]
        self.held = pa.concat_tables(held) if held else None
        self._attached = [name for cache in caches for name in cache.attached]

    @property
    def attached(self) -> list[str]:
        """The tables of their databases."""
        return self._attached


class _Cache(_HeldCache):
    """A database that is attached to that of the process: a file of the executor's disk, or without one in memory.

    Attaching costs half a millisecond, a DuckDB of its own 13.
    """

    _numbers = count()

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._name = f"cache{next(self._numbers)}"
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._duckdb.execute(f"ATTACH {text_literal(str(path or ':memory:'))} AS {self._name}")

    def close(self) -> None:
        """Let others take up the file."""
        self._duckdb.execute(f"DETACH {self._name}")

    @property
    def attached(self) -> list[str]:
        """The table of its database."""
        return [f"{self._name}.rows"]

    def advance(self, location: BucketLocation, layout: KeyedLayout) -> None:
        """Add what the cache lacks, unless it is few rows; one of which it is not known what it has begins anew."""
        stored = location.stored
        missing = self._missing(stored)
        if missing is not None and are_few(missing):
            self.hold(location, layout, missing)
            return
        with self._transaction():
            if missing is None:
                self._begin(layout)
                missing = stored.files
            for file in missing:
                for rows in location.files.read(location.bucket, file, positional(layout)):
                    with self._registered("more", rows):
                        self._duckdb.execute(f"INSERT INTO {self._name}.rows SELECT * FROM more")
            if missing:
                self._settle(stored, layout, sum(file.rows for file in missing))

    def _missing(self, stored: BucketFiles) -> tuple[StateFile, ...] | None:
        """Return the files that the cache does not have; None where it has others, or none."""
        if not self._values(
            f"SELECT 1 FROM duckdb_tables() WHERE table_name = 'progress' AND database_name = '{self._name}'"
        ):
            return None
        ((epoch, last),) = self._values(f"SELECT epoch, last FROM {self._name}.progress")
        names = [file.name for file in stored.files]
        # of another epoch it has rows that have expired, and are subtracted no more
        if epoch != stored.epoch or last not in names:
            return None
        return stored.files[names.index(last) + 1 :]

    def _begin(self, layout: KeyedLayout) -> None:
        with self._registered("empty", positional(layout).empty_table()):
            self._duckdb.execute(
                f"CREATE OR REPLACE TABLE {self._name}.rows AS SELECT * FROM empty"
            )
        self._duckdb.execute(
            f"CREATE OR REPLACE TABLE {self._name}.progress AS "
            "SELECT -1::BIGINT AS epoch, ''::VARCHAR AS last, 0::BIGINT AS folded, 0::BIGINT AS added"
        )

    def _settle(self, stored: BucketFiles, layout: KeyedLayout, added: int) -> None:
        """Record which files the cache has, and fold its rows where many were added."""
        progress, rows = f"{self._name}.progress", f"{self._name}.rows"
        self._duckdb.execute(
            f"UPDATE {progress} SET epoch = ?, last = ?, added = added + ?",
            [stored.epoch, stored.files[-1].name, added],
        )
        ((folded, added),) = self._values(f"SELECT folded, added FROM {progress}")
        if added > max(_FEWEST_ADDED, folded):
            # rows that ended stay: an older copy of the checkpoint, which goes on by this cache, may need them
            folded = folded_rows(layout, rows)
            self._duckdb.execute(f"CREATE TABLE {self._name}.folded AS {folded}")
            self._duckdb.execute(f"DROP TABLE {rows}")
            self._duckdb.execute(f"ALTER TABLE {self._name}.folded RENAME TO rows")
            self._duckdb.execute(
                f"UPDATE {progress} SET folded = (SELECT COUNT(*) FROM {rows}), added = 0"
            )

    def _values(self, query: str) -> list[tuple[Any, ...]]:
        # all rows of a result are fetched: a connection does nothing else before
        return self._duckdb.execute(query).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._duckdb.begin()
        try:
            yield
        except BaseException:
            with suppress(duckdb.Error):
                self._duckdb.rollback()
            raise
        self._duckdb.commit()


def _opened(location: BucketLocation, layout: KeyedLayout) -> _HeldCache:
    """Open the cache with the rows before the batch."""
    if are_few(location.stored.files):
        held = _HeldCache()
        held.hold(location, layout, location.stored.files)
        return held
    location.begin()
    try:
        return _advanced(_Cache(location.cache), location, layout)
    except duckdb.Error as error:
        # another worker's, or damaged: that file is not needed
        if not isinstance(error, duckdb.IOException) or "lock" not in str(error):
            with suppress(OSError):
                location.cache.unlink()
    return _advanced(_Cache(None), location, layout)


def _advanced(cache: _Cache, location: BucketLocation, layout: KeyedLayout) -> _Cache:
    try:
        cache.advance(location, layout)
    except BaseException:
        cache.close()
        raise
    return cache
