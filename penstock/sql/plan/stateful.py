"""Tells queries with an operator that keeps state from those that look at each row alone."""

from __future__ import annotations

from sqlglot import exp

__all__ = ["is_stateful", "waits_for_time"]


def is_stateful(query: exp.Expr) -> bool:
    """Tell whether a query has an operator that waits for the watermark: aggregation, DISTINCT or a join."""
    return query.find(exp.Group, exp.AggFunc, exp.Distinct, exp.Join) is not None


def waits_for_time(query: exp.Expr) -> bool:
    """Tell whether an operator of a query goes by event time: as is_stateful, but for joins that only unfold a row."""
    if query.find(exp.Group, exp.AggFunc, exp.Distinct) is not None:
        return True
    return any(isinstance(j.this, exp.Table | exp.Subquery) for j in query.find_all(exp.Join))
