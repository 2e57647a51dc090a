"""CREATE, ALTER and DROP SECRET: from the syntax tree to the statement."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.names import Namespace
from penstock.sql.catalog_changes import tried
from penstock.sql.change_statements import AlterSecret, CreateSecret, DropSecret
from penstock.sql.script import StatementText

__all__ = ["lower_secret"]

SecretChange = CreateSecret | AlterSecret | DropSecret


def lower_secret(tree: exp.Expr, text: StatementText, namespace: Namespace) -> SecretChange:
    """The value of a statement about a secret, tried on a draft. Raises InputError at the secret's name."""
    statement = _statement(tree, text)
    tried(statement, tree.this, text, namespace)
    return statement


def _statement(tree: exp.Expr, text: StatementText) -> SecretChange:
    name, exists = tree.this.name, bool(tree.args.get("exists"))
    match tree.text("action"):
        case "CREATE":
            value = tree.expression.name
            return CreateSecret(name=name, value=value, if_not_exists=exists, span=text.span)
        case "ALTER":
            return AlterSecret(name=name, value=tree.expression.name, span=text.span)
    return DropSecret(name=name, if_exists=exists, span=text.span)
