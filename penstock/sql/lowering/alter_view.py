"""ALTER VIEW: from the syntax tree to the statement."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.catalog.errors import DefinitionError, UnknownObjectError
from penstock.catalog.names import Namespace
from penstock.catalog.table import Table
from penstock.sql.catalog_changes import tried
from penstock.sql.definitions import view_query
from penstock.sql.lookup import find_object, identifier_of
from penstock.sql.lowering.alter_table import renamed
from penstock.sql.lowering.dependents import check_views, stands_on
from penstock.sql.positions import attach
from penstock.sql.script import StatementText
from penstock.sql.statements import AlterView, Statement

__all__ = ["lower_alter_view"]


def lower_alter_view(tree: exp.Alter, text: StatementText, namespace: Namespace) -> Statement:
    """The value of ALTER VIEW. Raises InputErrors with all that is wrong in it."""
    identifier = identifier_of(tree.this, text, namespace)
    before = find_object(identifier, tree.this, text, namespace)
    (action,) = tree.args["actions"]
    if isinstance(before, Table):
        raise UnknownObjectError(
            f"{identifier} is a table, not a view",
            hint=f"ALTER TABLE {identifier}",
            span=text.locate(tree.this),
        )
    with text.placing(action):
        if isinstance(action, exp.AlterRename):
            after = replace(before, identifier=renamed(identifier, action.this))
        else:
            query = attach(action, text.source)
            # the names of columns that it was created with go, its comment stays, as in Flink
            after = replace(
                before,
                query=view_query(query, [], tree.this, namespace),
                columns=(),
                column_comments=(),
            )
            if stands_on(after.query, identifier, namespace):
                raise DefinitionError(f"the view {identifier} would be defined by itself")
        check_views(before, after, namespace)
    altered = AlterView(before=before, after=after, span=text.span)
    return tried(altered, action, text, namespace)
