"""OVER aggregates of a stream as stages: each row, when the watermark has passed it, with aggregates of those before.

Functions of one window with different state (an accumulator, the last rows) are consecutive stages. Spark has no
FILTER and no DISTINCT in windows: a condition goes into the argument, distinct values are collected. Rows are only
added, so accumulators of FLOAT and minima are exact, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.incremental.planning.aggregate import counted, mean, when, where_some
from penstock.sql.incremental.planning.relation import (
    ChangelogRelation,
    ReadColumns,
    column,
    operator_at,
)
from penstock.sql.incremental.planning.source import AppendSource, ChangelogSource, Source
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.incremental.stages import (
    BATCH_TIME,
    INGESTION_ORDER,
    Accumulator,
    AccumulatorFunction,
    AccumulatorState,
    OverAggregate,
    OverFrameState,
    RangeState,
    RowsState,
    UnboundedState,
)
from penstock.sql.plan.clauses.over import (
    Call,
    Frame,
    OverWindow,
    read_call,
)
from penstock.sql.plan.clauses.select_list import read_values
from penstock.sql.plan.logical.facts import Item
from penstock.sql.plan.logical.nodes import Over
from penstock.sql.plan.rules.aggregate import WHOLE
from penstock.sql.plan.rules.flow import OperatorKind
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

# --- functions ---


def _call_in_window(call: Call, window: exp.Window) -> exp.Expr:
    """Write a call in a window that has no function yet."""
    value: exp.Expr = _filtered(call)
    if isinstance(value.this, exp.Distinct):
        return _distinct(value, window)
    if call.all_nulls:
        value = exp.RespectNulls(this=value)
    return _in(window, value, call.core)


def _filtered(call: Call) -> exp.Expr:
    core = call.core.copy()
    if call.condition is None:
        return core
    inner = core.this.expressions[0] if isinstance(core.this, exp.Distinct) else core.this
    if isinstance(inner, exp.Star):
        inner = exp.Literal.number(1)
    value = when(call.condition, inner)
    if isinstance(core.this, exp.Distinct):
        core.this.set("expressions", [value])
    else:
        core.set("this", value)
    return core


def _in(window: exp.Window, value: exp.Expr, like: exp.Expr) -> exp.Window:
    over = window.copy()
    over.set("this", value)
    over.type = value.type = like.type
    return over


def _distinct(core: exp.Expr, window: exp.Window) -> exp.Expr:
    """Write COUNT and SUM of distinct values: Spark gathers them in a window, and has no DISTINCT there."""
    (value,) = core.this.expressions
    over = window.copy()
    over.set("this", exp.Anonymous(this="collect_set", expressions=[value.copy()]))
    if isinstance(core, exp.Count):
        found: exp.Expr = exp.cast(exp.Anonymous(this="size", expressions=[over]), exp.DType.BIGINT)
    else:
        kind = exp.DataType.build(core.type or exp.DType.DOUBLE, copy=True)
        total, one = (exp.to_identifier(name) for name in ("total", "one"))
        added = exp.Add(
            this=exp.column(total), expression=exp.cast(exp.column(one.copy()), kind.copy())
        )
        step = exp.cast(
            exp.Coalesce(this=added, expressions=[exp.cast(exp.column(one.copy()), kind.copy())]),
            kind.copy(),
        )
        none = exp.cast(exp.null(), kind.copy())
        sums = exp.Lambda(this=step, expressions=[total.copy(), one.copy()])
        found = exp.Anonymous(this="aggregate", expressions=[over, none, sums])
    found.type = core.type
    return found


_PLAIN: dict[type[exp.Expr], AccumulatorFunction] = {
    exp.Sum: AccumulatorFunction.SUM,
    exp.Min: AccumulatorFunction.MIN,
    exp.Max: AccumulatorFunction.MAX,
    exp.FirstValue: AccumulatorFunction.FIRST,
    exp.LastValue: AccumulatorFunction.LAST,
}

_BINARY = (exp.DType.FLOAT, exp.DType.DOUBLE)


def _is_accumulable(call: exp.Expr) -> bool:
    """Return whether an aggregate, without FILTER, follows from accumulators of the rows before and
    of the row itself.
    """
    if isinstance(call, exp.RowNumber):
        return True
    if isinstance(call.this, exp.Distinct):
        return False
    if isinstance(call, exp.Count):
        return not call.expressions
    if isinstance(call, exp.Avg):
        # an average of decimals has digits of its own
        return bool(call.this.is_type(*WHOLE, *_BINARY))
    return type(call) in _PLAIN


class _AccumulatorCollector:
    """Collects accumulators, each value once."""

    def __init__(self) -> None:
        self._names: dict[tuple[AccumulatorFunction, exp.Expr, bool], str] = {}

    @property
    def running(self) -> tuple[Accumulator, ...]:
        """The accumulators so far."""
        return tuple(
            Accumulator(name=name, total=total, value=value, by_row=by_row)
            for (total, value, by_row), name in self._names.items()
        )

    def over(self, call: exp.Expr, condition: exp.Expr | None, *, by_row: bool) -> exp.Expr:
        """Write an aggregate over the accumulators. `condition` is its FILTER, `by_row` as in Accumulator."""
        found = self._over(call, condition, by_row=by_row)
        found.type = call.type
        return found

    def _over(self, call: exp.Expr, condition: exp.Expr | None, *, by_row: bool) -> exp.Expr:
        match call:
            case exp.RowNumber():
                return self._total(AccumulatorFunction.SUM, counted((), None), by_row=True)
            case exp.Count():
                values = () if isinstance(call.this, exp.Star | exp.Literal) else (call.this,)
                return self._count(values, condition, by_row=by_row)
            case exp.Avg():
                return self._average(call, condition, by_row=by_row)
            case _:
                value = call.this if condition is None else when(condition, call.this)
                return self._total(_PLAIN[type(call)], value, by_row=by_row)

    def _average(self, call: exp.Avg, condition: exp.Expr | None, *, by_row: bool) -> exp.Expr:
        value = call.this if condition is None else when(condition, call.this)
        total = self._total(AccumulatorFunction.SUM, value, by_row=by_row)
        count = self._count((call.this,), condition, by_row=by_row)
        whole = call.this.is_type(*WHOLE)
        found = mean(total, count, exp.DType.BIGINT if whole else exp.DType.DOUBLE)
        if call.this.is_type(exp.DType.FLOAT):
            found = exp.cast(found, exp.DType.FLOAT)
        return where_some(count, found)

    def _count(
        self, values: Sequence[exp.Expr], condition: exp.Expr | None, *, by_row: bool
    ) -> exp.Expr:
        value = counted(values, condition)
        if isinstance(value, exp.Case):
            value.set("default", exp.cast(exp.Literal.number(0), exp.DType.BIGINT))
        count = self._total(AccumulatorFunction.SUM, value, by_row=by_row)
        count.type = exp.DataType.build(exp.DType.BIGINT)
        return count

    def _total(self, total: AccumulatorFunction, value: exp.Expr, *, by_row: bool) -> exp.Expr:
        name = self._names.setdefault((total, value.copy(), by_row), f"__total{len(self._names)}")
        return column(name)


# --- stages ---


def plan_over(
    node: Over, listed: Sequence[Item], source: Source, window: OverWindow, stages: StageList
) -> ChangelogRelation | Refusal:
    """Add the stages of a SELECT's OVER clauses; returns the values of its SELECT list, `listed`."""
    reads = ReadColumns([*window.partition, *([] if window.time is None else [window.time])])
    computed: dict[str, _Computed] = {}
    for origin in node.calls:
        call = read_call(origin.this, origin)
        if isinstance(call, Refusal):
            return call
        found = _Computed(
            name=f"__over{len(computed)}",
            call=call.over(reads.over),
            frame=window.frame if call.framed else Frame(),
            text=to_text(origin.this),
        )
        computed.setdefault(to_text(origin), found)
    if (refusal := _refuse_over(listed, source, window, reads.keys)) is not None:
        return refusal
    items = [(name, _over(value, computed, reads)) for name, value in listed]
    rows = stages.staged(source.project(reads.items))
    keys = tuple(name for name, _ in reads.items)
    one = _StageWindow(
        window=window,
        key=keys[: len(window.partition)],
        time=None if window.time is None else keys[len(window.partition)],
    )
    for state, those in _by_state(list(computed.values())):
        rows = _add(rows, state, those, one, stages)
    scope = {("", name): column(name, rows.name) for name in rows.columns}
    return ChangelogSource(stages=stages, rows=rows, scope=scope).project(items)


def _refuse_over(
    listed: Sequence[Item], source: Source, window: OverWindow, keys: Sequence[exp.Expr]
) -> Refusal | None:
    refusal = source.refuse(read_values(keys, listed, None))
    if refusal is not None or isinstance(source, AppendSource) or source.rows.inserts:
        return refusal
    return Refusal(
        message="OVER of a stream doesn't support consuming update and delete changes: what was given for a row "
        "stays, and rows of this FROM are updated or deleted",
        hint="aggregate tables of inserts by OVER, and update what comes of it; or GROUP BY in its place",
        span=span_of(window.first),
    )


def _over(value: exp.Expr, computed: Mapping[str, _Computed], reads: ReadColumns) -> exp.Expr:
    """Write a value of the SELECT over the input columns and those of the OVERs."""

    def own(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Window):
            return column(computed[to_text(node)].name, like=node)
        return reads.over(node) if isinstance(node, exp.Column) else node

    found: exp.Expr = value.transform(own)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computed:
    """A function in its window: the `name` of its output column, its text."""

    name: str
    call: Call
    frame: Frame
    text: str

    @property
    def state(self) -> OverFrameState:
        """What it needs of the rows before: for totals no bound is known yet."""
        if self.call.back is not None:
            return RowsState(count=self.call.back)
        if self.frame.micros is not None:
            return RangeState(micros=self.frame.micros)
        if self.frame.rows is not None:
            return RowsState(count=self.frame.rows)
        totals = _is_accumulable(self.call.core) and not self.call.all_nulls
        return AccumulatorState(running=()) if totals else UnboundedState()


@dataclass(frozen=True, slots=True, kw_only=True)
class _StageWindow:
    """The window of the stages: names of its columns in the rows."""

    window: OverWindow
    key: tuple[str, ...]
    time: str | None

    def spec(self, frame: Frame, *, framed: bool) -> exp.Window:
        """Write it with a frame; rows of one time in order of arrival, unless they count together."""
        arrival = column(INGESTION_ORDER)
        time = None if self.time is None else column(self.time)
        order = [arrival] if time is None else [time, arrival]
        if frame.micros is not None:
            order = [column(BATCH_TIME) if time is None else time]
        elif framed and not frame.by_row and time is not None:
            order = [time]
        return exp.Window(
            partition_by=[column(name) for name in self.key],
            order=exp.Order(expressions=[exp.Ordered(this=o, nulls_first=True) for o in order]),
            spec=_spec(frame, by_arrival=time is None) if framed else None,
            over="OVER",
        )


def _spec(frame: Frame, *, by_arrival: bool) -> exp.WindowSpec:
    start: str | exp.Expr = "UNBOUNDED"
    if frame.rows is not None:
        start = exp.Literal.number(frame.rows)
    elif frame.micros is not None:
        seconds = f"{frame.micros // 1_000_000}.{frame.micros % 1_000_000:06}"
        start = exp.Interval(this=exp.Literal.string(seconds), unit=exp.var("SECOND"))
    # Flink's ProcTimeUnboundedPrecedingFunction gives each row as it comes, RANGE or not
    by_row = frame.by_row or (by_arrival and frame.micros is None)
    return exp.WindowSpec(
        kind="ROWS" if by_row else "RANGE", start=start, start_side="PRECEDING", end="CURRENT ROW"
    )


# --- stages ---


def _by_state(computed: Sequence[_Computed]) -> list[tuple[OverFrameState, list[_Computed]]]:
    """Group functions by their state: where all rows are kept, they serve the others too."""
    if any(isinstance(one.state, UnboundedState) for one in computed):
        return [(UnboundedState(), list(computed))]
    groups: list[tuple[OverFrameState, list[_Computed]]] = []
    for kind in (AccumulatorState, RangeState, RowsState):
        own = [one for one in computed if isinstance(one.state, kind)]
        counts = [one.state.count for one in own if isinstance(one.state, RowsState)]
        if own:
            groups.append((RowsState(count=max(counts)) if counts else own[0].state, own))
    return groups


def _add(
    rows: ChangelogRelation,
    state: OverFrameState,
    computed: Sequence[_Computed],
    one: _StageWindow,
    stages: StageList,
) -> ChangelogRelation:
    fields = [column(name) for name in rows.columns]
    totals = _AccumulatorCollector()
    if isinstance(state, AccumulatorState):
        by_arrival = one.window.by_arrival
        values = [
            totals.over(c.call.core, c.call.condition, by_row=c.frame.by_row or by_arrival)
            for c in computed
        ]
        state = AccumulatorState(running=totals.running)
    else:
        values = [
            _call_in_window(c.call, one.spec(c.frame, framed=c.call.framed)) for c in computed
        ]
    computed_items = [
        exp.alias_(v, c.name, quoted=True) for v, c in zip(values, computed, strict=True)
    ]
    query = exp.select(*fields, *computed_items, column(INGESTION_ORDER))
    origin = one.window.first
    stage = OverAggregate(
        name=stages.name("over"),
        rows=rows.name,
        key=one.key,
        time=one.time,
        waits_for=tuple(sorted(one.window.waits_for)),
        frame_state=state,
        query=query.from_(exp.to_table(rows.name, quoted=True), copy=False),
        mechanism=operator_at(
            OperatorKind.OVER,
            tuple(map(to_text, one.window.partition)),
            _state(state, computed, one),
            origin,
        ),
    )
    stages.stages.append(stage)
    columns = (*rows.columns, *(c.name for c in computed))
    return replace(rows, name=stage.name, columns=columns, mechanism=stage.mechanism)


def _state(state: OverFrameState, computed: Sequence[_Computed], one: _StageWindow) -> str:
    """Describe the state of an OVER aggregate."""
    waiting = (
        ""
        if not one.window.waits_for
        else f", and rows until the watermark has passed their {one.time}"
    )
    match state:
        case RangeState(micros=micros):
            what = f"rows of the last {micros / 1_000_000:g} s"
        case RowsState(count=count):
            what = "the last row" if count == 1 else f"the last {count} rows"
        case UnboundedState():
            needs = sorted({c.text for c in computed if isinstance(c.state, UnboundedState)})
            what = f"all rows, which {', '.join(needs)} needs"
        case AccumulatorState():
            what = ", ".join(sorted({c.text for c in computed}))
        case _:
            assert_never(state)
    return what + waiting
