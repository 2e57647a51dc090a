"""Every statement of the language that Penstock runs, as a value; and the names of those it refuses.

This is the one module to read to know the language; families of statements that it lists at its end are in
definitions.py, dml.py and show.py. Names are resolved; queries are syntax trees of the dialect
`flink` (`penstock.sql.dialect`), whose nodes `source` locates in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.catalog.errors import InputError, Span
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import RefreshMode, Table, View
from penstock.sql.script.splitter import Detail, StatementText
from penstock.sql.statements.definitions import (
    AlterCatalog,
    AlterDatabase,
    AlterFunction,
    AlterSecret,
    AlterTable,
    AlterView,
    CallProcedure,
    ChangeMaterializedTable,
    CreateCatalog,
    CreateDatabase,
    CreateFunction,
    CreateMaterializedTable,
    CreateSecret,
    DropCatalog,
    DropDatabase,
    DropFunction,
    DropMaterializedTable,
    DropSecret,
    MaterializedChange,
    ShowCreateCatalog,
    locate_option,
)
from penstock.sql.statements.dml import DeleteRows, InsertInto, TruncateTable, UpdateRows
from penstock.sql.statements.show import (
    AddJar,
    DescribeCatalog,
    DescribeDatabase,
    DescribeFunction,
    DescribeJob,
    ShowList,
    StopJob,
    UseModules,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE [TEMPORARY] TABLE [IF NOT EXISTS] name (columns, watermark, key) ... WITH (options).

    `option_spans` are the places of the option keys, `column_spans` those of the columns' names, for errors that
    connectors find in them.
    """

    table: Table
    if_not_exists: bool = False
    option_spans: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    column_spans: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    span: Span = field(compare=False)

    def locate(self, error: InputError) -> InputError:
        """Add to an error about this table the position of its column, of the option that it names,
        or of the statement.
        """
        return locate_option(error, self.option_spans, self.span, self.column_spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """CREATE [TEMPORARY] VIEW [IF NOT EXISTS] name [(columns)] [COMMENT] AS query."""

    view: View
    if_not_exists: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """DROP [TEMPORARY] TABLE [IF EXISTS] name."""

    identifier: Identifier
    if_exists: bool = False
    temporary: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropView:
    """DROP [TEMPORARY] VIEW [IF EXISTS] name."""

    identifier: Identifier
    if_exists: bool = False
    temporary: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableAs:
    """CREATE TABLE [IF NOT EXISTS] name ... AS query: a table of the query's columns, and its rows.

    As in Flink, an existing table (IF NOT EXISTS) is filled too.
    """

    create: CreateTable
    insert: InsertInto
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceTableAs:
    """[CREATE OR] REPLACE TABLE name ... AS query: another definition, and the query's rows in place of the old.

    `before` is what stood there, None if nothing did, which only CREATE OR REPLACE allows.
    """

    before: Table | None
    create: CreateTable
    insert: InsertInto
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """A query on its own: SELECT, WITH, VALUES, UNION, ..."""

    query: exp.Query | exp.Values
    output: tuple[str, ...] | None = None
    source: StatementText = field(repr=False, compare=False)
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementSet:
    """EXECUTE STATEMENT SET BEGIN insert; ... END, or BEGIN STATEMENT SET; insert; ... END: INSERTs that run as one."""

    inserts: tuple[InsertInto, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """EXPLAIN [PLAN FOR | detail, ...] statement."""

    statement: Select | InsertInto | StatementSet | CreateTableAs | ReplaceTableAs
    details: tuple[Detail, ...] = ()
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOption:
    """SET 'key' = 'value'."""

    key: str
    value: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """SET on its own: shows what is set."""

    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOption:
    """RESET 'key'; all keys where `key` is None."""

    key: str | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTables:
    """SHOW TABLES | VIEWS [FROM database] [[NOT] LIKE | ILIKE 'pattern'] (% and _ as in LIKE).

    As in Flink, views are among the tables; `views_only` is SHOW VIEWS.
    """

    views_only: bool
    catalog: str
    database: str
    pattern: str | None = None
    negated: bool = False
    ignore_case: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreate:
    """SHOW CREATE TABLE | VIEW | [OR ALTER] MATERIALIZED TABLE name; that it is what was named was checked."""

    identifier: Identifier
    or_alter: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """DESCRIBE | DESC [EXTENDED] name, of a table or view."""

    identifier: Identifier
    extended: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """USE [catalog.]database, USE CATALOG name (then the database is its default one)."""

    parts: tuple[str, ...]
    span: Span = field(compare=False)


TableDefinition = (
    CreateTable
    | CreateTableAs
    | ReplaceTableAs
    | AlterTable
    | DropTable
    | CreateView
    | AlterView
    | DropView
)
NamespaceDefinition = (
    CreateDatabase | AlterDatabase | DropDatabase | CreateCatalog | AlterCatalog | DropCatalog | Use
)
OtherDefinition = (
    CreateFunction
    | AlterFunction
    | DropFunction
    | CreateSecret
    | AlterSecret
    | DropSecret
    | CreateMaterializedTable
    | ChangeMaterializedTable
    | DropMaterializedTable
)
Definition = TableDefinition | NamespaceDefinition | OtherDefinition
"""Statements that change the catalog, or the place in it."""

Statement = (
    Definition
    | InsertInto
    | StatementSet
    | Select
    | UpdateRows
    | DeleteRows
    | TruncateTable
    | CallProcedure
    | Explain
    | SetOption
    | ShowOptions
    | ResetOption
    | ShowTables
    | ShowCreate
    | ShowCreateCatalog
    | ShowList
    | Describe
    | DescribeCatalog
    | DescribeDatabase
    | DescribeFunction
    | DescribeJob
    | StopJob
    | AddJar
    | UseModules
)


UNSUPPORTED = (
    "CREATE MODEL",
    "CREATE CONNECTION",
    "ALTER MODEL",
    "ALTER CONNECTION",
    "DROP MODEL",
    "DROP CONNECTION",
    "EXECUTE PLAN",
    "COMPILE PLAN",
    "COMPILE AND EXECUTE PLAN",
    "DESCRIBE MODEL",
)
"""First words of the statements of Flink 2.2 that are refused; TEMPORARY and SYSTEM are passed over."""


def starts_refresh(statement: Statement) -> bool:
    """Return whether a statement schedules refreshes of a table: CREATE and RESUME of a FULL one."""
    match statement:
        case CreateMaterializedTable(table=table):
            materialized = table.materialization
        case ChangeMaterializedTable(change=MaterializedChange.RESUME, table=table):
            materialized = table.materialization
        case _:
            return False
    return materialized is not None and materialized.refresh_mode is RefreshMode.FULL


def ends_refresh_of(statement: Statement) -> Identifier | None:
    """Return the table that a statement has no longer kept fresh: SUSPEND and DROP."""
    match statement:
        case ChangeMaterializedTable(change=MaterializedChange.SUSPEND, table=table):
            return table.identifier
        case DropMaterializedTable(identifier=identifier):
            return identifier
    return None
