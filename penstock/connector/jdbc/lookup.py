"""Look rows up in a database by their keys, in a task of Spark's: asks for those that are not remembered.

With `lookup.cache` = PARTIAL rows are remembered in the worker process, from batch to batch, for each lookup of a
query; else until the end of the task, so that a batch asks for a key once in each of its tasks. The SQL of keys has
the types in which columns are compared, and bound values.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection, Dialect

from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.arrow import arrow_type
from penstock.connector.jdbc.address import Backend
from penstock.connector.jdbc.database import JdbcDatabase, Reads
from penstock.connector.jdbc.scan import read_batches, select_item, select_text
from penstock.connector.jdbc.settings import JdbcTable, LookupSettings
from penstock.connector.lookup.cache import Ask, LookupCache, Wait, rows_with_retry
from penstock.connector.lookup.contract import CacheLimits, LookupKey, MissRetry
from penstock.connector.lookup.keyed_rows import (
    NONE,
    DistinctKeys,
    Numbers,
    RowRanges,
    distinct_keys,
    group_rows,
    key_numbers,
    rows_as_lists,
)

_WHOLE = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
"""From narrow to wide."""

_TEXTS = (t.CharType, t.VarCharType)

_SAME = (t.BooleanType, t.DateType, t.TimestampType, t.TimestampLtzType)
"""Whose values are the same under all types of the class: Spark keeps microseconds of each."""

_STRING = t.VarCharType(length=t.MAX_LENGTH)

_LONGEST = 38
"""Digits of a DECIMAL, at most."""

_KEPT_BY_SQLITE = (*_WHOLE, *_TEXTS, t.DateType)
"""What SQLite has one form of; of the others a text is read that may be spelled in several ways."""

# OIDs of PostgreSQL's types (pg_type.dat), which never change
_PLAIN: tuple[tuple[tuple[type[t.LogicalType], ...], frozenset[int]], ...] = (
    (_WHOLE, frozenset({20, 21, 23})),  # int8, int2, int4
    (_TEXTS, frozenset({25, 1043})),  # text, varchar; char(n) has blanks that count for nothing
    ((t.BooleanType,), frozenset({16})),
    ((t.DateType,), frozenset({1082})),
    ((t.TimestampType,), frozenset({1114})),
    ((t.TimestampLtzType,), frozenset({1184})),
    ((t.DecimalType,), frozenset({1700})),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseColumn:
    """A column's type in the database: PostgreSQL's OID and digits after the point, or SQLite's words."""

    oid: int | None = None
    scale: int | None = None
    words: str = ""


def compared_type(
    declared: t.LogicalType, given: t.LogicalType, backend: Backend
) -> t.LogicalType | None:
    """Return the type in which Spark compares values of two types; None where the database cannot be asked for it.

    That is where values come that the database has not (a DOUBLE's NaN), or has in several forms.
    """
    kinds = (type(declared), type(given))
    if backend is Backend.SQLITE and not all(issubclass(kind, _KEPT_BY_SQLITE) for kind in kinds):
        return None
    found: t.LogicalType | None = None
    if _all(kinds, _WHOLE):
        found = max((declared, given), key=lambda kind: _WHOLE.index(type(kind)))
    elif _all(kinds, _TEXTS):
        found = _STRING
    elif kinds[0] is kinds[1] and issubclass(kinds[0], _SAME):
        found = declared
    elif isinstance(declared, t.DecimalType) and isinstance(given, t.DecimalType):
        found = _wider(declared, given)
    return None if found is None else replace(found, nullable=True)


def is_plain(declared: t.LogicalType, there: DatabaseColumn, backend: Backend) -> bool:
    """Return whether the database may compare a column as it is, for which it may have an index.

    Else it compares what the column is read as: the type there is another one than that of the definition.
    """
    if backend is Backend.SQLITE:
        return isinstance(declared, _WHOLE) or _is_sqlite_text(there.words)
    if isinstance(declared, t.DecimalType) and (
        there.scale is None or there.scale > declared.scale
    ):
        return False  # read rounded
    return any(isinstance(declared, kinds) and there.oid in oids for kinds, oids in _PLAIN)


def _all(kinds: Iterable[type], among: tuple[type, ...]) -> bool:
    return all(issubclass(kind, among) for kind in kinds)


def _wider(one: t.DecimalType, other: t.DecimalType) -> t.DecimalType | None:
    scale = max(one.scale, other.scale)
    digits = max(one.precision - one.scale, other.precision - other.scale) + scale
    return t.DecimalType(precision=digits, scale=scale) if digits <= _LONGEST else None


def _is_sqlite_text(words: str) -> bool:
    """Return whether, by SQLite's rules, a column converts what is stored in it to text."""
    upper = words.upper()
    return "INT" not in upper and any(part in upper for part in ("CHAR", "CLOB", "TEXT"))


_INTEGERS = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)

_ARRAYS: dict[type[t.LogicalType], str] = {
    **dict.fromkeys(_INTEGERS, "bigint[]"),
    t.CharType: "text[]",
    t.VarCharType: "text[]",
    t.BooleanType: "boolean[]",
    t.DateType: "date[]",
    t.TimestampType: "timestamp[]",
    t.TimestampLtzType: "timestamptz[]",
    t.DecimalType: "numeric[]",
}

_AT_ONCE = {Backend.POSTGRESQL: 10_000, Backend.SQLITE: 500}
"""Keys of a query. PostgreSQL gets arrays; SQLite a value for each part, of which it takes 32,766."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyQuery:
    """A query for the rows of some keys: its text, and what is bound to its places."""

    text: str
    values: tuple[object, ...]


def possible(parts: Sequence[pa.Array]) -> pa.BooleanArray:
    """Return which keys may be in a database: not those with a NUL in a text, or outside of the years 1 to 9999.

    PostgreSQL refuses the first; the others it has, in a form that is no value of ours.
    """
    found = pa.array([True] * len(parts[0]), pa.bool_())
    for part in parts:
        if pa.types.is_string(part.type):
            found = pc.and_(found, pc.invert(pc.match_substring(part, "\0")))
        elif pa.types.is_temporal(part.type):
            year = pc.year(part)
            found = pc.and_(found, pc.and_(pc.greater_equal(year, 1), pc.less_equal(year, 9999)))
    return found


def key_texts(parts: Sequence[pa.Array]) -> list[list[str]]:
    """Write the parts of keys as texts that the database reads: a list for each part."""
    return [part.cast(pa.string()).to_pylist() for part in parts]


def types_text(
    columns: Sequence[PhysicalColumn], name: str, database_schema: str | None, dialect: Dialect
) -> str:
    """Return PostgreSQL's query for no rows, which has the types of columns."""
    quoted = dialect.identifier_preparer
    names = ", ".join(quoted.quote(column.name) for column in columns)
    prefix = f"{quoted.quote(database_schema)}." if database_schema else ""
    return f"SELECT {names} FROM {prefix}{quoted.quote(name)} LIMIT 0"  # noqa: S608  names are quoted


def key_queries(
    select: str,
    keys: Sequence[PhysicalColumn],
    texts: Sequence[Sequence[str]],
    *,
    plain: Collection[str],
    backend: Backend,
    dialect: Dialect,
) -> Iterator[KeyQuery]:
    """Return the queries for all rows of some keys.

    `select` reads the whole table (`select_text`); `plain` are the columns that are compared as they are.
    """
    tested = [_tested(column, plain, backend, dialect) for column in keys]
    size = max(1, _AT_ONCE[backend] // (len(keys) if backend is Backend.SQLITE else 1))
    for start in range(0, len(texts[0]), size):
        some = [list(part[start : start + size]) for part in texts]
        match backend:
            case Backend.POSTGRESQL:
                arrays = [f"CAST(%s AS {_ARRAYS[type(column.type)]})" for column in keys]
                test = (
                    f"{tested[0]} = ANY({arrays[0]})"
                    if len(keys) == 1
                    else f"({', '.join(tested)}) IN (SELECT * FROM unnest({', '.join(arrays)}))"  # noqa: S608
                )
                yield KeyQuery(text=f"{select} WHERE {test}", values=tuple(some))
            case Backend.SQLITE:
                marks = f"({', '.join('?' * len(keys))})"
                rows = ", ".join([marks] * len(some[0]))
                bound = [_bound(part, column.type) for part, column in zip(some, keys, strict=True)]
                yield KeyQuery(
                    text=f"{select} WHERE ({', '.join(tested)}) IN (VALUES {rows})",
                    values=tuple(value for row in zip(*bound, strict=True) for value in row),
                )
            case _:
                assert_never(backend)


def _tested(
    column: PhysicalColumn, plain: Collection[str], backend: Backend, dialect: Dialect
) -> str:
    quoted = dialect.identifier_preparer.quote(column.name)
    return quoted if column.name in plain else select_item(column, quoted, backend)


def _bound(texts: Sequence[str], kind: t.LogicalType) -> Sequence[object]:
    return [int(text) for text in texts] if isinstance(kind, _INTEGERS) else texts


_SQLITES_TYPES = "SELECT name, type FROM pragma_table_info(?)"


class KeyReader:
    """Reads `columns` of the rows of `keys`; a batch of Arrow has `rows_at_once` rows at most."""

    def __init__(
        self,
        table: JdbcTable,
        keys: Sequence[LookupKey],
        columns: Sequence[PhysicalColumn],
        rows_at_once: int,
        reads: Reads,
    ) -> None:
        self._table = table
        self._types = [arrow_type(key.type) for key in keys]
        self._names = [column.name for column in columns]
        by_name = {column.name: column for column in table.schema.physical}
        self._keys = [by_name[key.column] for key in keys]
        self._columns = [*columns, *(c for c in self._keys if c.name not in set(self._names))]
        self._rows_at_once = rows_at_once
        self._reads = reads
        self._plain: frozenset[str] | None = None

    def rows_of(self, keys: Sequence[pa.Array]) -> tuple[pa.Table, Numbers]:
        """Read the rows of distinct keys, an array for each part; with the number of each row's key, or -1.

        Raises QueryFailedError, ConfigError; BadRecordError for a value that is not of its type.
        """
        there = np.flatnonzero(possible(keys).to_numpy(zero_copy_only=False))
        asked = [part.take(pa.array(there)) for part in keys]
        batches: list[pa.RecordBatch] = []
        for query in self._queries(asked):
            batches += self._reads.run(partial(self._read, query))
        schema = pa.schema([(column.name, arrow_type(column.type)) for column in self._columns])
        rows = pa.Table.from_batches(batches, schema).combine_chunks()
        numbers = key_numbers(self._keys_of(rows), asked)
        among = numbers != NONE
        numbers[among] = there[numbers[among]]
        return rows.select(self._names), numbers

    def _queries(self, keys: Sequence[pa.Array]) -> list[KeyQuery]:
        table, dialect = self._table, self._reads.engine.dialect
        backend = table.address.backend
        if self._plain is None:
            self._plain = self._reads.run(self._plain_keys)
        select = select_text(
            self._columns, table.name, table.database_schema, None, backend=backend, dialect=dialect
        )
        texts, plain = key_texts(keys), self._plain
        return list(
            key_queries(select, self._keys, texts, plain=plain, backend=backend, dialect=dialect)
        )

    def _read(self, query: KeyQuery, connection: Connection) -> list[pa.RecordBatch]:
        found = read_batches(
            connection,
            query.text,
            self._columns,
            backend=self._table.address.backend,
            rows_at_once=self._rows_at_once,
            shown=self._table.shown,
            values=query.values,
        )
        return list(found)

    def _keys_of(self, rows: pa.Table) -> list[pa.Array]:
        """Return the keys of rows, in the types in which they are compared."""
        found = []
        for column, kind in zip(self._keys, self._types, strict=True):
            chunks = rows.column(column.name).cast(kind).chunks
            found.append(pa.concat_arrays(chunks) if chunks else pa.array([], kind))
        return found

    def _plain_keys(self, connection: Connection) -> frozenset[str]:
        """Find the columns that the database may compare as they are."""
        there = self._columns_there(connection)
        backend = self._table.address.backend
        return frozenset(
            column.name
            for column in self._keys
            if is_plain(column.type, there.get(column.name, DatabaseColumn()), backend)
        )

    def _columns_there(self, connection: Connection) -> dict[str, DatabaseColumn]:
        table = self._table
        match table.address.backend:
            case Backend.POSTGRESQL:
                text = types_text(self._keys, table.name, table.database_schema, connection.dialect)
                cursor = connection.exec_driver_sql(text).cursor
                assert cursor is not None, "a query gives columns"
                return {
                    column.name: DatabaseColumn(oid=found.type_code, scale=found.scale)  # type: ignore[attr-defined]
                    for column, found in zip(self._keys, cursor.description, strict=True)
                }
            case Backend.SQLITE:
                rows = connection.exec_driver_sql(_SQLITES_TYPES, (table.name,))
                return {name: DatabaseColumn(words=words) for name, words in rows}
            case _:
                assert_never(table.address.backend)


OF_A_TASK = CacheLimits(max_rows=100_000)
"""What a task remembers where there is no cache."""

MOST_CACHES = 16
"""Lookups of one worker process; queries that have ended leave theirs behind."""

Clock = Callable[[], int]
"""Milliseconds from some moment on."""


def _wait(seconds: float) -> None:
    Event().wait(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcLookup:
    """Returns the rows of keys (`Lookup`). `name` is unique, so that its cache is found again."""

    name: str
    table: JdbcTable
    settings: LookupSettings
    keys: tuple[LookupKey, ...]
    columns: tuple[PhysicalColumn, ...]
    rows_at_once: int
    retry: MissRetry | None = None

    def rows(self, parts: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Return the rows of each key, batch by batch (`Lookup`)."""
        return self.rows_by(parts, _cache_of(self), lambda: time.monotonic_ns() // 1_000_000)

    def rows_by(
        self,
        parts: Iterator[tuple[pa.Array, ...]],
        cache: LookupCache,
        clock: Clock,
        wait: Wait = _wait,
    ) -> Iterator[pa.Array]:
        """Return the rows of each key; keys that `cache` does not hold are queried, and keys without rows again."""
        database = JdbcDatabase.of(self.table, retries=self.settings.retries)
        types = [arrow_type(key.type) for key in self.keys]
        with closing(database.reads()) as reads:
            reader = KeyReader(self.table, self.keys, self.columns, self.rows_at_once, reads)
            ask = partial(rows_with_retry, reader.rows_of, retry=self.retry, wait=wait)
            for part in parts:
                typed = [column.cast(kind) for column, kind in zip(part, types, strict=True)]
                yield _answer(distinct_keys(typed), cache, ask, clock())

    def new_cache(self) -> LookupCache:
        """Make the cache that the options ask for, empty."""
        schema = pa.schema([(column.name, arrow_type(column.type)) for column in self.columns])
        return LookupCache(self.settings.cache or OF_A_TASK, schema)


def _answer(asked: DistinctKeys, cache: LookupCache, ask: Ask, now_ms: int) -> pa.ListArray:
    names: Sequence[Hashable] = list(zip(*key_texts(asked.columns), strict=True))

    def fetch(unknown: Numbers) -> tuple[pa.Table, RowRanges]:
        rows, numbers = ask([part.take(pa.array(unknown)) for part in asked.columns])
        return group_rows(rows, numbers, len(unknown))

    rows, ranges = cache.rows_of(names, fetch, now_ms)
    return rows_as_lists(rows, ranges, asked.of_row)


_CACHES: OrderedDict[str, LookupCache] = OrderedDict()
"""Of this worker process, which runs one task at a time; those that were used last stand last."""


def _cache_of(lookup: JdbcLookup) -> LookupCache:
    if lookup.settings.cache is None:
        return lookup.new_cache()
    if lookup.name not in _CACHES:
        _CACHES[lookup.name] = lookup.new_cache()
    _CACHES.move_to_end(lookup.name)
    while len(_CACHES) > MOST_CACHES:
        _CACHES.popitem(last=False)
    return _CACHES[lookup.name]
