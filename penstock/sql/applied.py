"""Takes over into a namespace what statements about functions, secrets and materialized tables define."""

from __future__ import annotations

from typing import assert_never

from penstock.catalog.errors import UnknownObjectError
from penstock.catalog.names import Namespace
from penstock.catalog.table import Table
from penstock.sql.change_statements import (
    AlterFunction,
    AlterSecret,
    ChangeMaterializedTable,
    CreateFunction,
    CreateMaterializedTable,
    CreateSecret,
    DropFunction,
    DropMaterializedTable,
    DropSecret,
)
from penstock.sql.statements import OtherDefinition

__all__ = ["apply_other"]


def apply_other(statement: OtherDefinition, namespace: Namespace) -> None:
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
