"""The plan of a query as stages: these, and the one query that Spark streams for their inputs; or why none runs it.

Analysis asks for it. What `planner.py` found of the operators is put together here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.incremental.planning.planner import OperatorPlanner
from penstock.sql.incremental.planning.relation import ChangelogRelation
from penstock.sql.incremental.planning.shared_scan import (
    combine_inputs,
    share_inputs,
)
from penstock.sql.incremental.planning.stage_list import union_inputs
from penstock.sql.incremental.stages import (
    Calc,
    IncrementalQuery,
    RecomputeOperator,
    Stage,
    sources_of,
)
from penstock.sql.plan.logical.plan import Plan
from penstock.sql.plan.placement.blocks import IncrementalPlan, StageOptions
from penstock.sql.plan.placement.spark import SparkTraits
from penstock.sql.plan.rules.flow import Flow, ScanFlow
from penstock.sql.syntax.refusal import Refusal


def plan_incremental(
    plan: Plan,
    spark: SparkTraits,
    options: StageOptions,
    tables: Sequence[ScanFlow],
) -> IncrementalPlan | Refusal:
    """Plan a query as stages; `spark` are the traits of what Spark streams for it.

    `tables` have the columns that are read of them, those by which upserts replace rows too.
    """
    planner = OperatorPlanner(spark, tables, options)
    found = planner.query(plan.root)
    if isinstance(found, Refusal):
        return found
    stages = planner.stages
    rows = stages.staged(found)
    queries, feeds, shared = share_inputs(stages.queries, stages.feeds, stages.stages)
    upserts = options.by_position or (options.accumulates and not options.retracts)
    upserted = _upserted(shared, rows) if upserts else None
    return IncrementalPlan(
        maintained=IncrementalQuery(
            feeds=tuple(feeds),
            stages=tuple(upserted or shared),
            columns=rows.columns,
            key=rows.key,
        ),
        query=union_inputs(queries, feeds),
        combined=combine_inputs(queries, feeds),
        inputs=tuple(queries),
        flow=rows.flow if upserted is None else _as_upserts(rows.flow),
        waiting=stages.timed,
        timed=frozenset[int]().union(*map(sources_of, stages.stages)),
        rows=planner.rows if upserted is None else _all_as_upserts(planner.rows),
        streamed=frozenset(planner.streamed),
        stateful=frozenset(planner.stateful),
    )


def _upserted(stages: Sequence[Stage], rows: ChangelogRelation) -> list[Stage] | None:
    """Let the first stage leave out rows before an update; None where something behind it, or a sink, needs these.

    That is a filter, which a row may pass before an update alone, and a result without a key.
    """
    first, *others = stages
    if not isinstance(first, RecomputeOperator) or rows.inserts or rows.key is None:
        return None
    for stage in others:
        if not isinstance(stage, Calc) or not isinstance(stage.query, exp.Select):
            return None
        if {name for name, part in stage.query.args.items() if part} != {"expressions", "from_"}:
            return None
    return [replace(first, upserts=True), *others]


def _as_upserts(flow: Flow) -> Flow:
    """Return rows without those before an update."""
    changes = ChangelogMode.UPSERT if flow.is_changing else flow.changes
    return replace(flow, changes=changes)


def _all_as_upserts(rows: Mapping[int, Flow | None]) -> dict[int, Flow | None]:
    return {of: None if flow is None else _as_upserts(flow) for of, flow in rows.items()}
