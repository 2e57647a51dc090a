"""Plan a query as stages: what Spark streams for it, and the stages over that; or why no stage runs it.

One walk over the operators of a plan, from the tables upwards. What Spark streams by itself is left to it: the largest
queries, and the largest FROM clauses, whose rows are inserts and whose joins all end with the watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from sqlglot import exp

from penstock.sql.dialect import window_tables
from penstock.sql.dialect.parser.table_functions import table_call
from penstock.sql.incremental.planning.aggregate import (
    plan_distinct,
    plan_set_operation,
    with_windows,
)
from penstock.sql.incremental.planning.join import join, plan_temporal_join, read_conditions
from penstock.sql.incremental.planning.lists_apart import plan_aggregation
from penstock.sql.incremental.planning.over import plan_over
from penstock.sql.incremental.planning.panes import plan_closed_windows, plan_windows
from penstock.sql.incremental.planning.relation import (
    AppendRelation,
    ChangelogRelation,
    Relation,
)
from penstock.sql.incremental.planning.source import (
    AppendSource,
    ChangelogSource,
    NamedRelation,
    Source,
    all_of,
    streamed_query,
    versions_of_table,
    versions_of_view,
)
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.incremental.planning.top_n import plan_top_n
from penstock.sql.plan.builder.joins import INNER
from penstock.sql.plan.clauses.joins import (
    has_query,
    pairs_of,
    read_correlated,
    read_join_kind,
    read_query_condition,
    read_relation_names,
    refuse_first,
)
from penstock.sql.plan.clauses.over import OverWindow, over_calls, read_window
from penstock.sql.plan.clauses.select_list import (
    expanded_items,
    needed_names,
    refuse_clauses,
    refuse_nondeterministic,
)
from penstock.sql.plan.clauses.temporal_joins import (
    refuse_left_without_rowtime,
    refuse_unversioned,
)
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.facts import Arrival, own_names
from penstock.sql.plan.placement.blocks import (
    BlockRelation,
    QueryBlock,
    StageOptions,
    numbering_block,
    query_block,
    remembered,
    rowtimes_of,
)
from penstock.sql.plan.placement.panes import is_of_closed_windows, windows_below
from penstock.sql.plan.placement.spark import SparkTraits, StreamedParts
from penstock.sql.plan.rules.changelog_mode import check_over, is_aggregation
from penstock.sql.plan.rules.flow import Flow, ScanFlow
from penstock.sql.plan.rules.joins import is_temporal
from penstock.sql.plan.rules.top_n import RowNumberQuery, check_limit, find_row_number
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import conjuncts, is_table

Listed = tuple[Source, list[exp.Expr]]
"""FROM and WHERE of a SELECT, and its list with stars written out."""

Rows = TypeVar("Rows", bound=Relation | ChangelogSource | Refusal)


class OperatorPlanner:
    """Plans the operators of a query from its tables upwards; `stages` are those so far.

    `rows`, `streamed` and `kept` as in an IncrementalPlan.
    """

    def __init__(
        self,
        spark: SparkTraits,
        tables: Sequence[ScanFlow],
        options: StageOptions,
    ) -> None:
        self._spark = spark
        self._options = options
        self._streams = StreamedParts(spark, options)
        self._tables = tables
        self._proctimes = frozenset[str]().union(*(table.proctimes for table in tables))
        self._found: dict[int, Relation | Refusal] = {}
        of_engine = frozenset(n for n, of in enumerate(tables) if of.arrival is Arrival.BATCH)
        self.stages = StageList(options, of_engine)
        self.rows: dict[int, Flow | None] = {}
        self.streamed: set[int] = set()
        self.stateful: set[int] = set()

    def query(self, node: nodes.Node) -> Relation | Refusal:
        """Plan a query."""
        return remembered(node, self._found, self._query)

    def _query(self, node: nodes.Node) -> Relation | Refusal:
        streamed = self._streams.query(node)
        if streamed is not None:
            assert node.syntax is not None, "it is the top of a query"
            return self._noted(node, streamed_query(node.syntax, streamed))
        match node:
            case nodes.SetOp():
                return self._noted(node, self._set_operation(node))
            case nodes.Limit() if isinstance(node.syntax, exp.Subquery):
                refusal = refuse_clauses(node.syntax)
                assert refusal is not None, "it has a clause"
                return refusal
            case nodes.Limit() if query_block(node) is None:
                if isinstance(node.input, nodes.SetOp) and node.syntax is node.input.syntax:
                    return self._set_operation(node.input)
                return self._noted(node, self.query(node.input))
            case _:
                block = query_block(node)
                if block is None:
                    assert node.syntax is not None, "it is the top of a query"
                    return Refusal(
                        message="this query cannot be kept up to date as rows come",
                        span=span_of(node.syntax),
                    )
                return self._noted(node, self._select(block, node))

    def _noted(self, node: nodes.Node | None, rows: Rows) -> Rows:
        """Note the rows of an operator."""
        if node is not None and not isinstance(rows, Refusal):
            self.rows[id(node)] = None if isinstance(rows, AppendRelation) else rows.flow
        return rows

    def _set_operation(self, node: nodes.SetOp) -> ChangelogRelation | Refusal:
        left = self.query(node.left)
        if isinstance(left, Refusal):
            return left
        right = self.query(node.right)
        if isinstance(right, Refusal):
            return right
        assert isinstance(node.syntax, exp.SetOperation), "it is one"
        return plan_set_operation(node.syntax, left, right, self.stages)

    # --- relations ---

    def _named(
        self,
        relation: BlockRelation,
        numbered: RowNumberQuery | None,
        needed: frozenset[str] | None,
    ) -> NamedRelation | Refusal:
        """Plan a relation in FROM, with the columns `needed` of a table (None: all)."""
        best = None if numbered is None else relation.top_n
        rows: Relation | Refusal
        if is_temporal(relation.origin):
            rows = self._versions(relation, needed)
        elif numbered is not None and best is not None:
            rows = self._top_n(best, numbered)
        else:
            rows = self._relation(relation, needed)
        if isinstance(rows, Refusal):
            return rows
        names = read_relation_names(
            relation.origin, rows.columns if best is None else best.shown_names
        )
        if isinstance(names, Refusal):
            return names
        self._noted(relation.node, rows)
        return NamedRelation(alias=relation.alias, shown=names, rows=rows)

    def _relation(
        self, relation: BlockRelation, needed: frozenset[str] | None
    ) -> Relation | Refusal:
        node, origin = relation.node, relation.origin
        assert isinstance(node, nodes.SubqueryAlias), "each relation has a name"
        match node.input:
            case nodes.Scan():
                assert isinstance(origin, ScanTable), "it is a table"
                return self.stages.table(origin, self._tables[origin.scan], needed)
            case nodes.WindowAssign() as assigned:
                assert isinstance(origin, exp.Table), "it is a function"
                return self._windows(assigned, origin, origin)
            case _ if isinstance(origin, exp.Table):
                call = table_call(origin)
                assert call is not None, "other tables are scans"
                return Refusal(
                    message=f"TABLE({call.name}(...)) is not supported in a query whose results are kept up to date",
                    hint=f"write LATERAL TABLE({call.name}(...)) behind a table",
                    span=span_of(origin),
                )
            case given:
                return self.query(given)

    def _windows(
        self, node: nodes.WindowAssign, origin: exp.Table, named: exp.Table
    ) -> Relation | Refusal:
        """Plan rows with their windows, at a `origin` of the relation `named`: those of tables are Spark's."""
        flow = self._spark.of(node)
        if isinstance(flow, Flow) and self._streams.gives(node, flow):
            return self._noted(node, streamed_query(all_of(origin), flow.columns or ()))
        (window, *_) = window_tables(origin)
        child = node.input.input if isinstance(node.input, nodes.SubqueryAlias) else node.input
        inner: Relation | Refusal
        match child:
            case nodes.Scan():
                assert isinstance(window.input, ScanTable), "it is a table"
                inner = self.stages.table(window.input, self._tables[window.input.scan], None)
            case nodes.WindowAssign():
                assert isinstance(window.input, exp.Table), "it is a function"
                inner = self._windows(child, window.input, named)
            case _:
                inner = self.query(child)
        if isinstance(inner, Refusal):
            return inner
        if isinstance(inner, ChangelogRelation):
            return self._noted(node, with_windows(node, window, inner, self.stages))
        if isinstance(flow, Refusal):
            return flow
        return Refusal(
            message="the columns of this windowing function cannot be told",
            hint="name the columns in the query that it reads",
            span=span_of(named),
        )

    def _versions(
        self, relation: BlockRelation, needed: frozenset[str] | None
    ) -> ChangelogRelation | Refusal:
        """Plan the versions of a relation behind FOR SYSTEM_TIME AS OF."""
        join_, origin = relation.join, relation.origin
        if not isinstance(join_, nodes.TemporalJoin):
            left = refuse_left_without_rowtime(origin.args["version"])
            assert relation.refused is not None, "it is no temporal join"
            # why its left side has no rowtime is told when it is joined
            late = relation.refused.message == left.message
            return ChangelogRelation(name="", columns=()) if late else relation.refused
        if isinstance(origin, ScanTable):
            return versions_of_table(join_, origin, self._tables[origin.scan], needed, self.stages)
        assert isinstance(origin, exp.Subquery), "tables and views have versions"
        block = numbering_block(join_.right)
        if not self._streams.has_from(block):
            return refuse_unversioned(origin)
        found = self._streamed_source(block)
        if isinstance(found, Refusal):
            return found
        return versions_of_view(join_, origin, found[0], needed, self.stages)

    def _top_n(self, node: nodes.TopN, numbered: RowNumberQuery) -> ChangelogRelation | Refusal:
        if (refusal := check_limit(numbered)) is not None:
            return refusal
        if isinstance(found := self._source(numbering_block(node)), Refusal):
            return found
        source, listed = found
        by_position = self._options.by_position
        best = plan_top_n(node, numbered, listed, source, self.stages, by_position=by_position)
        return self._noted(node, best)

    # --- FROM and WHERE ---

    def _streamed_source(self, block: QueryBlock) -> tuple[AppendSource, list[exp.Expr]] | Refusal:
        """Leave FROM and WHERE of a SELECT to Spark."""
        self.streamed.add(id(block.block))
        items = self._streams.items(block)
        if isinstance(items, Refusal):
            return items
        return AppendSource(skeleton=block.block.skeleton()), items

    def _source(self, block: QueryBlock) -> Listed | Refusal:
        """Plan FROM and WHERE of a SELECT."""
        if self._streams.has_from(block):
            return self._streamed_source(block)
        select, origins = block.select, [relation.origin for relation in block.relations]
        if (refusal := refuse_first(select, origins)) is not None:
            return refusal
        where = select.args.get("where")
        named: list[NamedRelation | None] = []
        for relation in block.relations:
            if not is_table(relation.origin):
                named.append(None)
                continue
            numbered = None
            if not is_temporal(relation.origin):
                numbered = find_row_number(where, relation.origin)
            where = where if numbered is None else numbered.rest
            needed = needed_names(select, select.expressions, where)
            found = self._named(relation, numbered, needed)
            if isinstance(found, Refusal):
                return found
            named.append(found)
        shown = [None if relation is None else relation.shown for relation in named]
        items = expanded_items(select, origins, shown)
        if isinstance(items, Refusal):
            return items
        tests = conjuncts(where)
        plain = [test for test in tests if not has_query(test)]
        source = self._joined(block, named, needed_names(select, items, where), plain)
        if isinstance(source, Refusal):
            return source
        if (refusal := source.refuse(plain)) is not None:
            return refusal
        filtered = self._semi_joined(block, source.filtered(plain), filter(has_query, tests))
        return filtered if isinstance(filtered, Refusal) else (filtered, items)

    def _joined(
        self,
        block: QueryBlock,
        named: Sequence[NamedRelation | None],
        needed: frozenset[str] | None,
        tests: list[exp.Expr],
    ) -> ChangelogSource | Refusal:
        """Join the relations of FROM from left to right; equalities of WHERE that are used are removed from `tests`."""
        kinds: list[nodes.JoinType] = []
        for relation in block.relations[1:]:
            clause = relation.clause
            kind = read_join_kind(clause) if isinstance(clause, exp.Join) else nodes.JoinType.INNER
            if isinstance(kind, Refusal):
                return kind
            kinds.append(kind)
        early = tests if all(kind is nodes.JoinType.INNER for kind in kinds) else []
        assert named[0] is not None, "a function stands behind a relation"
        source = named[0].open(self.stages, needed, early)
        joined = [block.relations[0]]
        for relation, named_relation, kind in zip(
            block.relations[1:], named[1:], kinds, strict=True
        ):
            if isinstance(source, Refusal):
                return source
            if named_relation is None:
                assert relation.clause is not None, "it stands behind a relation"
                source = source.unnested(relation.clause, relation.origin)
                continue
            # a condition on versions chooses none: it is asked of the one that is valid
            right = named_relation.open(
                self.stages, needed, [] if is_temporal(relation.origin) else early
            )
            if isinstance(right, Refusal):
                return right
            if len(joined) == 1 and not is_temporal(relation.origin) and not self._ends(relation):
                # of what an earlier join gave, no hint can speak
                self.stateful.add(id(joined[0].origin))
            joined.append(relation)
            source = self._noted(relation.join, self._join(relation, kind, source, right, tests))
        return source

    def _join(
        self,
        relation: BlockRelation,
        kind: nodes.JoinType,
        left: ChangelogSource,
        right: ChangelogSource,
        tests: list[exp.Expr],
    ) -> ChangelogSource | Refusal:
        """Join a relation with those before; equalities of WHERE that are used are removed from `tests`."""
        clause = relation.clause
        assert isinstance(clause, exp.Join), "tables are joined"
        if is_temporal(relation.origin) and relation.refused is not None:
            return relation.refused
        ends = self._ends(relation)
        conditions = read_conditions(clause, kind, (left, right), tests, ends=ends is not None)
        if isinstance(conditions, Refusal):
            return conditions
        if isinstance(relation.join, nodes.TemporalJoin):
            return plan_temporal_join(left, right, kind, conditions, relation.join, clause)
        assert isinstance(relation.join, nodes.Join), "others are refused"
        if ends is None:
            self.stateful.add(id(relation.origin))
        pairs, rest = pairs_of(conditions, left, right)
        life = ends or relation.join.state_ttl_ms
        return join(kind, (left, right), pairs, rest, clause, life, at_once=self._options.by_panes)

    def _ends(self, relation: BlockRelation) -> nodes.JoinEnds | None:
        """Return when the rows of a join end; None where they stay, or Spark's stay."""
        return relation.ends if self._options.joins_in_time else None

    def _semi_joined(
        self, block: QueryBlock, source: ChangelogSource, tests: Iterable[exp.Expr]
    ) -> ChangelogSource | Refusal:
        """Keep the rows for which conditions with a query hold."""
        queries = iter(block.queries)
        for test in tests:
            read = read_query_condition(test)
            apart = read if isinstance(read, Refusal) else read_correlated(read, source.knows)
            if isinstance(apart, Refusal):
                return apart
            query = next(queries)
            found = self.query(query.right)
            if isinstance(found, Refusal):
                return found
            rows = self.stages.staged(found)
            inner = ChangelogSource.of(self.stages, rows, INNER, rows.columns)
            joined = join(query.kind, (source, inner), query.pairs, query.rest, test)
            if isinstance(joined, Refusal):
                return joined
            source = self._noted(query, joined)
        return source

    # --- SELECT ---

    def _select(self, block: QueryBlock, node: nodes.Node) -> Relation | Refusal:
        select, core = block.select, block.core
        if (refusal := refuse_clauses(select)) is not None:
            return refusal
        grouped, calls = is_aggregation(select), over_calls(select)
        if (refusal := check_over(select) if grouped or not calls else None) is not None:
            return refusal
        if (
            self._options.by_panes
            and isinstance(core, nodes.Aggregate)
            and (of := windows_below(core))
        ):
            return self._panes(block, core, of)
        window = read_window(select, calls, rowtimes_of(core), self._proctimes)
        if isinstance(window, Refusal):
            return window
        found = self._source(block)
        if isinstance(found, Refusal):
            return found
        rows = self._listed(block, found, window)
        if isinstance(rows, Refusal) or not isinstance(node, nodes.Distinct):
            return rows
        if not grouped:
            self._keep_alone(block)
        return plan_distinct(self.stages.staged(rows), self.stages, select, node.state_ttl_ms)

    def _panes(
        self, block: QueryBlock, core: nodes.Aggregate, windows: nodes.WindowAssign
    ) -> Relation | Refusal:
        """Plan an aggregation by windows over rows that Spark streams, which are grouped by pane."""
        (relation,) = block.relations
        inner = windows.input
        inner = inner.input if isinstance(inner, nodes.SubqueryAlias) else inner
        if isinstance(inner, nodes.Scan):
            assert isinstance(inner.origin, ScanTable), "it is a table"
            table = inner.origin.copy()
            table.set("counts_late", None)  # the stage does
            rows = self.stages.table(table, self._tables[inner.index], None)
        else:
            found = self.query(inner)
            if isinstance(found, Refusal):
                return found
            rows = found
        varying = refuse_nondeterministic(block.select)
        return varying or plan_windows(core, rows, relation.alias, windows, self.stages)

    def _listed(
        self, block: QueryBlock, found: Listed, window: OverWindow | None
    ) -> Relation | Refusal:
        """Plan the SELECT list over FROM and WHERE."""
        (source, items), select, core = found, block.select, block.core
        values = [
            (name, item.unalias()) for name, item in zip(own_names(items), items, strict=True)
        ]
        keeps = not isinstance(core, nodes.Project) or isinstance(source, ChangelogSource)
        varying = refuse_nondeterministic(select) if keeps else None
        match core:
            case nodes.Over():
                assert window is not None, "it has calls"
                rows = plan_over(core, values, source, window, self.stages)
                return rows if isinstance(rows, Refusal) else varying or rows
            case _ if varying is not None:
                return varying
            case nodes.Aggregate() if (
                self._options.by_panes
                and isinstance(source, ChangelogSource)
                and is_of_closed_windows(core)
            ):
                return plan_closed_windows(core, values, source, self.stages)
            case nodes.Aggregate():
                waits = isinstance(source, ChangelogSource) and (
                    source.rows.inserts or source.rows.windowed
                )
                closed = core.closed if waits else None
                if closed is None:
                    self._keep_alone(block)
                life = None if closed else core.state_ttl_ms
                return plan_aggregation(select, values, source, self.stages, life, closed)
            case _:
                return source.refuse(value for _, value in values) or source.project(values)

    def _keep_alone(self, block: QueryBlock) -> None:
        """Note that an operator keeps rows of the only relation in FROM."""
        if len(block.relations) == 1:
            self.stateful.add(id(block.relations[0].origin))
