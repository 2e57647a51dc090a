"""Choose the engine of each operator of a plan: the only place that refuses what no engine runs.

Spark runs what it can by itself, and one operator that updates its results in its update mode. Where it cannot, or the
sink does not take what it gives, stages run the query, over what Spark streams for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.clauses.select_clauses import refuse_unused_hint
from penstock.sql.plan.logical.nodes import Scan, TemporalJoin
from penstock.sql.plan.logical.plan import Plan, StateHint, walk
from penstock.sql.plan.placement.engines import on_one_engine, on_spark, on_stages
from penstock.sql.plan.placement.physical_plan import PhysicalPlan
from penstock.sql.plan.placement.spark import SparkTraits
from penstock.sql.plan.placement.stage import StageTraits
from penstock.sql.plan.placement.trait import scan_flow
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.plan.rules.sink_changelog import SinkTable, sink_refusal
from penstock.sql.plan.rules.streaming_checks import in_processing_time, unequal_joins
from penstock.sql.syntax.refusal import Refusal

__all__ = ["PlacementOptions", "place_on_stages", "place_operators"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementOptions:
    """What a query is planned for: `sink` takes its rows (None: they are shown), `state_ttl_ms` bounds state (0: no).

    `at_rest` are the scans that are read as they are, with the reason why their changes cannot be followed; `instants`
    says of scans with a rowtime whether it is an instant (TIMESTAMP_LTZ) or a local time. `temporal`: the query has a
    join as of an event time somewhere.
    """

    sink: SinkTable | None
    state_ttl_ms: int = 0
    at_rest: Mapping[int, Refusal] = field(default_factory=dict)
    instants: Mapping[int, bool] = field(default_factory=dict)
    temporal: bool = False


def place_operators(plan: Plan, options: PlacementOptions) -> PhysicalPlan | Refusal:
    """Choose the engines of a plan; a refusal for what no engine runs, or the sink does not take."""
    changing = any(scan.changes is not ChangelogMode.INSERT_ONLY for scan in plan.scans)
    spark = SparkTraits(plan.scans)
    if options.temporal:
        return place_on_stages(plan, spark, options)
    if len(options.at_rest) == len(plan.scans) or not (options.sink is not None or changing):
        flow = Flow(columns=None)
        root = on_one_engine(plan.root, flow)
        return PhysicalPlan(root=root, plan=plan, flow=flow, traits=spark, checked=False)
    tables = [scan_flow(scan) for scan in plan.scans]
    followed = frozenset(range(len(tables))) - set(options.at_rest) - plan.lookups
    if changing:
        followed = frozenset()
    unequal = unequal_joins(plan.tree, followed)
    refusal = in_processing_time(plan.tree, tables) or unequal.bounded
    if refusal is not None:
        return refusal
    found = unequal.regular or _streamed(plan, spark, options)
    if isinstance(found, PhysicalPlan):
        return found
    if found is not None and plan.lookups:
        return found  # stages follow their tables, and a lookup does not
    return place_on_stages(plan, spark, options)


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
    if refusal is not None:
        return refusal
    root = on_spark(plan.root, spark)
    return PhysicalPlan(root=root, plan=plan, flow=flow, traits=spark)


def place_on_stages(
    plan: Plan, spark: SparkTraits, options: PlacementOptions
) -> PhysicalPlan | Refusal:
    """Run a plan by stages, over what Spark streams for them."""
    for index in sorted(plan.lookups):
        return _refuse_lookup(plan.scans[index])
    for index in sorted(options.at_rest):
        return options.at_rest[index]
    stages = StageTraits(plan.scans, spark)
    rows = stages.of(plan.root)
    if isinstance(rows, Refusal):
        return rows
    refusal = _refuse_unused(plan.hints, stages) or _refuse_mixed_times(plan, options)
    if refusal is not None:
        return refusal
    flow = rows.flow if not rows.native else Flow(columns=rows.columns)
    refusal = None if options.sink is None else sink_refusal(flow, options.sink)
    if refusal is not None:
        return refusal
    root = on_stages(plan.root, stages, spark)
    return PhysicalPlan(root=root, plan=plan, flow=flow, traits=spark, stages=stages)


def _refuse_lookup(scan: Scan) -> Refusal:
    return Refusal(
        message=f"the results of this query are kept up to date, and a lookup in {scan.table} gives other rows each "
        "time",
        hint="INSERT the joined rows into a Delta table first, and read that",
    )


def _refuse_unused(hints: Sequence[StateHint], stages: StageTraits) -> Refusal | None:
    """Refuse a hint that bounds no state."""
    for hint in hints:
        if id(hint.hint.relation) not in stages.kept:
            return refuse_unused_hint(hint.hint)
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
