"""Tells joins with a bound in time, which Spark's append mode runs, from Flink's regular joins, which keep all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from penstock.sql.dialect.windows import WINDOW_COLUMNS
from penstock.sql.plan.lookup_joins import is_lookup
from penstock.sql.walking import find_nodes

__all__ = ["is_regular", "updates"]

_RANGES = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
_TIMES = (exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMP)


def is_regular(select: exp.Select) -> bool:
    """Tell whether a SELECT joins relations without a bound in time (an interval or windows), or has a query in WHERE.

    Over streams each of their rows may match one that comes at any time.
    """
    return (bool(_tables(select)) and not _is_bounded(select)) or _has_query(select)


def updates(select: exp.Select) -> exp.Expr | None:
    """Give the first regular join of a SELECT whose rows do not stay: an outer one, or a query in WHERE."""
    if not _is_bounded(select):
        for join in _tables(select):
            if join.side:
                return join
    return select.args["where"] if _has_query(select) else None


def _tables(select: exp.Select) -> list[exp.Join]:
    joins: Sequence[exp.Expr] = select.args.get("joins") or []
    return [
        join
        for join in joins
        if isinstance(join, exp.Join)
        and isinstance(join.this, exp.Table | exp.Subquery)
        and not is_lookup(join)
    ]


def _has_query(select: exp.Select) -> bool:
    where = select.args.get("where")
    if where is None:
        return False
    inner = where.find(exp.Query)
    found = inner.unnest() if inner is not None else None
    return found is not None and not (isinstance(found, exp.Select) and _is_bounded(found))


def _is_bounded(select: exp.Select) -> bool:
    return any(_is_range_of_time(c) or _is_window(c) for c in _conditions(select))


def _conditions(select: exp.Select) -> Iterator[exp.Expr]:
    tests = [join.args.get("on") for join in select.args.get("joins") or []]
    where = select.args.get("where")
    tests.append(where.this if where is not None else None)
    for test in tests:
        if test is not None:
            yield from find_nodes(test, *_RANGES, exp.EQ)


def _is_range_of_time(test: exp.Expr) -> bool:
    if not isinstance(test, _RANGES):
        return False
    times = {(c.table, c.name) for c in find_nodes(test, exp.Column) if c.is_type(*_TIMES)}
    tables = {table for table, _ in times}
    # a bare name may be of any table
    return len(times) > 1 and (len(tables) > 1 or "" in tables)


def _is_window(test: exp.Expr) -> bool:
    """Windows that are equal on both sides end at the same time."""
    if not isinstance(test, exp.EQ):
        return False
    sides = (test.this.unnest(), test.expression.unnest())
    return all(isinstance(side, exp.Column) and side.name in WINDOW_COLUMNS for side in sides)
