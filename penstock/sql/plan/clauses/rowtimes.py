"""Track rowtime attributes from the tables that declare them upwards."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.catalog.errors import Span
from penstock.sql.dialect import window_tables
from penstock.sql.dialect.windows.window_tables import (
    WINDOW_COLUMNS,
    WindowKind,
    is_windowing,
)
from penstock.sql.plan.rules.aggregate import own_aggregates
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.joins import is_temporal
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.refusal import Refusal

__all__ = ["order_sources", "refuse_window", "rowtime_sources", "version_leaves"]


def rowtime_sources(node: exp.Expr, name: str, tables: Sequence[ScanFlow]) -> frozenset[int] | None:
    """Return the scans whose watermarks bound the rows of a relation; None where `name` is no rowtime.

    No scan at all: rows of an aggregation of windows come behind the watermark, those of one window before the next's.
    A rowtime stays one through projections, filters, UNNEST, UNION ALL, OVER, and on the left of temporal joins.
    """
    match node:
        case ScanTable():
            index, alias = node.scan, node.args.get("alias")
            renamed = alias is not None and alias.columns
            return frozenset({index}) if tables[index].rowtime == name and not renamed else None
        case exp.Table() if is_windowing(node):
            (window, *_) = window_tables(node)
            alias = node.args.get("alias")
            if name != WINDOW_COLUMNS[-1] or (alias is not None and alias.columns):
                return None
            return rowtime_sources(window.input, window.time_column, tables)
        case exp.Subquery():
            inner = _inner_name(node, name)
            return None if inner is None else rowtime_sources(node.this, inner, tables)
        case exp.Union() if not node.args.get("distinct"):
            return _of_union(node, name, tables)
        case exp.Select():
            return _of_select(node, name, tables)
        case _:
            return None


def version_leaves(node: exp.Expr) -> frozenset[int]:
    """Return the leaves that a versioned relation reads."""
    return frozenset(table.scan for table in node.find_all(ScanTable))


def _inner_name(node: exp.Subquery, name: str) -> str | None:
    alias = node.args.get("alias")
    names = [column.name for column in alias.columns] if alias is not None else []
    if not names:
        return name
    given = _names(node.this)
    return given[names.index(name)] if given is not None and name in names else None


def _names(query: exp.Expr) -> list[str] | None:
    """Name the columns of a query; None where a star stands for some."""
    first = query
    while not isinstance(first, exp.Select):
        first = first.this
    if any(item.find(exp.Star) for item in first.expressions):
        return None
    return [item.alias_or_name for item in first.expressions]


def _of_union(node: exp.Union, name: str, tables: Sequence[ScanFlow]) -> frozenset[int] | None:
    sides = [_names(side) for side in (node.this, node.expression)]
    if sides[0] is None or sides[1] is None:
        return None
    place = sides[0].index(name) if name in sides[0] else None
    if place is None or place >= len(sides[1]):
        return None
    one = rowtime_sources(node.this, name, tables)
    two = rowtime_sources(node.expression, sides[1][place], tables)
    if one is None or two is None or bool(one) != bool(two):
        return None
    return one | two


def _of_select(node: exp.Select, name: str, tables: Sequence[ScanFlow]) -> frozenset[int] | None:
    if node.args.get("from_") is None or node.args.get("distinct") is not None:
        return None
    if node.args.get("group") is not None or own_aggregates(node):
        return _of_windows(node, name, tables)
    joins = [*(node.args.get("joins") or []), *(node.args.get("laterals") or [])]
    nodes = [join.this if isinstance(join, exp.Join) else join for join in joins]
    joined = [n for n in nodes if isinstance(n, exp.Table | exp.Subquery)]
    if not all(map(is_temporal, joined)):
        return None
    first = node.args["from_"].this
    if is_windowing(first) and any(item.find(exp.Window) for item in node.expressions):
        return None  # the best rows of windows come when those close
    inner = _selected(node, name, first.alias_or_name)
    found = None if inner is None else rowtime_sources(first, inner, tables)
    return None if found is None else found.union(*map(version_leaves, joined))


def _of_windows(node: exp.Select, name: str, tables: Sequence[ScanFlow]) -> frozenset[int] | None:
    """Return no leaf for the time of the windows that a SELECT aggregates."""
    group, first = node.args.get("group"), node.args["from_"].this
    keys = {key.name for key in group.expressions} if group is not None else set()
    if not keys >= set(WINDOW_COLUMNS[:2]) or node.args.get("joins") or node.args.get("laterals"):
        return None
    inner = _selected(node, name, first.alias_or_name)
    found = None if inner is None else rowtime_sources(first, inner, tables)
    return None if found is None or inner != WINDOW_COLUMNS[-1] else frozenset()


def _selected(select: exp.Select, name: str, first: str) -> str | None:
    """Return the column of the first relation that a SELECT gives as `name`."""
    for item in select.expressions:
        value = item.unalias()
        if isinstance(value, exp.Column) and value.table in ("", first):
            if isinstance(value.this, exp.Star):
                return name
            if item.alias_or_name == name:
                return str(value.name)
    stars = any(isinstance(item, exp.Star) for item in select.expressions)
    return name if stars else None


def order_sources(
    select: exp.Select, tables: Sequence[ScanFlow], order: exp.Column
) -> frozenset[int] | None:
    """Return the sources of a column where it is still a rowtime in what the SELECT reads."""
    alone = select.copy()
    for part in ("windows", "distinct", "qualify"):
        alone.set(part, None)
    alone.set("expressions", [exp.alias_(order.copy(), "__time", quoted=True)])
    return rowtime_sources(alone, "__time", tables)


def refuse_window(
    kind: WindowKind,
    time_column: str,
    span: Span | None,
    sources: frozenset[int] | None,
    *,
    inserts: bool,
) -> Refusal | None:
    """Return why a stage's rows cannot be windowed: they are updated, have no rowtime there, or for SESSION.

    `sources` are the scans whose watermarks bound the time column; None: it is no rowtime.
    """
    if not inserts:
        return Refusal(
            message=f"{kind} over rows that are updated or deleted is not supported",
            hint="aggregate without a window into a table with a PRIMARY KEY: GROUP BY FLOOR(ts TO MINUTE), ...",
            span=span,
        )
    if not sources:
        return Refusal(
            message=f"{time_column} is not a rowtime of the rows that {kind} reads",
            hint="a rowtime is the column of a stream's WATERMARK, also in a query that selects it; write the rows "
            "into a table with a WATERMARK, and window that in a second INSERT",
            span=span,
        )
    if kind is WindowKind.SESSION:
        return Refusal(
            message="SESSION over the results of OVER or of a temporal join is not supported",
            hint="write them into a table with a WATERMARK, and window that in a second INSERT",
            span=span,
        )
    return None
