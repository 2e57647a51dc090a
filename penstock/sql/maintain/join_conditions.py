"""The conditions of a join: those of ON and USING, and those of WHERE that compare both sides."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.sql.maintain.conditions import has_query
from penstock.sql.maintain.joining import Kind, kind_of, spans
from penstock.sql.maintain.relation import column
from penstock.sql.maintain.source import StagedSource, conjuncts
from penstock.sql.positions import span_of

__all__ = ["join_conditions"]


def join_conditions(
    node: exp.Join,
    left: StagedSource,
    right: StagedSource,
    alias: str,
    tests: list[exp.Expr],
) -> list[exp.Expr]:
    """Give the conditions of a join with `right`, named `alias`; those of WHERE that belong to it leave `tests`.

    Raises UnsupportedError for a query inside ON, and for USING of outer joins but LEFT.
    """
    kind = kind_of(node)
    conditions = [c.copy() for c in conjuncts(node.args.get("on"))]
    using = [c.name for c in node.args.get("using") or []]
    if using and kind not in (Kind.INNER, Kind.LEFT):
        raise UnsupportedError(
            f"USING in a {kind} JOIN of streams is not supported",
            hint="write ON a.x = b.x, and COALESCE(a.x, b.x) in the SELECT",
            span=span_of(node),
        )
    for name in using:
        owner = next(alias for alias, shown in left.scope if shown == name)
        one, two = column(name, owner), column(name, alias)
        conditions.append(exp.EQ(this=one, expression=two))
    if kind is Kind.INNER:
        used = [test for test in tests if spans(test, left, right)]
        conditions += used
        tests[:] = [test for test in tests if test not in used]
    if any(has_query(c) for c in conditions):
        raise UnsupportedError("a query inside ON is not supported", span=span_of(node))
    return [c for c in conditions if not isinstance(c, exp.Boolean) or not c.this]
