"""The names of functions as statements write them."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.identifier import Identifier
from penstock.catalog.names import Namespace
from penstock.sql.lookup import identifier_of
from penstock.sql.script import StatementText

__all__ = ["function_identifier"]


def function_identifier(node: exp.Expr, text: StatementText, namespace: Namespace) -> Identifier:
    """The full name of a function, in lower case: Flink does not tell cases of functions apart. Raises InputError."""
    full = identifier_of(node, text, namespace)
    return Identifier(catalog=full.catalog, database=full.database, name=full.name.lower())
