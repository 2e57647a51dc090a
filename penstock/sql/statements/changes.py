"""The statements that change functions, secrets and materialized tables, and CALL."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.catalog.errors import Span
from penstock.catalog.model.function import Function
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table
from penstock.sql.statements.dml import InsertInto

__all__ = [
    "AlterFunction",
    "AlterSecret",
    "CallProcedure",
    "ChangeMaterializedTable",
    "CreateFunction",
    "CreateMaterializedTable",
    "CreateSecret",
    "DropFunction",
    "DropMaterializedTable",
    "DropSecret",
    "MaterializedChange",
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
