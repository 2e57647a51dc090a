"""Texts of an incremental query: the fingerprint of its state, its canonical text."""

from __future__ import annotations

from typing import assert_never

from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_text
from penstock.sql.incremental.stages import (
    AccumulatorState,
    Calc,
    ChangelogNormalize,
    IncrementalQuery,
    JoinTimes,
    OverAggregate,
    OverFrameState,
    PaneAggregate,
    RangeState,
    RecomputeOperator,
    RowsState,
    Stage,
    StageInput,
    Stateless,
    TemporalJoin,
    UnboundedState,
    WindowAggregate,
)

FOLDER = "maintained"
"""Folder in the checkpoint of the states of stages that Spark runs."""


def state_of(maintained: IncrementalQuery) -> tuple[str, ...]:
    """Return what must not change between two starts from one checkpoint: every stage up to the last one with state.

    Later stages only change the output.
    """
    stages = maintained.stages
    stateful = [n for n, stage in enumerate(stages) if not isinstance(stage, Stateless)]
    columns = {feed.name: feed.columns for feed in maintained.feeds}
    feeds = tuple(f"FEED {name} ({', '.join(names)})" for name, names in columns.items())
    return (*feeds, *(_shape(stage) for stage in stages[: max(stateful, default=-1) + 1]))


def text_of(maintained: IncrementalQuery) -> str:
    """Write all stages as the canonical text of the query."""
    return "\n".join(map(_shape, maintained.stages))


def is_settled(maintained: IncrementalQuery) -> bool:
    """Return whether the first batch of the query has inserts only: no changes of a table pass unchanged."""
    stages = {stage.name: stage for stage in maintained.stages}
    changing = {
        feed.name for feed in maintained.feeds if feed.changes is not ChangelogMode.INSERT_ONLY
    }
    pending = [maintained.stages[-1].name if stages else maintained.feeds[-1].name]
    while pending:
        name = pending.pop()
        if name in changing:
            return False
        stage = stages.get(name)
        if isinstance(stage, Calc):
            pending += stage.inputs
        elif isinstance(stage, PaneAggregate):
            pending.append(stage.input)
    return True


def is_bounded(stage: Stage) -> bool:
    """Return whether a stage keeps nothing, or nothing that grows without a time to live but by the number of keys."""
    within = isinstance(stage, OverAggregate) and isinstance(stage.frame_state, RangeState)
    if isinstance(stage, RecomputeOperator):
        return stage.times is not None
    return within or isinstance(stage, Stateless | TemporalJoin | WindowAggregate)


def _shape(stage: Stage) -> str:
    match stage:
        case Calc(name=name, query=query):
            return f"MAINTAINED {name} ROWS {to_text(query)}"
        case PaneAggregate(name=name, panes=panes):
            keys, time = ", ".join(stage.keys), f"{stage.input} AT {stage.time}"
            parts = ", ".join(f"{part.name} = {to_text(part.call)}" for part in stage.parts)
            return f"MAINTAINED {name} PANES {time} BY ({keys}) OF {panes.pane_ms} ms COMPUTE {parts}".rstrip()
        case ChangelogNormalize(name=name, input=upserts, key=key):
            return f"MAINTAINED {name} NORMALIZE {upserts} KEY ({', '.join(key)})"
        case RecomputeOperator(name=name, inputs=inputs, query=query):
            stored = "; ".join(map(describe_input, inputs))
            return f"MAINTAINED {name} KEEP {stored}{_until(stage.times)} COMPUTE {to_text(query)}"
        case TemporalJoin(name=name, query=query):
            rows = f"{stage.rows} BY ({', '.join(stage.row_key)}) AT {stage.time}"
            versions = (
                f"{stage.versions} BY ({', '.join(stage.version_key)}) AT {stage.version_time}"
            )
            sources = ", ".join(map(str, stage.waits_for))
            return f"MAINTAINED {name} TEMPORAL {rows}; {versions} WAITS FOR ({sources}) COMPUTE {to_text(query)}"
        case WindowAggregate(name=name, query=query):
            sources = ", ".join(map(str, stage.waits_for))
            rows = f"{'CHANGES OF ' if stage.changes else ''}{stage.rows} AT {stage.time}"
            rows += "" if stage.panes is None else f" IN {stage.panes.text}"
            return f"MAINTAINED {name} CLOSED {rows} WAITS FOR ({sources}) COMPUTE {to_text(query)}"
        case OverAggregate(name=name, frame_state=frame_state, query=query):
            rows = f"{stage.rows} BY ({', '.join(stage.key)}) AT {stage.time or 'PROCTIME()'}"
            sources = ", ".join(map(str, stage.waits_for))
            what = _frame_state(frame_state)
            return f"MAINTAINED {name} OVER {rows} WAITS FOR ({sources}) KEEP {what} COMPUTE {to_text(query)}"
        case _:
            assert_never(stage)


def _until(times: JoinTimes | None) -> str:
    """Write until when a join keeps rows."""
    if times is None:
        return ""
    ends = ", ".join(f"{one.ends} + {one.micros} us" for one in times.sides)
    rowtimes = ", ".join(one.rowtime or "CLOSED" for one in times.sides)
    at_once = " AT ONCE" if times.at_once else ""
    return f" UNTIL {ends} AT {rowtimes}{at_once} OF ({', '.join(map(str, times.waits_for))})"


def _frame_state(frame_state: OverFrameState) -> str:
    match frame_state:
        case RangeState(micros=micros):
            return f"{micros} us"
        case RowsState(count=count):
            return f"last {count}"
        case UnboundedState():
            return "rows"
        case AccumulatorState(running=running):
            return ", ".join(
                f"{one.name} = {one.total}({to_text(one.value)}){' by row' if one.by_row else ''}"
                for one in running
            )
        case _:
            assert_never(frame_state)


def describe_input(stage_input: StageInput) -> str:
    """Write what a stage keeps of an input."""
    if stage_input.measures:
        what = ", ".join(f"{m.name} = SUM({to_text(m.value)})" for m in stage_input.measures)
    else:
        what = stage_input.keeps.value
    return f"{stage_input.name} BY ({', '.join(stage_input.key)}) {what}"
