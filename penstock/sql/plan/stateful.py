"""Tells queries with an operator that keeps state from those that look at each row alone."""

from __future__ import annotations

from sqlglot import exp

__all__ = ["is_stateful"]


def is_stateful(query: exp.Expr) -> bool:
    """Tell whether a query has an operator that waits for the watermark: aggregation, DISTINCT or a join."""
    return query.find(exp.Group, exp.AggFunc, exp.Distinct, exp.Join) is not None
