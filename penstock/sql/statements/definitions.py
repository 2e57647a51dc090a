"""The statements that define or change catalogs, databases, tables, views, functions, secrets; and CALL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from penstock.catalog.errors import DefinitionError, InputError, Span
from penstock.catalog.model.function import Function
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import CatalogDescriptor, DatabaseDescriptor
from penstock.catalog.model.table import Table, View
from penstock.sql.errors.locate import position_of_option
from penstock.sql.statements.dml import InsertInto


def locate_option(
    error: InputError,
    option_spans: Mapping[str, Span],
    statement: Span,
    column_spans: Mapping[str, Span] = MappingProxyType({}),
) -> InputError:
    """Add to an error the position of the column it is about, of the option that it names, or of the statement."""
    if error.span is None:
        column = error.column if isinstance(error, DefinitionError) else None
        of_column = column_spans.get(column) if column is not None else None
        of_option = None if column is not None else position_of_option(error.message, option_spans)
        error.span = of_column or of_option or statement
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """ALTER TABLE [IF EXISTS] name ADD | MODIFY | DROP | RENAME | SET | RESET ...: one definition becomes another.

    `before` and `after` are None for a missing table under IF EXISTS.
    """

    identifier: Identifier
    before: Table | None
    after: Table | None
    option_spans: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    column_spans: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    span: Span = field(compare=False)

    def locate(self, error: InputError) -> InputError:
        """Add to an error about this table the position of its column, of the option that it names,
        or of the statement.
        """
        return locate_option(error, self.option_spans, self.span, self.column_spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterView:
    """ALTER VIEW name RENAME TO name, ALTER VIEW name AS query."""

    before: View
    after: View
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase:
    """CREATE DATABASE [IF NOT EXISTS] [catalog.]name [COMMENT] [WITH (options)]."""

    database: DatabaseDescriptor
    if_not_exists: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterDatabase:
    """ALTER DATABASE [catalog.]name SET (options)."""

    before: DatabaseDescriptor
    after: DatabaseDescriptor
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabase:
    """DROP DATABASE [IF EXISTS] [catalog.]name [RESTRICT | CASCADE]."""

    catalog: str
    name: str
    if_exists: bool = False
    cascade: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCatalog:
    """CREATE CATALOG [IF NOT EXISTS] name [COMMENT] WITH ('type' = 'penstock' | 'generic_in_memory', ...)."""

    catalog: CatalogDescriptor
    if_not_exists: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterCatalog:
    """ALTER CATALOG name SET (options) | RESET (keys) | COMMENT 'text'."""

    before: CatalogDescriptor
    after: CatalogDescriptor
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropCatalog:
    """DROP CATALOG [IF EXISTS] name."""

    name: str
    if_exists: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreateCatalog:
    """SHOW CREATE CATALOG name."""

    name: str
    span: Span = field(compare=False)


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
