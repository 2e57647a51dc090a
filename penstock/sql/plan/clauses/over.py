"""Read the OVER clauses of a SELECT over a stream: the window that they share, and what each of them computes.

Flink's rules and messages: StreamExecOverAggregate, OverAggregateUtil, AggFunctionFactory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.plan.rules.aggregate import is_same, without_filter
from penstock.sql.plan.rules.top_n import is_processing_time
from penstock.sql.syntax.intervals import interval_value
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

# --- functions before OVER ---

_AGGREGATES = (
    exp.Avg, exp.Count, exp.FirstValue, exp.GroupConcat, exp.LastValue, exp.Max, exp.Min, exp.Stddev, exp.StddevPop,
    exp.StddevSamp, exp.Sum, exp.Variance, exp.VariancePop,
)  # fmt: skip

_NO_DISTINCT = (exp.Max, exp.Min)
"""Aggregates that ignore duplicates of a value."""

_DISTINCT = (exp.Count, exp.Sum, *_NO_DISTINCT)

_TO_THE_END: dict[type[exp.Expr], str] = {
    exp.Lead: "LEAD", exp.Ntile: "NTILE", exp.PercentRank: "PERCENT_RANK", exp.CumeDist: "CUME_DIST",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function before OVER: `core` without FILTER and NULLS clauses, the `condition` of its FILTER.

    `back` is the number of rows that LAG looks back, None for other functions. `all_nulls`: RESPECT NULLS.
    """

    core: exp.Expr
    condition: exp.Expr | None = None
    back: int | None = None
    all_nulls: bool = False

    @property
    def numbers(self) -> bool:
        """Whether it is ROW_NUMBER."""
        return isinstance(self.core, exp.RowNumber)

    @property
    def framed(self) -> bool:
        """Whether it has a frame: ROW_NUMBER and LAG have none."""
        return not self.numbers and self.back is None

    def over(self, rewritten: Callable[[exp.Expr], exp.Expr]) -> Call:
        """Return the function over other columns."""
        condition = None if self.condition is None else rewritten(self.condition)
        return replace(self, core=rewritten(self.core), condition=condition)


def read_call(function: exp.Expr, origin: exp.Expr) -> Call | Refusal:
    """Read the function before an OVER; a refusal, at `origin`, for one that is unsupported on streams."""
    aggregate, condition = without_filter(function)
    core, all_nulls = aggregate, False
    if isinstance(core, exp.RespectNulls | exp.IgnoreNulls):
        all_nulls, core = isinstance(core, exp.RespectNulls), core.this
    if isinstance(core, exp.RowNumber):
        return Call(core=core)
    if isinstance(core, exp.Lag):
        back = _back(core, aggregate, origin)
        return back if isinstance(back, Refusal) else Call(core=core, back=back)
    if (refusal := _refusal(core, origin)) is not None:
        return refusal
    keeps_nulls = isinstance(core, exp.FirstValue | exp.LastValue) and all_nulls
    if condition is not None and (
        keeps_nulls or (isinstance(core, exp.Count) and core.expressions)
    ):
        return Refusal(
            message=f"{to_text(core)} with a FILTER is not supported OVER a stream",
            hint="write the condition into its argument: CASE WHEN ... THEN ... END",
            span=span_of(origin),
        )
    return Call(core=_settled(core), condition=condition, all_nulls=keeps_nulls)


def _back(core: exp.Lag, whole: exp.Expr, origin: exp.Expr) -> int | Refusal:
    offset = core.args.get("offset")
    whole_number = offset is None or (isinstance(offset, exp.Literal) and offset.is_int)
    if not whole_number or whole is not core:
        return Refusal(
            message=f"{to_text(whole)} is not supported OVER a stream: LAG looks back by a fixed number of rows, "
            "whatever is in them",
            hint="LAG(x, 2, 0) is the x two rows before, 0 where there is none",
            span=span_of(origin),
        )
    return 1 if offset is None else int(offset.name)


def _refusal(core: exp.Expr, origin: exp.Expr) -> Refusal | None:
    """Return why a function cannot be computed row by row; None where it can."""
    if type(core) in _TO_THE_END:
        return Refusal(
            message=f"{_TO_THE_END[type(core)]} Function is not supported in stream mode: it depends on rows that are "
            "still to come",
            hint="LAG(x) gives the value of the row before; swap what is earlier and what is later",
            span=span_of(origin),
        )
    text = to_text(core)
    if isinstance(core, exp.Rank | exp.DenseRank):
        return Refusal(
            message=f"{text} OVER a stream without a bound is not supported",
            hint="ROW_NUMBER() numbers rows as the watermark passes them; RANK takes a bound: WHERE n <= 10 in the "
            "query around it",
            span=span_of(origin),
        )
    if not isinstance(core, _AGGREGATES):
        return Refusal(
            message=f"{text} OVER a stream is not supported",
            hint="what is: COUNT, SUM, AVG, MIN, MAX, FIRST_VALUE, LAST_VALUE, LAG, ROW_NUMBER, LISTAGG, STDDEV_POP, "
            "STDDEV_SAMP, VAR_POP, VAR_SAMP",
            span=span_of(origin),
        )
    distinct = isinstance(core.this, exp.Distinct)
    if distinct and not isinstance(core, _DISTINCT):
        return Refusal(
            message=f"{text} OVER a stream is not supported: of DISTINCT values COUNT and SUM are",
            hint="leave DISTINCT out, or aggregate with GROUP BY",
            span=span_of(origin),
        )
    if distinct and len(core.this.expressions) > 1:
        return Refusal(
            message=f"{text} OVER a stream is not supported: DISTINCT takes one value there",
            hint="make one of them: COUNT(DISTINCT ROW(a, b))",
            span=span_of(origin),
        )
    return None


def _settled(core: exp.Expr) -> exp.Expr:
    """Remove DISTINCT where it has no effect."""
    if isinstance(core, _NO_DISTINCT) and isinstance(core.this, exp.Distinct):
        plain = core.copy()
        plain.set("this", core.this.expressions[0].copy())
        return plain
    return core


# --- windows ---

_NUMBERS = (exp.RowNumber, exp.Rank, exp.DenseRank)
_EXAMPLE = "SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The rows before the current one that count: `rows` of them, or those of the last `micros`; neither: all.

    `by_row`: of the rows at the current one's time only those that came before it (ROWS).
    """

    by_row: bool = False
    rows: int | None = None
    micros: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverWindow:
    """The window that the OVER clauses of a SELECT share, with the `frame` of those that have one.

    `time` is the rowtime that it is ordered by, and `waits_for` the leaves whose watermarks its rows do not run ahead
    of; None: it is ordered by PROCTIME().
    """

    partition: tuple[exp.Expr, ...]
    time: exp.Column | None
    waits_for: frozenset[int]
    frame: Frame
    first: exp.Expr = field(compare=False)

    @property
    def by_arrival(self) -> bool:
        """Whether rows are in order of arrival."""
        return self.time is None


def over_calls(select: exp.Select) -> list[exp.Window]:
    """Return the OVER clauses of the SELECT list itself, in order."""
    return [
        node
        for item in select.expressions
        for node in item.find_all(exp.Window, bfs=False)
        if node.find_ancestor(exp.Select) is select
    ]


def read_window(
    select: exp.Select,
    calls: Sequence[exp.Window],
    sources: Callable[[exp.Column], frozenset[int] | None],
    proctimes: frozenset[str],
) -> OverWindow | Refusal | None:
    """Read the window that `calls`, the OVER clauses of a SELECT, share; None where there are none.

    `sources` gives the scans whose watermarks bound a column, None for one that is no rowtime. A refusal for windows
    that differ, and for one that is not ordered by a time attribute.
    """
    if not calls:
        return None
    shared = _read_shared(select, calls)
    if isinstance(shared, Refusal):
        return shared
    first, frame = shared
    order, partition = _read_order(first.order, calls[0]), first.partition
    if isinstance(order, Refusal):
        return order
    if is_processing_time(order, proctimes):
        waits_for: frozenset[int] | None = frozenset()
        time = None
    else:
        time = order if isinstance(order, exp.Column) else None
        waits_for = None if time is None else sources(time)
    if waits_for is None:
        return _no_time(calls[0], order)
    return OverWindow(
        partition=partition, time=time, waits_for=waits_for, frame=frame, first=calls[0]
    )


def _read_shared(
    select: exp.Select, calls: Sequence[exp.Window]
) -> tuple[_Clauses, Frame] | Refusal:
    """Return the clauses of the first OVER, and their frame; a refusal for one whose clauses are not the same."""
    first: _Clauses | None = None
    frame: Frame | None = None
    windows = [_read_clauses(call, select) for call in calls]
    for unknown in windows:
        if isinstance(unknown, Refusal):
            return unknown
    for call, window in zip(calls, windows, strict=True):
        assert isinstance(window, _Clauses), "refusals were returned"
        first = first or window
        same = _same(window.partition, first.partition) and _same(window.order, first.order)
        own = _read_frame(window.spec, call) if _has_frame(call) else None
        if isinstance(own, Refusal):
            return own
        frame = frame or own
        if not same or (own is not None and own != frame):
            return Refusal(
                message="all aggregates must be computed on the same window: this OVER differs from the one before it",
                hint="name one window for all of them, WINDOW w AS (...) behind the FROM, or write a query around this "
                "one for the other",
                span=span_of(call),
            )
    assert first is not None, "there is an OVER"
    return first, frame or Frame()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clauses:
    """The clauses of an OVER, at their place in the query: PARTITION BY, ORDER BY, the frame."""

    partition: tuple[exp.Expr, ...]
    order: tuple[exp.Expr, ...]
    spec: exp.Expr | None


def _read_clauses(call: exp.Window, select: exp.Select) -> _Clauses | Refusal:
    """Read the clauses of an OVER, with its names resolved in the WINDOW clause of its SELECT.

    A refusal for an unknown name.
    """
    names = ("partition_by", "order", "spec")
    parts = {part: call.args.get(part) for part in names}
    name, named = call.args.get("alias"), list(select.args.get("windows") or [])
    while name is not None:
        found = next((w for w in named if w.name == name.name), None)
        if found is None:
            return Refusal(
                message=f"there is no window {name.name!r} in the WINDOW clause of this SELECT",
                hint=f"WINDOW {name.name} AS (PARTITION BY ... ORDER BY ...) behind the FROM",
                span=span_of(name) or span_of(call),
            )
        parts = {part: value or found.args.get(part) for part, value in parts.items()}
        # a window may extend one that is named before it
        name, named = found.args.get("alias"), named[: named.index(found)]
    order = parts["order"]
    return _Clauses(
        partition=tuple(parts["partition_by"] or ()),
        order=tuple(order.expressions) if order is not None else (),
        spec=parts["spec"],
    )


def _same(one: Sequence[exp.Expr], two: Sequence[exp.Expr]) -> bool:
    """Return whether values are the same; a name may omit its table."""
    if len(one) != len(two):
        return False
    return all(
        a.args.get("desc") == b.args.get("desc") and is_same(_value(a), _value(b))
        for a, b in zip(one, two, strict=True)
    )


def _value(part: exp.Expr) -> exp.Expr:
    found: exp.Expr = part.this if isinstance(part, exp.Ordered) else part
    return found


def _has_frame(call: exp.Window) -> bool:
    return not isinstance(call.this, exp.Lag | exp.Lead | exp.RowNumber | exp.Rank | exp.DenseRank)


# --- its order ---


def _read_order(parts: Sequence[exp.Expr], origin: exp.Window) -> exp.Expr | Refusal:
    if not parts:
        return Refusal(
            message=f"{_named(origin)} OVER a stream needs an ORDER BY: a stream has no order by itself",
            hint=f"order it by a time attribute: {_EXAMPLE}",
            span=span_of(origin),
        )
    if len(parts) > 1:
        return _bounded_number(origin) or Refusal(
            message="the window can only be ordered by a single time column",
            hint="rows of one time count in the order in which they came",
            span=span_of(parts[1]) or span_of(origin),
        )
    if parts[0].args.get("desc"):
        return _bounded_number(origin) or Refusal(
            message="the window can only be ordered in ASCENDING mode",
            hint="leave DESC out: a row that comes later cannot count for those that were given",
            span=span_of(parts[0]) or span_of(origin),
        )
    found: exp.Expr = parts[0].this
    return found


def _no_time(origin: exp.Window, order: exp.Expr) -> Refusal:
    return _bounded_number(origin) or Refusal(
        message="OVER windows' ordering in stream mode must be defined on a time attribute, and "
        f"{to_text(order)} is none of the rows in this FROM",
        hint="a time attribute is the column of a stream's WATERMARK, also in a query that selects it, or PROCTIME(); "
        "regular joins and aggregations without a window give rows without one",
        span=span_of(order) or span_of(origin),
    )


def _bounded_number(origin: exp.Window) -> Refusal | None:
    if not isinstance(origin.this, _NUMBERS):
        return None
    return Refusal(
        message=f"{_named(origin)} over a stream needs a bound, else every row that comes renumbers all others",
        hint="add WHERE n <= <number> to the query around it, where n is the name of the number; or number rows as the "
        "watermark passes them: ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) by the rowtime ts. Rows numbered up to "
        "a bound change, and a window (TUMBLE, HOP, ...) does not read them: group them without one",
        span=span_of(origin),
    )


def _named(origin: exp.Window) -> str:
    call = origin.this.find(exp.Func)
    return str(call.sql_name()) if call is not None else to_text(origin.this)


# --- its frame ---


def _read_frame(spec: exp.Expr | None, origin: exp.Window) -> Frame | Refusal:
    """Read which rows count; a refusal for frames that do not end at the current row."""
    if spec is None:
        return Frame()
    start, kind = spec.args.get("start"), spec.args.get("kind")
    preceding = spec.args.get("start_side") == "PRECEDING"
    if not preceding or spec.args.get("end", "CURRENT ROW") != "CURRENT ROW":
        return Refusal(
            message="OVER windows of a stream begin at a PRECEDING row and end at the CURRENT ROW; FOLLOWING is not "
            "supported",
            hint=f"for instance {_EXAMPLE}",
            span=span_of(spec) or span_of(origin),
        )
    if start == "UNBOUNDED":
        return Frame(by_row=kind == "ROWS")
    if kind == "ROWS":
        if not (isinstance(start, exp.Literal) and start.is_int):
            return _no_constant(start, origin, "ROWS", "a whole number: ROWS 9 PRECEDING")
        return Frame(by_row=True, rows=int(start.name))
    value = interval_value(start) if isinstance(start, exp.Interval) else None
    if value is None or value.year_month or value.micros < 0:
        example = "RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"
        return _no_constant(start, origin, "RANGE", f"an interval of days to seconds: {example}")
    return Frame(micros=value.micros)


def _no_constant(value: object, origin: exp.Window, kind: str, wants: str) -> Refusal:
    span = span_of(value) if isinstance(value, exp.Expr) else None
    return Refusal(
        message=f"a {kind} frame of a stream reaches back by {wants.partition(':')[0]}",
        hint=f"write{wants.partition(':')[2]}",
        span=span or span_of(origin),
    )
