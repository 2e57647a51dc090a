"""Find the stage, or the input of the stages, that each operator of an incremental query became.

The stages are followed from the last one to the inputs beside the operators, from the root to the scans. Between two
operators with state there may be stages that compute rows one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from penstock.sql.incremental.stages import (
    Calc,
    IncrementalQuery,
    OverAggregate,
    RecomputeOperator,
    Stage,
    TemporalJoin,
    WindowAggregate,
)
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.placement.physical_plan import Engine, PhysicalNode
from penstock.sql.plan.rules.flow import OperatorKind

__all__ = ["StageNames"]

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

    def name(self, place: tuple[int, ...]) -> str | None:
        """Return the stage that gives the rows of an operator, or the input that it is; None where that is unknown."""
        return self.names.get(place)

    def stage(self, place: tuple[int, ...]) -> Stage | None:
        """Return the stage of an operator; None for one that is an input."""
        name = self.names.get(place)
        return None if name is None else self.stages.get(name)

    def is_input(self, place: tuple[int, ...]) -> bool:
        """Return whether the rows of an operator are those of an input, to which it adds nothing."""
        name = self.names.get(place)
        return name is not None and name not in self.stages

    def stages_of(self, place: tuple[int, ...], below: Collection[str | None]) -> list[Stage]:
        """Return the stages of an operator, in order; OVER may have several. `below` are the names of what it reads."""
        stage = self.stage(place)
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
            place, node, name = pending.pop()
            if node.engine is not Engine.INCREMENTAL:
                yield place, self._computed_from(name)  # an input: what is below is Spark's
                continue
            own, given = self._own(node, name)
            yield place, own
            pending += [
                ((*place, number), child, given[min(number, len(given) - 1)])
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
            case _ if isinstance(stage, RecomputeOperator) and _is_of(stage, logical):
                return base, tuple(given.name for given in stage.inputs)
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
        while isinstance(stage, Calc) and len(stage.inputs) == 1:
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
