# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The cache in which the rows of a bucket are looked up, on the local disk of an executor and in a worker's memory.

A DuckDB file, which any worker of the executor takes up, and in the memory of the worker (`held_rows.py`) the rows of
the newest files: all of a small state. The cache has the files of committed batches only. It is made anew, from the
files, where it is missing, damaged, of another state, behind by more than there is, or in use, and where files of which
it has most of its rows were merged.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from penstock.sql.incremental.keyed.files.manifest import BucketFiles, BucketId, StateFile
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime.held_rows import HeldBucket, are_few, held_rows
from penstock.sql.incremental.keyed.runtime.merged_rows import create_table, fill_table, folded_rows
from penstock.sql.incremental.keyed.runtime.segment_files import mapped_segments
from penstock.sql.incremental.keyed.runtime.segment_folder import SegmentedBucket, SegmentFolder
from penstock.sql.incremental.keyed.tables import (
    fetched,
    positional,
    process_duckdb,
    registered,
    storage_type,
    text_literal,
    timestamp_text,
)

_FEWEST_ADDED = 100_000
"""Rows of newer files that stay apart, and as many as the first files have, before more files are added up."""


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
        with registered(self._duckdb, _HELD, self.held):
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
        with registered(self._duckdb, "asked", pa.Table.from_arrays(columns, names=names)):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """Which files of a bucket a cache has: the first `settled`, and `newer` behind them. Others, too, where `stale`."""

    settled: int = 0
    newer: int = 0
    stale: bool = False


class _DiskCache(BucketCache):
    """A database that is attached to that of the process: a file of the executor's disk, or without one in memory.

    The rows of the oldest files, which have most, are one table, and added up. Those of each newer file stay apart: a
    merge soon stands for some of these, and its rows are taken for theirs. Attaching costs half a millisecond, a
    DuckDB of its own 13.
    """

    _numbers = count()

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._name = f"cache{next(self._numbers)}"
        self._standing = _Standing()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._duckdb.execute(f"ATTACH {text_literal(str(path or ':memory:'))} AS {self._name}")

    def close(self) -> None:
        """Let others take up the file."""
        self._duckdb.execute(f"DETACH {self._name}")

    @property
    def attached(self) -> list[str]:
        """The tables of its database."""
        rows = [f"{self._name}.rows"]
        if self._standing.newer:
            rows.append(f"(SELECT * EXCLUDE (file) FROM {self._name}.newer_rows)")
        return rows

    def advance(self, location: BucketLocation, layout: KeyedLayout) -> None:
        """Add what the cache lacks, unless it is few rows; one of which it is not known what it has begins anew."""
        found = self._found(location.stored)
        if found is not None and not found.stale:
            self._standing = found
            if self._holds_missing(location, layout):
                return
        with self._transaction():
            if found is None:
                self._begin(location.stored.epoch, layout)
            self._standing = _Standing() if found is None else self._without_stale(found)
            if not self._holds_missing(location, layout):
                self._add(location, layout)
                self._settle(location.stored, layout)

    def _holds_missing(self, location: BucketLocation, layout: KeyedLayout) -> bool:
        """Hold the rows of the files that the cache does not have, where they are few."""
        missing = location.stored.files[self._standing.settled + self._standing.newer :]
        if not are_few(missing):
            return False
        self.hold(location, layout, missing)
        return True

    def _found(self, stored: BucketFiles) -> _Standing | None:
        """Return which files the cache has; None where it has none, or rows of others in its first table."""
        if not self._values(
            f"SELECT 1 FROM duckdb_tables() WHERE table_name = 'settled' AND database_name = '{self._name}'"
        ):
            return None
        ((epoch, last, _),) = self._values(f"FROM {self._name}.settled")
        names = [file.name for file in stored.files]
        # of another epoch it has rows that have expired, and are subtracted no more
        if epoch != stored.epoch or last not in ("", *names):
            return None
        settled = names.index(last) + 1 if last else 0
        newer = [
            name for (name,) in self._values(f"SELECT name FROM {self._name}.newer ORDER BY file")
        ]
        same = takewhile(lambda pair: pair[0] == pair[1], zip(newer, names[settled:], strict=False))
        count_same = sum(1 for _ in same)
        return _Standing(settled=settled, newer=count_same, stale=count_same < len(newer))

    def _begin(self, epoch: int, layout: KeyedLayout) -> None:
        name = self._name
        for table in ("rows", "newer_rows"):
            create_table(self._duckdb, f"{name}.{table}", layout)
        for statement in (
            f"ALTER TABLE {name}.newer_rows ADD COLUMN file INTEGER",
            f"CREATE OR REPLACE TABLE {name}.newer (file INTEGER, name VARCHAR)",
            f"CREATE OR REPLACE TABLE {name}.settled (epoch BIGINT, last VARCHAR, rows BIGINT)",
            f"INSERT INTO {name}.settled VALUES ({epoch}, '', 0)",
        ):
            self._duckdb.execute(statement)

    def _without_stale(self, found: _Standing) -> _Standing:
        """Remove the rows of files that a merge stands for."""
        for table in ("newer_rows", "newer"):
            self._duckdb.execute(f"DELETE FROM {self._name}.{table} WHERE file >= {found.newer}")
        return replace(found, stale=False)

    def _add(self, location: BucketLocation, layout: KeyedLayout) -> None:
        """Add the rows of the files that are missing, those of each apart."""
        standing, files = self._standing, location.stored.files
        for number, file in enumerate(files[standing.settled + standing.newer :], standing.newer):
            parts = location.files.read(location.bucket, file, positional(layout))
            fill_table(self._duckdb, f"{self._name}.newer_rows", parts, f"*, {number}")
            self._duckdb.execute(
                f"INSERT INTO {self._name}.newer VALUES (?, ?)", [number, file.name]
            )
        self._standing = replace(standing, newer=len(files) - standing.settled)

    def _settle(self, stored: BucketFiles, layout: KeyedLayout) -> None:
        """Put the rows of the first files into one table, where those behind it have become more than it has."""
        standing, rows = self._standing, [file.rows for file in stored.files]
        ((_, _, before),) = self._values(f"FROM {self._name}.settled")
        if sum(rows[standing.settled :]) <= max(_FEWEST_ADDED, before):
            return
        end = next(
            n
            for n in range(standing.settled + 1, len(rows) + 1)
            if sum(rows[n:]) <= max(_FEWEST_ADDED, sum(rows[:n]))
        )
        name, more = self._name, end - standing.settled
        # rows that ended stay: an older copy of the checkpoint, which goes on by this cache, may need them
        every = (
            f"(SELECT * FROM {name}.rows UNION ALL "
            f"SELECT * EXCLUDE (file) FROM {name}.newer_rows WHERE file < {more})"
        )
        self._duckdb.execute(f"CREATE TABLE {name}.folded AS {folded_rows(layout, every)}")
        self._duckdb.execute(f"DROP TABLE {name}.rows")
        self._duckdb.execute(f"ALTER TABLE {name}.folded RENAME TO rows")
        for table in ("newer_rows", "newer"):
            left = (
                f"SELECT * REPLACE (file - {more} AS file) FROM {name}.{table} WHERE file >= {more}"
            )
            self._duckdb.execute(f"CREATE OR REPLACE TABLE {name}.{table} AS {left}")
        self._duckdb.execute(
            f"UPDATE {name}.settled SET last = ?, rows = (SELECT COUNT(*) FROM {name}.rows)",
            [stored.files[end - 1].name],
        )
        self._standing = _Standing(settled=end, newer=len(rows) - end)

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
