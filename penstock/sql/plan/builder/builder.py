"""Build a logical plan from the syntax of a query; this never fails.

What there is no operator for becomes Opaque, which Spark may still run as it is. What can be read and cannot be run
is built all the same: placement refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.sql.dialect import window_tables
from penstock.sql.dialect.rewrites.unfold_grouping_sets import described_sets
from penstock.sql.dialect.windows.window_tables import is_windowing
from penstock.sql.plan.builder.bounds import join_time_bounds
from penstock.sql.plan.builder.join_ends import join_ends
from penstock.sql.plan.builder.joins import (
    INNER,
    join_node,
    lookup_node,
    name_outer_columns,
    query_conditions,
    scans_in,
    semi_join_node,
    temporal_node,
)
from penstock.sql.plan.builder.relations import (
    Scope,
    ScopedRelation,
    SelectList,
    StateHints,
    aliased,
    function_node,
    has_over,
    named_relation,
    names_columns,
    read_select_list,
    scan_node,
    shown_columns,
    unnest_node,
    window_node,
)
from penstock.sql.plan.builder.top_n import shows_number, top_n
from penstock.sql.plan.builder.windows import (
    BlockWindows,
    block_windows,
    closed_by,
    closed_by_name,
    reads_windows,
)
from penstock.sql.plan.clauses.over import over_calls
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.facts import (
    Arrival,
    Facts,
    GroupKey,
    facts_of_projection,
    facts_of_set_operation,
    facts_of_windowed_aggregate,
    windows_of_union,
)
from penstock.sql.plan.logical.plan import Plan
from penstock.sql.plan.rules.aggregate import is_windowed, own_aggregates
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.inline import inline_ctes
from penstock.sql.plan.rules.joins import bound_of, has_inner_query, is_temporal
from penstock.sql.plan.rules.lookup_join import is_lookup
from penstock.sql.plan.rules.top_n import RowNumberQuery, find_row_number, winner
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import attach, source_of
from penstock.sql.syntax.traversal import copy_tree, from_items, is_table

_LIMITS = ("order", "limit", "offset", "fetch")


def build(
    tree: exp.Expr,
    tables: Sequence[ScanFlow],
    lookups: frozenset[int] = frozenset(),
    *,
    follows_windows: bool = True,
) -> Plan:
    """Build the plan of a query.

    `tree` has no views, and its table nodes have their number in `tables`; grouping sets are unfolded,
    and the tables of lookup joins, `lookups`, are marked. It is not changed. Without `follows_windows` the bounds of
    windows are known by their names alone.
    """
    own = inline_ctes(copy_tree(tree))
    name_outer_columns(own, tables)
    hints = StateHints(own)
    builder = _PlanBuilder(tables, hints, follows_windows=follows_windows)
    root = builder.query(own)
    return Plan(
        root=root,
        scans=tuple(scan_node(index, table) for index, table in enumerate(tables)),
        lookups=lookups,
        hints=hints.hints,
        follows_windows=builder.followed,
        tree=tree,
        inlined=own,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """FROM and WHERE of a SELECT: the operator, the names of its relations, and the windows of its rows."""

    node: nodes.Node
    scope: Scope
    windows: BlockWindows
    block: nodes.Block


class _PlanBuilder:
    """Builds the operators of a query, in which no query has a name of its own (WITH).

    `followed`: names alone do not tell that some operator is one of windows.
    """

    def __init__(
        self, tables: Sequence[ScanFlow], hints: StateHints, *, follows_windows: bool
    ) -> None:
        self.followed = False
        self._follows_windows = follows_windows
        self._tables = tables
        self._hints = hints
        self._proctimes = frozenset[str]().union(*(table.proctimes for table in tables))
        self._open = any(table.arrival is Arrival.OPEN for table in tables)

    def query(self, node: exp.Expr) -> nodes.Node:
        """Build a query."""
        match node:
            case exp.Select():
                return self._select(node)
            case exp.SetOperation():
                return self._set_operation(node)
            case exp.Subquery():
                inner = self.query(node.this)
                return _limited(inner, node) or inner
            case _:
                return function_node(node)

    # --- UNION, INTERSECT, EXCEPT ---

    def _set_operation(self, node: exp.SetOperation) -> nodes.Node:
        chain = [node]
        while isinstance(chain[-1].this, exp.SetOperation):
            chain.append(chain[-1].this)
        left = self.query(chain[-1].this)
        for part in reversed(chain):
            combined = _combined(part, left, self.query(part.expression))
            left = _limited(combined, part) or combined
        return left

    # --- FROM ---

    def _from(self, select: exp.Select) -> tuple[_Source, exp.Where | None]:
        """Build a FROM clause; returns the WHERE without the bounds of queries that number rows, too."""
        from_, where = select.args.get("from_"), select.args.get("where")
        if from_ is None:
            none = nodes.Values(facts=Facts(columns=()), origin=select, syntax=select)
            windows = BlockWindows()
            block = self._block(select, windows, nodes.JoinBound.NONE)
            return _Source(node=none, scope=windows.scope, windows=windows, block=block), where
        first, where = self._relation(from_.this, select, where)
        rights: dict[int, tuple[nodes.SubqueryAlias, ScopedRelation]] = {}
        tables: list[tuple[exp.Join, ScopedRelation]] = []
        for join in _joins(select):
            if isinstance(join, exp.Join) and is_table(join.this):
                right, where = self._relation(join.this, select, where)
                rights[id(join)] = right, named_relation(right)
                tables.append((join, rights[id(join)][1]))
        named = named_relation(first)
        bound, windows = bound_of(select), block_windows(select, named, tables)
        if windows.joins and bound is nodes.JoinBound.INTERVAL:
            # Spark keeps no state behind an interval join
            windows = BlockWindows(scope=windows.scope)
        joins = [(join, rights[id(join)][0]) for join, _ in tables]
        bounds = join_time_bounds(select, first, joins, windows.scope)
        if not windows.joins and not all(found.ends_filled for found in bounds.values()):
            bound = nodes.JoinBound.NONE  # an outer join does not end
        block = self._block(select, windows, bound)
        left: nodes.Node = first
        scope = Scope(relations=(named,))
        joined = [first]
        for join in _joins(select):
            if not isinstance(join, exp.Join) or id(join) not in rights:
                unfolded = unnest_node(left, join, block)
                left, scope = unfolded, scope.with_relation(named_relation(unfolded))
                continue
            right, named = rights[id(join)]
            scopes = (scope, Scope(relations=(named,)))
            left = self._joined(left, right, join, scopes, block, joined)
            if isinstance(left, nodes.Join):
                of_all = windows.joins or not block.bounded
                left = replace(left, bound=block.bound if of_all else bounds[id(join)].bound)
                if left.bound is not nodes.JoinBound.NONE and len(block.relations) == 2:
                    ends = join_ends(select, join, (first, right), windows.scope, self._tables)
                    left = replace(left, ends=ends)
            scope = scope.with_relation(named)
            joined.append(right)
        return _Source(node=left, scope=scope, windows=windows, block=block), where

    def _block(
        self, select: exp.Select, windows: BlockWindows, bound: nodes.JoinBound
    ) -> nodes.Block:
        if windows.joins and bound is nodes.JoinBound.NONE:
            bound, self.followed = nodes.JoinBound.WINDOW, True
        return nodes.Block(
            select=select,
            relations=tuple(node.alias_or_name for node in from_items(select)),
            bound=bound,
            has_query=has_inner_query(select),
        )

    def _joined(
        self,
        left: nodes.Node,
        right: nodes.SubqueryAlias,
        node: exp.Join,
        scopes: tuple[Scope, Scope],
        block: nodes.Block,
        joined: Sequence[nodes.SubqueryAlias],
    ) -> nodes.Node:
        if is_lookup(node):
            return lookup_node(left, right, node, block)
        if is_temporal(node.this):
            return temporal_node(
                left, right, node, scopes[0], block, joined=joined, tables=self._tables
            )
        life = self._hints.of(block.select, right.alias)
        # of what an earlier join gave, no hint can speak
        first = self._hints.of(block.select, joined[0].alias) if len(joined) == 1 else None
        return join_node(left, right, node, scopes, block, (first, life))

    def _relation(
        self, node: exp.Expr, reader: exp.Select, where: exp.Where | None
    ) -> tuple[nodes.SubqueryAlias, exp.Where | None]:
        """Build a relation in FROM; `where` is what is left of the WHERE of its reader."""
        if isinstance(node, exp.Subquery):
            numbered = None if is_temporal(node) else find_row_number(where, node)
            inner = self.query(node.this) if numbered is None else self._numbered(numbered, reader)
            rest = where if numbered is None else numbered.rest
            return aliased(inner, node, keeps_rowtimes=names_columns(node.this)), rest
        return aliased(self._table(node), node), where

    def _table(self, node: exp.Expr) -> nodes.Node:
        """Build a relation without its name."""
        if isinstance(node, ScanTable):
            return scan_node(node.scan, self._tables[node.scan], node)
        if not is_windowing(node):
            return function_node(node)
        window = next(found for found in window_tables(node) if found.node is node)
        read = window.input
        if isinstance(read, exp.Subquery):
            child = self.query(read.this)
            if read.alias:
                child = aliased(child, read, keeps_rowtimes=names_columns(read.this))
        else:
            child = self._table(read)
            if read.alias:
                child = aliased(child, read)
        return window_node(window, child, follows=self._follows_windows)

    def _numbered(self, numbered: RowNumberQuery, reader: exp.Select) -> nodes.Node:
        select = numbered.select
        source = self._source(select)
        block, listed = source.block, read_select_list(select, source.scope)
        best = top_n(
            numbered,
            source.node,
            listed,
            block,
            shown=shows_number(reader, numbered),
            proctimes=self._proctimes,
            keeps_rowtimes=not reads_windows(select),
        )
        if self._open:
            return best
        tie = None if best.ties or best.by_arrival else winner(numbered, self._tables)
        by_record = len(block.relations) == 1 and source.node.facts.arrival
        return replace(best, tie=tie, by_record=by_record)

    def _source(self, select: exp.Select) -> _Source:
        source, where = self._from(select)
        if where is None:
            return source
        block = source.block
        plain, queries = query_conditions(where.this, source.scope)
        node = source.node
        if plain is not None:
            plain = plain if plain.parent is not None else attach(plain, source_of(where))
            node = nodes.Filter(
                facts=node.facts, origin=plain, input=node, condition=plain, block=block
            )
        for query in queries:
            inner = self.query(query.select)
            right = ScopedRelation(
                alias=INNER, columns=inner.facts.columns, shown=shown_columns(inner)
            )
            node = semi_join_node(node, inner, query, source.scope, right, block)
        return replace(source, node=node)

    # --- SELECT ---

    def _select(self, select: exp.Select) -> nodes.Node:
        source = self._source(select)
        block, listed = source.block, read_select_list(select, source.scope)
        group, calls = select.args.get("group"), over_calls(select)
        node: nodes.Node
        if group is not None or own_aggregates(select):
            node = self._aggregate(select, source, listed)
        else:
            child = source.node
            having = select.args.get("having")
            if having is not None:
                child = nodes.Filter(
                    facts=replace(child.facts, arrival=False),
                    origin=having,
                    input=child,
                    condition=having.this,
                    clause=nodes.Clause.HAVING,
                    block=block,
                )
            node = _projected(select, child, listed, calls, source)
        qualify = select.args.get("qualify")
        if qualify is not None:
            node = nodes.Filter(
                facts=replace(node.facts, arrival=False),
                origin=qualify,
                input=node,
                condition=qualify.this,
                clause=nodes.Clause.QUALIFY,
                block=block,
            )
        if select.args.get("distinct") is not None:
            windowed = self._is_distinct_by_windows(select, node)
            windows = node.facts.windows if windowed else ()
            node = nodes.Distinct(
                facts=Facts(columns=node.facts.columns, windows=windows),
                origin=select,
                input=node,
                windowed=windowed,
                state_ttl_ms=None if isinstance(node, nodes.Aggregate) else self._life_alone(block),
                block=block,
            )
        return _limited(node, select) or replace(node, syntax=select)

    def _is_distinct_by_windows(self, select: exp.Select, child: nodes.Node) -> bool:
        if is_windowed(select.expressions):
            return True
        windowed = sum(len(window.ends) for window in child.facts.windows) == 1
        self.followed = self.followed or windowed
        return windowed

    def _aggregate(
        self, select: exp.Select, source: _Source, listed: SelectList
    ) -> nodes.Aggregate:
        group, having = select.args.get("group"), select.args.get("having")
        values = group.expressions if group is not None else []
        child, block = source.node, source.block
        facts = Facts(columns=listed.columns)
        by_name, window = is_windowed(values), source.windows.grouped(values)
        windowed = by_name or window is not None
        if windowed and len(block.relations) == 1:
            facts = facts_of_windowed_aggregate(
                child.facts, listed.columns, listed.shown, block.first
            )
        if windowed:
            windows = source.windows.listed(listed.shown, closed=True)
            facts = replace(facts, windows=windows)
        closed = closed_by_name(select, child.facts, block.first)
        if closed is None and window is not None and not select.args.get("joins"):
            closed = closed_by(window)
            self.followed = self.followed or closed is not None
        self.followed = self.followed or (window is not None and not by_name)
        sets = [
            text
            for join in _joins(select)
            if isinstance(join, exp.Join) and isinstance(join.this, exp.Unnest)
            for text in described_sets(join.this)
        ]
        return nodes.Aggregate(
            facts=facts,
            origin=group or select,
            input=child,
            keys=tuple(map(GroupKey.of, values)),
            items=listed.items,
            having=None if having is None else having.this,
            windowed=windowed,
            closed=closed,
            grouping_sets=sets[0] if sets else None,
            state_ttl_ms=self._life_alone(block),
            star=listed.star,
            block=block,
        )

    def _life_alone(self, block: nodes.Block) -> int | None:
        """Return the time to live of what an operator keeps of the only relation in FROM."""
        if len(block.relations) != 1:
            return None
        return self._hints.of(block.select, block.first)


def _joins(select: exp.Select) -> list[exp.Expr]:
    return [*(select.args.get("joins") or []), *(select.args.get("laterals") or [])]


def _projected(
    select: exp.Select,
    child: nodes.Node,
    listed: SelectList,
    calls: Sequence[exp.Window],
    source: _Source,
) -> nodes.Project | nodes.Over:
    block, in_time = source.block, not (reads_windows(select) and has_over(select))
    facts = facts_of_projection(
        child.facts, listed.columns, listed.shown, block.first, keeps_rowtimes=in_time
    )
    if in_time:
        facts = replace(facts, windows=source.windows.listed(listed.shown))
    if calls:
        return nodes.Over(
            facts=facts,
            origin=select,
            input=child,
            items=listed.items,
            calls=tuple(calls),
            star=listed.star,
            block=block,
        )
    arrival = child.facts.arrival and len(block.relations) == 1 and not has_over(select)
    return nodes.Project(
        facts=replace(facts, arrival=arrival),
        origin=select,
        input=child,
        items=listed.items,
        star=listed.star,
        block=block,
    )


def _limited(child: nodes.Node, query: exp.Expr) -> nodes.Limit | None:
    """Return the operator of ORDER BY, LIMIT and the like of a query; None where it has none."""
    parts = {part: query.args.get(part) for part in _LIMITS}
    origin = next((part for part in parts.values() if part is not None), None)
    if origin is None:
        return None
    # what is behind brackets, or a UNION ALL, leaves the order of arrival to the SELECTs inside
    arrival = child.facts.arrival and not isinstance(query, exp.Select)
    return nodes.Limit(
        facts=replace(child.facts, arrival=arrival, windows=()),
        origin=origin,
        syntax=query,
        input=child,
        **parts,
    )


def _combined(node: exp.SetOperation, left: nodes.Node, right: nodes.Node) -> nodes.SetOp:
    all_rows = not node.args.get("distinct")
    kind = {exp.Union: nodes.SetKind.UNION, exp.Intersect: nodes.SetKind.INTERSECT}.get(
        type(node), nodes.SetKind.EXCEPT
    )
    plain = kind is nodes.SetKind.UNION and all_rows
    named = plain and names_columns(node.this) and names_columns(node.expression)
    facts = facts_of_set_operation(left.facts, right.facts, keeps_rowtimes=named)
    if plain:
        facts = replace(facts, windows=windows_of_union(left.facts, right.facts))
    return nodes.SetOp(
        facts=replace(facts, arrival=plain and _carries_arrival(node, left, right)),
        origin=node,
        syntax=node,
        left=left,
        right=right,
        kind=kind,
        all=all_rows,
    )


def _carries_arrival(node: exp.SetOperation, left: nodes.Node, right: nodes.Node) -> bool:
    """Return whether rows of both sides have an order of arrival, as they are of different tables."""
    if not (left.facts.arrival and right.facts.arrival) or scans_in(left) & scans_in(right):
        return False
    selects = node.find_all(exp.Select)
    return not any(item.find(exp.Star) for select in selects for item in select.expressions)
