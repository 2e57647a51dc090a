"""The statements that change functions, secrets, materialized tables and rows.

Tells which of them start or end the refresh of a materialized table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.catalog.errors import Span
from penstock.catalog.model.function import Function
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import RefreshMode, Table

if TYPE_CHECKING:
    from penstock.sql.statements.statement import InsertInto, Statement  # noqa: TC004 - it imports this module

__all__ = [
    "AlterFunction",
    "AlterSecret",
    "CallProcedure",
    "ChangeMaterializedTable",
    "CreateFunction",
    "CreateMaterializedTable",
    "CreateSecret",
    "DeleteRows",
    "DropFunction",
    "DropMaterializedTable",
    "DropSecret",
    "MaterializedChange",
    "TruncateTable",
    "UpdateRows",
    "ends_refresh_of",
    "starts_refresh",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFunction:
    """CREATE [TEMPORARY [SYSTEM]] FUNCTION [IF NOT EXISTS] name AS 'code' [LANGUAGE ...] [USING JAR 'path', ...]."""

    function: Function
    if_not_exists: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterFunction:
    """ALTER [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] name AS 'code' [LANGUAGE ...]."""

    function: Function
    if_exists: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFunction:
    """DROP [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] name."""

    identifier: Identifier
    temporary: bool = False
    system: bool = False
    if_exists: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSecret:
    """CREATE SECRET [IF NOT EXISTS] name AS 'value' (Penstock's own)."""

    name: str
    value: str = field(repr=False)
    if_not_exists: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterSecret:
    """ALTER SECRET name AS 'value' (Penstock's own)."""

    name: str
    value: str = field(repr=False)
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropSecret:
    """DROP SECRET [IF EXISTS] name (Penstock's own)."""

    name: str
    if_exists: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRows:
    """UPDATE table SET column = expression, ... [WHERE condition]; expressions are over the table's columns."""

    table: Identifier
    assignments: tuple[tuple[str, exp.Expr], ...]
    condition: exp.Expr | None = None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRows:
    """DELETE FROM table [WHERE condition]."""

    table: Identifier
    condition: exp.Expr | None = None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTable:
    """TRUNCATE TABLE table: removes every row, and keeps the table."""

    table: Identifier
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProcedure:
    """CALL catalog.database.procedure(arguments): a procedure of one of Spark's catalogs. `call` is its Spark SQL."""

    name: str
    call: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMaterializedTable:
    """CREATE [OR ALTER] MATERIALIZED TABLE name ... AS query: a table, and the query that keeps it filled.

    `insert` is that query as an INSERT into the table.
    """

    table: Table
    insert: InsertInto
    or_alter: bool = False
    span: Span = field(compare=False)


class MaterializedChange(StrEnum):
    """What ALTER MATERIALIZED TABLE asks for."""

    SUSPEND = "SUSPEND"
    RESUME = "RESUME"
    REFRESH = "REFRESH"
    AS = "AS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeMaterializedTable:
    """ALTER MATERIALIZED TABLE name SUSPEND | RESUME | REFRESH | AS query. `table` is as it will be.

    `insert` is what fills the table, once more or from now on; None for SUSPEND.
    """

    change: MaterializedChange
    table: Table
    insert: InsertInto | None = None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropMaterializedTable:
    """DROP MATERIALIZED TABLE [IF EXISTS] name."""

    identifier: Identifier
    if_exists: bool = False
    span: Span = field(compare=False)


def starts_refresh(statement: Statement) -> bool:
    """Tell whether a statement has a table refreshed from time to time: CREATE and RESUME of a FULL one."""
    match statement:
        case CreateMaterializedTable(table=table):
            kept = table.materialization
        case ChangeMaterializedTable(change=MaterializedChange.RESUME, table=table):
            kept = table.materialization
        case _:
            return False
    return kept is not None and kept.refresh_mode is RefreshMode.FULL


def ends_refresh_of(statement: Statement) -> Identifier | None:
    """Give the table that a statement has no longer kept fresh: SUSPEND and DROP."""
    match statement:
        case ChangeMaterializedTable(change=MaterializedChange.SUSPEND, table=table):
            return table.identifier
        case DropMaterializedTable(identifier=identifier):
            return identifier
    return None
