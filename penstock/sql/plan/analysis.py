"""Analyse a query before any JVM runs.

Tables and columns read, event time, bounds, changelog, temporal and lookup joins. Refuses early what cannot
run. A checkpoint knows the sources of an incremental query by their order alone: that in which Spark finds them in the
union of its inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.model.table import ComputedColumn
from penstock.catalog.model.types import RowType
from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.connector.contract import Source, SourceKind
from penstock.sql.dialect import window_tables
from penstock.sql.expressions.expression import parse_expression
from penstock.sql.expressions.rowtime import rowtime_of
from penstock.sql.incremental.stages import (
    EventTimeStage,
    IncrementalQuery,
    RecomputeOperator,
    Stage,
    sources_of,
)
from penstock.sql.information_schema.source import InformationSource
from penstock.sql.plan.analysed import AnalysedQuery, TableScan
from penstock.sql.plan.builder.builder import build
from penstock.sql.plan.logical.plan import Plan
from penstock.sql.plan.lookup_keys import check_lookups
from penstock.sql.plan.placement.blocks import IncrementalPlan, StageOptions
from penstock.sql.plan.placement.place import PhysicalPlan, PlacementOptions, choose_engines
from penstock.sql.plan.placement.spark import SparkTraits
from penstock.sql.plan.rules.field_paths import Paths, field_paths, merged, row_paths, scan_paths
from penstock.sql.plan.rules.flow import OperatorKind
from penstock.sql.plan.rules.inline import TableReference, is_stateful
from penstock.sql.plan.rules.prune_columns import (
    delivered_columns,
    narrowed_input,
    prune_projections,
)
from penstock.sql.plan.rules.push_filters import Fragment, condition_of_any, find_fragments
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.plan.run_forms import (
    in_form_that_is_run,
    with_lists_apart,
    with_streamed_joins,
)
from penstock.sql.plan.spark_text.spark_query import spark_query
from penstock.sql.plan.spark_text.two_phases import TwoPhases, find_two_phases
from penstock.sql.plan.syntax_rules import PlanForm, QuerySyntax, SyntaxContext, read_query
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import copy_tree, find_nodes

Leaf = TypeVar("Leaf")

Conditions = Sequence[Sequence[exp.Expr]]
"""The conditions of each query over one table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOrder:
    """New numbers of tables: `numbers` are the old ones, in the order of the new. A table that is not read has none."""

    numbers: tuple[int, ...]

    @classmethod
    def of(cls, query: exp.Expr) -> ScanOrder:
        """Return the order of the tables in a query."""
        found = dict.fromkeys(node.scan for node in query.find_all(ScanTable, bfs=False))
        return cls(numbers=tuple(found))

    def leaves(self, leaves: Sequence[Leaf]) -> tuple[Leaf, ...]:
        """Return the tables in this order."""
        return tuple(leaves[number] for number in self.numbers)

    def query(self, query: exp.Expr) -> exp.Expr:
        """Return a query with the new numbers."""
        copied = copy_tree(query)
        for node in copied.find_all(ScanTable):
            node.set("scan", self.numbers.index(node.scan))
        return copied

    def stages(self, maintained: IncrementalQuery) -> IncrementalQuery:
        """Return stages that wait for watermarks by the new numbers."""
        stages = tuple(self._stage(stage) for stage in maintained.stages)
        return replace(maintained, stages=stages)

    def _stage(self, stage: Stage) -> Stage:
        waits_for = tuple(sorted(map(self.numbers.index, sources_of(stage))))
        if isinstance(stage, EventTimeStage):
            return replace(stage, waits_for=waits_for)
        if isinstance(stage, RecomputeOperator) and stage.times is not None:
            return replace(stage, times=replace(stage.times, waits_for=waits_for))
        return stage


def analyse(
    query: exp.Expr,
    namespace: Namespace,
    project: Path,
    *,
    appends: bool,
    sink: SinkTable | None = None,
    state_ttl_ms: int = 0,
    form: PlanForm = PlanForm.CURRENT,
    time_zone: str = "UTC",
) -> AnalysedQuery:
    """Analyse a query; `appends` says that it feeds a sink, which without a `sink` accepts only inserts.

    A query runs by stages where Spark cannot stream it, where keyed operators run it with less CPU time, and where its
    state has a time to live; one with the hint STATE_TTL always. `form` is CURRENT but for a query whose checkpoint is
    of an earlier version. `time_zone` is the session's.

    Raises InputError subclasses: unknown tables, wrong options, updating queries that the sink cannot take.
    """
    found = analyse_or_refuse(
        query,
        namespace,
        project,
        appends=appends,
        sink=sink,
        state_ttl_ms=state_ttl_ms,
        form=form,
        time_zone=time_zone,
    )
    if isinstance(found, Refusal):
        raise found.error()
    return found


def analyse_or_refuse(
    query: exp.Expr,
    namespace: Namespace,
    project: Path,
    *,
    appends: bool,
    sink: SinkTable | None = None,
    state_ttl_ms: int = 0,
    form: PlanForm = PlanForm.CURRENT,
    shown: Namespace | None = None,
    time_zone: str = "UTC",
) -> AnalysedQuery | Refusal:
    """Analyse a query as `analyse` does; a refusal for what no engine runs, or the sink does not take.

    `shown` has what tables of `information_schema` show; None is `namespace`.

    Raises InputError subclasses for what is wrong however the query runs.
    """

    def in_form(form: PlanForm, *, lists_apart: bool = False) -> AnalysedQuery | Refusal:
        context = SyntaxContext(
            namespace=namespace,
            project=project,
            appends=appends,
            form=form,
            shown=shown,
            time_zone=time_zone,
        )
        return _analyse_in_form(query, context, sink, state_ttl_ms, lists_apart=lists_apart)

    if form.age < PlanForm.LISTS_APART.age:
        return in_form(form)
    return with_lists_apart(in_form(PlanForm.STORED_JOINS), state_ttl_ms, in_form)


def _analyse_in_form(
    query: exp.Expr,
    context: SyntaxContext,
    sink: SinkTable | None,
    state_ttl_ms: int,
    *,
    lists_apart: bool,
) -> AnalysedQuery | Refusal:
    form, appends = context.form, context.appends
    read, target = read_query(query, context), (sink or _APPENDS) if appends else None
    follows = form not in (PlanForm.TIES_OPEN, PlanForm.TIES_BROKEN)
    plan = build(read.query, read.tables, read.lookups, follows_windows=follows)
    options = PlacementOptions(
        sink=target,
        state_ttl_ms=state_ttl_ms,
        at_rest={
            index: _not_followed(leaf)
            for index, (leaf, source) in enumerate(zip(read.leaves, read.sources, strict=True))
            if source.kind is SourceKind.SNAPSHOT
        },
        instants=_instants(read) if read.temporal else {},
        temporal=read.temporal,
        streams_joins=form.age < PlanForm.REGULAR_JOINS.age,
        streams_joins_in_time=form.age < PlanForm.TIME_JOINS.age,
        streams_windows=form.age < PlanForm.PANES.age,
        streams_best_rows=form.age < PlanForm.BEST_ROWS.age,
        streams_aggregates=form.age < PlanForm.ACCUMULATORS.age,
        lists_apart=lists_apart,
    )
    planner = partial(_plan_stages, read)
    placed = choose_engines(plan, options, planner)
    if isinstance(placed, Refusal):
        return placed
    if placed.stages is None:
        return _streamed(read, placed, appends=appends)

    def in_form(form: PlanForm, *, lists_apart: bool = lists_apart) -> AnalysedQuery | Refusal:
        other_context = replace(context, form=form)
        return _analyse_in_form(query, other_context, sink, state_ttl_ms, lists_apart=lists_apart)

    found = in_form_that_is_run(_incremental(read, placed), placed, state_ttl_ms, in_form)
    if form.age < PlanForm.STORED_JOINS.age or isinstance(found, Refusal):
        return found
    return with_streamed_joins(found, state_ttl_ms, in_form)


def _plan_stages(
    read: QuerySyntax, plan: Plan, spark: SparkTraits, stages: StageOptions
) -> IncrementalPlan | Refusal:
    from penstock.sql.incremental.planning.incremental_plan import (
        plan_incremental,  # few queries are incremental
    )

    tables = tuple(map(narrowed_input, read.inputs, read.keyed))
    return plan_incremental(plan, spark, stages, tables)


def _instants(read: QuerySyntax) -> dict[int, bool]:
    """Return of tables with a rowtime whether it is an instant, or a local time."""
    timed = (index for index, table in enumerate(read.inputs) if table.rowtime is not None)
    found = ((index, rowtime_of(read.leaves[index].table)) for index in timed)
    return {index: rowtime.instant for index, rowtime in found if rowtime is not None}


def _streamed(read: QuerySyntax, placed: PhysicalPlan, *, appends: bool) -> AnalysedQuery:
    """Return the query as Spark runs it, with the tables that it reads."""
    written = spark_query(placed)
    query = written.query
    # results that are updated wait for no watermark, and drop no row that is late
    waits = placed.flow.mechanism is None
    windows = window_tables(query)
    stateful = waits and (is_stateful(query) or bool(windows))
    pruned = prune_projections(query)
    named = {node.name for node in find_nodes(pruned, exp.Identifier)}
    paths = scan_paths(pruned)
    named |= {window.time_column for window in windows}
    columns = [
        wanted if read.lookups else _still_named(leaf, wanted, named, stateful=stateful)
        for leaf, wanted in zip(read.leaves, read.wanted, strict=True)
    ]
    fragments = _fragments(read, placed, query)
    scans = [
        _analyse_leaf(leaf, source, wanted, stateful=stateful)
        for leaf, source, wanted in zip(read.leaves, read.sources, columns, strict=True)
    ]
    # what is shown has the names that Spark gives its columns
    phases = _two_phases(read, placed, scans, fragments) if appends else {}
    leaves = tuple(
        replace(
            _with_fields(scan, source, {} if wanted is None else paths.get(index, read.paths)),
            looked_up=index in written.looked_up | read.lookups
            or source.kind is SourceKind.SNAPSHOT,
            marked=waits,
            fragment=fragments.get(index),
            two_phases=phases.get(index),
            in_two_phases=index in phases and phases[index].by_tasks,
        )
        for index, (scan, source, wanted) in enumerate(
            zip(scans, read.sources, columns, strict=True)
        )
    )
    check_lookups(query, leaves, read.sources)
    return AnalysedQuery(query=query, leaves=leaves, flow=placed.flow, plan=placed)


def _fragments(read: QuerySyntax, placed: PhysicalPlan, query: exp.Expr) -> Mapping[int, Fragment]:
    """Return what reading tasks compute: of tables read by splits whose rows stay, and do not carry their order."""
    arriving = {node.scan for node in query.find_all(ScanTable) if node.arrives}
    found = find_fragments(placed.plan, [leaf.table.schema for leaf in read.leaves])
    return {
        index: fragment
        for index, fragment in found.items()
        if read.sources[index].kind is SourceKind.SPLITS
        and read.sources[index].changes is ChangelogMode.INSERT_ONLY
        and index not in arriving
    }


def _two_phases(
    read: QuerySyntax, placed: PhysicalPlan, scans: Sequence[TableScan], tables: Collection[int]
) -> Mapping[int, TwoPhases]:
    """Return how aggregations run in two phases, over tables of which reading tasks may compute something.

    Tasks group no rows of an aligned table without windows: these groups would have no event times.
    """
    mechanism = placed.flow.mechanism
    if mechanism is not None and mechanism.way is not OperatorKind.AGGREGATE:
        return {}
    schemas = [leaf.table.schema for leaf in read.leaves]
    found = find_two_phases(placed.plan, schemas, updates=mechanism is not None)
    return {
        index: phases
        if phases.windowed or scans[index].rowtime is None
        else replace(phases, by_tasks=False)
        for index, phases in found.items()
        if index in tables
    }


def _still_named(
    leaf: TableReference, wanted: frozenset[str] | None, named: set[str], *, stateful: bool
) -> frozenset[str] | None:
    """Return those of the `wanted` columns that are `named` when unused columns of inner queries are pruned.

    With the watermark's, by which operators with state drop what is late.
    """
    watermark = leaf.table.schema.watermark
    timed = {watermark.column} if stateful and watermark is not None else set()
    return wanted if wanted is None else wanted & (named | timed) or wanted


def _incremental(read: QuerySyntax, placed: PhysicalPlan) -> AnalysedQuery:
    """Return the query as its inputs and stages."""
    from penstock.sql.incremental.planning.first_phase import group_inputs
    from penstock.sql.incremental.planning.shared_scan import scan_conditions

    plan, wanted = placed.stages, read.keyed
    assert plan is not None, "stages run it"
    timed = plan.waiting | plan.timed
    pruned = prune_projections(plan.combined)
    named = {node.name for node in find_nodes(pruned, exp.Identifier)}
    named |= {window.time_column for window in window_tables(pruned)}
    paths = scan_paths(pruned)
    columns = [
        _still_named(leaf, names, named, stateful=index in timed)
        if source.changes is ChangelogMode.INSERT_ONLY
        else names
        for index, (leaf, source, names) in enumerate(
            zip(read.leaves, read.sources, wanted, strict=True)
        )
    ]
    scans = [
        _analyse_leaf(leaf, source, names, stateful=index in timed)
        for index, (leaf, source, names) in enumerate(
            zip(read.leaves, read.sources, columns, strict=True)
        )
    ]
    conditions = scan_conditions(plan.inputs, plan.maintained.feeds)
    fragments = _input_fragments(read, plan, conditions)
    grouped = group_inputs(
        plan.maintained,
        plan.inputs,
        {index: read.leaves[index].table.schema for index in conditions if scans[index].by_splits},
        checked=frozenset(
            index
            for index, queries in conditions.items()
            if not any(queries) or (index in fragments and not fragments[index].open)
        ),
    )
    leaves = tuple(
        replace(
            _with_fields(scan, source, {} if names is None else paths.get(index, {})),
            marked=index in plan.waiting,
            fragment=fragments.get(index),
            panes=None if grouped is None else grouped.aggregates.get(index),
        )
        for index, (scan, source, names) in enumerate(
            zip(scans, read.sources, columns, strict=True)
        )
    )
    order = ScanOrder.of(plan.query)
    return AnalysedQuery(
        query=order.query(plan.query),
        combined=order.query(plan.combined if grouped is None else grouped.combined),
        inputs=tuple(map(order.query, plan.inputs)),
        leaves=order.leaves(leaves),
        flow=plan.flow,
        maintained=order.stages(plan.maintained if grouped is None else grouped.maintained),
        plan=placed,
        scan_order=order.numbers,
    )


def _input_fragments(
    read: QuerySyntax, plan: IncrementalPlan, conditions: Mapping[int, Conditions]
) -> Mapping[int, Fragment]:
    """Return what reading tasks check of tables from whose rows the inputs of stages only select."""
    arriving = {node.scan for node in plan.combined.find_all(ScanTable) if node.arrives}
    found = {
        index: condition_of_any(index, read.leaves[index].table.schema, of_queries)
        for index, of_queries in conditions.items()
        if read.sources[index].kind is SourceKind.SPLITS
        and read.sources[index].changes is ChangelogMode.INSERT_ONLY
        and index not in arriving
    }
    return {index: fragment for index, fragment in found.items() if fragment is not None}


_APPENDS = SinkTable(name="the sink", accepts=ChangelogMode.INSERT_ONLY, columns=())


def _not_followed(leaf: TableReference) -> Refusal:
    return Refusal(
        message=f"the results of this query are kept up to date, and the changes of {leaf.table.identifier} cannot be "
        f"followed: a table with the connector '{leaf.table.connector}' is read as it is",
        hint="INSERT it into a Delta table first, and read that",
        span=span_of(leaf.nodes[0]),
    )


def _with_fields(leaf: TableScan, source: Source, paths: Mapping[str, Paths]) -> TableScan:
    """Narrow the rows of a table to the fields that the query, its own expressions and its watermark name."""
    schema = leaf.table.schema
    if not paths or source.changes is not ChangelogMode.INSERT_ONLY:
        return leaf
    if not any(isinstance(schema.column(name).type, RowType) for name in leaf.columns):
        return leaf
    if not source.projects_fields:
        return leaf
    own = [c.expression for c in schema.columns if isinstance(c, ComputedColumn)]
    own += [schema.watermark.expression] if schema.watermark is not None else []
    asked = dict(paths)
    for name, more in field_paths(map(parse_expression, own)).items():
        asked[name] = merged((asked[name], more)) if name in asked else more
    return replace(leaf, fields=row_paths(schema, leaf.columns, asked))


def _analyse_leaf(
    leaf: TableReference,
    source: Source,
    wanted: frozenset[str] | None,
    *,
    stateful: bool,
) -> TableScan:
    by_splits = source.kind is SourceKind.SPLITS
    columns, computed = delivered_columns(leaf.table.schema, wanted)
    if source.changes is not ChangelogMode.INSERT_ONLY:
        columns = (*columns, ROW_KIND)
    alignment = source.watermark.alignment if source.kind is SourceKind.SPLITS else None
    followed = by_splits and (stateful or alignment is not None)
    rowtime = rowtime_of(leaf.table) if followed else None
    aligned = None if rowtime is None else alignment
    return TableScan(
        table=leaf.table,
        columns=columns,
        computed=computed,
        rowtime=rowtime,
        by_splits=by_splits,
        bounded=source.bounded,
        group=None if aligned is None else aligned.group,
        max_drift_ms=None if aligned is None else aligned.max_drift_ms,
        source=source if isinstance(source, InformationSource) else None,
    )
