"""Aggregates whose value depends on the order of rows: sorted, so that they give the same each time; or refused.

A stage tells what to take back by computing it again, so the same rows have to give the same value.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.sql.dialect import to_text
from penstock.sql.positions import span_of

__all__ = ["in_order"]

_ANY_ORDER = (
    exp.Avg, exp.Count, exp.Max, exp.Min, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Sum, exp.Variance,
    exp.VariancePop,
)  # fmt: skip
_AROUND = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)


def in_order(value: exp.Expr) -> exp.Expr:
    """Give an expression with sorted aggregates. Raises UnsupportedError for those that cannot be."""
    for node in value.find_all(exp.AggFunc):
        _of(node, node)  # the copy below has no place in the text
    found: exp.Expr = value.transform(_sorted)
    return found


def _sorted(node: exp.Expr) -> exp.Expr:
    if isinstance(node, _AROUND):
        core: exp.Expr = node
        while isinstance(core, _AROUND):
            core = core.this
        new = _of(core, node)
    elif isinstance(node, exp.AggFunc):
        new = _of(node, node)
    else:
        return node
    new.type = node.type
    return new


def _of(aggregate: exp.Expr, whole: exp.Expr) -> exp.Expr:
    # a copy, as what is new is not looked into again
    copied: exp.Expr = whole.copy()
    name = aggregate.name.upper() if isinstance(aggregate, exp.AnonymousAggFunc) else ""
    if isinstance(aggregate, _ANY_ORDER) or name == "APPROX_COUNT_DISTINCT":
        return copied
    if name == "ARRAY_AGG":
        return exp.Anonymous(this="array_sort", expressions=[copied])
    if isinstance(aggregate, exp.GroupConcat):
        return _listed(aggregate, copied)
    raise UnsupportedError(
        f"{to_text(aggregate)} is not supported here: its value depends on the order in which rows came, which is not "
        "kept",
        hint="number the rows: ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) AS n in a query in FROM, and "
        "WHERE n = 1 in the query around it",
        span=span_of(aggregate),
    )


def _listed(aggregate: exp.GroupConcat, whole: exp.Expr) -> exp.Expr:
    """LISTAGG in the order of its values."""
    value = (
        aggregate.this.expressions[0]
        if isinstance(aggregate.this, exp.Distinct)
        else aggregate.this
    )
    order = exp.Order(expressions=[exp.Ordered(this=value.copy(), nulls_first=True)])
    inside = exp.WithinGroup(this=aggregate.copy(), expression=order)
    if isinstance(whole, exp.Filter):
        whole.set("this", inside)
        return whole
    return inside
