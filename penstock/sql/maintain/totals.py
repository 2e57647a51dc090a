"""OVER aggregates whose rows need not be kept: totals of what came before, and the aggregates over those.

Rows only come, so that a total of FLOAT or the least value is one, too: nothing is ever taken away again (linear.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.maintain.kept import Running, Total
from penstock.sql.maintain.linear import WHOLE, when
from penstock.sql.maintain.relation import column

__all__ = ["TotalsOf", "is_total"]

_PLAIN: dict[type[exp.Expr], Total] = {
    exp.Sum: Total.SUM,
    exp.Min: Total.MIN,
    exp.Max: Total.MAX,
    exp.FirstValue: Total.FIRST,
    exp.LastValue: Total.LAST,
}
_BINARY = (exp.DType.FLOAT, exp.DType.DOUBLE)


def is_total(call: exp.Expr) -> bool:
    """Tell whether an aggregate, without FILTER, follows from totals of the rows before and of the row itself."""
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


class TotalsOf:
    """Collects totals, each value once."""

    def __init__(self) -> None:
        self._names: dict[tuple[Total, exp.Expr, bool], str] = {}

    @property
    def running(self) -> tuple[Running, ...]:
        """The totals so far."""
        return tuple(
            Running(name=name, total=total, value=value, by_row=by_row)
            for (total, value, by_row), name in self._names.items()
        )

    def over(self, call: exp.Expr, condition: exp.Expr | None, *, by_row: bool) -> exp.Expr:
        """Write an aggregate over the totals. `condition` is its FILTER, `by_row` as in Running."""
        found = self._over(call, condition, by_row=by_row)
        found.type = call.type
        return found

    def _over(self, call: exp.Expr, condition: exp.Expr | None, *, by_row: bool) -> exp.Expr:
        match call:
            case exp.RowNumber():
                return self._total(Total.SUM, _one(), by_row=True)
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
        total = self._total(Total.SUM, value, by_row=by_row)
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
        count = self._total(Total.SUM, value, by_row=by_row)
        count.type = exp.DataType.build(exp.DType.BIGINT)
        return count

    def _total(self, total: Total, value: exp.Expr, *, by_row: bool) -> exp.Expr:
        name = self._names.setdefault((total, value.copy(), by_row), f"__total{len(self._names)}")
        return column(name)


def _one() -> exp.Expr:
    return exp.cast(exp.Literal.number(1), exp.DType.BIGINT)
