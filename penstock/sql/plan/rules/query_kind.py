"""Classify queries: stateful ones, those that wait for event time, and plain projections, whose rows need no
count.

Also finds the users' functions that a query calls, in its views too. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.model.function import Function
from penstock.sql.dialect.functions.table import FUNCTIONS
from penstock.sql.plan.rules.inline import find_relations
from penstock.sql.syntax.nodes import SCAN_PARTS
from penstock.sql.syntax.traversal import find_nodes

__all__ = ["called_functions", "is_plain_projection", "is_stateful", "waits_for_time"]


def is_stateful(query: exp.Expr) -> bool:
    """Return whether a query has an operator that waits for the watermark: aggregation, DISTINCT or a join."""
    return query.find(exp.Group, exp.AggFunc, exp.Distinct, exp.Join) is not None


def waits_for_time(query: exp.Expr) -> bool:
    """Return whether an operator of a query depends on event time: as is_stateful, but for joins
    that only unfold a row.
    """
    if query.find(exp.Group, exp.AggFunc, exp.Distinct) is not None:
        return True
    return any(isinstance(j.this, exp.Table | exp.Subquery) for j in query.find_all(exp.Join))


# every part of a SELECT that leaves the number of rows as it is; what is not named here counts as changing it
_HARMLESS = {"expressions", "from_", "kind", "hint"}

# every part of a table in FROM that only names it or says how it is read
_NAMING = {"this", "db", "catalog", "alias", "hints", *SCAN_PARTS}

# what gives several rows for one, or one for several
_GENERATORS = (exp.UDTF, exp.Explode, exp.Inline, exp.AggFunc, exp.Window, exp.Query)


def is_plain_projection(query: exp.Expr) -> bool:
    """Return whether a query without views gives exactly one row for each row of the one table that it reads."""
    if not isinstance(query, exp.Select):
        return False
    parts = {name for name, value in query.args.items() if value}
    if not parts <= _HARMLESS or "from_" not in parts:
        return False
    if not all(_is_scalar(projection) for projection in query.expressions):
        return False
    source = query.args["from_"].this
    if isinstance(source, exp.Subquery):
        return is_plain_projection(source.this)
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        return False
    return {name for name, value in source.args.items() if value} <= _NAMING


def _is_scalar(projection: exp.Expr) -> bool:
    if projection.find(*_GENERATORS) is not None:
        return False
    # a function of the user's may give several rows
    functions = (FUNCTIONS.get(call.name.upper()) for call in projection.find_all(exp.Anonymous))
    return all(function is not None and not function.aggregate for function in functions)


def called_functions(
    query: exp.Expr, namespace: Namespace
) -> list[tuple[Function, Sequence[exp.Anonymous]]]:
    """The users' functions that a query calls, sorted by name, each with its calls."""
    known = namespace.functions.visible(namespace.current_catalog, namespace.current_database)
    if not known:
        return []
    calls: dict[str, list[exp.Anonymous]] = {}
    for call in find_nodes(find_relations(query, namespace).query, exp.Anonymous):
        calls.setdefault(call.name.lower(), []).append(call)
    return [(known[name], calls[name]) for name in sorted(calls.keys() & known.keys())]
