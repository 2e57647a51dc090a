"""Which statements have a materialized table kept fresh from then on, and which have it kept no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.catalog.materialization import RefreshMode
from penstock.sql.change_statements import (
    ChangeMaterializedTable,
    CreateMaterializedTable,
    DropMaterializedTable,
    MaterializedChange,
)

if TYPE_CHECKING:
    from penstock.catalog.identifier import Identifier
    from penstock.sql.statements import Statement

__all__ = ["is_refreshed", "unkept"]


def is_refreshed(statement: Statement) -> bool:
    """Tell whether a statement has a table refreshed from time to time: CREATE and RESUME of a FULL one."""
    match statement:
        case CreateMaterializedTable(table=table):
            kept = table.materialization
        case ChangeMaterializedTable(change=MaterializedChange.RESUME, table=table):
            kept = table.materialization
        case _:
            return False
    return kept is not None and kept.refresh_mode is RefreshMode.FULL


def unkept(statement: Statement) -> Identifier | None:
    """Give the table that a statement has no longer kept fresh: SUSPEND and DROP."""
    match statement:
        case ChangeMaterializedTable(change=MaterializedChange.SUSPEND, table=table):
            return table.identifier
        case DropMaterializedTable(identifier=identifier):
            return identifier
    return None
