"""Refuses queries whose results change after they were sent: sinks of this kind only take new rows."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.sql.positions import span_of

__all__ = ["check_append_only", "is_stateful"]

WINDOW_COLUMNS = frozenset({"window_start", "window_end"})


def is_stateful(query: exp.Expr) -> bool:
    """Tell whether a query has an operator that waits for the watermark: aggregation, DISTINCT or a join."""
    return query.find(exp.Group, exp.AggFunc, exp.Distinct, exp.Join) is not None


def check_append_only(query: exp.Expr) -> None:
    """Raise UnsupportedError at the first operator whose result is updated as rows come."""
    for select in query.find_all(exp.Select):
        group = select.args.get("group")
        aggregates = any(
            node.find_ancestor(exp.Select) is select for node in select.find_all(exp.AggFunc)
        )
        if group is None and not aggregates:
            _check_distinct(select)
            continue
        keys = {key.name for key in group.expressions} if group is not None else set()
        if not keys >= WINDOW_COLUMNS:
            raise UnsupportedError(
                "this aggregation updates its results as rows come, and the sink only takes rows that stay",
                hint="aggregate over a window: FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
                "GROUP BY window_start, window_end, ...",
                span=span_of(group or select),
            )


def _check_distinct(select: exp.Select) -> None:
    distinct = select.args.get("distinct")
    if distinct is None:
        return
    names = {projection.alias_or_name for projection in select.expressions}
    if not names >= WINDOW_COLUMNS:
        raise UnsupportedError(
            "SELECT DISTINCT over a stream keeps every row it has seen and is not supported without a window",
            hint="add window_start and window_end of a windowing function to the selected columns",
            span=span_of(select),
        )
