"""Takes over into a namespace what definitions say: where statements change a catalog, or a draft of it."""

from __future__ import annotations

from typing import assert_never

from sqlglot import exp

from penstock.catalog.errors import DefinitionError, UnknownObjectError
from penstock.catalog.identifier import Identifier
from penstock.catalog.names import Namespace
from penstock.catalog.table import Table
from penstock.sql.applied import apply_other
from penstock.sql.change_statements import ChangeMaterializedTable, CreateMaterializedTable
from penstock.sql.redefinition import (
    create_catalog_or_keep,
    create_database_or_keep,
    create_or_keep,
)
from penstock.sql.script import StatementText
from penstock.sql.statements import (
    AlterCatalog,
    AlterDatabase,
    AlterTable,
    AlterView,
    CreateCatalog,
    CreateDatabase,
    CreateTable,
    CreateTableAs,
    CreateView,
    Definition,
    DropCatalog,
    DropDatabase,
    DropTable,
    DropView,
    InsertInto,
    PlaceDefinition,
    ReplaceTableAs,
    Statement,
    TableDefinition,
    Use,
)

__all__ = [
    "change_catalog",
    "defined_table",
    "filling",
    "is_definition",
    "tried",
]

TableStatement = CreateTable | AlterTable


def is_definition(statement: Statement) -> bool:
    """Tell whether a statement changes the catalog or the place in it."""
    return isinstance(statement, Definition)


def change_catalog(statement: Definition, namespace: Namespace) -> None:
    """Change the namespace by a definition, as a whole or not at all. Raises InputError."""
    if isinstance(statement, TableDefinition):
        _change_table(statement, namespace)
    elif isinstance(statement, PlaceDefinition):
        _change_place(statement, namespace)
    else:
        apply_other(statement, namespace)


def defined_table(statement: Statement) -> tuple[Table, TableStatement] | None:
    """The table that a statement makes, or changes, and that its connector has to accept; None for others."""
    match statement:
        case CreateTable():
            return statement.table, statement
        case CreateTableAs(create=create) | ReplaceTableAs(create=create):
            return create.table, create
        case AlterTable(after=after) if after is not None:
            return after, statement
    return None


def filling(statement: Statement) -> InsertInto | None:
    """The INSERT that fills the table that a statement makes; None where nothing does."""
    match statement:
        case CreateTableAs(insert=insert) | ReplaceTableAs(insert=insert):
            return insert
        case CreateMaterializedTable(insert=insert):
            return insert
        case ChangeMaterializedTable(insert=insert):
            return insert
    return None


def tried(
    statement: Definition, node: exp.Expr, text: StatementText, namespace: Namespace
) -> Definition:
    """See on a draft that a definition can be taken over: its error gets its place, `node`, here."""
    with text.placing(node):
        change_catalog(statement, namespace.overlay())
    return statement


def _change_table(statement: TableDefinition, namespace: Namespace) -> None:
    match statement:
        case CreateTable():
            create_or_keep(statement.table, namespace, if_not_exists=statement.if_not_exists)
        case CreateTableAs(create=create):
            create_or_keep(create.table, namespace, if_not_exists=create.if_not_exists)
        case ReplaceTableAs(before=None, create=create):
            namespace.create(create.table)
        case ReplaceTableAs(before=before, create=create):
            assert before is not None, "the case of none is above"
            namespace.replace(before, create.table)
        case AlterTable(before=before, after=after):
            if before is not None and after is not None:
                namespace.replace(before, after)
        case CreateView():
            create_or_keep(statement.view, namespace, if_not_exists=statement.if_not_exists)
        case AlterView(before=view, after=changed):
            namespace.replace(view, changed)
        case DropTable() | DropView():
            _refuse_materialized(statement.identifier, namespace)
            namespace.drop(
                statement.identifier,
                kind="table" if isinstance(statement, DropTable) else "view",
                if_exists=statement.if_exists,
                temporary=statement.temporary,
            )
        case _:
            assert_never(statement)


def _refuse_materialized(identifier: Identifier, namespace: Namespace) -> None:
    """Have a materialized table dropped by its own statement, as in Flink. Raises DefinitionError."""
    try:
        found = namespace.lookup(identifier)
    except UnknownObjectError:
        return
    if isinstance(found, Table) and found.materialization is not None:
        raise DefinitionError(
            f"{identifier} is a materialized table", hint=f"DROP MATERIALIZED TABLE {identifier}"
        )


def _change_place(statement: PlaceDefinition, namespace: Namespace) -> None:
    catalog = namespace.catalog
    match statement:
        case CreateDatabase():
            create_database_or_keep(statement, catalog)
        case AlterDatabase():
            catalog.replace_database(statement.before, statement.after)
        case DropDatabase():
            namespace.drop_database(
                statement.catalog,
                statement.name,
                if_exists=statement.if_exists,
                cascade=statement.cascade,
            )
        case CreateCatalog():
            create_catalog_or_keep(statement, catalog)
        case AlterCatalog():
            catalog.replace_catalog(statement.before, statement.after)
        case DropCatalog():
            namespace.drop_catalog(statement.name, if_exists=statement.if_exists)
        case Use(parts=parts):
            namespace.use(parts)
        case _:
            assert_never(statement)
