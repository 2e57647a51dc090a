"""CREATE and DROP of tables and views: from the syntax tree to the statement; ALTER by what is altered."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.names import Namespace
from penstock.sql.catalog_changes import tried
from penstock.sql.definitions import define_table, define_view
from penstock.sql.lookup import identifier_of, place_table
from penstock.sql.lowering.alter_table import lower_alter_table
from penstock.sql.lowering.alter_view import lower_alter_view
from penstock.sql.lowering.create_as import lower_create_as
from penstock.sql.lowering.option_places import column_spans, option_spans
from penstock.sql.lowering.places import lower_alter_place, lower_create_place, lower_drop_place
from penstock.sql.positions import attach
from penstock.sql.script import StatementText
from penstock.sql.statements import CreateTable, CreateView, DropTable, DropView, Statement

__all__ = ["lower_alter", "lower_create", "lower_drop"]

PLACES = ("DATABASE", "CATALOG")


def lower_create(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    """The value of CREATE TABLE, VIEW, DATABASE or CATALOG. Raises InputErrors."""
    assert isinstance(tree, exp.Create), "found by its class"
    kind = tree.args["kind"]
    if kind in PLACES:
        return lower_create_place(tree, text, namespace)
    if kind == "TABLE" and tree.expression:
        return lower_create_as(tree, text, namespace)
    name = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    identifier = identifier_of(name, text, namespace)
    if_not_exists = bool(tree.args.get("exists"))
    statement: CreateTable | CreateView
    if kind == "TABLE":
        statement = CreateTable(
            table=place_table(define_table(tree, identifier, namespace), name, text, namespace),
            if_not_exists=if_not_exists,
            option_spans=option_spans(tree, text),
            column_spans=column_spans(tree, text),
            span=text.span,
        )
    else:
        attach(tree.expression, text.source)
        view = define_view(tree, identifier, namespace)
        statement = CreateView(view=view, if_not_exists=if_not_exists, span=text.span)
    return tried(statement, name, text, namespace)


def lower_alter(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    """The value of ALTER TABLE, VIEW, DATABASE or CATALOG. Raises InputErrors."""
    assert isinstance(tree, exp.Alter), "found by its class"
    match tree.args["kind"]:
        case "TABLE":
            return lower_alter_table(tree, text, namespace)
        case "VIEW":
            return lower_alter_view(tree, text, namespace)
    return lower_alter_place(tree, text, namespace)


def lower_drop(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    """The value of DROP TABLE, VIEW, DATABASE or CATALOG. Raises InputError."""
    assert isinstance(tree, exp.Drop), "found by its class"
    if tree.args["kind"] in PLACES:
        return lower_drop_place(tree, text, namespace)
    name = tree.args["tables"][0]
    kind = DropTable if tree.args["kind"] == "TABLE" else DropView
    dropped = kind(
        identifier=identifier_of(name, text, namespace),
        if_exists=bool(tree.args.get("exists")),
        temporary=bool(tree.args.get("temporary")),
        span=text.span,
    )
    return tried(dropped, name, text, namespace)
