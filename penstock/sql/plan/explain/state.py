"""Tell what an operator keeps in the checkpoint, and what bounds that, on the engine that runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from penstock.sql.incremental.over_frame import RangeState, UnboundedState
from penstock.sql.incremental.stages import (
    Calc,
    ChangelogNormalize,
    EventTimeStage,
    OverAggregate,
    RecomputeOperator,
    Stage,
    TemporalJoin,
    WindowAggregate,
)
from penstock.sql.plan.explain.operators import short_table
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.plan import walk
from penstock.sql.plan.placement.physical_plan import Engine, PhysicalNode

__all__ = ["OperatorState", "state_in_spark", "state_of_stages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorState:
    """What an operator keeps, for each value of `by`; None: of Spark's own operators that is not told.

    `bound` is None where state grows with every key or row that was ever seen.
    """

    keeps: str
    bound: str | None = None
    by: tuple[str, ...] | None = None


def state_of_stages(stages: Sequence[Stage], state_ttl_ms: int) -> OperatorState | None:
    """Tell what the stages of one operator keep; None without state. `state_ttl_ms` is `table.exec.state.ttl`."""
    found = [state for state in (_of_stage(stage, state_ttl_ms) for stage in stages) if state]
    if not found:
        return None
    bounds = dict.fromkeys(state.bound for state in found)
    return OperatorState(
        keeps=short_table("; ".join(dict.fromkeys(state.keeps for state in found))),
        bound="; ".join(bound or "none" for bound in bounds) if any(bounds) else None,
        by=found[0].by,
    )


def _of_stage(stage: Stage, state_ttl_ms: int) -> OperatorState | None:
    match stage:
        case Calc():
            return None
        case ChangelogNormalize(key=key):
            bound = _time_to_live(state_ttl_ms)
            return OperatorState(keeps="the last row of each key", bound=bound, by=key)
        case RecomputeOperator(mechanism=mechanism):
            return OperatorState(
                keeps=mechanism.state, bound=_of_inputs(stage, state_ttl_ms), by=mechanism.key
            )
        case TemporalJoin() | OverAggregate() | WindowAggregate():
            return OperatorState(
                keeps=stage.mechanism.state,
                bound=_of_time(stage, state_ttl_ms),
                by=stage.mechanism.key,
            )
        case _:
            assert_never(stage)


def _of_inputs(stage: RecomputeOperator, state_ttl_ms: int) -> str | None:
    """Tell what bounds what a stage keeps of its inputs: a hint, or the setting."""
    bounds = [
        _time_to_live(state_ttl_ms)
        if given.time_to_live_ms is None
        else _time_to_live(given.time_to_live_ms, "STATE_TTL")
        for given in stage.inputs
    ]
    if len(set(bounds)) == 1:
        return bounds[0]
    sides = zip(("left", "right"), bounds, strict=True)
    return "; ".join(f"of the {side} side {bound or 'none'}" for side, bound in sides)


def _of_time(stage: EventTimeStage, state_ttl_ms: int) -> str:
    """Tell what bounds the state of rows that wait for a watermark, and of their keys."""
    of_keys = _of_keys(stage, state_ttl_ms)
    count = len(stage.waits_for)
    if not count:
        return of_keys.removeprefix("; ") or "the time of the rows"
    of_tables = (
        "watermark of its table" if count == 1 else f"lowest watermark of its {count} tables"
    )
    return f"the {of_tables}{of_keys}"


def _of_keys(stage: EventTimeStage, state_ttl_ms: int) -> str:
    if isinstance(stage, WindowAggregate) or (
        isinstance(stage, OverAggregate) and isinstance(stage.kept, RangeState)
    ):
        return ""  # rows go by time, and so does what is kept of them
    if (bound := _time_to_live(state_ttl_ms)) is not None:
        return f"; keys: {bound}"
    if isinstance(stage, TemporalJoin):
        return "; one version of each key that was ever seen stays"
    if isinstance(stage.kept, UnboundedState):
        return "; nothing else: all rows stay"
    return "; what is kept of each key that was ever seen stays"


def _time_to_live(state_ttl_ms: int, said_by: str = "table.exec.state.ttl") -> str | None:
    if state_ttl_ms > 0:
        return f"{said_by}, {state_ttl_ms / 1000:g} s after the last change"
    return None


def state_in_spark(node: PhysicalNode, watermarks: Mapping[int, str]) -> OperatorState | None:
    """Tell what Spark keeps for an operator of a stream; None for one without state.

    `watermarks` are the tables, by the numbers of their scans, whose watermark the query waits for.
    """
    mechanism, logical = node.trait.mechanism, node.logical
    if node.engine is Engine.UPDATE:
        below = any(given.trait.mechanism is not None for given in node.inputs)
        if mechanism is None or below:
            return None
        keeps = f"{mechanism.state}, for each key that was ever seen"
        return OperatorState(keeps=keeps, by=mechanism.key)
    bound = _watermark(logical, watermarks)
    match logical:
        case nodes.Aggregate(windowed=True):
            return OperatorState(keeps="groups of open windows", bound=bound)
        case nodes.Distinct(windowed=True):
            return OperatorState(keeps="rows of open windows", bound=bound)
        case nodes.Aggregate():
            return OperatorState(keeps="every group")
        case nodes.Distinct():
            return OperatorState(keeps="every row")
        case nodes.Join(block=block) if block.bounded:
            kept = {
                nodes.JoinBound.WINDOW: "rows of open windows of both sides",
                nodes.JoinBound.INTERVAL: "rows of both sides that may still match",
            }
            keeps = kept.get(logical.bound, "rows of both sides")
            return OperatorState(keeps=keeps, bound=bound)
        case nodes.Join():
            return OperatorState(keeps="the rows of both sides")
        case _:
            return None


def _watermark(node: nodes.Node, watermarks: Mapping[int, str]) -> str | None:
    """Name the watermark that ends the state of an operator."""
    scans = {n.index for n in walk(node) if isinstance(n, nodes.Scan)}
    found = list(dict.fromkeys(watermarks[index] for index in sorted(scans & watermarks.keys())))
    if not found:
        return None
    return f"the {'lowest ' if len(found) > 1 else ''}watermark of {', '.join(found)}"
