"""Changes of rows: their kinds, and which kinds a source gives or a sink takes (Flink's RowKind and ChangelogMode).

Rows that are changes carry their kind in the hidden column `ROW_KIND`, an INT8 with the values of `RowKind`.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import assert_never

ROW_KIND = "__row_kind"
"""Name of the hidden column; not there where every row is an insert."""


class RowKind(IntEnum):
    """What a row says; the numbers are Flink's `RowKind.toByteValue`."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        """How Flink prints it: +I, -U, +U, -D."""
        return ("+I", "-U", "+U", "-D")[self]


class ChangelogMode(StrEnum):
    """Which kinds of rows there are.

    INSERT_ONLY: rows that stay. UPSERT: by the primary key, the newest row of a key replaces what was there
    (INSERT, UPDATE_AFTER) or says that it is gone (DELETE, of which only the key counts). ALL: also the row as it
    was before an update (UPDATE_BEFORE), and deletes with the whole row.
    """

    INSERT_ONLY = "insert-only"
    UPSERT = "upsert"
    ALL = "all"

    @property
    def kinds(self) -> frozenset[RowKind]:
        """The kinds of rows that may come."""
        match self:
            case ChangelogMode.INSERT_ONLY:
                return frozenset({RowKind.INSERT})
            case ChangelogMode.UPSERT:
                return frozenset(RowKind) - {RowKind.UPDATE_BEFORE}
            case ChangelogMode.ALL:
                return frozenset(RowKind)
            case _:
                assert_never(self)
