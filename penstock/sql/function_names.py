"""Finds calls of functions that are nobody's but nearly Flink's: most likely misspelt.

A name that is none of Flink's may be the user's own, registered in the catalog or with Spark, or one of
Spark's; so nothing is said of a name that resembles none of Flink's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from penstock.catalog.errors import InputError, UnknownObjectError
from penstock.sql.checking import Checking
from penstock.sql.dialect.called_tables import calling_relation
from penstock.sql.dialect.functions import FUNCTIONS
from penstock.sql.dialect.query import NODES
from penstock.sql.dialect.special_calls import SYNTAX
from penstock.sql.misspelling import nearest_word
from penstock.sql.walking import find_nodes

__all__ = ["misspelt_functions"]

LONG = 5
"""Letters from which on a name that has no row is compared: a MIX is not a slip for MIN."""

NAMES = (*FUNCTIONS, *(name for name in (*NODES, *SYNTAX) if len(name) >= LONG))
"""What a call may have been meant for."""

PLANNED = ("DESCRIPTOR", "TABLE")
"""What is written like a call and is none."""


def misspelt_functions(stand_in: exp.Expr, checking: Checking) -> Iterator[InputError]:
    """An error for each misspelt function of a query's copy, at its place in the original."""
    for call in find_nodes(stand_in, exp.Anonymous):
        name = call.name.upper()
        span = checking.span(call)
        if name in FUNCTIONS or name in PLANNED or span is None:
            continue
        if name in Spark.Parser.FUNCTIONS or calling_relation(call) is not None:
            continue  # of table functions, table_functions.py says what is not there
        near = nearest_word(name, NAMES)
        # MD5_HEX and SHA3 are somebody's own sooner than a slip
        if near and not near.startswith(name.rstrip("0123456789")) and not name.startswith(near):
            if name.lower() in _registered(checking):  # asks the catalog: for few names only
                continue
            span = replace(span, length=min(span.length, len(name)))  # of the name alone
            yield UnknownObjectError(
                f"there is no function {name}", hint=f"did you mean {near}?", span=span
            )


def _registered(checking: Checking) -> frozenset[str]:
    space = checking.namespace
    if space is None:
        return frozenset()
    return frozenset(space.functions.visible(space.current_catalog, space.current_database))
