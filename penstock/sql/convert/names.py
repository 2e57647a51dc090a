"""Resolve the names in a statement; errors point at the name."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.definitions.federated import with_location
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputErrors
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table, View
from penstock.sql.binding.binder import bind_query
from penstock.sql.binding.checked_query import Output
from penstock.sql.script.splitter import StatementText

__all__ = [
    "check_output",
    "check_query",
    "find_object",
    "function_identifier",
    "identifier_of",
    "resolve_table_location",
]


def identifier_of(table: exp.Expr, text: StatementText, namespace: Namespace) -> Identifier:
    """The full name of a table node. Raises InputError."""
    assert isinstance(table, exp.Table), "the parser puts a table where a name stands"
    with text.placing(table):
        return namespace.resolve(tuple(part.name for part in table.parts))


def find_object(
    identifier: Identifier, node: exp.Expr, text: StatementText, namespace: Namespace
) -> Table | View:
    """The table or view of a name that stands at `node`. Raises UnknownObjectError."""
    with text.placing(node):
        return namespace.lookup(identifier)


def resolve_table_location(
    table: Table, node: exp.Expr, text: StatementText, namespace: Namespace
) -> Table:
    """A table with what its catalog decides: a folder of Delta tables decides its location. Raises DefinitionError."""
    with text.placing(node):
        return with_location(table, namespace.catalog)


def check_query(query: exp.Expr, namespace: Namespace) -> tuple[str, ...] | None:
    """The names of a query's columns, None if they are unsure. Raises InputErrors."""
    output = check_output(query, namespace)
    return None if output is None else tuple(name for name, _ in output)


def check_output(query: exp.Expr, namespace: Namespace) -> Output | None:
    """A query's columns with their types where they are known, None if they are unsure. Raises InputErrors."""
    bound = bind_query(query, namespace)
    if bound.errors:
        raise InputErrors(bound.errors)
    return bound.output


def function_identifier(node: exp.Expr, text: StatementText, namespace: Namespace) -> Identifier:
    """The full name of a function, in lower case: Flink does not tell cases of functions apart. Raises InputError."""
    full = identifier_of(node, text, namespace)
    return Identifier(catalog=full.catalog, database=full.database, name=full.name.lower())
