"""The SQL that selects the rows of lookup keys: the types in which columns are compared, and the bound values.
Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Dialect

from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.jdbc.address import Backend
from penstock.connector.jdbc.scan import select_item

__all__ = [
    "DatabaseColumn",
    "KeyQuery",
    "compared_type",
    "is_plain",
    "key_queries",
    "key_texts",
    "possible",
    "types_text",
]

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
