# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""What becomes of stored rows when their files become one: equal rows are added up, those that ended are left out.

Called where caches are brought up to date, and where files of keyed state are merged. Rows that are only added stay as
they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.tables import positional, registered, type_name

PART_ROWS, PART_BYTES = 2_000_000, 128 * 2**20
"""The most rows of a file, and bytes that all of them would have in memory."""


def last_end(layout: KeyedLayout, rows: pa.Table | pa.RecordBatch) -> int | None:
    """Return the last time by which one of some stored rows ends, in microseconds; None: they do not end."""
    if layout.ends is None:
        return None
    times = rows.column(layout.names.index(layout.ends)).cast(pa.int64())
    return None if not rows.num_rows else int(pc.max(times).as_py())


def lasting_rows(layout: KeyedLayout, rows: pa.Table, ended: int | None) -> pa.Table:
    """Return the rows, of columns by position, that end later than `ended`, in microseconds; None: all."""
    if layout.ends is None or ended is None:
        return rows
    ends = rows.column(layout.names.index(layout.ends)).cast(pa.int64())
    return rows.filter(pc.greater(ends, ended))


def rows_that_last(layout: KeyedLayout, rows: str, ended: int | None) -> str:
    """Write the SQL of the rows of a query that end later than `ended`, in microseconds; None: of all."""
    if layout.ends is None or ended is None:
        return rows
    return f"SELECT * FROM ({rows}) WHERE epoch_us(c{layout.names.index(layout.ends)}) > {ended}"


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
        key = ", ".join(f"c{layout.names.index(name)}" for name in layout.expires_by)
        newest = f"MAX({newest}) OVER ({f'PARTITION BY {key}' if key else ''})"
    groups = f"GROUP BY {', '.join(dims)}" if dims else ""
    folded = f"SELECT {', '.join([*dims, *added])}, {newest} AS {time} FROM {table} {groups}"
    changes = f"{sums[-1]} <> 0" if whole else " OR ".join(f"{name} <> 0" for name in sums)
    if not whole and layout.time_to_live_ms:
        changes = "TRUE"
    return f"SELECT * FROM ({folded}) WHERE {changes}"


def in_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield rows in parts of a bounded size, each to be read to its end before the next one is asked for."""
    left = iter(batches)
    for first in left:
        yield _part(first, left)


def _part(first: pa.RecordBatch, left: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    rows, size = first.num_rows, first.nbytes
    while rows < PART_ROWS and size < PART_BYTES and (batch := next(left, None)) is not None:
        rows, size = rows + batch.num_rows, size + batch.nbytes
        yield batch


class RowsOfFile:
    """Rows as a file has them. `ends`, once they are read: the last time by which one of them ends, as `last_end`."""

    def __init__(self, layout: KeyedLayout, batches: Iterable[pa.RecordBatch]) -> None:
        self.schema = positional(layout)
        self.ends: int | None = None
        self._layout = layout
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Read them, once."""
        for batch in self._batches:
            rows = batch.cast(self.schema)
            ends = last_end(self._layout, rows)
            if ends is not None:
                self.ends = ends if self.ends is None else max(self.ends, ends)
            yield rows


def create_table(tables: duckdb.DuckDBPyConnection, name: str, layout: KeyedLayout) -> None:
    """Make an empty table of stored rows."""
    with registered(tables, "nothing", positional(layout).empty_table()):
        tables.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM nothing")


def fill_table(
    tables: duckdb.DuckDBPyConnection, name: str, parts: Iterator[pa.Table], columns: str = "*"
) -> None:
    """Add rows to a table, whose columns are SQL over those of the rows."""
    for part in parts:
        with registered(tables, "more", part):
            tables.execute(f"INSERT INTO {name} SELECT {columns} FROM more")


def fold_rows(
    tables: duckdb.DuckDBPyConnection, layout: KeyedLayout, now_ms: int, *, whole: bool
) -> bool:
    """Make the table `folded` of the rows added up; returns whether some that expired are in `dropped` instead.

    `whole`: there is nothing before them, so that rows of the count 0 are gone.
    """
    tables.execute(f"CREATE TABLE folded AS {folded_rows(layout, 'rows', whole=whole)}")
    if not (whole and layout.time_to_live_ms):
        return False
    expired = f"c{len(layout.schema) - 1} <= {now_ms - layout.time_to_live_ms}"
    tables.execute(f"CREATE TABLE dropped AS SELECT * FROM folded WHERE {expired}")
    tables.execute(f"DELETE FROM folded WHERE {expired}")
    ((rows,),) = tables.execute("SELECT COUNT(*) FROM dropped").fetchall()
    return bool(rows)
