"""The stage that each operator of an incremental query became, and what operators keep in the checkpoint.

The stages are followed from the last one to the inputs beside the operators, from the root to the scans. Between two
operators with state there may be stages that compute rows one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from penstock.sql.incremental.stages import (
    Calc,
    ChangelogNormalize,
    EventTimeStage,
    IncrementalQuery,
    InputState,
    JoinTimes,
    OverAggregate,
    PaneAggregate,
    RangeState,
    RecomputeOperator,
    Stage,
    TemporalJoin,
    UnboundedState,
    WindowAggregate,
)
from penstock.sql.plan.explain.operators import plain_text, short_table
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.plan import walk
from penstock.sql.plan.placement.place import Engine, PhysicalNode
from penstock.sql.plan.rules.aggregate import is_subtracted, own_aggregates
from penstock.sql.plan.rules.flow import OperatorKind

# --- stages of operators ---

_KINDS: dict[type[nodes.Operator], OperatorKind] = {
    nodes.Aggregate: OperatorKind.AGGREGATE,
    nodes.TopN: OperatorKind.TOP_N,
    nodes.Join: OperatorKind.JOIN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageNames:
    """The stages of a query by their names, and the name of what gives the rows of each operator.

    An operator is known by its place in the tree: the numbers of the inputs that lead to it from the root.
    """

    stages: dict[str, Stage]
    names: dict[tuple[int, ...], str]

    @classmethod
    def of(cls, root: PhysicalNode, maintained: IncrementalQuery | None) -> StageNames:
        """Name the operators of a plan; none where the query is not incremental."""
        if maintained is None:
            return cls(stages={}, names={})
        stages = {stage.name: stage for stage in maintained.stages}
        last = maintained.stages[-1].name if maintained.stages else maintained.feeds[-1].name
        found = cls(stages=stages, names={})
        found.names.update(found._walk(root, last))
        return found

    def name(self, path: tuple[int, ...]) -> str | None:
        """Return the stage that gives the rows of an operator, or the input that it is; None where that is unknown."""
        return self.names.get(path)

    def stage(self, path: tuple[int, ...]) -> Stage | None:
        """Return the stage of an operator; None for one that is an input."""
        name = self.names.get(path)
        return None if name is None else self.stages.get(name)

    def is_input(self, path: tuple[int, ...]) -> bool:
        """Return whether the rows of an operator are those of an input, to which it adds nothing."""
        name = self.names.get(path)
        return name is not None and name not in self.stages

    def stages_of(self, path: tuple[int, ...], below: Collection[str | None]) -> list[Stage]:
        """Return the stages of an operator, in order; OVER may have several. `below` are the names of what it reads."""
        stage = self.stage(path)
        if stage is None or stage.name in below:
            return []
        found = [stage]
        while isinstance(found[0], OverAggregate) and found[0].rows not in below:
            before = self.stages.get(found[0].rows)
            if not isinstance(before, OverAggregate):
                break
            found.insert(0, before)
        return found

    def _walk(self, root: PhysicalNode, last: str) -> Iterator[tuple[tuple[int, ...], str]]:
        pending: list[tuple[tuple[int, ...], PhysicalNode, str]] = [((), root, last)]
        while pending:
            path, node, name = pending.pop()
            if node.engine is not Engine.INCREMENTAL:
                yield path, self._computed_from(name)  # an input: what is below is Spark's
                continue
            own, names_read = self._own(node, name)
            yield path, own
            pending += [
                ((*path, number), child, names_read[min(number, len(names_read) - 1)])
                for number, child in enumerate(node.inputs)
            ]

    def _own(self, node: PhysicalNode, name: str) -> tuple[str, tuple[str, ...]]:
        """Return the stage of an operator whose rows `name` gives, and the names of what it reads."""
        base = self._computed_from(name)
        stage, logical = self.stages.get(base), node.logical
        match logical:
            case nodes.Scan():
                return base, (base,)
            case nodes.SetOp(kind=nodes.SetKind.UNION, all=keeps):
                return self._union(name, distinct=not keeps)
            case nodes.TemporalJoin() if isinstance(stage, TemporalJoin):
                return base, (stage.rows, stage.versions)
            case nodes.Over() if isinstance(stage, OverAggregate):
                return base, (self._before_over(stage),)
            case nodes.Aggregate() if isinstance(stage, WindowAggregate):
                return base, (stage.rows,)
            case nodes.Aggregate() if isinstance(stage, Calc):
                return base, stage.inputs
            case nodes.WindowAssign() if isinstance(stage, PaneAggregate):
                return base, (stage.input,)
            case _ if isinstance(stage, RecomputeOperator) and _is_of(stage, logical):
                return base, tuple(stage_input.name for stage_input in stage.inputs)
            case _:
                return name, (name,)

    def _union(self, name: str, *, distinct: bool) -> tuple[str, tuple[str, ...]]:
        own, read = name, name
        stage = self.stages.get(self._computed_from(name))
        if distinct and isinstance(stage, RecomputeOperator) and len(stage.inputs) == 1:
            own, read = stage.name, stage.inputs[0].name
        found = self._calc_of_two(read)
        return (
            (own if distinct else found.name, found.inputs) if found is not None else (own, (read,))
        )

    def _calc_of_two(self, name: str) -> Calc | None:
        stage = self.stages.get(name)
        while isinstance(stage, Calc) and len(stage.inputs) == 1:
            stage = self.stages.get(stage.inputs[0])
        return stage if isinstance(stage, Calc) else None

    def _computed_from(self, name: str) -> str:
        """Return what gives the rows that stages without state compute one by one."""
        stage = self.stages.get(name)
        while isinstance(stage, Calc) and len(stage.inputs) == 1 and not stage.of_windows:
            name = stage.inputs[0]
            stage = self.stages.get(name)
        return name

    def _before_over(self, last: OverAggregate) -> str:
        """Return what the first of the consecutive stages of one operator reads."""
        stage: Stage | None = last
        name = last.rows
        while isinstance(stage, OverAggregate) and stage.mechanism.span == last.mechanism.span:
            name = stage.rows
            stage = self.stages.get(name)
        return name


def _is_of(stage: RecomputeOperator, node: nodes.Node) -> bool:
    way = stage.mechanism.way
    match node:
        case nodes.SetOp():
            return way is OperatorKind.SET
        case nodes.Distinct():
            # rows with a key are distinct without a stage
            return way is OperatorKind.DISTINCT and stage.mechanism.span == node.span
        case _:
            return way is _KINDS.get(type(node))


# --- state and its bounds ---


def rereading(stages: Sequence[Stage], node: nodes.Node) -> tuple[str, ...]:
    """Return the aggregates of an operator for which a change of a key reads all of its rows again; mostly none."""
    keeps_rows = any(
        stage.mechanism.way is OperatorKind.AGGREGATE
        and any(one.keeps is InputState.ROWS and not one.measures for one in stage.inputs)
        for stage in stages
        if isinstance(stage, RecomputeOperator)
    )
    if not isinstance(node, nodes.Aggregate) or not keeps_rows:
        return ()
    calls = own_aggregates(node.block.select)
    return tuple(dict.fromkeys(plain_text(call) for call in calls if not is_subtracted(call)))


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
        case Calc() | PaneAggregate():
            return None
        case ChangelogNormalize(key=key):
            bound = _time_to_live(state_ttl_ms)
            return OperatorState(keeps="the last row of each key", bound=bound, by=key)
        case RecomputeOperator(mechanism=mechanism, times=JoinTimes() as times):
            return OperatorState(
                keeps=mechanism.state, bound=_watermarks(len(times.waits_for)), by=mechanism.key
            )
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
        if stage_input.time_to_live_ms is None
        else _time_to_live(stage_input.time_to_live_ms, "STATE_TTL")
        for stage_input in stage.inputs
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
    return f"{_watermarks(count)}{of_keys}"


def _watermarks(tables: int) -> str:
    return (
        "the watermark of its table"
        if tables == 1
        else f"the lowest watermark of its {tables} tables"
    )


def _of_keys(stage: EventTimeStage, state_ttl_ms: int) -> str:
    if isinstance(stage, WindowAggregate) or (
        isinstance(stage, OverAggregate) and isinstance(stage.frame_state, RangeState)
    ):
        return ""  # rows go by time, and so does what is kept of them
    if (bound := _time_to_live(state_ttl_ms)) is not None:
        return f"; keys: {bound}"
    if isinstance(stage, TemporalJoin):
        return "; one version of each key that was ever seen stays"
    if isinstance(stage.frame_state, UnboundedState):
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
        below = any(child.trait.mechanism is not None for child in node.inputs)
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
        case nodes.Join() if logical.bound is not nodes.JoinBound.NONE:
            words = {
                nodes.JoinBound.WINDOW: "rows of open windows of both sides",
                nodes.JoinBound.INTERVAL: "rows of both sides that may still match",
            }
            return OperatorState(keeps=words[logical.bound], bound=bound)
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
