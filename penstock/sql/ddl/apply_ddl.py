"""Apply statements that define objects to a namespace: the catalog itself, or an overlay that only validates them.

A definition is checked when it is made or changed: by its table's connector, and for passwords written into it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import assert_never

from sqlglot import exp

from penstock.catalog.definitions.encryption import check_written_references
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import DefinitionError, InputError, OptionError, UnknownObjectError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table
from penstock.catalog.options.redaction import literal_secrets
from penstock.connector.registry import connector_of
from penstock.sql.ddl.redefinition import (
    create_catalog_or_keep,
    create_database_or_keep,
    create_or_keep,
)
from penstock.sql.script.splitter import StatementText
from penstock.sql.statements.definitions import (
    AlterCatalog,
    AlterDatabase,
    AlterFunction,
    AlterSecret,
    AlterTable,
    AlterView,
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
)
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import (
    CreateTable,
    CreateTableAs,
    CreateView,
    Definition,
    DropTable,
    DropView,
    NamespaceDefinition,
    OtherDefinition,
    ReplaceTableAs,
    Statement,
    TableDefinition,
    Use,
)


def apply_object_ddl(statement: OtherDefinition, namespace: Namespace) -> None:
    """Change the namespace. Raises UnknownObjectError, ObjectExistsError."""
    match statement:
        case CreateFunction(function=function):
            namespace.functions.create(function, if_not_exists=statement.if_not_exists)
        case AlterFunction(function=function):
            namespace.functions.alter(function, if_exists=statement.if_exists)
        case DropFunction(identifier=identifier):
            namespace.functions.drop(
                identifier,
                temporary=statement.temporary,
                system=statement.system,
                if_exists=statement.if_exists,
            )
        case CreateSecret(name=name, value=value):
            namespace.secrets.create(name, value, if_not_exists=statement.if_not_exists)
        case AlterSecret(name=name, value=value):
            namespace.secrets.alter(name, value)
        case DropSecret(name=name):
            namespace.secrets.drop(name, if_exists=statement.if_exists)
        case CreateMaterializedTable(table=table):
            namespace.create(table, replace=statement.or_alter)
        case ChangeMaterializedTable(table=table):
            namespace.create(table, replace=True)
        case DropMaterializedTable(identifier=identifier):
            _drop(statement, namespace)
        case _:
            assert_never(statement)


def _drop(statement: DropMaterializedTable, namespace: Namespace) -> None:
    try:
        found = namespace.lookup(statement.identifier)
    except UnknownObjectError:
        if statement.if_exists:
            return
        raise
    if not isinstance(found, Table) or found.materialization is None:
        raise UnknownObjectError(f"{statement.identifier} is not a materialized table")
    namespace.drop(statement.identifier, kind="table", temporary=False)


TableStatement = CreateTable | AlterTable


def is_definition(statement: Statement) -> bool:
    """Return whether a statement changes the catalog or the place in it."""
    return isinstance(statement, Definition)


def apply_ddl(statement: Definition, namespace: Namespace) -> None:
    """Change the namespace by a definition, as a whole or not at all. Raises InputError."""
    if isinstance(statement, TableDefinition):
        _change_table(statement, namespace)
    elif isinstance(statement, NamespaceDefinition):
        _change_namespace(statement, namespace)
    else:
        apply_object_ddl(statement, namespace)


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


def filling_insert(statement: Statement) -> InsertInto | None:
    """The INSERT that fills the table that a statement makes; None where nothing does."""
    match statement:
        case CreateTableAs(insert=insert) | ReplaceTableAs(insert=insert):
            return insert
        case CreateMaterializedTable(insert=insert):
            return insert
        case ChangeMaterializedTable(insert=insert):
            return insert
    return None


def validated_on_overlay(
    statement: Definition, node: exp.Expr, text: StatementText, namespace: Namespace
) -> Definition:
    """See on an overlay that a definition can be taken over: its error gets its place, `node`, here."""
    with text.placing(node):
        apply_ddl(statement, namespace.overlay())
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
    """Refuse to drop a materialized table but by its own statement, as in Flink. Raises DefinitionError."""
    try:
        found = namespace.lookup(identifier)
    except UnknownObjectError:
        return
    if isinstance(found, Table) and found.materialization is not None:
        raise DefinitionError(
            f"{identifier} is a materialized table", hint=f"DROP MATERIALIZED TABLE {identifier}"
        )


def _change_namespace(statement: NamespaceDefinition, namespace: Namespace) -> None:
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


def check_connector(statement: Statement, project: Path) -> None:
    """Check the table that a statement defines, if it does. Raises InputError at the option that is wrong."""
    found = defined_table(statement)
    if found is None:
        return
    table, made = found
    try:
        check_written_references(table)
        connector_of(table, project=project).check(table)
    except InputError as error:
        raise made.locate(error) from error


logger = logging.getLogger(__name__)

_INSTEAD = "keep it by `penstock secret set NAME` and write ${secret:NAME}; ${env:NAME} and ${file:/path} do as well"


def check_written_secrets(statement: Statement, *, strict: bool = False) -> None:
    """Warn of literal secrets in what a statement defines. `strict` raises OptionError at the first instead."""
    for error in _found(statement):
        if strict:
            raise error
        position = f"{error.span.file}:{error.span.line}: " if error.span is not None else ""
        logger.warning("%s%s; %s", position, error.message, error.hint)


def _found(statement: Statement) -> list[InputError]:
    if isinstance(statement, CreateCatalog | AlterCatalog):
        made = statement.after if isinstance(statement, AlterCatalog) else statement.catalog
        errors = [_literal(f"catalog {made.name}", key) for key in literal_secrets(made.option_map)]
        for error in errors:
            error.span = statement.span
        return errors
    found = None if isinstance(statement, ChangeMaterializedTable) else defined_table(statement)
    if found is None:
        return []
    table, statement = found
    owner = f"table {table.identifier}"
    return [statement.locate(_literal(owner, key)) for key in literal_secrets(table.option_map)]


def _literal(owner: str, key: str) -> InputError:
    return OptionError(
        f"{owner}: option '{key}' holds a password or key itself, which whoever reads the file or the catalog has",
        hint=_INSTEAD,
    )
