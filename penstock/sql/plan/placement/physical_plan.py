"""A logical plan with the engine that runs each of its operators."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.sql.plan.logical.nodes import Node
from penstock.sql.plan.logical.plan import Plan
from penstock.sql.plan.placement.spark import SparkTraits
from penstock.sql.plan.placement.stage import StageTraits
from penstock.sql.plan.rules.flow import Flow

__all__ = ["Engine", "PhysicalNode", "PhysicalPlan"]


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
    Spark, and `stages` those of stages where they run the query: it is written by these.
    """

    root: PhysicalNode
    plan: Plan
    flow: Flow
    traits: SparkTraits = field(compare=False, repr=False)
    stages: StageTraits | None = field(default=None, compare=False, repr=False)
    checked: bool = True

    @property
    def is_incremental(self) -> bool:
        """Whether stages run the query."""
        return self.stages is not None
