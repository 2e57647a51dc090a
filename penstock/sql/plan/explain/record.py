"""The operators of a query as the checkpoint records them (`PlanRecord`), from what EXPLAIN tells of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.sql.checkpoint.plan_record import Mechanism, OperatorRecord
from penstock.sql.plan.explain.document import ExplainedOperator, explain_query
from penstock.sql.plan.stage_runs import StageRunner

if TYPE_CHECKING:
    from penstock.sql.plan.analysed import AnalysedQuery

UNBOUNDED = "none"
"""The bound of state that grows with every key or row that was ever seen, as EXPLAIN writes it."""

_STAGE_RUNNERS = {
    StageRunner.KEYED: Mechanism.KEYED,
    StageRunner.SPARK: Mechanism.STAGE_OF_SPARK,
    StageRunner.OPEN: Mechanism.OPEN,
}


def operator_records(
    query: AnalysedQuery, *, state_ttl_ms: int, tasks_write: bool
) -> tuple[OperatorRecord, ...]:
    """Describe the operators of a query. `tasks_write`: the tasks that read also compute and write its rows."""
    if query.plan is None:
        return ()
    numbers = query.scan_order or range(len(query.leaves))
    by_tasks = {
        number
        for number, leaf in zip(numbers, query.leaves, strict=True)
        if leaf.by_splits and not leaf.looked_up
    }
    root = explain_query(query, None, state_ttl_ms=state_ttl_ms)
    return tuple(
        _record(operator, level, _mechanism(operator, by_tasks, tasks_write=tasks_write))
        for operator, level in _levels(root, 0)
    )


def _levels(operator: ExplainedOperator, level: int) -> Iterator[tuple[ExplainedOperator, int]]:
    yield operator, level
    for below in operator.inputs:
        yield from _levels(below, level + 1)


def _mechanism(operator: ExplainedOperator, by_tasks: set[int], *, tasks_write: bool) -> Mechanism:
    if tasks_write or (operator.number is not None and operator.number in by_tasks):
        return Mechanism.READING_TASKS
    if operator.stage_runs:
        return _STAGE_RUNNERS[operator.stage_runs[0].by]
    if operator.runs == "stage":
        return Mechanism.STAGE
    return Mechanism.TWO_PHASES if "first_phase" in operator.details else Mechanism.SPARK


def _record(operator: ExplainedOperator, level: int, mechanism: Mechanism) -> OperatorRecord:
    state = operator.state
    return OperatorRecord(
        name=operator.line,
        level=level,
        mechanism=mechanism,
        key=None if state is None else state.by or operator.key,
        keeps=None if state is None else state.keeps,
        bound=None if state is None else state.bound or UNBOUNDED,
        stages=tuple(run.stage for run in operator.stage_runs),
    )
