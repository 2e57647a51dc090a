"""Write an incremental query: what Spark streams for it, and the stages over that.

A walk over the operators of a plan, from the tables upwards. Placement has told what Spark streams by itself, and that
stages run the rest: nothing is refused here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import window_tables
from penstock.sql.incremental.planning.aggregate import (
    plan_aggregate,
    plan_distinct,
    plan_set_operation,
    with_windows,
)
from penstock.sql.incremental.planning.join import join
from penstock.sql.incremental.planning.over import plan_over
from penstock.sql.incremental.planning.relation import (
    AppendRelation,
    ChangelogRelation,
    Relation,
    known,
)
from penstock.sql.incremental.planning.source import (
    AppendSource,
    ChangelogSource,
    NamedRelation,
    all_of,
    last_rows,
    name_all,
    versions_of_table,
)
from penstock.sql.incremental.planning.stage_list import StageList, union_inputs
from penstock.sql.incremental.planning.temporal_join import plan_temporal_join
from penstock.sql.incremental.planning.top_n import Ties, plan_top_n
from penstock.sql.incremental.stages import EventTimeStage, IncrementalQuery
from penstock.sql.plan.builder.joins import INNER
from penstock.sql.plan.builder.relations import is_table
from penstock.sql.plan.clauses.joins import (
    conjuncts,
    has_query,
    is_only_of,
    join_conditions,
    pairs_of,
    read_alias_names,
    read_join_kind,
    read_relation_names,
    take_pairs,
)
from penstock.sql.plan.clauses.over import over_calls, read_window
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.facts import Item, own_names
from penstock.sql.plan.placement.blocks import (
    BlockRelation,
    QueryBlock,
    numbering_block,
    query_block,
    rowtimes_of,
)
from penstock.sql.plan.placement.place import PhysicalPlan
from penstock.sql.plan.placement.stage_from import expanded_items
from penstock.sql.plan.placement.stage_select import needed_names
from penstock.sql.plan.rules.changelog_project import expanded
from penstock.sql.plan.rules.flow import Arrival, Flow, ScanFlow
from penstock.sql.plan.rules.inline import waits_for_time
from penstock.sql.plan.rules.top_n import (
    RowNumberQuery,
    TieBreak,
    arrival_carriers,
    carry_arrival,
    find_row_number,
    take_bound,
)
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import attach, source_of

__all__ = ["IncrementalPlan", "plan_incremental"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalPlan:
    """An incremental query: `query` is what Spark streams, `flow` describes its result.

    `waiting` are the leaves that wait for their watermark, as an operator of Spark's drops what is late; `timed` those
    for whose watermarks stages wait.
    """

    maintained: IncrementalQuery
    query: exp.Expr
    flow: Flow
    waiting: frozenset[int]
    timed: frozenset[int]


def plan_incremental(physical: PhysicalPlan, tables: Sequence[ScanFlow]) -> IncrementalPlan:
    """Write the inputs and the stages of a plan that placement gave to stages.

    `tables` have the columns that are read of them, those by which upserts replace rows too.
    """
    walk = _StageWriter(physical, tables)
    rows = walk.stages.staged(walk.query(physical.root.logical))
    flow = Flow(
        columns=rows.columns,
        changes=ChangelogMode.INSERT_ONLY if rows.inserts else ChangelogMode.ALL,
        key=rows.key,
        constants=rows.constants,
        kinds=not rows.inserts,
        origin=rows.origin,
        mechanism=rows.mechanism,
    )
    feeds = walk.stages.queries
    waiting = {
        node.scan
        for feed in feeds
        if waits_for_time(feed) or window_tables(feed)
        for node in feed.find_all(ScanTable)
    }
    maintained = IncrementalQuery(
        feeds=tuple(walk.stages.feeds),
        stages=tuple(walk.stages.stages),
        columns=rows.columns,
        key=rows.key,
    )
    waits = (stage for stage in maintained.stages if isinstance(stage, EventTimeStage))
    return IncrementalPlan(
        maintained=maintained,
        query=union_inputs(feeds, walk.stages.feeds),
        flow=flow,
        waiting=frozenset(waiting),
        timed=frozenset[int]().union(*(stage.waits_for for stage in waits)),
    )


class _StageWriter:
    """Writes the operators of a plan from its tables upwards; `stages` are those so far."""

    def __init__(self, physical: PhysicalPlan, tables: Sequence[ScanFlow]) -> None:
        assert physical.stages is not None, "placement gave it to stages"
        self._traits = physical.stages
        self._tables = tables
        self._proctimes = frozenset[str]().union(*(table.proctimes for table in tables))
        self.stages = StageList()

    def query(self, node: nodes.Node) -> Relation:
        """Write a query."""
        streamed = self._traits.streamed(node)
        if streamed is not None:
            assert node.syntax is not None, "it is the top of a query"
            return _streamed(node.syntax, streamed.columns)
        match node:
            case nodes.SetOp():
                sides = (self.query(node.left), self.query(node.right))
                assert isinstance(node.syntax, exp.SetOperation), "it is one"
                return plan_set_operation(node.syntax, sides[0], sides[1], self.stages)
            case nodes.Limit() if query_block(node) is None:
                return self.query(node.input)
            case _:
                block = query_block(node)
                assert block is not None, "others are refused"
                distinct = node.input if isinstance(node, nodes.Limit) else node
                return self._select(
                    block, distinct if isinstance(distinct, nodes.Distinct) else None
                )

    # --- FROM ---

    def _named(self, relation: BlockRelation, place: exp.Expr, reader: exp.Select) -> NamedRelation:
        """Write a relation in FROM; the bound of a Top-N is removed from the WHERE of its reader."""
        rows: Relation
        shown: Sequence[str]
        if isinstance(relation.join, nodes.TemporalJoin):
            rows = self._versions(relation.join, place, needed_names(reader))
            shown = rows.columns
        elif (best := relation.top_n) is not None:
            numbered = find_row_number(reader.args.get("where"), place)
            assert numbered is not None, "it numbers rows"
            take_bound(reader, numbered)
            rows, shown = self._top_n(best, numbered), best.shown_names
        else:
            rows = self._relation(relation, place, reader)
            shown = rows.columns
        return NamedRelation(
            alias=place.alias_or_name,
            shown=known(read_relation_names(place, shown)),
            rows=rows,
        )

    def _versions(
        self, join_: nodes.TemporalJoin, place: exp.Expr, needed: frozenset[str] | None
    ) -> ChangelogRelation:
        if isinstance(place, exp.Subquery):
            best = numbering_block(join_.right)
            return last_rows(
                join_, place, needed, lambda select: self._source(best, select), self.stages
            )
        assert isinstance(place, ScanTable), "tables and views have versions"
        return versions_of_table(join_, place, self._tables[place.scan], needed, self.stages)

    def _relation(self, relation: BlockRelation, place: exp.Expr, reader: exp.Select) -> Relation:
        node = relation.node
        assert isinstance(node, nodes.SubqueryAlias), "each relation has a name"
        match node.input:
            case nodes.Scan():
                assert isinstance(place, ScanTable), "it is a table"
                return self.stages.table(place, self._tables[place.scan], needed_names(reader))
            case nodes.WindowAssign() as assigned:
                assert isinstance(place, exp.Table), "it is a function"
                return self._windows(assigned, place)
            case given:
                return self.query(given)

    def _windows(self, node: nodes.WindowAssign, place: exp.Table) -> Relation:
        """Write rows with their windows: those of tables are Spark's."""
        streamed = self._traits.streamed(node)
        if streamed is not None:
            return _streamed(all_of(place), streamed.columns)
        (window, *_) = window_tables(place)
        given = node.input.input if isinstance(node.input, nodes.SubqueryAlias) else node.input
        inner: Relation
        match given:
            case nodes.Scan():
                assert isinstance(window.input, ScanTable), "it is a table"
                inner = self.stages.table(window.input, self._tables[window.input.scan], None)
            case nodes.WindowAssign():
                assert isinstance(window.input, exp.Table), "it is a function"
                inner = self._windows(given, window.input)
            case _:
                inner = self.query(given)
        assert isinstance(inner, ChangelogRelation), "Spark's are streamed with their windows"
        return with_windows(window, inner, self.stages)

    def _top_n(self, node: nodes.TopN, numbered: RowNumberQuery) -> ChangelogRelation:
        block = query_block(node)
        assert block is not None, "it is a SELECT"
        source = self._source(block, numbered.select)
        return plan_top_n(
            numbered,
            source.project,
            self.stages,
            shows_number=node.shows_number,
            by_arrival=node.by_arrival,
            ties=self._ties(node.tie, source),
        )

    def _ties(self, tie: TieBreak | None, source: AppendSource | ChangelogSource) -> Ties | None:
        """Return how ties in the order are broken, by arrival; None: by their columns."""
        if any(table.arrival is Arrival.OPEN for table in self._tables):
            return None
        carriers = None
        if isinstance(source, AppendSource):
            carriers = arrival_carriers(source.skeleton, self._tables)
        carry_arrival(carriers or [])
        return None if tie is None else Ties(winner=tie, by_record=carriers is not None)

    def _source(self, block: QueryBlock, select: exp.Select) -> AppendSource | ChangelogSource:
        """Write FROM and WHERE of a SELECT, of which `select` is a copy; writes out the stars of that."""
        if self._traits.streams_from(block):
            relations = self._traits.streamed_relations(block)
            select.set("expressions", known(expanded(select, relations)))
            return AppendSource(skeleton=block.block.skeleton())
        joins = [*(select.args.get("joins") or []), *(select.args.get("laterals") or [])]
        places = [
            select.args["from_"].this,
            *(j.this if isinstance(j, exp.Join) else j for j in joins),
        ]
        named = [
            self._named(relation, place, select) if is_table(place) else None
            for relation, place in zip(block.relations, places, strict=True)
        ]
        shown = [None if relation is None else relation.shown for relation in named]
        select.set("expressions", known(expanded_items(select, places, shown)))
        where = select.args.get("where")
        tests = conjuncts(where.this if where is not None else None)
        plain = [test for test in tests if not has_query(test)]
        source = self._joined(block, select, named, plain).filtered(plain)
        for query in block.queries:
            rows = self.stages.staged(self.query(query.right))
            inner = ChangelogSource.of(self.stages, rows, INNER, rows.columns)
            assert query.place is not None, "it is a condition of the text"
            source = join(query.kind, (source, inner), query.pairs, query.rest, query.place)
        return source

    def _joined(
        self,
        block: QueryBlock,
        select: exp.Select,
        named: Sequence[NamedRelation | None],
        tests: list[exp.Expr],
    ) -> ChangelogSource:
        """Join the relations of FROM from left to right; equalities of WHERE that are used are removed from `tests`."""
        needed = needed_names(select)
        joins = [*(select.args.get("joins") or []), *(select.args.get("laterals") or [])]
        inner_joins = all(
            not isinstance(node, exp.Join) or known(read_join_kind(node)) is nodes.JoinType.INNER
            for node in joins
        )
        early = tests if inner_joins else []
        assert named[0] is not None, "a function stands behind a relation"
        source = self._open(named[0], needed, early)
        for node, right, relation in zip(joins, named[1:], block.relations[1:], strict=True):
            if right is None:
                inner = node.this if isinstance(node, exp.Join) else node
                names = known(read_alias_names(inner))
                source = source.unnested(node, inner.alias_or_name, names)
                continue
            assert isinstance(node, exp.Join), "tables are joined"
            # a condition on versions chooses none: it is asked of the one that is valid
            versioned = isinstance(relation.join, nodes.TemporalJoin)
            opened = self._open(right, needed, [] if versioned else early)
            conditions = join_conditions(node, source)
            conditions += take_pairs(node, tests, source, opened)
            if isinstance(relation.join, nodes.TemporalJoin):
                source = plan_temporal_join(source, opened, conditions, relation.join, node)
                continue
            assert isinstance(relation.join, nodes.Join), "others are refused"
            pairs, rest = pairs_of(conditions, source, opened)
            kind, state_ttl_ms = known(read_join_kind(node)), relation.join.state_ttl_ms
            source = join(kind, (source, opened), pairs, rest, node, state_ttl_ms)
        return source

    def _open(
        self, named: NamedRelation, needed: frozenset[str] | None, tests: list[exp.Expr]
    ) -> ChangelogSource:
        """Return a relation as changes; those of `tests` that name no other are applied here, and removed."""
        rows, shown = named.rows, named.shown
        own = [test for test in tests if is_only_of(test, named.alias)]
        tests[:] = [test for test in tests if test not in own]
        if isinstance(rows, AppendRelation) and rows.columns == shown:
            rows = rows.filtered(named.alias, own).narrowed(needed)
            shown, own = rows.columns, []
        staged = self.stages.staged(rows)
        return ChangelogSource.of(self.stages, staged, named.alias, shown).filtered(own)

    # --- SELECT ---

    def _select(self, block: QueryBlock, distinct: nodes.Distinct | None) -> Relation:
        select = attach(block.select.copy(), source_of(block.select))
        source = self._source(block, select)
        names = own_names(select.expressions)
        items: list[Item] = [
            (name, item.unalias()) for name, item in zip(names, select.expressions, strict=True)
        ]
        rows: Relation
        match block.core:
            case nodes.Aggregate() as grouped:
                waits = isinstance(source, ChangelogSource) and source.rows.inserts
                closed = grouped.closed if waits else None
                life = None if closed else grouped.state_ttl_ms
                rows = plan_aggregate(select, names, source, self.stages, life, closed)
            case nodes.Over() as over:
                window = known(
                    read_window(select, over_calls(select), rowtimes_of(over), self._proctimes)
                )
                assert window is not None, "it has calls"
                source, items = plan_over(select, names, source, window, self.stages)
                rows = source.project(items)
            case _:
                rows = source.project(items)
        if distinct is None:
            return rows
        return plan_distinct(self.stages.staged(rows), self.stages, select, distinct.state_ttl_ms)


def _streamed(query: exp.Expr, columns: tuple[str, ...]) -> AppendRelation:
    """Return a query that Spark streams by itself, as the user wrote it."""
    while isinstance(query, exp.Subquery):
        query = query.this
    assert isinstance(query, exp.Query), "it is one"
    own = query.copy()
    return AppendRelation(query=own, columns=name_all(own, columns))
