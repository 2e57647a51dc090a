"""OVER aggregates of a stream as stages: each row, when the watermark has passed it, with aggregates of those before.

Functions of one window with different state (an accumulator, the last rows) are consecutive stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.incremental.over_frame import (
    BATCH_TIME,
    AccumulatorState,
    OverFrameState,
    RangeState,
    RowsState,
    UnboundedState,
)
from penstock.sql.incremental.planning.accepted import accepted
from penstock.sql.incremental.planning.over_calls import (
    AccumulatorCollector,
    call_in_window,
    is_accumulable,
)
from penstock.sql.incremental.planning.relation import ChangelogRelation, Item, ReadColumns, column
from penstock.sql.incremental.planning.source import AppendSource, ChangelogSource
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.incremental.stages import INGESTION_ORDER, OverAggregate
from penstock.sql.plan.clauses.over_calls import Call, read_call
from penstock.sql.plan.clauses.over_clauses import (
    Frame,
    OverWindow,
    over_calls,
    read_clauses,
    read_frame,
    refuse_changes,
)
from penstock.sql.plan.rules.flow import OperatorKind, UpdatingOperator
from penstock.sql.syntax.positions import span_of

__all__ = ["plan_over"]


def plan_over(
    select: exp.Select,
    names: Sequence[str],
    source: AppendSource | ChangelogSource,
    window: OverWindow,
    stages: StageList,
) -> tuple[ChangelogSource, list[Item]]:
    """Add the stages of a SELECT's OVER clauses; returns their rows, and the values of the SELECT over those.

    `names` are those of its columns. Raises UnsupportedError for functions that are unsupported on streams, and where
    rows are updated.
    """
    reads = ReadColumns([*window.partition, *([] if window.time is None else [window.time])])
    found = _OverClauses(reads=reads, select=select)
    for call in over_calls(select):
        found.add(call)
    items = [
        (name, found.over(item.unalias()))
        for name, item in zip(names, select.expressions, strict=True)
    ]
    rows = stages.staged(source.project(reads.items))
    accepted(refuse_changes(window, inserts=rows.inserts))
    keys = tuple(name for name, _ in reads.items)
    one = _StageWindow(
        window=window,
        key=keys[: len(window.partition)],
        time=None if window.time is None else keys[len(window.partition)],
    )
    for kept, computed in _by_kept(list(found.computed.values())):
        rows = _add(rows, kept, computed, one, stages)
    scope = {("", name): column(name, rows.name) for name in rows.columns}
    return ChangelogSource(stages=stages, rows=rows, scope=scope), items


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computed:
    """A function in its window: the `name` of its output column, its text."""

    name: str
    call: Call
    frame: Frame
    text: str

    @property
    def kept(self) -> OverFrameState:
        """What it needs of the rows before: for totals no bound is known yet."""
        if self.call.back is not None:
            return RowsState(count=self.call.back)
        if self.frame.micros is not None and not self.call.numbers:
            return RangeState(micros=self.frame.micros)
        if self.frame.rows is not None and not self.call.numbers:
            return RowsState(count=self.frame.rows)
        totals = is_accumulable(self.call.core) and not self.call.all_nulls
        return AccumulatorState(running=()) if totals else UnboundedState()


class _OverClauses:
    """The OVER clauses of a SELECT, each once, over the columns that they read."""

    def __init__(self, *, reads: ReadColumns, select: exp.Select) -> None:
        self.computed: dict[str, _Computed] = {}
        self._reads = reads
        self._select = select

    def add(self, node: exp.Window) -> None:
        """Read one of them. Raises UnsupportedError."""
        text = to_text(node)
        if text in self.computed:
            return
        call = accepted(read_call(node.this, node))
        framed = not call.numbers and call.back is None
        self.computed[text] = _Computed(
            name=f"__over{len(self.computed)}",
            call=accepted(read_call(self._reads.over(node.this), node)),
            frame=self._frame(node) if framed else Frame(),
            text=to_text(node.this),
        )

    def _frame(self, node: exp.Window) -> Frame:
        return accepted(read_frame(accepted(read_clauses(node, self._select)).spec, node))

    def over(self, value: exp.Expr) -> exp.Expr:
        """Write a value of the SELECT over the input columns and those of the OVERs."""

        def own(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Window):
                return column(self.computed[to_text(node)].name, like=node)
            return self._reads.over(node) if isinstance(node, exp.Column) else node

        found: exp.Expr = value.transform(own)
        return found


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


def _by_kept(computed: Sequence[_Computed]) -> list[tuple[OverFrameState, list[_Computed]]]:
    """Group functions by their state: where all rows are kept, they serve the others too."""
    if any(isinstance(one.kept, UnboundedState) for one in computed):
        return [(UnboundedState(), list(computed))]
    groups: list[tuple[OverFrameState, list[_Computed]]] = []
    for kind in (AccumulatorState, RangeState, RowsState):
        own = [one for one in computed if isinstance(one.kept, kind)]
        counts = [one.kept.count for one in own if isinstance(one.kept, RowsState)]
        if own:
            groups.append((RowsState(count=max(counts)) if counts else own[0].kept, own))
    return groups


def _add(
    rows: ChangelogRelation,
    kept: OverFrameState,
    computed: Sequence[_Computed],
    one: _StageWindow,
    stages: StageList,
) -> ChangelogRelation:
    fields = [column(name) for name in rows.columns]
    totals = AccumulatorCollector()
    if isinstance(kept, AccumulatorState):
        by_arrival = one.window.by_arrival
        values = [
            totals.over(c.call.core, c.call.condition, by_row=c.frame.by_row or by_arrival)
            for c in computed
        ]
        kept = AccumulatorState(running=totals.running)
    else:
        values = [
            call_in_window(
                c.call, one.spec(c.frame, framed=not c.call.numbers and c.call.back is None)
            )
            for c in computed
        ]
    given = [exp.alias_(v, c.name, quoted=True) for v, c in zip(values, computed, strict=True)]
    query = exp.select(*fields, *given, column(INGESTION_ORDER))
    place = one.window.first
    stage = OverAggregate(
        name=stages.name("over"),
        rows=rows.name,
        key=one.key,
        time=one.time,
        waits_for=tuple(sorted(one.window.waits_for)),
        kept=kept,
        query=query.from_(exp.to_table(rows.name, quoted=True), copy=False),
        mechanism=UpdatingOperator(
            way=OperatorKind.OVER,
            key=tuple(to_text(part) for part in one.window.partition),
            state=_state(kept, computed, one),
            span=span_of(place),
        ),
    )
    columns = (*rows.columns, *(c.name for c in computed))
    return stages.over(stage, rows, columns=columns, origin=place)


def _state(kept: OverFrameState, computed: Sequence[_Computed], one: _StageWindow) -> str:
    """Describe the state of an OVER aggregate."""
    waiting = (
        ""
        if not one.window.waits_for
        else f", and rows until the watermark has passed their {one.time}"
    )
    match kept:
        case RangeState(micros=micros):
            what = f"rows of the last {micros / 1_000_000:g} s"
        case RowsState(count=count):
            what = "the last row" if count == 1 else f"the last {count} rows"
        case UnboundedState():
            needs = sorted({c.text for c in computed if isinstance(c.kept, UnboundedState)})
            what = f"all rows, which {', '.join(needs)} needs"
        case AccumulatorState():
            what = ", ".join(sorted({c.text for c in computed}))
        case _:
            assert_never(kept)
    return what + waiting
