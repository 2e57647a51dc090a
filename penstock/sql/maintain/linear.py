"""Aggregates that are sums: COUNT, SUM and AVG keep a few numbers for each key in the place of its rows.

Not of FLOAT and DOUBLE: what was added to such a sum cannot be taken away again exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.maintain.relation import column
from penstock.sql.maintain.stages import Measure

__all__ = ["WHOLE", "as_measures", "when", "with_filter"]

WHOLE = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)
_SUMMED = (*WHOLE, exp.DType.DECIMAL)

Rewritten = tuple[tuple[Measure, ...], list[exp.Expr], exp.Expr | None]


def as_measures(items: Sequence[exp.Expr], condition: exp.Expr | None) -> Rewritten | None:
    """Give the measures of an aggregation, and its items and HAVING over them; None where rows have to be kept."""
    nodes = [
        n for tree in (*items, condition) if tree is not None for n in tree.find_all(exp.AggFunc)
    ]
    if not nodes or not all(_is_linear(node) for node in nodes):
        return None
    measures = _Measures()
    new = [measures.over(item) for item in items]
    having = None if condition is None else measures.over(condition)
    return measures.all, new, having


def with_filter(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """Take FILTER off an aggregate; gives the aggregate and the condition."""
    if isinstance(node, exp.Filter):
        return node.this, node.expression.this
    return node, None


def _is_linear(node: exp.AggFunc) -> bool:
    value = node.this
    if isinstance(node, exp.Count):
        return not isinstance(value, exp.Distinct) and not node.expressions
    if not isinstance(node, exp.Sum | exp.Avg) or isinstance(value, exp.Distinct):
        return False
    # an average of decimals has digits of its own
    return bool(value.is_type(*(_SUMMED if isinstance(node, exp.Sum) else WHOLE)))


class _Measures:
    """Collects measures, each value once."""

    def __init__(self) -> None:
        self._values: dict[exp.Expr, str] = {}

    @property
    def all(self) -> tuple[Measure, ...]:
        return tuple(Measure(name=name, value=value) for value, name in self._values.items())

    def over(self, value: exp.Expr) -> exp.Expr:
        """Write an expression over the measures."""
        found: exp.Expr = value.transform(self._replaced)
        return found

    def _replaced(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Filter | exp.AggFunc):
            aggregate, condition = with_filter(node)
            new = self._of(aggregate, condition)
            new.type = node.type
            return new
        return node

    def _of(self, node: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        value = node.this
        if isinstance(node, exp.Count):
            there = None if isinstance(value, exp.Star | exp.Literal) else value
            return self._count(there, condition)
        total = self._sum(value if condition is None else when(condition, value))
        count = self._count(value, condition)
        if isinstance(node, exp.Avg):
            total.type = exp.DataType.build(exp.DType.BIGINT)
            total = exp.Div(this=total, expression=count.copy())
            total.type = total.this.type
        some = exp.GT(this=count, expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=some, true=total)])

    def _count(self, value: exp.Expr | None, condition: exp.Expr | None) -> exp.Expr:
        tests: list[exp.Expr] = [] if condition is None else [exp.paren(condition.copy())]
        if value is not None:
            tests.append(exp.not_(exp.Is(this=exp.paren(value.copy()), expression=exp.null())))
        one = exp.cast(exp.Literal.number(1), exp.DType.BIGINT)
        count = self._sum(when(exp.and_(*tests), one) if tests else one)
        count.type = exp.DataType.build(exp.DType.BIGINT)
        return count

    def _sum(self, value: exp.Expr) -> exp.Expr:
        name = self._values.setdefault(value, f"__m{len(self._values)}")
        return column(name)


def when(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    """Give a value where a condition holds, else NULL."""
    case = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
    case.type = value.type
    return case
