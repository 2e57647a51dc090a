"""Choose the engine of each operator of a plan: the only place that refuses what no engine runs.

Spark runs what it can by itself, and one operator that updates its results in its update mode. Stages run the query
where Spark cannot, where the sink does not take what it gives, or where keyed operators are cheaper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.incremental.stages import InputState, RecomputeOperator
from penstock.sql.plan.logical.nodes import (
    Aggregate,
    Distinct,
    Join,
    Limit,
    LookupJoin,
    Node,
    Over,
    Project,
    Scan,
    SetOp,
    SubqueryAlias,
    TemporalJoin,
    TopN,
    WindowAssign,
)
from penstock.sql.plan.logical.plan import Plan, StateHint, inputs, walk
from penstock.sql.plan.placement.blocks import IncrementalPlan, StageOptions, query_block, scan_flow
from penstock.sql.plan.placement.keyed import joins_for_good, runs_keyed
from penstock.sql.plan.placement.panes import has_windows_for_stages
from penstock.sql.plan.placement.spark import SparkTraits
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.plan.rules.joins import in_processing_time, unequal_joins
from penstock.sql.plan.rules.sink_changelog import SinkTable, sink_refusal
from penstock.sql.plan.rules.top_n import refuse_no_row
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import find_nodes


class Engine(StrEnum):
    """What runs an operator."""

    NATIVE = "native"
    """Spark by itself: a stream in append mode, or a batch."""
    UPDATE = "update"
    """Spark's update mode: a key's newest row replaces the one before."""
    INCREMENTAL = "incremental"
    """A stage in foreachBatch, with keyed state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalNode:
    """An operator, the engine that runs it, and the changes and the key of its rows on that engine."""

    logical: Node
    engine: Engine
    trait: Flow
    inputs: tuple[PhysicalNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalPlan:
    """The operators of a query, each on its engine; `flow` are the rows that reach the sink.

    `checked`: what streams cannot do was refused. False for a query that Spark runs as it is. `traits` are those of
    Spark, by which its SQL is written. `stages` is the query on stages, where they run it; `of_best_rows`: as they are
    one of Top-1 of inserts, which Spark could run, too, `of_accumulators`: as they are an aggregation of inserts with
    DISTINCT.
    """

    root: PhysicalNode
    plan: Plan
    flow: Flow
    traits: SparkTraits = field(compare=False, repr=False)
    stages: IncrementalPlan | None = field(default=None, compare=False, repr=False)
    of_best_rows: bool = False
    of_accumulators: bool = False
    checked: bool = True


# --- operators on their engines ---

Run = tuple[Engine, Flow]
"""The engine of an operator, and its rows there."""


def _on_one_engine(root: Node, flow: Flow) -> PhysicalNode:
    """Give a whole plan to Spark, as it is; nothing is known of its rows."""
    return _assembled(root, {id(node): (Engine.NATIVE, flow) for node in walk(root)})


def on_spark(root: Node, spark: SparkTraits) -> PhysicalNode:
    """Give a whole plan to Spark: an operator that updates its results, and what stands on it, in update mode."""
    return _assembled(root, dict(_on_spark(root, spark)))


def _on_stages(root: Node, stages: IncrementalPlan, spark: SparkTraits) -> PhysicalNode:
    """Give a plan to stages, and what Spark streams for them to Spark."""
    runs: dict[int, Run] = {}
    pending: list[tuple[Node, Flow]] = [(root, Flow(columns=None))]
    while pending:
        node, above = pending.pop()
        # within a SELECT operators have the rows of what is above them
        flow = stages.rows.get(id(node), above)
        if isinstance(node, Scan) or flow is None:
            runs.update(_on_spark(node, spark))
            continue
        runs[id(node)] = (Engine.INCREMENTAL, flow)
        block = query_block(node) if isinstance(node, _LISTS) else None
        if block is None or id(block.block) not in stages.streamed:
            pending += ((one, flow) for one in inputs(node))
            continue
        for one in inputs(node):
            runs.update(_on_spark(one, spark))
    return _assembled(root, runs)


_LISTS = (Project, Aggregate, Over, TopN)
"""Operators that compute the SELECT list: what is below them is FROM and WHERE."""


def _on_spark(root: Node, spark: SparkTraits) -> Iterator[tuple[int, Run]]:
    pending: list[tuple[Node, Flow]] = [(root, Flow(columns=None))]
    while pending:
        node, above = pending.pop()
        asked = isinstance(node, Scan | SubqueryAlias | WindowAssign | SetOp)
        found = spark.of(node) if asked else spark.known(node)
        flow = above if found is None or isinstance(found, Refusal) else found
        yield id(node), (Engine.NATIVE if flow.mechanism is None else Engine.UPDATE, flow)
        below = flow
        if isinstance(node, _LISTS) and (block := query_block(node)) is not None:
            clause = spark.of_from(block)
            below = Flow(columns=None) if isinstance(clause, Refusal) else clause.joined.flow
        pending += ((one, below) for one in inputs(node))


def _assembled(root: Node, runs: dict[int, Run]) -> PhysicalNode:
    done: dict[int, PhysicalNode] = {}
    for node in walk(root):  # inputs come first
        engine, trait = runs[id(node)]
        children = tuple(done[id(one)] for one in inputs(node))
        done[id(node)] = PhysicalNode(logical=node, engine=engine, trait=trait, inputs=children)
    return done[id(root)]


# --- the choice ---

_PLAIN = StageOptions()


class StagePlanner(Protocol):
    """What plans a query as stages, over what Spark streams by its traits; a refusal for what no stage runs."""

    def __call__(
        self, plan: Plan, spark: SparkTraits, stages: StageOptions
    ) -> IncrementalPlan | Refusal:
        """Plan a query."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementOptions:
    """What a query is planned for: `sink` takes its rows (None: they are shown), `state_ttl_ms` bounds state (0: no).

    `at_rest` are the scans that are read as they are, with the reason why their changes cannot be followed; `instants`
    says of scans with a rowtime whether it is an instant (TIMESTAMP_LTZ) or a local time. `temporal`: the query has a
    join as of an event time somewhere. `streams_joins`: Spark runs regular joins of streams, as in earlier versions,
    `streams_joins_in_time`: those that end with the watermark, `streams_windows`: aggregations by windows,
    `streams_best_rows`: deduplication and Top-1, and `streams_aggregates`: aggregations without a window; where it does
    not, stages keep the rows of these. `lists_apart`: SELECT lists of aggregations are computed behind their stages.
    """

    sink: SinkTable | None
    state_ttl_ms: int = 0
    at_rest: Mapping[int, Refusal] = field(default_factory=dict)
    instants: Mapping[int, bool] = field(default_factory=dict)
    temporal: bool = False
    streams_joins: bool = False
    streams_joins_in_time: bool = False
    streams_windows: bool = False
    streams_best_rows: bool = False
    streams_aggregates: bool = False
    lists_apart: bool = False


def choose_engines(
    plan: Plan, options: PlacementOptions, planner: StagePlanner
) -> PhysicalPlan | Refusal:
    """Choose the engines of a plan; a refusal for what no engine runs, or the sink does not take.

    `planner` plans it as stages.
    """
    changing = any(scan.changes is not ChangelogMode.INSERT_ONLY for scan in plan.scans)
    spark = SparkTraits(plan.scans)
    refused = _refuse_lateral(plan, options) or refuse_no_row(plan.inlined)
    if options.temporal:
        return refused or plan_on_stages(plan, spark, options, planner)
    if len(options.at_rest) == len(plan.scans) or not (options.sink is not None or changing):
        flow = Flow(columns=None)
        root = _on_one_engine(plan.root, flow)
        return PhysicalPlan(root=root, plan=plan, flow=flow, traits=spark, checked=False)
    if refused is not None:
        return refused
    tables = [scan_flow(scan) for scan in plan.scans]
    followed = frozenset(range(len(tables))) - set(options.at_rest) - plan.lookups
    if changing:
        followed = frozenset()
    unequal = unequal_joins(plan.tree, followed)
    if (refusal := in_processing_time(plan.tree, tables) or unequal.bounded) is not None:
        return refusal
    found = unequal.regular or _streamed(plan, spark, options)
    if isinstance(found, PhysicalPlan):
        return _on_cheaper_stages(plan, found, options, planner)
    if found is not None and plan.lookups:
        return found  # stages follow their tables, and a lookup does not
    return plan_on_stages(plan, spark, options, planner)


def _streamed(
    plan: Plan, spark: SparkTraits, options: PlacementOptions
) -> PhysicalPlan | Refusal | None:
    """Run a plan by Spark alone; None where its state has a time to live, which Spark's has not."""
    flow = spark.of(plan.root)
    if isinstance(flow, Refusal):
        return flow
    if plan.hints or (flow.mechanism is not None and options.state_ttl_ms != 0):
        return None
    refusal = None if options.sink is None else sink_refusal(flow, options.sink)
    refusal = refusal or _refuse_unfollowed(plan, options)
    if refusal is not None:
        return refusal
    root = on_spark(plan.root, spark)
    return PhysicalPlan(root=root, plan=plan, flow=flow, traits=spark)


def _on_cheaper_stages(
    plan: Plan, streamed: PhysicalPlan, options: PlacementOptions, planner: StagePlanner
) -> PhysicalPlan:
    """Give a query that Spark streams to stages, where keyed operators run all of it: Top-1, COUNT(DISTINCT), joins.

    Of joins those whose rows end, outer ones too, and inner ones that keep their rows: Spark reads a table of such a
    join once for each side, and writes each of their rows into its state store. For Top-1 it sorts the rows of a batch
    twice, and compares each of them with the row of its state store. For COUNT(DISTINCT) its update mode reads and
    writes the whole set of values of a group.
    """
    whole = bool(plan.lookups or options.at_rest) or any(scan.static for scan in plan.scans)
    if options.streams_joins or whole:
        return streamed
    best = _with_best_rows(plan, streamed, options, planner)
    best = best or _with_accumulators(plan, streamed, options, planner, _UPSERTS)
    if best is not None:
        return best
    staged = _with_joins_in_time(plan, streamed.traits, options, planner)
    if staged is not None and staged.flow.changes is streamed.flow.changes:
        return staged
    if not joins_for_good(plan.root):
        return streamed
    return _on_keyed_stages(plan, streamed.traits, options, planner) or streamed


def _with_best_rows(
    plan: Plan, streamed: PhysicalPlan, options: PlacementOptions, planner: StagePlanner
) -> PhysicalPlan | None:
    """Run by stages a plan whose only operator with state is Top-1 of rows that stay; None for others."""
    best = [node for node in walk(plan.root) if isinstance(node, TopN)]
    others = any(isinstance(node, (Aggregate, *_WITH_STATE)) for node in walk(plan.root))
    if options.streams_best_rows or others or len(best) != 1:
        return None
    (only,) = best
    if only.limit > 1 or only.ties:
        return None
    found = _on_keyed_stages(
        plan, streamed.traits, options, planner, StageOptions(by_position=True)
    )
    if found is None or found.stages is None:
        return None
    first = found.stages.maintained.stages[0]
    if not isinstance(first, RecomputeOperator) or not first.keeps_first:
        return None  # of batches, or of several tables: all columns would decide
    return replace(found, of_best_rows=True) if found.flow.key == streamed.flow.key else None


_UPSERTS = StageOptions(accumulates=True)
_CHANGES = StageOptions(accumulates=True, retracts=True)


def _with_accumulators(
    plan: Plan,
    other: PhysicalPlan,
    options: PlacementOptions,
    planner: StagePlanner,
    how: StageOptions,
) -> PhysicalPlan | None:
    """Run by a stage with accumulators a plan whose only operator with state has DISTINCT values of rows that stay.

    None for others, and where it would not give changes as the `other` plan does. Whether a keyed operator computes all
    of it is asked behind planning (`run_forms.py`), which knows the types.
    """
    if options.streams_aggregates or not _has_distinct_values(plan):
        return None
    staged = _on_all_stages(plan, other.traits, options, planner, how)
    if isinstance(staged, Refusal) or staged.stages is None or not _gives_as(staged, other):
        return None
    found = (s for s in staged.stages.maintained.stages if isinstance(s, RecomputeOperator))
    states = {one.keeps for stage in found for one in stage.inputs}
    known = states in ({InputState.ACCUMULATORS}, {InputState.EXPIRING})
    return replace(staged, of_accumulators=True) if known else None


def _has_distinct_values(plan: Plan) -> bool:
    """Return whether the only operator with state is an aggregation by keys, with DISTINCT, of rows that stay."""
    found = [node for node in walk(plan.root) if isinstance(node, Aggregate)]
    others = any(isinstance(node, (*_WITH_STATE, TopN)) for node in walk(plan.root))
    changing = any(scan.changes is not ChangelogMode.INSERT_ONLY for scan in plan.scans)
    if others or changing or len(found) != 1 or any(scan.static for scan in plan.scans):
        return False
    (only,) = found
    if not only.keys or only.grouping_sets is not None:
        return False
    values = [value for _, value in only.items]
    values += [] if only.having is None else [only.having]
    calls = (c for value in values for c in value.find_all(exp.Count, exp.Sum, exp.Avg))
    return any(isinstance(call.this, exp.Distinct) for call in calls)


_WITH_STATE = (
    Distinct, Join, Limit, LookupJoin, Over, SetOp, TemporalJoin, WindowAssign,
)  # fmt: skip
"""Operators that a query with Top-1 or an aggregation is left to Spark for, with what else it has."""


def _with_joins_in_time(
    plan: Plan, spark: SparkTraits, options: PlacementOptions, planner: StagePlanner
) -> PhysicalPlan | None:
    """Run a plan by stages with the joins whose rows end, where it has some and all stages are ones of keyed operators.

    Only these drop rows that end.
    """
    ends = any(isinstance(node, Join) and node.ends is not None for node in walk(plan.root))
    if options.streams_joins_in_time or not ends:
        return None
    panes = not options.streams_windows and has_windows_for_stages(plan.root)
    for by_panes in (True, False) if panes else (False,):
        stages = StageOptions(joins_in_time=True, by_panes=by_panes)
        found = _on_keyed_stages(plan, spark, options, planner, stages)
        if found is not None:
            return found
    return None


def plan_on_stages(
    plan: Plan, spark: SparkTraits, options: PlacementOptions, planner: StagePlanner
) -> PhysicalPlan | Refusal:
    """Run a plan by stages, over what Spark streams for them."""
    plain = _on_all_stages(plan, spark, options, planner)
    if isinstance(plain, PhysicalPlan) and not options.lists_apart:
        accumulated = _with_accumulators(plan, plain, options, planner, _CHANGES)
        if accumulated is not None:
            return accumulated
    found = _with_joins_in_time(plan, spark, options, planner)
    if found is None or (isinstance(plain, PhysicalPlan) and not _gives_as(found, plain)):
        return plain
    return found


def _gives_as(one: PhysicalPlan, other: PhysicalPlan) -> bool:
    """Return whether two plans of a query give changes of the same kinds, by the same key."""
    return (one.flow.changes, one.flow.key) == (other.flow.changes, other.flow.key)


def _on_keyed_stages(
    plan: Plan,
    spark: SparkTraits,
    options: PlacementOptions,
    planner: StagePlanner,
    how: StageOptions = _PLAIN,
) -> PhysicalPlan | None:
    """Run a plan by stages, where keyed operators run all of them; None elsewhere."""
    found = _on_all_stages(plan, spark, options, planner, how)
    if isinstance(found, Refusal) or found.stages is None:
        return None
    return found if runs_keyed(found.stages.maintained) else None


def _on_all_stages(
    plan: Plan,
    spark: SparkTraits,
    options: PlacementOptions,
    planner: StagePlanner,
    how: StageOptions = _PLAIN,
) -> PhysicalPlan | Refusal:
    for index in sorted(plan.lookups):
        return _refuse_lookup(plan.scans[index])
    for index in sorted(options.at_rest):
        return options.at_rest[index]
    stages = planner(plan, spark, replace(how, lists_apart=options.lists_apart))
    if isinstance(stages, Refusal):
        return stages
    refusal = _refuse_unused(plan.hints, stages) or _refuse_mixed_times(plan, options)
    if refusal is not None:
        return refusal
    flow = stages.flow
    refusal = None if options.sink is None else sink_refusal(flow, options.sink)
    refusal = refusal or _refuse_unfollowed(plan, options)
    if refusal is not None:
        return refusal
    root = _on_stages(plan.root, stages, spark)
    return PhysicalPlan(root=root, plan=plan, flow=flow, traits=spark, stages=stages)


def _refuse_lateral(plan: Plan, options: PlacementOptions) -> Refusal | None:
    """Refuse LATERAL (SELECT ...) over a table whose rows are followed."""
    for node in find_nodes(plan.inlined, exp.Lateral):
        query = node.this.unnest()
        scans = find_nodes(query, ScanTable) if isinstance(query, exp.Query) else ()
        if any(scan.scan not in options.at_rest for scan in scans):
            return Refusal(
                message="LATERAL (SELECT ...) over a stream is not supported",
                hint="join the query by its condition: FROM a JOIN (SELECT ...) AS b ON a.x = b.x; the best rows for "
                "each are ROW_NUMBER() OVER (PARTITION BY x ORDER BY ...) AS n in that query, and WHERE b.n <= 3",
                span=span_of(node),
            )
    return None


def _refuse_unfollowed(plan: Plan, options: PlacementOptions) -> Refusal | None:
    """Refuse a table that no operator of the plan reads, but for one that is read as it is."""
    scans = [node for node in walk(plan.root) if isinstance(node, Scan)]
    read = Counter(scan.index for scan in scans)
    read_at = {id(scan.origin) for scan in scans}
    named = [
        node for node in find_nodes(plan.inlined, ScanTable) if node.scan not in options.at_rest
    ]
    missing = {
        index for index, count in Counter(n.scan for n in named).items() if count > read[index]
    }
    unread = [node for node in named if node.scan in missing and id(node) not in read_at]
    if not unread:
        return None
    # operators of queries in WHERE are of copies
    found = next((node for node in unread if node.find_ancestor(exp.Where) is None), unread[0])
    return Refusal(
        message=f"the rows of {plan.scans[found.scan].table} cannot be followed here: in a query inside an expression, "
        "in LATERAL (SELECT ...) or in a join in brackets",
        hint="join it in FROM, without brackets: FROM a JOIN b ON a.x = b.x; or FROM a JOIN (SELECT ...) AS b ON "
        "a.x = b.x",
        span=span_of(found),
    )


def _refuse_lookup(scan: Scan) -> Refusal:
    return Refusal(
        message=f"the results of this query are kept up to date, and a lookup in {scan.table} gives other rows each "
        "time",
        hint="INSERT the joined rows into a Delta table first, and read that",
    )


def _refuse_unused(hints: Sequence[StateHint], stages: IncrementalPlan) -> Refusal | None:
    """Refuse a hint that bounds no state."""
    for hint in hints:
        if id(hint.hint.relation) not in stages.stateful:
            return Refusal(
                message="the hint STATE_TTL bounds joins without a bound in time and aggregations without a window, "
                f"and none of these keeps rows of '{hint.hint.relation.alias_or_name}' here",
                hint="leave it out: the watermark bounds windows and joins in time, and SET 'table.exec.state.ttl' "
                "bounds all other state, that of Top-N too",
                span=hint.hint.span,
            )
    return None


def _refuse_mixed_times(plan: Plan, options: PlacementOptions) -> Refusal | None:
    """Refuse a temporal join of a local time with an instant, as Flink does."""
    for node in walk(plan.root):
        if not isinstance(node, TemporalJoin):
            continue
        found = sorted(node.waits_for)
        if len({options.instants[index] for index in found if index in options.instants}) > 1:
            return Refusal(
                message="the rowtimes of a temporal join have to be of one type, and of those of "
                f"{', '.join(plan.scans[index].table for index in found)} some are TIMESTAMP and some TIMESTAMP_LTZ",
                hint="declare the WATERMARK of one of them for a computed column: CAST(ts AS TIMESTAMP_LTZ(3))",
                span=node.span,
            )
    return None
