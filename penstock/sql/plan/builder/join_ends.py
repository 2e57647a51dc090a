"""The times at which rows of a join of two streams match no later row: for joins that run by keyed operators.

A comparison `later >= earlier` ends a row with the time `later`, when the watermark of the other side has passed that:
where `earlier` is a rowtime of rows that come as they are, or the end of a window of rows that come when it is closed.
Rows that an outer join keeps come as they are, and end by the rowtime by which they are late: then the rows that they
may have matched are known to end with them. Other joins are Spark's. Called by the builder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect.windows.window_tables import WindowKind
from penstock.sql.plan.builder.bounds import compared
from penstock.sql.plan.builder.relations import Scope
from penstock.sql.plan.clauses.joins import join_type
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.plan import walk
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.joins import has_inner_query, is_time
from penstock.sql.syntax.intervals import interval_value
from penstock.sql.syntax.parse_errors import NodeError
from penstock.sql.syntax.traversal import conjuncts, from_items, is_table


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """A side of a join. `closed`: its rows come when the watermark has closed their windows."""

    relation: nodes.SubqueryAlias
    closed: bool

    @property
    def alias(self) -> str:
        return self.relation.alias

    def sources(self, name: str) -> frozenset[int] | None:
        """Return the scans behind whose watermarks no row has this time; None where there is no such bound.

        None of them: rows of closed windows.
        """
        facts = self.relation.facts
        if not self.closed and facts.sources(name):
            return facts.sources(name)
        for window in facts.windows:
            if name in window.ends | window.times and self.closed != bool(window.sources):
                return window.sources
        return frozenset() if self.closed and _is_end(self.relation, name) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """A comparison that ends the rows of a side: its time, the rowtime of the other side, and the time between."""

    later: exp.Column
    earlier: exp.Column
    micros: int


def join_ends(
    select: exp.Select,
    join: exp.Join,
    sides: tuple[nodes.SubqueryAlias, nodes.SubqueryAlias],
    scope: Scope,
    tables: Sequence[ScanFlow],
) -> nodes.JoinEnds | None:
    """Return when the rows of both sides of a join end, the only one of a FROM; None where that is not known.

    `tables` are those of the query.
    """
    padded = _PADDED_SIDES.get(join_type(join))
    if padded is None or has_inner_query(select) or not all(map(is_table, from_items(select))):
        return None
    left, right = (_side(relation) for relation in sides)
    if left is None or right is None or left.alias == right.alias:
        return None
    # an outer join has its rows whatever WHERE says of them
    where = [] if any(padded) else conjuncts(select.args.get("where"))
    tests = [*conjuncts(join.args.get("on")), *where]
    of_left, of_right = _ending(left, right, tests, scope), _ending(right, left, tests, scope)
    if of_left is None or of_right is None:
        return None
    if any(padded) and (left.closed or right.closed):
        return None
    late_by = ((of_left, of_right), (of_right, of_left))
    if any(
        k and own.later.name != other.earlier.name
        for k, (own, other) in zip(padded, late_by, strict=True)
    ):
        return None
    timed = (number for number, table in enumerate(tables) if table.rowtime is not None)
    # Spark closes windows by the lowest watermark of all
    sources = frozenset(timed) if left.closed or right.closed else _sources(left, of_right)
    if not (left.closed or right.closed):
        sources |= _sources(right, of_left)
    if not sources:
        return None
    return nodes.JoinEnds(
        sides=(
            _end(of_left, None if left.closed else of_right.earlier),
            _end(of_right, None if right.closed else of_left.earlier),
        ),
        waits_for=sources,
    )


_PADDED_SIDES = {
    nodes.JoinType.INNER: (False, False),
    nodes.JoinType.CROSS: (False, False),
    nodes.JoinType.LEFT: (True, False),
    nodes.JoinType.RIGHT: (False, True),
    nodes.JoinType.FULL: (True, True),
}
"""Which sides a join keeps the rows of that match none."""


def _end(found: _Comparison, rowtime: exp.Column | None) -> nodes.JoinEnd:
    return nodes.JoinEnd(column=found.later, micros=found.micros, rowtime=rowtime)


def _sources(side: _Side, found: _Comparison) -> frozenset[int]:
    """Return the scans that bound the rowtime of a side, which `found` compares with a time of the other."""
    return side.sources(found.earlier.name) or frozenset()


def _ending(
    side: _Side, other: _Side, tests: Sequence[exp.Expr], scope: Scope
) -> _Comparison | None:
    """Return the comparison that ends rows of a side first."""
    found = [one for test in tests for one in _comparisons(test, side, other, scope)]
    return min(found, key=lambda one: one.micros, default=None)


def _comparisons(test: exp.Expr, side: _Side, other: _Side, scope: Scope) -> Iterator[_Comparison]:
    for one, two in compared(test.unnest()):
        later, earlier = _moved(one), _moved(two)
        if later is None or earlier is None or _kind(later[0]) != _kind(earlier[0]):
            continue
        owners = [scope.column_ref(column) for column, _ in (later, earlier)]
        if owners != [(side.alias, later[0].name), (other.alias, earlier[0].name)]:
            continue
        if other.sources(earlier[0].name) is not None:
            yield _Comparison(later=later[0], earlier=earlier[0], micros=later[1] - earlier[1])


def _kind(value: exp.Expr) -> exp.DType | None:
    """Return whether a time is an instant or a local time, whatever its precision."""
    return None if value.type is None else value.type.this


def _moved(value: exp.Expr) -> tuple[exp.Column, int] | None:
    """Return a time and the microseconds that are added to it; None for other values."""
    bare, micros = value.unnest(), 0
    while isinstance(bare, exp.Add | exp.Sub) and isinstance(bare.expression, exp.Interval):
        try:
            interval = interval_value(bare.expression)
        except NodeError:
            return None
        if interval.year_month:
            return None
        micros += interval.micros if isinstance(bare, exp.Add) else -interval.micros
        bare = bare.this.unnest()
    return (bare, micros) if isinstance(bare, exp.Column) and is_time(bare) else None


# --- sides ---

_ROW_BY_ROW = (nodes.Scan, nodes.SubqueryAlias, nodes.Project, nodes.Filter, nodes.WindowAssign)


def _side(relation: nodes.SubqueryAlias) -> _Side | None:
    """Return a side whose rows come as tables have them, or in closed windows of such; None for others."""
    top: nodes.Node = relation
    while isinstance(top, nodes.SubqueryAlias | nodes.Project | nodes.Filter):
        top = top.input
    parts = list(walk(top))
    closed = _is_windowed(top)
    allowed = all(
        isinstance(part, _ROW_BY_ROW) or _is_union(part) or (closed and _is_windowed(part))
        for part in parts
    )
    return _Side(relation=relation, closed=closed) if allowed and all(map(_comes, parts)) else None


def _is_end(node: nodes.Node, name: str) -> bool:
    """Return whether a column is the end or the time of aggregated windows, whose start need not be selected."""
    match node:
        case nodes.SubqueryAlias(input=below, names=()):
            return _is_end(below, name)
        case nodes.Filter(input=below):
            return _is_end(below, name)
        case nodes.Project(input=below, items=items):
            found = [value for own, value in items if own == name]
            return (
                len(found) == 1
                and isinstance(found[0], exp.Column)
                and _is_end(below, found[0].name)
            )
        case nodes.Aggregate(input=below, items=items, windowed=True):
            found = [value for own, value in items if own == name]
            if len(found) != 1 or not isinstance(found[0], exp.Column):
                return False
            windows = below.facts.windows
            return any(found[0].name in window.ends | window.times for window in windows)
        case _:
            return False


def _is_windowed(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Aggregate | nodes.Distinct) and node.windowed


def _is_union(node: nodes.Node) -> bool:
    return isinstance(node, nodes.SetOp) and node.kind is nodes.SetKind.UNION and node.all


def _comes(node: nodes.Node) -> bool:
    """Return whether rows of a table are followed as inserts, and not held by their windows."""
    match node:
        case nodes.Scan():
            return node.changes is ChangelogMode.INSERT_ONLY and not node.static
        case nodes.WindowAssign():
            return node.kind is not WindowKind.SESSION
        case _:
            return True
