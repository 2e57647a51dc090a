"""In which type a lookup compares a column of a database, and where the database can compare the column as it is.

The database narrows down, and Arrow decides: rows that come for a key are compared once more, in the type of the join.
So the database may find more than that, and never less. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from penstock.catalog import types as t
from penstock.connector.jdbc.address import Backend

__all__ = ["ColumnThere", "compared_type", "is_plain"]

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
class ColumnThere:
    """A column's type in the database: PostgreSQL's OID and digits after the point, or SQLite's words."""

    oid: int | None = None
    scale: int | None = None
    words: str = ""


def compared_type(
    declared: t.LogicalType, given: t.LogicalType, backend: Backend
) -> t.LogicalType | None:
    """Give the type in which Spark compares values of two types; None where the database cannot be asked for it.

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


def is_plain(declared: t.LogicalType, there: ColumnThere, backend: Backend) -> bool:
    """Tell whether the database may compare a column as it is, for which it may have an index.

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
    """Tell by SQLite's rules whether a column turns what is put into it to text."""
    upper = words.upper()
    return "INT" not in upper and any(part in upper for part in ("CHAR", "CLOB", "TEXT"))
