"""Which of the users' functions a query calls, in its views too. Pure; `run/functions.py` registers them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.catalog.function import Function
from penstock.catalog.names import Namespace
from penstock.sql.plan.relations import find_relations
from penstock.sql.walking import find_nodes

__all__ = ["called_functions"]


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
