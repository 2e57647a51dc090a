"""What the driver knows of a query on keyed operators before its first batch, for all of its jobs.

The operators of its stages, what of its inputs comes by bucket, and what one task runs. `run.py` makes it, `job.py`
builds the frame of a batch by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import types as s

from penstock.sql.incremental.keyed.choose import AddedColumns, outer_inputs
from penstock.sql.incremental.keyed.operator import KeyedLayout, KeyedOperator
from penstock.sql.incremental.keyed.recompute import SideQuery
from penstock.sql.incremental.stages import (
    IncrementalQuery,
    PaneAggregate,
    Stage,
    Stateless,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedPlan:
    """The operators of a query's stages by name, and the columns of all its relations without ROW_KIND.

    `steps` are the stages in their order: those that run in one task together, at the place of the last of them.
    `computed` are, by stage, the columns that Spark adds to the changes of its inputs, and `read` the columns of such
    an input by stage and input.
    """

    steps: tuple[tuple[Stage, ...], ...]
    operators: Mapping[str, KeyedOperator]
    schemas: Mapping[str, s.StructType] = field(repr=False)
    computed: Mapping[str, AddedColumns]
    read: Mapping[tuple[str, str], pa.Schema]

    @property
    def layouts(self) -> Mapping[tuple[str, str], KeyedLayout]:
        """The layouts of all states, by stage and input."""
        return {
            (stage, name): layout
            for stage, operator in self.operators.items()
            for name, layout in operator.layouts.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTask:
    """What one task runs of a query over all buckets: its stages in their order, those of the last relation last.

    `calcs` are those of them that are a Calc, in DuckDB's SQL; `hashed`, by stage and input, the columns of a layout
    whose hash tells the bucket. Spark computes the other stages in front of them.
    """

    stages: tuple[Stage, ...]
    calcs: Mapping[str, SideQuery]
    hashed: Mapping[tuple[str, str], tuple[str, ...]]


def takes_inputs(maintained: IncrementalQuery, plan: KeyedPlan, stages: Sequence[Stage]) -> bool:
    """Return whether a task reads nothing but inputs of the query, as they are."""
    if any(isinstance(one, Stateless) or plan.computed.get(one.name) for one in stages):
        return False
    return {feed.name for feed in maintained.feeds} >= {name for _, name in outer_inputs(stages)}


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketInput:
    """What a stage takes of an input of the query: its rows, or groups of them by pane, by the key of a layout."""

    stage: str
    feed: str
    panes: PaneAggregate | None
    layout: KeyedLayout

    @property
    def name(self) -> str:
        """The relation that the stage reads."""
        return self.feed if self.panes is None else self.panes.name


def bucket_inputs(maintained: IncrementalQuery, plan: KeyedPlan) -> Sequence[BucketInput] | None:
    """Return what keyed stages take of the query's inputs; None where they do not take all of it as it is.

    A stage may read results of other stages, too: these do not come by bucket.
    """
    feeds = {feed.name: feed.name for feed in maintained.feeds}
    panes = {
        stage.name: stage
        for stage in maintained.stages
        if isinstance(stage, PaneAggregate) and stage.input in feeds
    }
    feed_of = feeds | {name: stage.input for name, stage in panes.items()}
    found: list[BucketInput] = []
    for stages in plan.steps:
        if stages[-1].name in panes:
            continue
        outer = outer_inputs(stages)
        taken = [name for _, name in outer if name in feed_of]
        if not taken:
            continue
        if any(isinstance(one, Stateless) or plan.computed.get(one.name) for one in stages):
            return None
        found += (
            BucketInput(
                stage=stage.name,
                feed=feed_of[name],
                panes=panes.get(name),
                layout=plan.operators[stage.name].layouts[name],
            )
            for stage, name in outer
            if name in feed_of
        )
    return found
