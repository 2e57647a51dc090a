"""Tells plain projections from all other queries: they send on each row they read, so nothing need count rows."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.dialect.functions import FUNCTIONS

__all__ = ["is_plain_projection"]

# every part of a SELECT that leaves the number of rows as it is; what is not named here counts as changing it
_HARMLESS = {"expressions", "from_", "kind", "hint"}
# every part of a table in FROM that only names it or says how it is read
_NAMING = {"this", "db", "catalog", "alias", "hints"}
# what gives several rows for one, or one for several
_GENERATORS = (exp.UDTF, exp.Explode, exp.Inline, exp.AggFunc, exp.Window, exp.Query)


def is_plain_projection(query: exp.Expr) -> bool:
    """Tell whether a query without views gives exactly one row for each row of the one table that it reads."""
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
