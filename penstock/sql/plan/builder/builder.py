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
from penstock.sql.plan.builder.joins import (
    INNER,
    join_node,
    lookup_node,
    query_conditions,
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
    is_table,
    named_relation,
    read_select_list,
    scan_node,
    shown_columns,
    unnest_node,
    window_node,
)
from penstock.sql.plan.builder.top_n import shows_number, top_n
from penstock.sql.plan.clauses.over import over_calls
from penstock.sql.plan.logical.facts import (
    Arrival,
    Facts,
    GroupKey,
    facts_of_projection,
    facts_of_set_operation,
    facts_of_windowed_aggregate,
)
from penstock.sql.plan.logical.nodes import (
    Aggregate,
    Block,
    Clause,
    Distinct,
    Filter,
    Limit,
    Node,
    Over,
    Project,
    Scan,
    SetKind,
    SetOp,
    SubqueryAlias,
    Values,
)
from penstock.sql.plan.logical.plan import Plan, walk
from penstock.sql.plan.rules.aggregate import is_windowed, own_aggregates
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.inline import inline_ctes
from penstock.sql.plan.rules.joins import bound_of, has_inner_query, is_temporal
from penstock.sql.plan.rules.lookup_join import is_lookup
from penstock.sql.plan.rules.top_n import RowNumberQuery, find_row_number, winner
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import attach, source_of
from penstock.sql.syntax.traversal import copy_tree

__all__ = ["build"]

_LIMITS = ("order", "limit", "offset", "fetch")


def build(
    tree: exp.Expr, tables: Sequence[ScanFlow], lookups: frozenset[int] = frozenset()
) -> Plan:
    """Build the plan of a query.

    `tree` has no views, and its table nodes have their number in `tables`; grouping sets are unfolded,
    and the tables of lookup joins, `lookups`, are marked. It is not changed.
    """
    own = inline_ctes(copy_tree(tree))
    hints = StateHints(own)
    root = _PlanBuilder(tables, hints).query(own)
    return Plan(
        root=root,
        scans=tuple(scan_node(index, table) for index, table in enumerate(tables)),
        lookups=lookups,
        hints=hints.hints,
        tree=tree,
        inlined=own,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """FROM and WHERE of a SELECT: the operator, and the names of its relations."""

    node: Node
    scope: Scope


class _PlanBuilder:
    """Builds the operators of a query, in which no query has a name of its own (WITH)."""

    def __init__(self, tables: Sequence[ScanFlow], hints: StateHints) -> None:
        self._tables = tables
        self._hints = hints
        self._proctimes = frozenset[str]().union(*(table.proctimes for table in tables))
        self._open = any(table.arrival is Arrival.OPEN for table in tables)

    def query(self, node: exp.Expr) -> Node:
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

    def _set_operation(self, node: exp.SetOperation) -> Node:
        chain = [node]
        while isinstance(chain[-1].this, exp.SetOperation):
            chain.append(chain[-1].this)
        left = self.query(chain[-1].this)
        for part in reversed(chain):
            combined = _combined(part, left, self.query(part.expression))
            left = _limited(combined, part) or combined
        return left

    # --- FROM ---

    def _from(self, select: exp.Select, block: Block) -> tuple[_Source, exp.Where | None]:
        """Build a FROM clause; returns the WHERE without the bounds of queries that number rows, too."""
        from_, where = select.args.get("from_"), select.args.get("where")
        if from_ is None:
            none = Values(facts=Facts(columns=()), place=select, syntax=select)
            return _Source(node=none, scope=Scope(relations=())), where
        first, where = self._relation(from_.this, select, where)
        left: Node = first
        scope = Scope(relations=(named_relation(first),))
        joined = [first]
        for join in _joins(select):
            inner = join.this if isinstance(join, exp.Join) else join
            if not isinstance(join, exp.Join) or not is_table(inner):
                unfolded = unnest_node(left, join, block)
                left, scope = unfolded, scope.with_relation(named_relation(unfolded))
                continue
            right, where = self._relation(inner, select, where)
            named = named_relation(right)
            left = self._joined(
                left, right, join, (scope, Scope(relations=(named,))), block, joined
            )
            scope = scope.with_relation(named)
            joined.append(right)
        return _Source(node=left, scope=scope), where

    def _joined(
        self,
        left: Node,
        right: SubqueryAlias,
        node: exp.Join,
        scopes: tuple[Scope, Scope],
        block: Block,
        joined: Sequence[SubqueryAlias],
    ) -> Node:
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
    ) -> tuple[SubqueryAlias, exp.Where | None]:
        """Build a relation in FROM; `where` is what is left of the WHERE of its reader."""
        if isinstance(node, exp.Subquery):
            numbered = None if is_temporal(node) else find_row_number(where, node)
            inner = self.query(node.this) if numbered is None else self._numbered(numbered, reader)
            rest = where if numbered is None else numbered.rest
            return aliased(inner, node, keeps_rowtimes=_names_columns(node.this)), rest
        return aliased(self._table(node), node), where

    def _table(self, node: exp.Expr) -> Node:
        """Build a relation without its name."""
        if isinstance(node, ScanTable):
            return scan_node(node.scan, self._tables[node.scan], node)
        if not is_windowing(node):
            return function_node(node)
        window = next(found for found in window_tables(node) if found.node is node)
        read = window.input
        if isinstance(read, exp.Subquery):
            given = self.query(read.this)
            if read.alias:
                given = aliased(given, read, keeps_rowtimes=_names_columns(read.this))
        else:
            given = self._table(read)
            if read.alias:
                given = aliased(given, read)
        return window_node(window, given)

    def _numbered(self, numbered: RowNumberQuery, reader: exp.Select) -> Node:
        select = numbered.select
        block = _block(select)
        source = self._source(select, block)
        listed = read_select_list(select, source.scope)
        best = top_n(
            numbered,
            source.node,
            listed,
            block,
            shown=shows_number(reader, numbered),
            proctimes=self._proctimes,
            keeps_rowtimes=not _reads_windows(select),
        )
        if best.ties or best.by_arrival or self._open:
            return best
        alone = len(block.relations) == 1
        by_record = alone and source.node.facts.arrival
        return replace(best, tie=winner(numbered, self._tables), by_record=by_record)

    def _source(self, select: exp.Select, block: Block) -> _Source:
        source, where = self._from(select, block)
        if where is None:
            return source
        plain, queries = query_conditions(where.this, source.scope)
        node = source.node
        if plain is not None:
            plain = plain if plain.parent is not None else attach(plain, source_of(where))
            node = Filter(facts=node.facts, place=plain, input=node, condition=plain, block=block)
        for query in queries:
            inner = self.query(query.select)
            right = ScopedRelation(
                alias=INNER, columns=inner.facts.columns, shown=shown_columns(inner)
            )
            node = semi_join_node(node, inner, query, source.scope, right, block)
        return _Source(node=node, scope=source.scope)

    # --- SELECT ---

    def _select(self, select: exp.Select) -> Node:
        block = _block(select)
        source = self._source(select, block)
        listed = read_select_list(select, source.scope)
        group, calls = select.args.get("group"), over_calls(select)
        node: Node
        if group is not None or own_aggregates(select):
            node = self._aggregate(select, source.node, listed, block)
        else:
            given = source.node
            having = select.args.get("having")
            if having is not None:
                given = Filter(
                    facts=given.facts,
                    place=having,
                    input=given,
                    condition=having.this,
                    clause=Clause.HAVING,
                    block=block,
                )
            node = _projected(select, given, listed, calls, block)
        qualify = select.args.get("qualify")
        if qualify is not None:
            node = Filter(
                facts=replace(node.facts, arrival=False),
                place=qualify,
                input=node,
                condition=qualify.this,
                clause=Clause.QUALIFY,
                block=block,
            )
        if select.args.get("distinct") is not None:
            node = Distinct(
                facts=Facts(columns=node.facts.columns),
                place=select,
                input=node,
                windowed=is_windowed(select.expressions),
                state_ttl_ms=None if isinstance(node, Aggregate) else self._life_alone(block),
                block=block,
            )
        return _limited(node, select) or replace(node, syntax=select)

    def _aggregate(
        self, select: exp.Select, given: Node, listed: SelectList, block: Block
    ) -> Aggregate:
        group, having = select.args.get("group"), select.args.get("having")
        values = group.expressions if group is not None else []
        facts = Facts(columns=listed.columns)
        windowed = is_windowed(values)
        if windowed and len(block.relations) == 1:
            facts = facts_of_windowed_aggregate(
                given.facts, listed.columns, listed.shown, block.first
            )
        sets = [
            text
            for join in _joins(select)
            if isinstance(join, exp.Join) and isinstance(join.this, exp.Unnest)
            for text in described_sets(join.this)
        ]
        return Aggregate(
            facts=facts,
            place=group or select,
            input=given,
            keys=tuple(map(GroupKey.of, values)),
            items=listed.items,
            having=None if having is None else having.this,
            windowed=windowed,
            grouping_sets=sets[0] if sets else None,
            state_ttl_ms=self._life_alone(block),
            star=listed.star,
            block=block,
        )

    def _life_alone(self, block: Block) -> int | None:
        """Return the time to live of what an operator keeps of the only relation in FROM."""
        if len(block.relations) != 1:
            return None
        return self._hints.of(block.select, block.first)


def _block(select: exp.Select) -> Block:
    from_ = select.args.get("from_")
    nodes = [] if from_ is None else [from_.this, *(_named(join) for join in _joins(select))]
    return Block(
        select=select,
        relations=tuple(node.alias_or_name for node in nodes),
        bound=bound_of(select),
        has_query=has_inner_query(select),
    )


def _joins(select: exp.Select) -> list[exp.Expr]:
    return [*(select.args.get("joins") or []), *(select.args.get("laterals") or [])]


def _named(join: exp.Expr) -> exp.Expr:
    found: exp.Expr = join.this if isinstance(join, exp.Join) else join
    return found


def _projected(
    select: exp.Select,
    given: Node,
    listed: SelectList,
    calls: Sequence[exp.Window],
    block: Block,
) -> Project | Over:
    facts = facts_of_projection(
        given.facts,
        listed.columns,
        listed.shown,
        block.first,
        keeps_rowtimes=not (_reads_windows(select) and _has_over(select)),
    )
    if calls:
        return Over(
            facts=facts,
            place=select,
            input=given,
            items=listed.items,
            calls=tuple(calls),
            star=listed.star,
            block=block,
        )
    arrival = given.facts.arrival and len(block.relations) == 1 and not _has_over(select)
    return Project(
        facts=replace(facts, arrival=arrival),
        place=select,
        input=given,
        items=listed.items,
        star=listed.star,
        block=block,
    )


def _limited(given: Node, query: exp.Expr) -> Limit | None:
    """Return the operator of ORDER BY, LIMIT and the like of a query; None where it has none."""
    parts = {part: query.args.get(part) for part in _LIMITS}
    place = next((part for part in parts.values() if part is not None), None)
    if place is None:
        return None
    return Limit(
        facts=replace(given.facts, arrival=False),
        place=place,
        syntax=query,
        input=given,
        **parts,
    )


def _combined(node: exp.SetOperation, left: Node, right: Node) -> SetOp:
    all_rows = not node.args.get("distinct")
    kind = {exp.Union: SetKind.UNION, exp.Intersect: SetKind.INTERSECT}.get(
        type(node), SetKind.EXCEPT
    )
    plain = kind is SetKind.UNION and all_rows
    named = plain and _names_columns(node.this) and _names_columns(node.expression)
    facts = facts_of_set_operation(left.facts, right.facts, keeps_rowtimes=named)
    return SetOp(
        facts=replace(facts, arrival=plain and _carries_arrival(node, left, right)),
        place=node,
        syntax=node,
        left=left,
        right=right,
        kind=kind,
        all=all_rows,
    )


def _carries_arrival(node: exp.SetOperation, left: Node, right: Node) -> bool:
    """Return whether rows of both sides have an order of arrival, as they are of different tables."""
    if not (left.facts.arrival and right.facts.arrival) or _scans(left) & _scans(right):
        return False
    selects = node.find_all(exp.Select)
    return not any(item.find(exp.Star) for select in selects for item in select.expressions)


def _scans(node: Node) -> set[int]:
    return {found.index for found in walk(node) if isinstance(found, Scan)}


def _names_columns(query: exp.Expr) -> bool:
    """Return whether a query names its columns, without a star."""
    first = query
    while not isinstance(first, exp.Select):
        if not isinstance(first, exp.Subquery | exp.SetOperation):
            return False
        first = first.this
    return not any(item.find(exp.Star) for item in first.expressions)


def _reads_windows(select: exp.Select) -> bool:
    """Return whether the first relation is a windowing function: its best rows come when windows close."""
    from_ = select.args.get("from_")
    return from_ is not None and is_windowing(from_.this)


def _has_over(select: exp.Select) -> bool:
    return any(item.find(exp.Window) for item in select.expressions)
