# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The state of an input of a stage in one bucket, for the task that runs its operator (KeyedState).

The rows are looked up in a cache, a DuckDB file on the local disk of the executor, which any of its workers takes up.
It has the files of committed batches only: that of a batch is added when the next one looks for rows. It is made
anew, from the files, where it is missing, damaged, of another state, behind by more than there is, or in use.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from penstock.sql.incremental.keyed.manifest import BucketFiles, BucketId, StateFile
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.state_files import StateFiles
from penstock.sql.incremental.keyed.tables import positional, storage_type, type_name, typed

_MEMORY = "512MB"
"""What a cache has of a worker's memory; DuckDB reads and spills the rest."""

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
        return self.caches / self.state_id / name


class BucketState:
    """A KeyedState. `written` is the file of the batch, None where nothing changed. Close it when the batch has run.

    `writes`: another batch follows.
    """

    def __init__(
        self,
        location: BucketLocation,
        layout: KeyedLayout,
        batch_id: int,
        *,
        writes: bool = True,
    ) -> None:
        self._location = location
        self._layout = layout
        self._batch_id = batch_id
        self._writes = writes
        self._cache: duckdb.DuckDBPyConnection | None = None
        self.written: StateFile | None = None

    def rows_of(self, keys: pa.Table) -> pa.Table:
        """Return the stored rows of distinct keys, not added up. Raises RuntimeError for a missing or damaged file."""
        schema = self._layout.schema
        if not self._location.stored.files or (self._layout.key and not keys.num_rows):
            return schema.empty_table()
        if self._cache is None:
            self._cache = _opened(self._location, self._layout)
        found = _rows_of(self._cache, keys, self._layout)
        return typed(found, schema)

    def write(self, changes: pa.Table) -> None:
        """Write the file of the batch."""
        assert self.written is None, "a state is written once a batch"
        if changes.num_rows and self._writes:
            rows, batch = typed(changes, positional(self._layout)), self._batch_id
            self.written = self._location.files.write(self._location.bucket, batch, batch, rows)

    def close(self) -> None:
        """Let others take up the cache."""
        if self._cache is not None:
            self._cache.close()
            self._cache = None


def _rows_of(cache: duckdb.DuckDBPyConnection, keys: pa.Table, layout: KeyedLayout) -> pa.Table:
    if not layout.key:
        return cache.sql("SELECT * FROM rows").to_arrow_table()
    # a time with a zone would be compared as a time of this machine's zone
    columns = [column.cast(storage_type(column.type)) for column in keys.columns]
    names = [f"k{n}" for n in range(len(layout.key))]
    cache.register("asked", pa.Table.from_arrays(columns, names=names))
    same = " AND ".join(
        f"rows.c{layout.names.index(name)} IS NOT DISTINCT FROM asked.k{n}"
        for n, name in enumerate(layout.key)
    )
    found = cache.sql(f"SELECT rows.* FROM rows SEMI JOIN asked ON {same}").to_arrow_table()
    cache.unregister("asked")
    return found


# --- the cache ---


def _opened(location: BucketLocation, layout: KeyedLayout) -> duckdb.DuckDBPyConnection:
    """Open the cache with the rows before the batch."""
    try:
        return _advanced(_connected(location.cache), location, layout)
    except duckdb.Error as error:
        # another worker's, or damaged: that file is not needed
        if not isinstance(error, duckdb.IOException) or "lock" not in str(error):
            with suppress(OSError):
                location.cache.unlink()
    return _advanced(_connected(None), location, layout)


def _connected(path: Path | None) -> duckdb.DuckDBPyConnection:
    """Open a cache file; None: rows in memory."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "memory_limit": _MEMORY,
        "autoinstall_known_extensions": False,
    }
    if path is None:
        return duckdb.connect(config=config)
    path.parent.mkdir(parents=True, exist_ok=True)
    return duckdb.connect(str(path), config=config)


def _advanced(
    cache: duckdb.DuckDBPyConnection, location: BucketLocation, layout: KeyedLayout
) -> duckdb.DuckDBPyConnection:
    """Add what a cache lacks; one whose place among the files is unknown begins anew."""
    try:
        stored = location.stored
        cache.begin()
        missing = _missing(cache, stored)
        if missing is None:
            _begin(cache, layout)
            missing = stored.files
        for file in missing:
            for rows in location.files.read(location.bucket, file, positional(layout)):
                cache.register("more", rows)
                cache.execute("INSERT INTO rows SELECT * FROM more")
                cache.unregister("more")
        if missing:
            _settle(cache, stored, layout, sum(file.rows for file in missing))
        cache.commit()
    except BaseException:
        cache.close()
        raise
    return cache


def _missing(cache: duckdb.DuckDBPyConnection, stored: BucketFiles) -> tuple[StateFile, ...] | None:
    """Return the files that a cache does not have; None where it has others, or none."""
    # all rows of a result are fetched: a connection does nothing else before
    if not cache.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'place'").fetchall():
        return None
    ((epoch, last),) = cache.execute("SELECT epoch, last FROM place").fetchall()
    names = [file.name for file in stored.files]
    # of another epoch it has rows that have expired, and are subtracted no more
    if epoch != stored.epoch or last not in names:
        return None
    return stored.files[names.index(last) + 1 :]


def _begin(cache: duckdb.DuckDBPyConnection, layout: KeyedLayout) -> None:
    cache.register("empty", positional(layout).empty_table())
    cache.execute("CREATE OR REPLACE TABLE rows AS SELECT * FROM empty")
    cache.execute(
        "CREATE OR REPLACE TABLE place AS "
        "SELECT -1::BIGINT AS epoch, ''::VARCHAR AS last, 0::BIGINT AS folded, 0::BIGINT AS added"
    )
    cache.unregister("empty")


def _settle(
    cache: duckdb.DuckDBPyConnection, stored: BucketFiles, layout: KeyedLayout, added: int
) -> None:
    """Record which files a cache has, and fold its rows where many were added."""
    cache.execute(
        "UPDATE place SET epoch = ?, last = ?, added = added + ?",
        [stored.epoch, stored.files[-1].name, added],
    )
    ((folded, added),) = cache.execute("SELECT folded, added FROM place").fetchall()
    if added > max(_FEWEST_ADDED, folded):
        cache.execute(f"CREATE TABLE folded AS {folded_rows(layout, 'rows')}")
        cache.execute("DROP TABLE rows")
        cache.execute("ALTER TABLE folded RENAME TO rows")
        cache.execute("UPDATE place SET folded = (SELECT COUNT(*) FROM rows), added = 0")


def folded_rows(layout: KeyedLayout, table: str, *, whole: bool = True) -> str:
    """Write the SQL that adds up the rows of a table with columns by position.

    `whole`: the table has all rows of the state, so that those of the count 0 are gone. With a time to live each row
    gets the time that decides on its expiry, so that deleted rows need not be kept. Of a part of the state all stay
    that change anything: a sum, or the time.
    """
    dims = [f"c{n}" for n in range(len(layout.dims))]
    sums = [f"c{len(dims) + n}" for n in range(len(layout.values))]
    time = f"c{len(dims) + len(sums)}"
    added = [
        f"SUM({name})::{type_name(of.type)} AS {name}"
        for name, of in zip(sums, layout.values, strict=True)
    ]
    newest = f"MAX({time})"
    if whole and layout.time_to_live_ms and not layout.by_row:
        key = ", ".join(f"c{layout.names.index(name)}" for name in layout.key)
        newest = f"MAX({newest}) OVER ({f'PARTITION BY {key}' if key else ''})"
    groups = f"GROUP BY {', '.join(dims)}" if dims else ""
    folded = f"SELECT {', '.join([*dims, *added])}, {newest} AS {time} FROM {table} {groups}"
    changes = f"{sums[-1]} <> 0" if whole else " OR ".join(f"{name} <> 0" for name in sums)
    if not whole and layout.time_to_live_ms:
        changes = "TRUE"
    return f"SELECT * FROM ({folded}) WHERE {changes}"
