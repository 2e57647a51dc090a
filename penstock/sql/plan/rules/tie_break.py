"""Tie-breaking of ROW_NUMBER: Flink's rule, and how a query carries the arrival order of rows.

Flink keeps rows of one sort key in order of arrival (AppendOnlyTopNFunction, TopNBuffer), and the first row of a key
stays when another of the same time arrives. Only the last row of a key by a rowtime, ORDER BY ts DESC and the number
1, gives way to one of the same time (RowTimeDeduplicateFunction, keepLastRow).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.connector.scan import ARRIVED
from penstock.sql.dialect import window_tables
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS, is_windowing
from penstock.sql.plan.logical.scan_traits import Arrival, TieBreak
from penstock.sql.plan.rules.aggregate import own_aggregates
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.row_number import RowNumberQuery
from penstock.sql.syntax.nodes import ScanTable

__all__ = ["TieBreak", "arrival_carriers", "carry_arrival", "winner"]


def winner(numbered: RowNumberQuery, tables: Sequence[ScanFlow]) -> TieBreak:
    """Return which of the tied rows is taken."""
    order = numbered.window.args.get("order")
    parts = order.expressions if order is not None else []
    if numbered.limit > 1 or len(parts) != 1 or not parts[0].args.get("desc"):
        return TieBreak.FIRST
    (by,) = parts
    is_time = isinstance(by.this, exp.Column) and _is_rowtime(
        numbered.select, by.this.name, tables, inside=True
    )
    return TieBreak.LAST if is_time else TieBreak.FIRST


def arrival_carriers(select: exp.Select, tables: Sequence[ScanFlow]) -> list[exp.Expr] | None:
    """Return the tables and the SELECTs that give FROM the column ARRIVED; None where rows have no arrival order.

    They have one as long as each is a row of a table: through projections, filters, windows and UNION ALL.
    """
    if select.args.get("from_") is None or _joins(select):
        return None
    return _carriers(select.args["from_"].this, tables)


def carry_arrival(carriers: Sequence[exp.Expr]) -> None:
    """Add the column ARRIVED to tables and SELECTs."""
    for node in carriers:
        if isinstance(node, exp.Select):
            node.append("expressions", exp.column(ARRIVED, quoted=True))
        else:
            node.set("arrives", True)


def _carriers(node: exp.Expr, tables: Sequence[ScanFlow]) -> list[exp.Expr] | None:
    """Return the tables and the SELECTs that have to provide the column; None where that is impossible."""
    if _names_columns(node):
        return None
    match node:
        case ScanTable():
            return [node] if tables[node.scan].arrival is Arrival.RECORD else None
        case exp.Table() if is_windowing(node):
            (window, *_) = window_tables(node)
            return _carriers(window.input, tables)
        case exp.Subquery():
            return _carriers(node.this, tables)
        case exp.Union() if not node.args.get("distinct"):
            return _of_union(node, tables)
        case exp.Select():
            return _of_select(node, tables)
        case _:
            return None


def _of_select(select: exp.Select, tables: Sequence[ScanFlow]) -> list[exp.Expr] | None:
    clauses = ("group", "having", "distinct", "order", "limit", "offset", "qualify")
    if any(select.args.get(clause) is not None for clause in clauses) or _joins(select):
        return None
    if own_aggregates(select) or any(item.find(exp.Window) for item in select.expressions):
        return None
    from_ = select.args.get("from_")
    found = None if from_ is None else _carriers(from_.this, tables)
    if found is None or any(item.find(exp.Star) for item in select.expressions):
        return found  # a star has it with the others
    return [*found, select]


def _of_union(union: exp.Union, tables: Sequence[ScanFlow]) -> list[exp.Expr] | None:
    """Carry it through both sides, as the last column; rows of one table on both would have the same."""
    sides = [_carriers(side, tables) for side in (union.this, union.expression)]
    if sides[0] is None or sides[1] is None:
        return None
    selects = [s for side in (union.this, union.expression) for s in side.find_all(exp.Select)]
    if any(item.find(exp.Star) for select in selects for item in select.expressions):
        return None
    read = [
        {n.scan for n in side if isinstance(n, ScanTable)} for side in sides if side is not None
    ]
    return None if read[0] & read[1] else [*sides[0], *sides[1]]


def _joins(select: exp.Select) -> bool:
    return bool(select.args.get("joins") or select.args.get("laterals"))


def _names_columns(node: exp.Expr) -> bool:
    alias = node.args.get("alias")
    return isinstance(alias, exp.TableAlias) and bool(alias.columns)


# --- rowtimes ---


def _is_rowtime(
    node: exp.Expr, name: str, tables: Sequence[ScanFlow], *, inside: bool = False
) -> bool:
    """Return whether a column of a relation is a time attribute of event time; `inside`: of the FROM of a SELECT.

    The windows of TABLE(TUMBLE(...)) keep the rowtime a time attribute for deduplication (WindowDeduplicate).
    """
    match node:
        case ScanTable():
            return tables[node.scan].rowtime == name and not _names_columns(node)
        case exp.Table() if is_windowing(node):
            (window, *_) = window_tables(node)
            inner = window.time_column if name == WINDOW_COLUMNS[-1] else name
            return not _names_columns(node) and _is_rowtime(window.input, inner, tables)
        case exp.Subquery():
            return not _names_columns(node) and _is_rowtime(node.this, name, tables)
        case exp.Union() if not node.args.get("distinct"):
            return all(_is_rowtime(side, name, tables) for side in (node.this, node.expression))
        case exp.Select() if node.args.get("from_") is not None and not _joins(node):
            if node.args.get("group") is not None or node.args.get("distinct") is not None:
                return False
            given = name if inside else _given(node, name)
            return given is not None and _is_rowtime(node.args["from_"].this, given, tables)
        case _:
            return False


def _given(select: exp.Select, name: str) -> str | None:
    """Return the column that a SELECT gives as `name`."""
    for item in select.expressions:
        value = item.unalias()
        if item.alias_or_name == name and not isinstance(value, exp.Star):
            plain = isinstance(value, exp.Column) and not isinstance(value.this, exp.Star)
            return str(value.name) if plain else None
    return name if any(item.find(exp.Star) for item in select.expressions) else None
