"""The SQL that asks a database for the rows of keys, and the values that are bound to it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Dialect

from penstock.catalog import types as t
from penstock.catalog.schema import PhysicalColumn
from penstock.connector.jdbc.address import Backend
from penstock.connector.jdbc.scan import select_item

__all__ = ["KeyQuery", "key_queries", "key_texts", "possible", "types_text"]

_WHOLE = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
_ARRAYS: dict[type[t.LogicalType], str] = {
    **dict.fromkeys(_WHOLE, "bigint[]"),
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
    """Tell which keys may be in a database: not those with a NUL in a text, or outside of the years 1 to 9999.

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
    """Give PostgreSQL's query for no rows, which tells the types of columns."""
    quoted = dialect.identifier_preparer
    names = ", ".join(quoted.quote(column.name) for column in columns)
    place = f"{quoted.quote(database_schema)}." if database_schema else ""
    return f"SELECT {names} FROM {place}{quoted.quote(name)} LIMIT 0"  # noqa: S608  names are quoted


def key_queries(
    select: str,
    keys: Sequence[PhysicalColumn],
    texts: Sequence[Sequence[str]],
    *,
    plain: Collection[str],
    backend: Backend,
    dialect: Dialect,
) -> Iterator[KeyQuery]:
    """Give the queries for all rows of some keys.

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
    return [int(text) for text in texts] if isinstance(kind, _WHOLE) else texts
