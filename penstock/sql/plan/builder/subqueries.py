"""Queries in WHERE as joins: IN and EXISTS are semi joins, NOT EXISTS an anti join.

A condition of the inner query that names columns of the outer one becomes a condition of the join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.plan.clauses.joins import (
    CorrelatedQuery,
    QueryCondition,
    is_outer,
    names_in,
)
from penstock.sql.plan.logical.names import unique_name
from penstock.sql.syntax.positions import attach, source_of

__all__ = ["INNER", "InnerQuery", "inner_query"]

INNER = "__inner"
"""The name of an inner query's columns in the conditions of the join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerQuery:
    """A query in WHERE as a relation named INNER, and the conditions by which it is joined."""

    select: exp.Select
    conditions: Sequence[exp.Expr]


def inner_query(
    found: QueryCondition, apart: CorrelatedQuery, knows: Callable[[exp.Column], bool]
) -> InnerQuery:
    """Make an inner query give the values that its conditions need; `knows` are the columns of the outer query."""
    values = [] if found.value is None else [found.value]
    first = [item.unalias().copy() for item in apart.select.expressions]
    tests = [exp.EQ(this=value.copy(), expression=first[0]) for value in values]
    own = names_in(apart.select)
    names: dict[str, str] = {}
    items: list[exp.Expr] = []

    def renamed(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or (is_outer(node, own) and knows(node)):
            return node
        return given(node)

    def given(node: exp.Expr) -> exp.Expr:
        text = node.sql()
        if text not in names:
            names[text] = unique_name(node.name or "value", names.values())
            items.append(exp.alias_(node.copy(), names[text], quoted=True))
        column = exp.column(names[text], INNER, quoted=True)
        column.type = node.type
        return column

    conditions: list[exp.Expr] = []
    for test in tests:  # the value of IN is the outer query's, whatever it names
        test.set("expression", given(test.expression))
        conditions.append(test)
    conditions += [test.transform(renamed) for test in apart.conditions]
    inner = apart.select.copy()
    if items or not inner.args.get("group"):
        inner.set("expressions", items or [exp.alias_(exp.Literal.number(1), "one", quoted=True)])
    return InnerQuery(select=attach(inner, source_of(found.select)), conditions=conditions)
