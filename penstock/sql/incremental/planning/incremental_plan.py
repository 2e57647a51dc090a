"""The plan of a query as stages: these, and the one query that Spark streams for their inputs; or why none runs it.

Analysis asks for it. What `planner.py` found of the operators is put together here.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sql.incremental.planning.planner import OperatorPlanner
from penstock.sql.incremental.planning.shared_scan import (
    combine_inputs,
    share_inputs,
)
from penstock.sql.incremental.planning.stage_list import union_inputs
from penstock.sql.incremental.stages import IncrementalQuery, sources_of
from penstock.sql.plan.logical.plan import Plan
from penstock.sql.plan.placement.blocks import IncrementalPlan
from penstock.sql.plan.placement.spark import SparkTraits
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.syntax.refusal import Refusal


def plan_incremental(
    plan: Plan,
    spark: SparkTraits,
    tables: Sequence[ScanFlow],
    *,
    joins_in_time: bool = False,
    by_panes: bool = False,
) -> IncrementalPlan | Refusal:
    """Plan a query as stages; `spark` are the traits of what Spark streams for it.

    `joins_in_time`: inner joins that end with the watermark are stages, too, where their rows can be told to end.
    `by_panes`: so are aggregations by windows whose rows are grouped by pane.
    `tables` have the columns that are read of them, those by which upserts replace rows too.
    """
    planner = OperatorPlanner(spark, tables, joins_in_time=joins_in_time, by_panes=by_panes)
    found = planner.query(plan.root)
    if isinstance(found, Refusal):
        return found
    stages = planner.stages
    rows = stages.staged(found)
    queries, feeds, shared = share_inputs(stages.queries, stages.feeds, stages.stages)
    return IncrementalPlan(
        maintained=IncrementalQuery(
            feeds=tuple(feeds),
            stages=tuple(shared),
            columns=rows.columns,
            key=rows.key,
        ),
        query=union_inputs(queries, feeds),
        combined=combine_inputs(queries, feeds),
        inputs=tuple(queries),
        flow=rows.flow,
        waiting=stages.timed,
        timed=frozenset[int]().union(*map(sources_of, stages.stages)),
        rows=planner.rows,
        streamed=frozenset(planner.streamed),
        stateful=frozenset(planner.stateful),
    )
