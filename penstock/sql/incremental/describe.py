"""Description of an incremental query: its stages for EXPLAIN, and the fingerprint of its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_text
from penstock.sql.incremental.over_frame import (
    AccumulatorState,
    OverFrameState,
    RangeState,
    RowsState,
    UnboundedState,
)
from penstock.sql.incremental.stages import (
    Calc,
    ChangelogNormalize,
    EventTimeStage,
    IncrementalQuery,
    OverAggregate,
    RecomputeOperator,
    Stage,
    StageInput,
    TemporalJoin,
    WindowAggregate,
)

__all__ = [
    "bound_of",
    "bound_of_inputs",
    "describe_incremental",
    "describe_input",
    "is_bounded",
    "is_settled",
    "state_of",
    "text_of",
]


def describe_incremental(maintained: IncrementalQuery, *, state_ttl_ms: int) -> tuple[str, ...]:
    """Return the lines that EXPLAIN and `penstock plan` show. `state_ttl_ms` is `table.exec.state.ttl`; 0 is none."""
    lines = ["maintained in micro-batches, with state in the checkpoint"]
    lines += [
        f"  {feed.name}: Spark streams {', '.join(feed.columns)} ({feed.changes})"
        for feed in maintained.feeds
    ]
    for stage in maintained.stages:
        lines += [f"  {line}" for line in _stage(stage, state_ttl_ms)]
    return tuple(lines)


def state_of(maintained: IncrementalQuery) -> tuple[str, ...]:
    """Return what must not change between two starts from one checkpoint: every stage up to the last one with state.

    Later stages only change the output.
    """
    stages = maintained.stages
    kept = [n for n, stage in enumerate(stages) if not isinstance(stage, Calc)]
    columns = {feed.name: feed.columns for feed in maintained.feeds}
    feeds = tuple(f"FEED {name} ({', '.join(names)})" for name, names in columns.items())
    return (*feeds, *(_shape(stage) for stage in stages[: max(kept, default=-1) + 1]))


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
    return True


def _stage(stage: Stage, state_ttl_ms: int) -> Iterator[str]:
    match stage:
        case Calc(name=name, inputs=inputs):
            yield f"{name}: rows of {' and '.join(inputs)}, each by itself; no state"
            return
        case ChangelogNormalize(name=name, input=given, key=key):
            yield f"{name}: rows of {given} before each upsert or delete"
            yield f"  key: {', '.join(key)}"
            yield "  keeps: the last row of each key"
        case RecomputeOperator(name=name, mechanism=mechanism, inputs=inputs):
            over = " and ".join(given.name for given in inputs)
            yield f"{name}: {mechanism.operator} over {over}, of the keys that a batch touches"
            none = "none: all rows" if stage.joins else "none: one key for the whole table"
            yield f"  key: {', '.join(mechanism.key) or none}"
            yield f"  keeps: {mechanism.state}"
            yield f"  bound: {bound_of_inputs(stage, state_ttl_ms)}"
            return
        case TemporalJoin(name=name, mechanism=mechanism, rows=rows, versions=versions):
            yield f"{name}: {mechanism.operator} of {rows} with the versions in {versions} valid at {stage.time}"
            yield f"  key: {', '.join(mechanism.key)}"
            yield f"  keeps: {mechanism.state}"
            yield f"  bound: {bound_of(stage, state_ttl_ms)}"
            return
        case OverAggregate(name=name, mechanism=mechanism, rows=rows, time=time):
            order = f"in the order of {time}" if time is not None else "as they come"
            yield f"{name}: {mechanism.operator} over {rows}, {order}"
            yield f"  key: {', '.join(mechanism.key) or 'none: one for the whole table'}"
            yield f"  keeps: {mechanism.state}"
            yield f"  bound: {bound_of(stage, state_ttl_ms)}"
            return
        case WindowAggregate(name=name, mechanism=mechanism, rows=rows):
            yield f"{name}: {mechanism.operator} over the windows of {rows} when they are closed"
            yield f"  key: {', '.join(mechanism.key)}"
            yield f"  keeps: {mechanism.state}"
            yield f"  bound: {bound_of(stage, state_ttl_ms)}"
            return
        case _:
            assert_never(stage)
    yield f"  bound: {_time_to_live(state_ttl_ms)}"


def bound_of(stage: EventTimeStage, state_ttl_ms: int) -> str:
    """Describe what bounds the state of buffered rows, and of keys. `state_ttl_ms` is
    `table.exec.state.ttl`; 0 is none.
    """
    of_keys = _bound_of_keys(stage, state_ttl_ms)
    count = len(stage.waits_for)
    if not count:
        return of_keys.removeprefix("; ") or "the time of the rows"
    of_tables = (
        "watermark of its table" if count == 1 else f"lowest watermark of its {count} tables"
    )
    return f"the {of_tables}{of_keys}"


def bound_of_inputs(stage: RecomputeOperator, state_ttl_ms: int) -> str:
    """Describe what bounds what a stage keeps of its inputs. `state_ttl_ms` is `table.exec.state.ttl`; 0 is none."""
    bounds = [
        _time_to_live(state_ttl_ms)
        if given.time_to_live_ms is None
        else _time_to_live(given.time_to_live_ms, "STATE_TTL")
        for given in stage.inputs
    ]
    if len(set(bounds)) == 1:
        return bounds[0]
    named = zip(stage.inputs, bounds, strict=True)
    return "; ".join(f"of {given.name} {bound}" for given, bound in named)


def is_bounded(stage: Stage) -> bool:
    """Return whether a stage keeps nothing, or nothing that grows without a time to live but by the number of keys."""
    within = isinstance(stage, OverAggregate) and isinstance(stage.kept, RangeState)
    return within or isinstance(stage, Calc | TemporalJoin | WindowAggregate)


def _bound_of_keys(stage: EventTimeStage, state_ttl_ms: int) -> str:
    if isinstance(stage, WindowAggregate) or (
        isinstance(stage, OverAggregate) and isinstance(stage.kept, RangeState)
    ):
        return ""  # rows go by time, and so does what is kept of them
    if state_ttl_ms > 0:
        return f"; keys: {_time_to_live(state_ttl_ms)}"
    if isinstance(stage, TemporalJoin):
        return "; one version of each key that was ever seen stays"
    if isinstance(stage.kept, UnboundedState):
        return "; nothing else: all rows stay"
    return "; what is kept of each key that was ever seen stays"


def _time_to_live(state_ttl_ms: int, said_by: str = "table.exec.state.ttl") -> str:
    if state_ttl_ms > 0:
        return f"{said_by}, {state_ttl_ms / 1000:g} s after the last change"
    return "none"


def _shape(stage: Stage) -> str:
    match stage:
        case Calc(name=name, query=query):
            return f"MAINTAINED {name} ROWS {to_text(query)}"
        case ChangelogNormalize(name=name, input=given, key=key):
            return f"MAINTAINED {name} NORMALIZE {given} KEY ({', '.join(key)})"
        case RecomputeOperator(name=name, inputs=inputs, query=query):
            return f"MAINTAINED {name} KEEP {'; '.join(map(describe_input, inputs))} COMPUTE {to_text(query)}"
        case TemporalJoin(name=name, query=query):
            rows = f"{stage.rows} BY ({', '.join(stage.row_key)}) AT {stage.time}"
            versions = (
                f"{stage.versions} BY ({', '.join(stage.version_key)}) AT {stage.version_time}"
            )
            sources = ", ".join(map(str, stage.waits_for))
            return f"MAINTAINED {name} TEMPORAL {rows}; {versions} WAITS FOR ({sources}) COMPUTE {to_text(query)}"
        case WindowAggregate(name=name, query=query):
            sources = ", ".join(map(str, stage.waits_for))
            rows = f"{stage.rows} AT {stage.time}"
            return f"MAINTAINED {name} CLOSED {rows} WAITS FOR ({sources}) COMPUTE {to_text(query)}"
        case OverAggregate(name=name, kept=kept, query=query):
            rows = f"{stage.rows} BY ({', '.join(stage.key)}) AT {stage.time or 'PROCTIME()'}"
            sources = ", ".join(map(str, stage.waits_for))
            what = _kept(kept)
            return f"MAINTAINED {name} OVER {rows} WAITS FOR ({sources}) KEEP {what} COMPUTE {to_text(query)}"
        case _:
            assert_never(stage)


def _kept(kept: OverFrameState) -> str:
    match kept:
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
            assert_never(kept)


def describe_input(given: StageInput) -> str:
    """Write what a stage keeps of an input."""
    if given.measures:
        what = ", ".join(f"{m.name} = SUM({to_text(m.value)})" for m in given.measures)
    else:
        what = given.keeps.value
    return f"{given.name} BY ({', '.join(given.key)}) {what}"
