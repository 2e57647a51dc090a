"""Finds calls of functions that are nobody's: not Flink's, not Spark's, and not registered by a user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.errors import InputError, UnknownObjectError
from penstock.sql.checking import Checking
from penstock.sql.dialect.builtin import built_in_functions
from penstock.sql.dialect.called_tables import calling_relation
from penstock.sql.dialect.functions import FUNCTIONS
from penstock.sql.dialect.query import NODES
from penstock.sql.dialect.spark_functions import SPARK_FUNCTIONS
from penstock.sql.dialect.special_calls import SYNTAX
from penstock.sql.misspelling import nearest_word
from penstock.sql.walking import find_nodes

__all__ = ["unknown_functions"]

PLANNED = ("DESCRIPTOR", "TABLE")
"""What is written like a call and is none."""

OWN = "CREATE FUNCTION {name} AS 'module.function' LANGUAGE PYTHON registers one; SHOW FUNCTIONS lists those there are"


def unknown_functions(stand_in: exp.Expr, checking: Checking) -> Iterator[InputError]:
    """An error for each function of a query's copy that is not there, at its place in the original."""
    for call in find_nodes(stand_in, exp.Anonymous):
        name = call.name.upper()
        span = checking.span(call)
        if span is None or name in PLANNED or _is_of_an_engine(name) or _is_no_call(call):
            continue
        # of table functions, table_functions.py says what is not there
        if calling_relation(call) is not None or _is_registered(name, checking):
            continue
        span = replace(span, length=min(span.length, len(name)))  # of the name alone
        yield UnknownObjectError(
            f"there is no function {name}", hint=_hint(name, checking), span=span
        )


def _is_no_call(call: exp.Anonymous) -> bool:
    """Tell whether it is a hint, or the end of a name with dots, whose database would have to be looked into."""
    hint = call.find_ancestor(exp.Hint, exp.Select)
    return isinstance(call.parent, exp.Dot) or isinstance(hint, exp.Hint)


def _is_of_an_engine(name: str) -> bool:
    return name in FUNCTIONS or name in NODES or name in SYNTAX or name.lower() in SPARK_FUNCTIONS


def _is_registered(name: str, checking: Checking) -> bool:
    """Tell whether a user has registered a function, in any database, or with Spark; asks the catalog."""
    space = checking.namespace
    if space is None:
        return True  # nothing is known of users' functions
    return name.lower() in _listed(checking) or space.functions.has_engine(name.lower())


def _listed(checking: Checking) -> set[str]:
    space = checking.namespace
    return set() if space is None else {function.name for function in space.functions.listed()}


def _hint(name: str, checking: Checking) -> str:
    known = [one.upper() for one in (*built_in_functions(), *_listed(checking))]
    near = nearest_word(name, known)
    return f"did you mean {near}?" if near else OWN.format(name=name.lower())
