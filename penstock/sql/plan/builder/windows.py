"""The windows that the rows of a block are of, by the columns of its relations that are their bounds.

A bound is known by where it comes from, whatever queries name it: a windowing function gives it, and projections,
aliases, UNION ALL, aggregations by windows and inner window joins pass it on. Called by the builder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS, is_windowing
from penstock.sql.plan.builder.relations import ColumnRef, Scope, ScopedRelation
from penstock.sql.plan.clauses.joins import join_type, using_names
from penstock.sql.plan.logical.facts import Facts, Item, Window, WindowTime
from penstock.sql.plan.logical.nodes import JoinType
from penstock.sql.plan.rules.joins import is_temporal
from penstock.sql.plan.rules.lookup_join import is_lookup
from penstock.sql.syntax.traversal import conjuncts

_START, _END, _TIME = WINDOW_COLUMNS


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockWindows:
    """The windows of the rows that FROM and WHERE give. `joins`: its relations are joined by them."""

    scope: Scope = field(default_factory=lambda: Scope(relations=()))
    windows: tuple[Window[ColumnRef], ...] = ()
    joins: bool = False

    def grouped(self, keys: Sequence[exp.Expr]) -> Window[ColumnRef] | None:
        """Return the window whose bounds are among grouping columns.

        None for those of several windows: Spark ends groups by one column alone.
        """
        columns = {self.scope.column_ref(key) for key in keys}
        if sum(len(window.ends & columns) for window in self.windows) != 1:
            return None
        found = (w for w in self.windows if w.starts & columns and w.ends & columns)
        return next(found, None)

    def listed(self, items: Sequence[Item], *, closed: bool = False) -> tuple[Window[str], ...]:
        """Return the windows under the names that a SELECT list gives their columns.

        `closed`: its rows come when they are closed.
        """
        if not self.windows or any(value.is_star for _, value in items):
            return ()
        counts = Counter(name for name, _ in items)
        names: dict[ColumnRef, list[str]] = {}
        for name, value in items:
            column = self.scope.column_ref(value)
            if column is not None and counts[name] == 1:
                names.setdefault(column, []).append(name)
        renamed = (window.under(lambda column: names.get(column, ())) for window in self.windows)
        found = tuple(window for window in renamed if window is not None)
        return tuple(replace(w, sources=frozenset()) for w in found) if closed else found


def block_windows(
    select: exp.Select,
    first: ScopedRelation,
    joined: Sequence[tuple[exp.Join, ScopedRelation]],
) -> BlockWindows:
    """Return the windows of the relations in FROM, of which those behind the first are `joined`."""
    scope = Scope(relations=(first, *(relation for _, relation in joined)))
    if not any(relation.windows for relation in scope.relations):
        return BlockWindows(scope=scope)
    where = select.args.get("where")
    if where is not None and where.find(exp.Query) is not None:
        return BlockWindows(scope=scope)
    regular = [(j, r) for j, r in joined if not is_lookup(j) and not is_temporal(j.this)]
    if not regular:
        return BlockWindows(scope=scope, windows=_windows_of(first))
    if len(regular) > 1 or any(is_temporal(join.this) for join, _ in joined):
        return BlockWindows(scope=scope)
    ((join, right),) = regular
    inner = join_type(join) in (JoinType.INNER, JoinType.CROSS)
    tests = conjuncts(join.args.get("on"))
    if inner and where is not None:
        tests += conjuncts(where.this)
    pairs = [_pair(test, scope) for test in tests]
    pairs += [frozenset({(first.alias, n), (right.alias, n)}) for n in using_names(join)]
    both = _compared(_windows_of(first), _windows_of(right), pairs)
    if both is None:
        return BlockWindows(scope=scope)
    return BlockWindows(scope=scope, windows=(both,) if inner else (), joins=True)


def _windows_of(relation: ScopedRelation) -> tuple[Window[ColumnRef], ...]:
    found = (window.under(lambda name: ((relation.alias, name),)) for window in relation.windows)
    return tuple(window for window in found if window is not None)


def _compared(
    left: Sequence[Window[ColumnRef]],
    right: Sequence[Window[ColumnRef]],
    pairs: Sequence[AbstractSet[ColumnRef | None]],
) -> Window[ColumnRef] | None:
    """Return the window of joined rows; None where its two bounds are not compared for equality.

    Also where a side has more than one end: Spark drops the rows of a side by one column alone.
    """
    if any(sum(len(window.ends) for window in side) != 1 for side in (left, right)):
        return None
    (one,), (two,) = left, right
    for bounds in ((one.starts, two.starts), (one.ends, two.ends)):
        if not any(len(pair) == 2 and all(pair & bound for bound in bounds) for pair in pairs):
            return None
    return Window(
        starts=one.starts | two.starts,
        ends=one.ends | two.ends,
        times=one.times | two.times,
        sources=one.sources | two.sources if one.sources and two.sources else frozenset(),
    )


def _pair(test: exp.Expr, scope: Scope) -> frozenset[ColumnRef | None]:
    """Return the two columns that a condition compares for equality; others are None."""
    bare = test.unnest()
    if not isinstance(bare, exp.EQ):
        return frozenset()
    return frozenset(scope.column_ref(side.unnest()) for side in (bare.this, bare.expression))


def reads_windows(select: exp.Select) -> bool:
    """Return whether the first relation is a windowing function: its best rows come when windows close."""
    from_ = select.args.get("from_")
    return from_ is not None and is_windowing(from_.this)


def closed_by_name(select: exp.Select, source: Facts, first: str) -> WindowTime | None:
    """Return by which time the windows of grouping columns are closed that have the names of a windowing function.

    `source` are the facts of FROM, whose first relation is named `first`.
    """
    group = select.args.get("group")
    keys = group.expressions if group is not None else []
    names = {key.name for key in keys if isinstance(key, exp.Column)}
    if not names >= {_START, _END} or select.args.get("joins"):
        return None
    sources = source.sources(_TIME)
    if not sources:
        return None
    return WindowTime(column=exp.column(_TIME, first or None, quoted=True), sources=sources)


def closed_by(window: Window[ColumnRef]) -> WindowTime | None:
    """Return by which time a window is closed: its end, where its time is not among the columns."""
    if not window.sources:
        return None
    relation, name = min(window.times or window.ends)
    column = exp.column(name, relation or None, quoted=True)
    return WindowTime(column=column, sources=window.sources)
