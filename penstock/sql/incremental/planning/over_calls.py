"""Write the functions of OVER clauses over a stream as Spark computes them; which of them need accumulators only and
no rows.

Spark has no FILTER and no DISTINCT in windows: a condition goes into the argument, distinct values are
collected. Rows are only added, so accumulators of FLOAT and minima are exact, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.incremental.over_frame import Accumulator, AccumulatorFunction
from penstock.sql.incremental.planning.aggregate import WHOLE, when
from penstock.sql.incremental.planning.relation import column
from penstock.sql.plan.clauses.over_calls import Call

__all__ = ["AccumulatorCollector", "call_in_window", "is_accumulable"]


def call_in_window(call: Call, window: exp.Window) -> exp.Expr:
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
