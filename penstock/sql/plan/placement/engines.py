"""Write down the engine of each operator, and the changes and the key of its rows on that engine."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.sql.plan.logical.nodes import (
    Aggregate,
    Node,
    Over,
    Project,
    Scan,
    SetOp,
    SubqueryAlias,
    TopN,
    WindowAssign,
)
from penstock.sql.plan.logical.plan import inputs, walk
from penstock.sql.plan.placement.blocks import query_block
from penstock.sql.plan.placement.physical_plan import Engine, PhysicalNode
from penstock.sql.plan.placement.spark import SparkTraits
from penstock.sql.plan.placement.stage import StageTraits
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.syntax.refusal import Refusal

__all__ = ["on_one_engine", "on_spark", "on_stages"]

Run = tuple[Engine, Flow]
"""The engine of an operator, and its rows there."""


def on_one_engine(root: Node, flow: Flow) -> PhysicalNode:
    """Give a whole plan to Spark, as it is; nothing is known of its rows."""
    return _assembled(root, {id(node): (Engine.NATIVE, flow) for node in walk(root)})


def on_spark(root: Node, spark: SparkTraits) -> PhysicalNode:
    """Give a whole plan to Spark: an operator that updates its results, and what stands on it, in update mode."""
    return _assembled(root, dict(_on_spark(root, spark)))


def on_stages(root: Node, stages: StageTraits, spark: SparkTraits) -> PhysicalNode:
    """Give a plan to stages, and what Spark streams for them to Spark."""
    runs: dict[int, Run] = {}
    pending: list[tuple[Node, Flow]] = [(root, Flow(columns=None))]
    while pending:
        node, above = pending.pop()
        rows = stages.known(node)
        if isinstance(node, Scan) or (rows is not None and rows.native):
            runs.update(_on_spark(node, spark))
            continue
        flow = above if rows is None else rows.flow
        runs[id(node)] = (Engine.INCREMENTAL, flow)
        block = query_block(node) if isinstance(node, _LISTS) else None
        if block is None or not stages.streams_from(block):
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
        given = tuple(done[id(one)] for one in inputs(node))
        done[id(node)] = PhysicalNode(logical=node, engine=engine, trait=trait, inputs=given)
    return done[id(root)]
