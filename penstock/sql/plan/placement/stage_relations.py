"""Relations of a FROM clause as stages read them: tables, windows of rows, Top-N, set operations."""

from __future__ import annotations

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_text
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.plan.clauses.select_clauses import (
    read_numbered_order,
    refuse_column_counts,
    refuse_set_operation,
    refuse_unnamed_column,
)
from penstock.sql.plan.clauses.windows import refuse_window
from penstock.sql.plan.logical.nodes import Scan, SubqueryAlias, TemporalJoin, TopN, WindowAssign
from penstock.sql.plan.placement.stage_select import (
    ONE,
    Streamed,
    distinct_rows,
    mechanism_at,
    name_value,
    streamed_rows,
)
from penstock.sql.plan.placement.stage_source import StageSource
from penstock.sql.plan.placement.trait import StageTrait
from penstock.sql.plan.rules.flow import OperatorKind
from penstock.sql.plan.rules.row_number import RowNumberQuery, check_row_number
from penstock.sql.syntax.refusal import Refusal

__all__ = ["set_rows", "table_rows", "top_n_rows", "version_rows", "window_rows"]


def set_rows(place: exp.SetOperation, left: StageTrait, right: StageTrait) -> StageTrait | Refusal:
    """Return the rows of a set operation, column by column."""
    refusal = refuse_set_operation(place) or refuse_column_counts(
        place, len(left.columns), len(right.columns)
    )
    if refusal is not None:
        return refusal
    distinct = bool(place.args.get("distinct"))
    if not isinstance(place, exp.Union):
        mechanism = mechanism_at(OperatorKind.SET, left.columns, "the rows of both sides", place)
        key = left.columns if distinct else None
        return StageTrait(
            columns=left.columns, stays=False, key=key, mechanism=mechanism, origin=place
        )
    like = left if left.mechanism is not None or not left.stays else right
    rows = StageTrait(
        columns=left.columns,
        stays=left.stays and right.stays,
        mechanism=like.mechanism,
        origin=like.origin,
    )
    return distinct_rows(rows, place) if distinct else rows


def table_rows(scan: Scan, needed: frozenset[str] | None) -> StageTrait:
    """Return the columns `needed` (None: all) of a table: rows that stay are left to Spark."""
    if scan.changes is ChangelogMode.INSERT_ONLY:
        names = tuple(n for n in scan.facts.names or () if needed is None or n in needed)
        return StageTrait(columns=names or (ONE,), stays=True, native=True)
    own = scan.key if scan.changes is ChangelogMode.UPSERT and scan.key is not None else ()
    known = scan.facts.names or ()
    known = (*known, *(name for name in own if name not in known))
    names = tuple(n for n in known if needed is None or n in needed or n in own)
    key = scan.key if scan.key is not None and set(scan.key) <= set(names) else None
    return StageTrait(columns=names, stays=False, key=key, origin=scan.place)


def window_rows(node: WindowAssign, given: StageTrait) -> StageTrait | Refusal:
    """Return rows of a stage with their windows."""
    refusal = refuse_window(
        node.kind,
        node.time_column,
        node.span,
        node.input.facts.sources(node.time_column),
        inserts=given.stays,
    )
    if refusal is not None:
        return refusal
    return StageTrait(
        columns=(*given.columns, *WINDOW_COLUMNS),
        stays=True,
        constants=given.constants,
        mechanism=given.mechanism,
        origin=given.origin,
    )


def version_rows(join: TemporalJoin, place: exp.Expr, needed: frozenset[str] | None) -> StageTrait:
    """Return the versions on the right side of a temporal join, with the columns `needed` and those that make them."""
    alias = join.right
    assert isinstance(alias, SubqueryAlias), "each relation has a name"
    own = {*join.key, join.time}
    given = alias.input.facts.names or ()
    given = (*given, *(name for name in join.key if name not in given))
    names = tuple(n for n in given if needed is None or n in needed or n in own)
    return StageTrait(columns=names, stays=False, key=join.key, origin=place)


def top_n_rows(
    node: TopN, numbered: RowNumberQuery, source: StageSource | Streamed
) -> StageTrait | Refusal:
    """Return the best rows of `source`, under the names that their reader knows."""
    refusal = check_row_number(numbered)
    if refusal is not None:
        return refusal
    columns = [(name, value) for name, value in node.items if name != node.number]
    names = [name for name, _ in columns]
    if not all(names) or len(set(names)) < len(names):
        return refuse_unnamed_column(numbered)
    parts = read_numbered_order(numbered)
    if isinstance(parts, Refusal):
        return parts
    partition = [name_value(part, columns) for part in node.partition]
    for part in parts[1 if node.by_arrival else 0 :]:
        name_value(part.this, columns)
    rows = source.project(columns) if isinstance(source, StageSource) else streamed_rows(columns)
    if isinstance(rows, Refusal):
        return rows
    one = node.limit == 1 and not node.ties
    key = rows.key if rows.key is not None and set(rows.key) <= set(names) else None
    if set(partition) <= set(names):
        if one:
            key = tuple(partition)
        elif not node.ties and node.shows_number:
            key = (*partition, node.number)
    shown = [n for n, _ in node.items if node.shows_number or n != node.number]
    alone = node.shows_number and node.limit == 1
    spelled = tuple(to_text(part) for part in node.partition)
    return StageTrait(
        columns=tuple(shown),
        stays=rows.stays and one and node.by_arrival and not parts[0].args.get("desc"),
        key=key,
        constants=frozenset({node.number}) if alone else frozenset(),
        mechanism=mechanism_at(OperatorKind.TOP_N, spelled, "the best rows", numbered.item),
        origin=numbered.item,
    )
