"""The functions of OVER clauses over a stream as Spark computes them; which of them need accumulators only and no
rows.

Spark has no FILTER and no DISTINCT in windows: a condition goes into the argument, distinct values are
collected. Rows are only added, so accumulators of FLOAT and minima are exact, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.sql.dialect import to_text
from penstock.sql.incremental.over_frame import Accumulator, AccumulatorFunction
from penstock.sql.incremental.planning.aggregate import WHOLE, when, with_filter
from penstock.sql.incremental.planning.relation import column
from penstock.sql.syntax.positions import span_of

__all__ = ["AccumulatorCollector", "Call", "call_of", "is_accumulable"]

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
        """Whether it is ROW_NUMBER, which has no frame."""
        return isinstance(self.core, exp.RowNumber)

    def over(self, window: exp.Window) -> exp.Expr:
        """Write the call in a window that has no function yet."""
        value: exp.Expr = self._filtered()
        if isinstance(value.this, exp.Distinct):
            return _distinct(value, window)
        if self.all_nulls:
            value = exp.RespectNulls(this=value)
        return _in(window, value, self.core)

    def _filtered(self) -> exp.Expr:
        core = self.core.copy()
        if self.condition is None:
            return core
        inner = core.this.expressions[0] if isinstance(core.this, exp.Distinct) else core.this
        if isinstance(inner, exp.Star):
            inner = exp.Literal.number(1)
        value = when(self.condition, inner)
        if isinstance(core.this, exp.Distinct):
            core.this.set("expressions", [value])
        else:
            core.set("this", value)
        return core


def call_of(function: exp.Expr, place: exp.Expr) -> Call:
    """Read the function before an OVER. Raises UnsupportedError, at `place`, for one that is unsupported on streams."""
    aggregate, condition = with_filter(function)
    core, all_nulls = aggregate, False
    if isinstance(core, exp.RespectNulls | exp.IgnoreNulls):
        all_nulls, core = isinstance(core, exp.RespectNulls), core.this
    if isinstance(core, exp.RowNumber):
        return Call(core=core)
    if isinstance(core, exp.Lag):
        return Call(core=core, back=_back(core, aggregate, place))
    if type(core) in _TO_THE_END:
        raise UnsupportedError(
            f"{_TO_THE_END[type(core)]} Function is not supported in stream mode: it depends on rows that are still to "
            "come",
            hint="LAG(x) gives the value of the row before; swap what is earlier and what is later",
            span=span_of(place),
        )
    _check(core, place)
    kept = isinstance(core, exp.FirstValue | exp.LastValue) and all_nulls
    if condition is not None and (kept or (isinstance(core, exp.Count) and core.expressions)):
        raise UnsupportedError(
            f"{to_text(core)} with a FILTER is not supported OVER a stream",
            hint="write the condition into its argument: CASE WHEN ... THEN ... END",
            span=span_of(place),
        )
    return Call(core=_settled(core), condition=condition, all_nulls=kept)


def _back(core: exp.Lag, whole: exp.Expr, place: exp.Expr) -> int:
    offset = core.args.get("offset")
    whole_number = offset is None or (isinstance(offset, exp.Literal) and offset.is_int)
    if not whole_number or whole is not core:
        raise UnsupportedError(
            f"{to_text(whole)} is not supported OVER a stream: LAG looks back by a fixed number of rows, whatever is "
            "in them",
            hint="LAG(x, 2, 0) is the x two rows before, 0 where there is none",
            span=span_of(place),
        )
    return 1 if offset is None else int(offset.name)


def _check(core: exp.Expr, place: exp.Expr) -> None:
    text = to_text(core)
    if isinstance(core, exp.Rank | exp.DenseRank):
        raise UnsupportedError(
            f"{text} OVER a stream without a bound is not supported",
            hint="ROW_NUMBER() numbers rows as the watermark passes them; RANK takes a bound: WHERE n <= 10 in the "
            "query around it",
            span=span_of(place),
        )
    if not isinstance(core, _AGGREGATES):
        raise UnsupportedError(
            f"{text} OVER a stream is not supported",
            hint="what is: COUNT, SUM, AVG, MIN, MAX, FIRST_VALUE, LAST_VALUE, LAG, ROW_NUMBER, LISTAGG, STDDEV_POP, "
            "STDDEV_SAMP, VAR_POP, VAR_SAMP",
            span=span_of(place),
        )
    distinct = isinstance(core.this, exp.Distinct)
    if distinct and not isinstance(core, _DISTINCT):
        raise UnsupportedError(
            f"{text} OVER a stream is not supported: of DISTINCT values COUNT and SUM are",
            hint="leave DISTINCT out, or aggregate with GROUP BY",
            span=span_of(place),
        )
    if distinct and len(core.this.expressions) > 1:
        raise UnsupportedError(
            f"{text} OVER a stream is not supported: DISTINCT takes one value there",
            hint="make one of them: COUNT(DISTINCT ROW(a, b))",
            span=span_of(place),
        )


def _settled(core: exp.Expr) -> exp.Expr:
    """Remove DISTINCT where it has no effect."""
    if isinstance(core, _NO_DISTINCT) and isinstance(core.this, exp.Distinct):
        plain = core.copy()
        plain.set("this", core.this.expressions[0].copy())
        return plain
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


def is_accumulable(call: exp.Expr) -> bool:
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


class AccumulatorCollector:
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
                return self._total(AccumulatorFunction.SUM, _one(), by_row=True)
            case exp.Count():
                counted = () if isinstance(call.this, exp.Star | exp.Literal) else (call.this,)
                return self._count(counted, condition, by_row=by_row)
            case exp.Avg():
                return self._average(call, condition, by_row=by_row)
            case _:
                value = call.this if condition is None else when(condition, call.this)
                return self._total(_PLAIN[type(call)], value, by_row=by_row)

    def _average(self, call: exp.Avg, condition: exp.Expr | None, *, by_row: bool) -> exp.Expr:
        value = call.this if condition is None else when(condition, call.this)
        total = self._total(AccumulatorFunction.SUM, value, by_row=by_row)
        count = self._count((call.this,), condition, by_row=by_row)
        # what a division gives follows from its types
        total.type = exp.DataType.build(
            exp.DType.BIGINT if call.this.is_type(*WHOLE) else exp.DType.DOUBLE
        )
        mean: exp.Expr = exp.Div(this=total, expression=count.copy())
        mean.type = total.type
        if call.this.is_type(exp.DType.FLOAT):
            mean = exp.cast(mean, exp.DType.FLOAT)
        some = exp.GT(this=count, expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=some, true=mean)])

    def _count(
        self, counted: Sequence[exp.Expr], condition: exp.Expr | None, *, by_row: bool
    ) -> exp.Expr:
        tests: list[exp.Expr] = [] if condition is None else [exp.paren(condition.copy())]
        tests += [
            exp.not_(exp.Is(this=exp.paren(value.copy()), expression=exp.null()))
            for value in counted
        ]
        value = _one()
        if tests:
            value = when(exp.and_(*tests), value)
            value.set("default", exp.cast(exp.Literal.number(0), exp.DType.BIGINT))
        count = self._total(AccumulatorFunction.SUM, value, by_row=by_row)
        count.type = exp.DataType.build(exp.DType.BIGINT)
        return count

    def _total(self, total: AccumulatorFunction, value: exp.Expr, *, by_row: bool) -> exp.Expr:
        name = self._names.setdefault((total, value.copy(), by_row), f"__total{len(self._names)}")
        return column(name)


def _one() -> exp.Expr:
    return exp.cast(exp.Literal.number(1), exp.DType.BIGINT)
