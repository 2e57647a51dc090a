"""Read aggregates: their FILTER, and whether their value depends on the order of rows."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = ["is_listed", "is_of_any_order", "refuse_ordered", "without_filter"]

_ANY_ORDER = (
    exp.Avg, exp.Count, exp.Max, exp.Min, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Sum, exp.Variance,
    exp.VariancePop,
)  # fmt: skip


def without_filter(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """Return an aggregate without its FILTER, and the condition of that."""
    if isinstance(node, exp.Filter):
        return node.this, node.expression.this
    return node, None


def is_of_any_order(aggregate: exp.Expr) -> bool:
    """Return whether an aggregate gives the same value for rows in any order."""
    name = aggregate.name.upper() if isinstance(aggregate, exp.AnonymousAggFunc) else ""
    return isinstance(aggregate, _ANY_ORDER) or name == "APPROX_COUNT_DISTINCT"


def is_listed(aggregate: exp.Expr) -> bool:
    """Return whether an aggregate lists values, which can be sorted: LISTAGG, ARRAY_AGG."""
    name = aggregate.name.upper() if isinstance(aggregate, exp.AnonymousAggFunc) else ""
    return isinstance(aggregate, exp.GroupConcat) or name == "ARRAY_AGG"


def refuse_ordered(value: exp.Expr) -> Refusal | None:
    """Return why an aggregate in an expression cannot be computed again; None where all of them can."""
    for aggregate in value.find_all(exp.AggFunc):
        if not is_of_any_order(aggregate) and not is_listed(aggregate):
            return Refusal(
                message=f"{to_text(aggregate)} is not supported here: its value depends on the order in which rows "
                "came, which is not kept",
                hint="number the rows: ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) AS n in a query in FROM, and "
                "WHERE n = 1 in the query around it",
                span=span_of(aggregate),
            )
    return None
