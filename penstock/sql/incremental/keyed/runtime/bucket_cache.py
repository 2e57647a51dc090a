# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The cache in which the rows of a bucket are looked up, on the local disk of an executor and in a worker's memory.

A DuckDB file, which any worker of the executor takes up, and in the memory of the worker (`held_rows.py`) the rows of
the newest files: all of a small state. The cache has the files of committed batches only. It is made anew, from the
files, where it is missing, damaged, of another state, behind by more than there is, or in use.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from penstock.sql.incremental.keyed.files.manifest import BucketFiles, BucketId, StateFile
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime.held_rows import HeldBucket, are_few, held_rows
from penstock.sql.incremental.keyed.runtime.merged_rows import folded_rows
from penstock.sql.incremental.keyed.runtime.segment_files import mapped_segments
from penstock.sql.incremental.keyed.runtime.segment_folder import SegmentedBucket, SegmentFolder
from penstock.sql.incremental.keyed.tables import (
    fetched,
    positional,
    process_duckdb,
    storage_type,
    text_literal,
    timestamp_text,
)

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
        return _state_folder(self.caches, self.files.location, self.state_id) / name

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
        _begin_state(_state_folder(self.caches, self.files.location, self.state_id))

    @property
    def held(self) -> HeldBucket:
        """The name of the bucket among those that a worker holds."""
        return self.files.location, self.state_id, self.bucket


# --- the folders of caches and segments: one for each state of a checkpoint ---

_processes: defaultdict[int, set[Path]] = defaultdict(set)
"""The folders in which a process has taken up something."""


def _state_folder(caches: Path, location: str, state_id: str) -> Path:
    """Return the folder of a state whose files are at `location`: a copy of a checkpoint has the same id."""
    return caches / hashlib.sha256(location.encode()).hexdigest()[:16] / state_id


def _begin_state(folder: Path) -> None:
    """Remove, once in a process, what is there of other states of the same checkpoint.

    One that starts over has another id, as has one whose first batch is tried again. A task of an earlier attempt that
    still runs begins anew where its own is gone, and so does one of this state where that attempt starts late.
    """
    begun = _processes[os.getpid()]
    if folder in begun:
        return
    begun.add(folder)
    mapped_segments().forget(folder.parent, but=folder)
    others: list[Path] = []
    with suppress(OSError):
        others = [path for path in folder.parent.iterdir() if path != folder]
    for path in others:
        shutil.rmtree(path, ignore_errors=True)


# --- the caches ---

_HELD = "held"
"""The table of rows in memory."""


class BucketCache:
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


class JointCache(BucketCache):
    """The rows of several caches, which are open for as long as this is used."""

    def __init__(self, caches: Sequence[BucketCache]) -> None:
        super().__init__()
        held = [cache.held for cache in caches if cache.held is not None]
        self.held = pa.concat_tables(held) if held else None
        self._attached = [name for cache in caches for name in cache.attached]

    @property
    def attached(self) -> list[str]:
        """The tables of their databases."""
        return self._attached


class _DiskCache(BucketCache):
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


def open_cache(location: BucketLocation, layout: KeyedLayout) -> BucketCache:
    """Open the cache with the rows before the batch."""
    if are_few(location.stored.files):
        held = BucketCache()
        held.hold(location, layout, location.stored.files)
        return held
    location.begin()
    try:
        return _advanced(_DiskCache(location.cache), location, layout)
    except duckdb.Error as error:
        # another worker's, or damaged: that file is not needed
        if not isinstance(error, duckdb.IOException) or "lock" not in str(error):
            with suppress(OSError):
                location.cache.unlink()
    return _advanced(_DiskCache(None), location, layout)


def _advanced(cache: _DiskCache, location: BucketLocation, layout: KeyedLayout) -> _DiskCache:
    try:
        cache.advance(location, layout)
    except BaseException:
        cache.close()
        raise
    return cache
