"""Plans an incremental query: a walk from its tables upwards, which leaves to Spark what it streams and makes stages
of the rest.

Every query becomes either rows that Spark streams (AppendRelation) or the changes of a stage (ChangelogRelation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import window_tables
from penstock.sql.dialect.parser.table_functions import table_call
from penstock.sql.incremental.planning.accepted import accepted
from penstock.sql.incremental.planning.aggregate import (
    plan_aggregate,
    plan_distinct,
    plan_set_operation,
)
from penstock.sql.incremental.planning.clauses import (
    NamedRelation,
    all_of,
    expand,
    is_only_of,
    is_table,
    name_all,
    needed_names,
)
from penstock.sql.incremental.planning.join import (
    filter_by_query,
    join,
    join_conditions,
)
from penstock.sql.incremental.planning.over import plan_over
from penstock.sql.incremental.planning.relation import (
    AppendRelation,
    ChangelogRelation,
    Item,
    Relation,
    column,
)
from penstock.sql.incremental.planning.source import AppendSource, ChangelogSource
from penstock.sql.incremental.planning.stage_list import StageList, union_inputs
from penstock.sql.incremental.planning.state_ttl import StateTtlHints
from penstock.sql.incremental.planning.temporal_join import plan_temporal_join, waits_for
from penstock.sql.incremental.planning.top_n import Ties, plan_top_n, reads_row_number
from penstock.sql.incremental.planning.versions import (
    VersionedRelation,
    last_rows,
    versions_of_table,
)
from penstock.sql.incremental.planning.windows import window_watermark_sources, with_windows
from penstock.sql.incremental.stages import EventTimeStage, IncrementalQuery
from penstock.sql.plan.clauses.joins import conjuncts, has_query, read_join_kind
from penstock.sql.plan.clauses.over_clauses import over_calls, read_window
from penstock.sql.plan.clauses.rowtimes import order_sources
from penstock.sql.plan.clauses.select_clauses import (
    read_alias_names,
    read_relation_names,
    refuse_clauses,
    refuse_missing_from,
    refuse_nondeterministic,
    refuse_query,
    refuse_table_function,
    refuse_unknown_columns,
)
from penstock.sql.plan.logical.names import own_names
from penstock.sql.plan.logical.nodes import JoinType
from penstock.sql.plan.rules import changelog_project
from penstock.sql.plan.rules.aggregate import own_aggregates
from penstock.sql.plan.rules.changelog_mode import check_over, spark_flow
from penstock.sql.plan.rules.flow import Arrival, Flow, ScanFlow
from penstock.sql.plan.rules.inline import inline_ctes
from penstock.sql.plan.rules.joins import has_temporal, is_regular, is_temporal
from penstock.sql.plan.rules.query_kind import waits_for_time
from penstock.sql.plan.rules.row_number import (
    RowNumberQuery,
    check_limit,
    find_row_number,
    take_bound,
)
from penstock.sql.plan.rules.tie_break import arrival_carriers, carry_arrival, winner
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.refusal import Refusal

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


def plan_incremental(query: exp.Expr, tables: Sequence[ScanFlow]) -> IncrementalPlan:
    """Plan `query`, which has no views and table nodes labelled with the index of their leaf in `tables`.

    `tables` have the columns that are read of them. Raises UnsupportedError, at the operator, for what cannot run
    incrementally.
    """
    tree = inline_ctes(query.copy())
    lives = StateTtlHints(tree)
    walk = _StagePlanner(tables, lives)
    rows = walk.stages.staged(walk.query(tree))
    lives.check()
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


class _StagePlanner:
    def __init__(self, tables: Sequence[ScanFlow], lives: StateTtlHints) -> None:
        self._tables = tables
        self._lives = lives
        self._proctimes = frozenset[str]().union(*(table.proctimes for table in tables))
        self.stages = StageList()

    def query(self, node: exp.Expr) -> Relation:
        """Plan a query."""
        streamed = self._streamed(node)
        if streamed is not None:
            return streamed
        match node:
            case exp.Select():
                return self._select(node)
            case exp.SetOperation():
                sides = (self.query(node.this), self.query(node.expression))
                return plan_set_operation(node, sides[0], sides[1], self.stages)
            case exp.Subquery():
                return self.query(node.this)
            case _:
                raise refuse_query(node).error()

    def _streamed(self, node: exp.Expr) -> AppendRelation | None:
        """Return a query that Spark streams by itself, as all its rows are inserts."""
        if isinstance(node, exp.Subquery):
            return self._streamed(node.this)
        if not isinstance(node, exp.Select | exp.SetOperation) or has_temporal(node):
            return None
        flow = spark_flow(node, self._tables)
        if isinstance(flow, Refusal) or flow.is_changing or flow.columns is None:
            return None
        if any(is_regular(s) for s in node.find_all(exp.Select)):
            return None
        query = node.copy()
        return AppendRelation(query=query, columns=name_all(query, flow.columns))

    # --- FROM ---

    def _from(self, select: exp.Select) -> tuple[list[NamedRelation], list[exp.Expr]]:
        accepted(refuse_missing_from(select))
        from_ = select.args["from_"]
        joins = [*(select.args.get("joins") or []), *(select.args.get("laterals") or [])]
        nodes = [from_.this, *(j.this if isinstance(j, exp.Join) else j for j in joins)]
        return [self._named(node, select) for node in nodes if is_table(node)], joins

    def _named(self, node: exp.Expr, reader: exp.Select) -> NamedRelation:
        versions = self._versions(node, reader) if is_temporal(node) else None
        rows, shown = self._relation(node, reader) if versions is None else versions.shown
        return NamedRelation(
            node=node,
            alias=node.alias_or_name,
            shown=accepted(read_relation_names(node, shown)),
            rows=rows,
            versions=versions,
        )

    def _versions(self, node: exp.Expr, reader: exp.Select) -> VersionedRelation:
        needed = needed_names(reader)
        if isinstance(node, exp.Subquery):
            return last_rows(node, self._tables, needed, self._source, self.stages)
        assert isinstance(node, ScanTable), "tables and views have versions"
        return versions_of_table(node, self._tables[node.scan], needed, self.stages)

    def _relation(self, node: exp.Expr, reader: exp.Select) -> tuple[Relation, Sequence[str]]:
        match node:
            case exp.Subquery() if numbered := find_row_number(reader.args.get("where"), node):
                take_bound(reader, numbered)
                accepted(check_limit(numbered))
                expanded = self._source(numbered.select)
                shows = reads_row_number(reader, numbered)
                arrives = numbered.is_by_arrival(self._proctimes)
                ranked = plan_top_n(
                    numbered,
                    expanded.project,
                    self.stages,
                    shows_number=shows,
                    by_arrival=arrives,
                    ties=self._ties(numbered, expanded),
                )
                names = [i.alias_or_name for i in numbered.select.expressions]
                kept = [n for n in names if shows or n != numbered.name]
                return ranked, kept
            case ScanTable():
                table = self.stages.table(node, self._tables[node.scan], needed_names(reader))
                return table, table.columns
            case exp.Table() if (call := table_call(node)) is not None:
                raise refuse_table_function(call.name, node).error()
            case exp.Table():
                alone = all_of(node)
                streamed = self._streamed(alone) or self._windowed(node)
                if streamed is None:
                    accepted(spark_flow(alone, self._tables))  # says what stands against it
                    raise refuse_unknown_columns(node).error()
                return streamed, streamed.columns
            case _:
                rows = self.query(node)
                return rows, rows.columns

    def _ties(
        self, numbered: RowNumberQuery, source: AppendSource | ChangelogSource
    ) -> Ties | None:
        """Return how ties in the order are broken, by arrival; None: by their columns."""
        if any(table.arrival is Arrival.OPEN for table in self._tables):
            return None
        carriers = None
        if isinstance(source, AppendSource):
            carriers = arrival_carriers(source.skeleton, self._tables)
        carry_arrival(carriers or [])
        return Ties(winner=winner(numbered, self._tables), by_record=carriers is not None)

    def _windowed(self, node: exp.Table) -> ChangelogRelation | None:
        """Return rows of a stage with their windows; None for those of a table."""
        (window, *_) = window_tables(node)
        rows, shown = self._relation(window.input, exp.select("*"))
        if isinstance(rows, AppendRelation) or tuple(shown) != rows.columns:
            return None
        return with_windows(window, rows, self._tables, self.stages)

    def _source(self, select: exp.Select) -> AppendSource | ChangelogSource:
        """Plan FROM and WHERE of a SELECT; expands its stars."""
        whole = self._streamed_source(select)
        if whole is not None:
            return whole
        named, joins = self._from(select)
        expand(select, named, joins)
        where = select.args.get("where")
        tests = conjuncts(where.this if where is not None else None)
        plain = [test for test in tests if not has_query(test)]
        source = self._joined(select, named, joins, plain)
        source = source.filtered(plain)
        return reduce(
            lambda kept, test: filter_by_query(test, kept, self._inner),
            filter(has_query, tests),
            source,
        )

    def _streamed_source(self, select: exp.Select) -> AppendSource | None:
        skeleton = exp.Select(expressions=[exp.Star()])
        for part in ("from_", "joins", "laterals", "where", "hint"):
            if select.args.get(part) is not None:
                value = select.args[part]
                copied = [v.copy() for v in value] if isinstance(value, list) else value.copy()
                skeleton.set(part, copied)
        names = None if has_temporal(skeleton) else self._star_names(skeleton)
        if names is None:
            return None
        select.set("expressions", accepted(changelog_project.expanded(select, names)))
        return AppendSource(skeleton=skeleton)

    def _star_names(self, skeleton: exp.Select) -> list[changelog_project.QualifiedRelation] | None:
        """Return the relations of a FROM that Spark streams, with their columns; None where it does not."""
        flow = spark_flow(skeleton, self._tables)
        if isinstance(flow, Refusal) or flow.is_changing:
            return None
        if any(is_regular(s) for s in skeleton.find_all(exp.Select)):
            return None
        joins = [*(skeleton.args.get("joins") or []), *(skeleton.args.get("laterals") or [])]
        nodes = [
            skeleton.args["from_"].this,
            *(j.this if isinstance(j, exp.Join) else j for j in joins),
        ]
        return [
            changelog_project.QualifiedRelation(alias=n.alias_or_name, flow=self._flow(n))
            for n in nodes
        ]

    def _flow(self, node: exp.Expr) -> Flow:
        if not is_table(node):
            alias = node.args.get("alias")
            return Flow(columns=tuple(c.name for c in alias.columns) if alias is not None else None)
        return accepted(spark_flow(all_of(node), self._tables))

    def _joined(
        self,
        select: exp.Select,
        named: list[NamedRelation],
        joins: Sequence[exp.Expr],
        tests: list[exp.Expr],
    ) -> ChangelogSource:
        """Join the relations of FROM from left to right; equalities of WHERE that are used are removed from `tests`."""
        needed = needed_names(select)
        inner_joins = all(
            not isinstance(join_, exp.Join) or accepted(read_join_kind(join_)) is JoinType.INNER
            for join_ in joins
        )
        early = tests if inner_joins else []
        source = self._open(named[0], needed, early)
        joined, tables = [named[0]], iter(named[1:])
        for node in joins:
            inner = node.this if isinstance(node, exp.Join) else node
            if not is_table(inner):
                source = source.unnested(
                    node, inner.alias_or_name, accepted(read_alias_names(inner))
                )
                continue
            assert isinstance(node, exp.Join), "tables are joined"
            right = next(tables)
            joined.append(right)
            if right.versions is not None:
                # a condition on versions chooses none: it is asked of the one that is valid
                opened = self._open(right, needed, [])
                sources = waits_for(node, joined, self._tables)
                conditions = join_conditions(node, source, opened, right.alias, tests)
                source = plan_temporal_join(
                    source, opened, right.versions, conditions, sources, node
                )
                continue
            opened = self._open(right, needed, early)
            conditions = join_conditions(node, source, opened, right.alias, tests)
            life = self._lives.of(select, right.alias)
            # of what an earlier join gave, no hint can speak
            left = self._lives.of(select, named[0].alias) if len(joined) == 2 else None
            source = join(
                accepted(read_join_kind(node)), source, opened, conditions, node, (left, life)
            )
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
        scope = {
            (named.alias, name): column(mine, staged.name)
            for name, mine in zip(shown, staged.columns, strict=False)
        }
        return ChangelogSource(stages=self.stages, rows=staged, scope=scope).filtered(own)

    # --- SELECT ---

    def _inner(self, select: exp.Select) -> ChangelogRelation:
        return self.stages.staged(self.query(select))

    def _select(self, select: exp.Select) -> Relation:
        accepted(refuse_clauses(select))
        grouped = select.args.get("group") is not None or bool(own_aggregates(select))
        calls = over_calls(select)
        if grouped or not calls:
            accepted(check_over(select))
        sources = partial(order_sources, select, self._tables)
        window = accepted(read_window(select, calls, sources, self._proctimes))
        source = self._source(select)
        names = own_names(select.expressions)
        items: list[Item] = [
            (name, item.unalias()) for name, item in zip(names, select.expressions, strict=True)
        ]
        if window is not None:
            source, items = plan_over(select, names, source, window, self.stages)
        if grouped or not isinstance(source, AppendSource):
            accepted(refuse_nondeterministic(select))
        if grouped:
            closes = window_watermark_sources(select, source, self._tables)
            life = None if closes else self._lives.alone(select)
            rows: Relation = plan_aggregate(select, names, source, self.stages, life, closes)
        else:
            rows = source.project(items)
        if select.args.get("distinct") is not None:
            life = None if grouped else self._lives.alone(select)
            rows = plan_distinct(self.stages.staged(rows), self.stages, select, life)
        return rows
