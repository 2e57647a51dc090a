"""Convert CREATE, ALTER and DROP of tables and views."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import DefinitionError, UnknownObjectError
from penstock.catalog.model.table import Table
from penstock.sql.convert.alter_table import convert_alter_table, renamed
from penstock.sql.convert.create_as import convert_create_as
from penstock.sql.convert.dependent_views import check_views, stands_on
from penstock.sql.convert.names import find_object, identifier_of, resolve_table_location
from penstock.sql.convert.namespaces import (
    convert_alter_namespace,
    convert_create_namespace,
    convert_drop_namespace,
)
from penstock.sql.convert.table_definition import (
    column_spans,
    define_table,
    define_view,
    option_spans,
    view_query,
)
from penstock.sql.ddl.apply_ddl import validated_on_overlay
from penstock.sql.script.splitter import StatementText
from penstock.sql.statements.statement import (
    AlterView,
    CreateTable,
    CreateView,
    DropTable,
    DropView,
    Statement,
)
from penstock.sql.syntax.positions import attach

__all__ = ["convert_alter", "convert_alter_view", "convert_create", "convert_drop"]


def convert_alter_view(tree: exp.Alter, text: StatementText, namespace: Namespace) -> Statement:
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
    return validated_on_overlay(altered, action, text, namespace)


PLACES = ("DATABASE", "CATALOG")


def convert_create(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    """The value of CREATE TABLE, VIEW, DATABASE or CATALOG. Raises InputErrors."""
    assert isinstance(tree, exp.Create), "found by its class"
    kind = tree.args["kind"]
    if kind in PLACES:
        return convert_create_namespace(tree, text, namespace)
    if kind == "TABLE" and tree.expression:
        return convert_create_as(tree, text, namespace)
    name = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    identifier = identifier_of(name, text, namespace)
    if_not_exists = bool(tree.args.get("exists"))
    statement: CreateTable | CreateView
    if kind == "TABLE":
        statement = CreateTable(
            table=resolve_table_location(
                define_table(tree, identifier, namespace), name, text, namespace
            ),
            if_not_exists=if_not_exists,
            option_spans=option_spans(tree, text),
            column_spans=column_spans(tree, text),
            span=text.span,
        )
    else:
        attach(tree.expression, text.source)
        view = define_view(tree, identifier, namespace)
        statement = CreateView(view=view, if_not_exists=if_not_exists, span=text.span)
    return validated_on_overlay(statement, name, text, namespace)


def convert_alter(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    """The value of ALTER TABLE, VIEW, DATABASE or CATALOG. Raises InputErrors."""
    assert isinstance(tree, exp.Alter), "found by its class"
    match tree.args["kind"]:
        case "TABLE":
            return convert_alter_table(tree, text, namespace)
        case "VIEW":
            return convert_alter_view(tree, text, namespace)
    return convert_alter_namespace(tree, text, namespace)


def convert_drop(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    """The value of DROP TABLE, VIEW, DATABASE or CATALOG. Raises InputError."""
    assert isinstance(tree, exp.Drop), "found by its class"
    if tree.args["kind"] in PLACES:
        return convert_drop_namespace(tree, text, namespace)
    name = tree.args["tables"][0]
    kind = DropTable if tree.args["kind"] == "TABLE" else DropView
    dropped = kind(
        identifier=identifier_of(name, text, namespace),
        if_exists=bool(tree.args.get("exists")),
        temporary=bool(tree.args.get("temporary")),
        span=text.span,
    )
    return validated_on_overlay(dropped, name, text, namespace)
