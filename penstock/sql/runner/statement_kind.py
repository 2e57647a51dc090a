"""The name of a statement in summaries and JSON: its kind (CREATE TABLE, INSERT, ...) and its object."""

from __future__ import annotations

import re

from penstock.catalog.definitions.contract import DEFAULT_CATALOG
from penstock.catalog.model.identifier import quote
from penstock.sql.jobs.progress import short_name
from penstock.sql.statements.changes import (
    AlterFunction,
    AlterSecret,
    CallProcedure,
    ChangeMaterializedTable,
    CreateFunction,
    CreateMaterializedTable,
    CreateSecret,
    DropFunction,
    DropMaterializedTable,
    DropSecret,
)
from penstock.sql.statements.definitions import (
    AlterCatalog,
    AlterDatabase,
    AlterTable,
    AlterView,
    CreateCatalog,
    CreateDatabase,
    DropCatalog,
    DropDatabase,
    ShowCreateCatalog,
)
from penstock.sql.statements.dml import DeleteRows, InsertInto, TruncateTable, UpdateRows
from penstock.sql.statements.show import AddJar, DescribeJob, ShowList, StopJob
from penstock.sql.statements.statement import (
    CreateTable,
    CreateTableAs,
    CreateView,
    Describe,
    DropTable,
    DropView,
    Explain,
    ReplaceTableAs,
    ResetOption,
    SetOption,
    ShowCreate,
    Statement,
    StatementSet,
    Use,
)

__all__ = ["kind_of", "subject_of"]


def kind_of(statement: Statement) -> str:
    """Name a statement's kind; by default, the words of its class."""
    match statement:
        case InsertInto(overwrite=False):
            return "INSERT"
        case InsertInto(overwrite=True):
            return "INSERT OVERWRITE"
        case SetOption():
            return "SET"
        case ResetOption():
            return "RESET"
        case ShowList():
            return "SHOW"
        case ChangeMaterializedTable():
            return "ALTER MATERIALIZED TABLE"
        case UpdateRows():
            return "UPDATE"
        case DeleteRows():
            return "DELETE"
        case CallProcedure():
            return "CALL"
    return re.sub(r"(?<!^)(?=[A-Z])", " ", type(statement).__name__).upper()


def subject_of(statement: Statement) -> str | None:
    """Name the table, view or key that a statement is about."""
    match statement:
        case CreateTable():
            return short_name(statement.table.identifier)
        case CreateView():
            return short_name(statement.view.identifier)
        case InsertInto():
            return short_name(statement.target)
        case StatementSet():
            return ", ".join(short_name(insert.target) for insert in statement.inserts)
        case Explain():
            return (
                f"{kind_of(statement.statement)} {subject_of(statement.statement) or ''}".rstrip()
            )
        case DropTable() | DropView() | ShowCreate() | Describe():
            return short_name(statement.identifier)
        case SetOption() | ResetOption():
            return statement.key
    return _other_subject(statement)


def _other_subject(statement: Statement) -> str | None:
    match statement:
        case CreateFunction(function=function) | AlterFunction(function=function):
            return function.name
        case DropFunction():
            return statement.identifier.name
        case CreateSecret(name=name) | AlterSecret(name=name) | DropSecret(name=name):
            return name
        case CreateMaterializedTable(table=table) | ChangeMaterializedTable(table=table):
            return short_name(table.identifier)
        case DropMaterializedTable():
            return short_name(statement.identifier)
        case UpdateRows(table=table) | DeleteRows(table=table) | TruncateTable(table=table):
            return short_name(table)
        case CallProcedure():
            return statement.name
        case ShowList():
            return statement.what.value
        case AddJar():
            return statement.path
        case StopJob() | DescribeJob():
            return statement.job
    return _defined_subject(statement)


def _defined_subject(statement: Statement) -> str | None:
    match statement:
        case CreateTableAs(create=create) | ReplaceTableAs(create=create):
            return short_name(create.table.identifier)
        case AlterTable(identifier=identifier):
            return short_name(identifier)
        case AlterView(before=view):
            return short_name(view.identifier)
        case CreateDatabase(database=database) | AlterDatabase(before=database):
            return _database(database.catalog, database.name)
        case DropDatabase(catalog=catalog, name=name):
            return _database(catalog, name)
        case CreateCatalog(catalog=described) | AlterCatalog(before=described):
            return described.name
        case DropCatalog(name=name) | ShowCreateCatalog(name=name):
            return name
        case Use(parts=parts):
            return ".".join(quote(part) for part in parts)
    return None


def _database(catalog: str, name: str) -> str:
    return quote(name) if catalog == DEFAULT_CATALOG else f"{quote(catalog)}.{quote(name)}"
