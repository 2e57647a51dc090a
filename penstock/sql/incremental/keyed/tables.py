# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""Tables of a bucket's rows in DuckDB, where keyed operators compute: columns are c0, c1, ... by position.

Also their types, and what operators have in common: stored rows added up, the difference of two results, groups.
"""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Self

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as at

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.keyed.files.spooled_rows import (
    BATCH_ROWS,
    is_large,
    local_folder,
    spooled,
)
from penstock.sql.incremental.keyed.files.state_files import with_columns
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedLayout

_MEMORY = "1GB"
"""What DuckDB takes of a worker's memory before it spills."""

_connections: dict[int, duckdb.DuckDBPyConnection] = {}
# one that is open as the interpreter ends is told as a leak
atexit.register(_connections.clear)


def process_duckdb() -> duckdb.DuckDBPyConnection:
    """Return the DuckDB of this process, with one thread. For the thread that runs a task."""
    found = _connections.get(os.getpid())
    if found is None:
        _connections.clear()  # what a fork has copied
        settings: dict[str, str | bool | int | float | list[str]] = {
            "threads": 1,
            "memory_limit": _MEMORY,
            "temp_directory": _spill_folder(),
            "autoinstall_known_extensions": False,
        }
        found = _connections[os.getpid()] = duckdb.connect(config=settings)
    return found


@contextmanager
def registered(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> Iterator[None]:
    """Give rows of Arrow a name in DuckDB for as long as the block lasts."""
    connection.register(name, rows)
    try:
        yield
    finally:
        connection.unregister(name)


MANY_ROWS = 200_000
"""Rows from which on a result of DuckDB, or what is made of it, may be more than are held in memory."""


def fetched(
    connection: duckdb.DuckDBPyConnection, query: str, *, is_large: bool = False
) -> pa.Table:
    """Return all rows of a query. `is_large`: they may be more than fit into memory.

    Those of a relation (`connection.sql`), which may take longer to be planned, come as they are read; `execute` has
    all of them in memory first, which no limit of DuckDB bounds.
    """
    if not is_large:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")
            return connection.execute(query).to_arrow_table()
    with connection.sql(query).to_arrow_reader(BATCH_ROWS) as batches:
        return spooled(batches.schema, batches)


class UntranslatableError(Exception):
    """An expression or a type outside the set; the text says which, and is shown as the reason.

    `hint`: what to write instead. Raised and caught where stages are planned, and no further.
    """

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


class OpenTypeError(UntranslatableError):
    """A type that is not known before the query starts: that of NULL stands for it."""


_STORED = "leave the column out, or read its parts, or a text of it, as columns of their own in a subquery below"
_TAKE_PARTS = "read its fields as columns of their own in a subquery below, or leave it out"


# --- types ---

_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.large_binary(): "BLOB",
    pa.date32(): "DATE",
}


def type_name(kind: pa.DataType) -> str:
    """Return the type of a column in DuckDB. Raises UntranslatableError.

    A TIMESTAMP_LTZ is the TIMESTAMP of its instant in UTC there: comparisons need no time zone.
    """
    if at.is_decimal128(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if at.is_timestamp(kind) and kind.unit == "us":
        return "TIMESTAMP"
    if is_nested(kind):
        return _nested_name(kind)
    if at.is_null(kind):
        raise OpenTypeError("a type")
    name = _NAMES.get(kind)
    if name is None:
        raise UntranslatableError(f"values of the type {kind}", _STORED)
    return name


def check_stored(schema: pa.Schema) -> None:
    """Raise UntranslatableError for a column that cannot be stored, OpenTypeError for one whose type is not known."""
    for of in schema:
        try:
            type_name(of.type)
        except OpenTypeError:
            raise OpenTypeError(f"the type of column {of.name}") from None


def is_nested(kind: pa.DataType) -> bool:
    """Return whether a type is a ROW or an ARRAY. Such values are kept and grouped by, and not compared otherwise."""
    return bool(at.is_struct(kind) or at.is_list(kind))


def _nested_name(kind: pa.DataType) -> str:
    inside = [kind.value_type] if at.is_list(kind) else [of.type for of in kind]
    if any(at.is_floating(one) or (at.is_timestamp(one) and one.tz) for one in inside):
        # there are two zeros in it, or a time whose zone DuckDB does not keep
        raise UntranslatableError(f"values of the type {kind}", _TAKE_PARTS)
    if at.is_list(kind):
        return f"{type_name(kind.value_type)}[]"
    fields = ", ".join(f"{quoted_name(of.name)} {type_name(of.type)}" for of in kind)
    return f"STRUCT({fields})"


def quoted_name(name: str) -> str:
    """Write the name of a field."""
    return '"' + name.replace('"', '""') + '"'


def storage_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which DuckDB gets and gives a column: without a time zone."""
    return pa.timestamp("us") if at.is_timestamp(kind) else kind


def normalized(sql: str, kind: pa.DataType) -> str:
    """Write a value with one zero, as Spark groups by it."""
    if not at.is_floating(kind):
        return sql
    return f"CASE WHEN {sql} = 0 THEN {cast_text('0', kind)} ELSE {sql} END"


def with_one_zero(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values with one zero, as `normalized` writes it."""
    if not at.is_floating(values.type):
        return values
    zero = pa.scalar(0.0, values.type)
    return pc.if_else(pc.equal(values, zero), zero, values)


def cast_text(sql: str, kind: pa.DataType) -> str:
    """Write a cast."""
    return f"CAST({sql} AS {type_name(kind)})"


def text_literal(text: str) -> str:
    """Write a text."""
    if "\0" in text:
        raise UntranslatableError("a text with a zero byte")
    return "'" + text.replace("'", "''") + "'"


def timestamp_text(micros: int) -> str:
    """Write an instant, in microseconds since the epoch, as the TIMESTAMP of its time in UTC."""
    return f"make_timestamp({micros})"


# --- tables ---


class BucketTables:
    """Tables of one run of an operator, in the process's DuckDB; they are gone when the block ends."""

    def __init__(self) -> None:
        self._tables: list[str] = []
        self._named: dict[str, str] = {}
        self._registered: list[str] = []
        self._duckdb = process_duckdb()
        self._is_large = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._tables:
            self._duckdb.execute(f"DROP TABLE IF EXISTS {name}")
        for name in self._registered:
            self._duckdb.unregister(name)

    def give(self, name: str, rows: pa.Table) -> None:
        """Make rows of Arrow a table; times are those of UTC."""
        columns = [column.cast(storage_type(column.type)) for column in rows.columns]
        names = [f"c{n}" for n in range(len(columns))]
        if not columns:
            columns, names = [pa.nulls(rows.num_rows)], ["none"]
        self._duckdb.register(name, pa.Table.from_arrays(columns, names=names))
        self._registered.append(name)
        self._is_large |= is_large(rows)

    def create(self, name: str, query: str) -> None:
        """Make a table of the rows of a query."""
        self._tables.append(name)
        text = f"CREATE OR REPLACE TEMP TABLE {name} AS {self._with(query)}"
        ((count,),) = self._duckdb.execute(text).fetchall()
        self._is_large |= count > MANY_ROWS

    def name(self, name: str, query: str) -> None:
        """Name a query, which runs wherever it is read: as text, for a view costs two statements, a table more."""
        self._named[name] = query

    def rows(self, query: str, *, most: int = 0) -> pa.Table:
        """Return the rows of a query. `most`: so many may come of a join, which has more than its inputs."""
        are_many = self._is_large or most > MANY_ROWS
        return fetched(self._duckdb, self._with(query), is_large=are_many)

    def value(self, query: str) -> int | None:
        """Return the only value of a query."""
        ((found,),) = self._duckdb.execute(self._with(query)).fetchall()
        value: int | None = found
        return value

    def _with(self, query: str) -> str:
        """Write a query with the named ones that it reads."""
        found: list[str] = []
        texts = query
        for name, text in reversed(self._named.items()):
            if name in texts:
                found.insert(0, f"{name} AS ({text})")
                texts += text
        return f"WITH {listed(found)} {query}" if found else query


def _spill_folder() -> str:
    return str(local_folder() / f"penstock-spill-{os.getpid()}")


def positions_of(rows: pa.Table) -> pa.Array:
    """Return the positions of rows, from 0."""
    return pa.array(np.arange(rows.num_rows, dtype=np.int64))


def in_order(rows: pa.Table, column: int) -> pa.Table:
    """Return rows sorted by a column; those that are not held in memory are sorted on disk, too."""
    if not is_large(rows):
        return rows.take(pc.sort_indices(rows.column(column)))
    return _sorted(rows, f"c{column}")


def sorted_by_all(rows: pa.Table) -> pa.Table:
    """Return rows sorted by all columns."""
    return _sorted(rows, "ALL")


def _sorted(rows: pa.Table, order: str) -> pa.Table:
    with BucketTables() as tables:
        tables.give("unsorted", rows)
        return typed(tables.rows(f"SELECT * FROM unsorted ORDER BY {order}"), rows.schema)


def typed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows of DuckDB in the types of `schema`, by position."""
    columns = [
        column.cast(storage_type(of.type)).cast(of.type)
        for column, of in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def listed(texts: Iterable[str]) -> str:
    """Write a list of columns."""
    return ", ".join(texts)


# --- stored rows, and results ---


_MOST_LAYOUTS = 256
"""Layouts whose columns are known: those of the queries of a process. Each is asked for several times a bucket."""


@lru_cache(_MOST_LAYOUTS)
def positional(layout: KeyedLayout) -> pa.Schema:
    """Return the columns of stored rows as c0, c1, ..., as they are in files and caches: times in UTC.

    With the names and types that they have in the layout, which files say.
    """
    found = list(layout.schema)
    schema = pa.schema([pa.field(f"c{n}", storage_type(of.type)) for n, of in enumerate(found)])
    return with_columns(schema, [(of.name, type_name(of.type)) for of in found])


def folded(table: str, layout: KeyedLayout, batch: KeyedBatch) -> str:
    """Write the stored rows added up: `dims`, s0, s1, ..., their `time`, and whether they are `alive`."""
    dims = [f"c{n}" for n in range(len(layout.dims))]
    values = list(enumerate(layout.values))
    sums = [total(f"c{len(dims) + n}", of.type, f"s{n}") for n, of in values]
    newest = f"MAX(c{len(dims) + len(values)}) AS time"
    groups = f"GROUP BY {listed(dims)}" if dims else ""
    rows = f"SELECT {listed([*dims, *sums, newest])} FROM {table} {groups}"
    alive = f"s{len(values) - 1} > 0"
    if layout.time_to_live_ms:
        if not layout.by_row and set(layout.expires_by) != set(layout.names):
            key = [f"c{layout.names.index(name)}" for name in layout.expires_by]
            over = f"OVER ({'PARTITION BY ' + listed(key) if key else ''})"
            rows = f"SELECT * REPLACE (MAX(time) {over} AS time) FROM ({rows})"
        alive += f" AND time > {batch.now_ms - layout.time_to_live_ms}"
    return f"SELECT *, coalesce({alive}, FALSE) AS alive FROM ({rows})"


def total(column: str, kind: pa.DataType, name: str) -> str:
    """Write a sum in the type of its addends; 0 of none."""
    return f"{cast_text(f'coalesce(SUM({column}), 0)', kind)} AS {name}"


def difference(
    tables: BucketTables,
    result: Sequence[pa.Field],
    key: Sequence[int] | None,
    *,
    inserts_only: bool,
    unchanged: bool,
) -> pa.Table:
    """Return the changes from the rows of the table `results` with the sign -1 to those with 1, ROW_KIND last.

    `key` are the places of the columns that identify a row: one that is there before and after emits -U and +U, in
    this order; without a key deletions come first. `unchanged`: also of rows that stay the same.
    """
    columns = [f"c{n}" for n in range(len(result))]
    rows = f"SELECT {listed([*columns, 'sign'])} FROM results"
    if not unchanged:
        rows = (
            f"SELECT {listed([*columns, 'SUM(sign)::BIGINT AS sign'])} FROM results "
            "GROUP BY ALL HAVING SUM(sign) <> 0"
        )
    if key is None or inserts_only:
        updated, order = "FALSE", ["sign", *columns]
    else:
        names = [f"c{n}" for n in key]
        over = f"OVER ({'PARTITION BY ' + listed(names) if names else ''})"
        updated = f"MIN(sign) {over} < 0 AND MAX(sign) {over} > 0"
        order = [*names, "sign", *columns]
    kind = (
        f"CASE WHEN sign > 0 AND updated THEN {int(RowKind.UPDATE_AFTER)} "
        f"WHEN sign > 0 THEN {int(RowKind.INSERT)} "
        f"WHEN updated THEN {int(RowKind.UPDATE_BEFORE)} ELSE {int(RowKind.DELETE)} END::TINYINT"
    )
    found = tables.rows(
        f"SELECT {listed([*columns, kind])} FROM "
        f"(SELECT *, {updated} AS updated, unnest(range(abs(sign))) AS copy FROM ({rows})) "
        f"ORDER BY {listed(order)}"
    )
    return typed(found, pa.schema([*result, pa.field(ROW_KIND, pa.int8())]))


# --- groups ---

_MOST_TEXT = 1 << 30
"""Bytes of the texts of an array: those of a bucket in a batch may be more than its offsets reach, which is 2 GiB."""


def numbered_groups(keys: pa.Table) -> tuple[pa.Table, npt.NDArray[np.int32]]:
    """Return the distinct keys of rows in the order of their values, and of each row the number of its key.

    Texts of the keys are in one array each, whose offsets have 64 bits (`keys_of` gives others). No array has those of
    all rows: Arrow encodes them chunk by chunk.
    """
    values: list[pa.Array] = []
    codes: list[npt.NDArray[np.int32]] = []
    numbers = np.zeros(keys.num_rows, dtype=np.int64)
    for column in keys.columns:
        encoded = column.cast(_wide(column.type)).dictionary_encode(null_encoding="encode")
        values.append(encoded.chunk(0).dictionary)  # that of all chunks
        codes.append(np.concatenate([one.indices.to_numpy() for one in encoded.chunks]))
        both = numbers * len(values[-1]) + codes[-1]
        numbers = pa.array(both).dictionary_encode().indices.to_numpy().astype(np.int64)
    # of positions that are given one number the last one stays: the first row of each key
    first = np.empty(int(numbers.max()) + 1, dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    found = pa.Table.from_arrays(
        [of.take(pa.array(code[first])) for of, code in zip(values, codes, strict=True)],
        names=keys.column_names,
    )
    order = pc.sort_indices(found, sort_keys=[(name, "ascending") for name in keys.column_names])
    ranks = np.empty(len(order), dtype=np.int32)
    ranks[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
    return found.take(order), ranks[numbers]


def keys_of(
    groups: pa.Table, numbers: pa.Array | pa.ChunkedArray, key: Sequence[pa.Field]
) -> pa.Table:
    """Return the keys of groups in their types, in chunks whose texts have offsets of 32 bits."""
    texts = [of for of in groups.columns if of.type in (pa.large_string(), pa.large_binary())]
    longest = sum(pc.max(pc.binary_length(of)).as_py() or 0 for of in texts)
    rows = max(1, _MOST_TEXT // max(1, longest))
    parts = [
        typed(groups.take(numbers.slice(start, rows)), pa.schema(key))
        for start in range(0, len(numbers), rows)
    ]
    return pa.concat_tables(parts) if parts else pa.schema(key).empty_table()


def _wide(kind: pa.DataType) -> pa.DataType:
    """Return the type of texts with offsets of 64 bits, any other type as it is."""
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(kind, kind)


def numbers_to(count: int) -> pa.Array:
    """Return the numbers of so many groups."""
    return pa.array(np.arange(count, dtype=np.int32))
