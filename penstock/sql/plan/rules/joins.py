"""Classify joins: interval joins, which Spark's append mode runs, regular joins, and temporal joins in event time.

Lookup joins, whose time is a processing time, are removed before; `incremental/planning/temporal_join.py` plans
temporal joins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.plan.rules.lookup_join import is_lookup
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import find_nodes

__all__ = [
    "check_temporal",
    "compares_windows",
    "has_inner_query",
    "has_temporal",
    "is_bounded",
    "is_regular",
    "is_temporal",
    "updates",
]

_RANGES = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)

_TIMES = (exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMP)


def is_regular(select: exp.Select) -> bool:
    """Return whether a SELECT joins relations without a bound in time (an interval or windows), or has a query in
    WHERE.

    Over streams each of their rows may match one that arrives at any time.
    """
    return (bool(_tables(select)) and not is_bounded(select)) or has_inner_query(select)


def updates(select: exp.Select) -> exp.Expr | None:
    """Return the first regular join of a SELECT whose rows do not stay: an outer one, or a query in WHERE."""
    outer = next((join for join in _tables(select) if join.side), None)
    if outer is not None and not is_bounded(select):
        return outer
    return select.args["where"] if has_inner_query(select) else None


def _tables(select: exp.Select) -> list[exp.Join]:
    joins: Sequence[exp.Expr] = select.args.get("joins") or []
    return [
        join
        for join in joins
        if isinstance(join, exp.Join)
        and isinstance(join.this, exp.Table | exp.Subquery)
        and not is_lookup(join)
    ]


def has_inner_query(select: exp.Select) -> bool:
    """Return whether the WHERE of a SELECT has a query that compares no interval and no window."""
    where = select.args.get("where")
    if where is None:
        return False
    inner = where.find(exp.Query)
    found = inner.unnest() if inner is not None else None
    return found is not None and not (isinstance(found, exp.Select) and is_bounded(found))


def is_bounded(select: exp.Select) -> bool:
    """Return whether a SELECT compares an interval of time or a window, so that its joins end with the watermark."""
    return any(_is_range_of_time(c) or _is_window(c) for c in _conditions(select))


def compares_windows(select: exp.Select) -> bool:
    """Return whether a SELECT compares windows of its relations."""
    return any(map(_is_window, _conditions(select)))


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
    times = {(c.table, c.name) for c in find_nodes(test, exp.Column) if _is_time(c)}
    tables = {table for table, _ in times}
    # a bare name may be of any table
    return len(times) > 1 and (len(tables) > 1 or "" in tables)


def _is_time(column: exp.Column) -> bool:
    kind = column.type
    return kind is not None and kind.this in _TIMES


def _is_window(test: exp.Expr) -> bool:
    """Windows that are equal on both sides end at the same time."""
    if not isinstance(test, exp.EQ):
        return False
    sides = (test.this.unnest(), test.expression.unnest())
    return all(isinstance(side, exp.Column) and side.name in WINDOW_COLUMNS for side in sides)


_HINT = "FROM stream AS s JOIN t FOR SYSTEM_TIME AS OF s.ts AS t ON s.id = t.id"


def has_temporal(query: exp.Expr) -> bool:
    """Return whether a query has a temporal join in event time.

    Raises UnsupportedError for FOR SYSTEM_TIME AS OF outside a join, or of no column.
    """
    found = [node for node in find_nodes(query, exp.Table, exp.Subquery) if is_temporal(node)]
    for node in found:
        version = node.args["version"]
        if not isinstance(node.parent, exp.Join):
            raise UnsupportedError(
                "FOR SYSTEM_TIME AS OF stands in a join, behind the table on its right side",
                hint=_HINT,
                span=span_of(version),
            )
        if not isinstance(version.expression, exp.Column):
            raise UnsupportedError(
                "a temporal join in event time takes a column of its left side, its rowtime: the versions of a table "
                "at a fixed time are not kept",
                hint=f"{_HINT}; or FOR SYSTEM_TIME AS OF PROCTIME() for the rows of now",
                span=span_of(version.expression) or span_of(version),
            )
    return bool(found)


def is_temporal(node: exp.Expr) -> bool:
    """Return whether a relation in FROM is joined as of an event time."""
    return node.args.get("version") is not None


def check_temporal(node: exp.Expr) -> Refusal | None:
    """Refuse a relation that is joined as of an event time: Spark does not stream that."""
    if is_temporal(node):
        return Refusal(
            message="a temporal join in event time keeps versions, which Spark does not by itself",
            hint="write its rows into a table with a WATERMARK, and window those",
            span=span_of(node.args["version"]),
        )
    return None
