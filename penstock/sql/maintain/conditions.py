"""Conditions with a query inside: x IN (SELECT ...), EXISTS (SELECT ...) and NOT EXISTS as SEMI and ANTI joins.

A condition of the inner query that names columns of the outer one becomes a condition of the join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.sql.maintain.joining import Kind, join
from penstock.sql.maintain.relation import Staged, column, unique_name
from penstock.sql.maintain.source import StagedSource, conjuncts
from penstock.sql.positions import attach, source_of, span_of

__all__ = ["has_query", "kept_by"]

INNER = "__inner"
"""The name of an inner query's columns in the conditions of the join."""

Plan = Callable[[exp.Select], Staged]
"""Plans an inner query, and gives its rows as changes."""


def has_query(condition: exp.Expr) -> bool:
    """Tell whether there is a query inside a condition."""
    return condition.find(exp.Query) is not None


def kept_by(condition: exp.Expr, outer: StagedSource, plan: Plan) -> StagedSource:
    """Keep the rows of `outer` for which a condition with a query holds. Raises UnsupportedError for other forms."""
    found = _read(condition)
    values = [] if found.value is None else [found.value]
    correlated, select = _taken_apart(found.select, outer)
    given = [item.unalias().copy() for item in select.expressions]
    if found.value is not None and (len(given) != 1 or isinstance(given[0], exp.Star)):
        raise UnsupportedError(
            "the query behind IN gives one column, and names it", span=span_of(found.select)
        )
    tests = [exp.EQ(this=value.copy(), expression=given[0]) for value in values]
    inner, conditions = _inner(select, [*tests, *correlated], outer, len(values))
    rows = plan(attach(inner, source_of(found.select)))
    source = StagedSource.of(outer.stages, rows, INNER, rows.columns, {})
    return join(found.kind, outer, source, conditions, condition)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    kind: Kind
    select: exp.Select
    value: exp.Expr | None = None


def _read(condition: exp.Expr) -> _Found:
    node, negated = condition.unnest(), False
    if isinstance(node, exp.Not):
        node, negated = node.this.unnest(), True
    if isinstance(node, exp.Exists):
        select = node.this.unnest()
        if isinstance(select, exp.Select):
            return _Found(kind=Kind.ANTI if negated else Kind.SEMI, select=select)
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        select = node.args["query"].unnest()
        if negated:
            raise UnsupportedError(
                "NOT IN (SELECT ...) over streams is not supported: one NULL in the query would take all rows away",
                hint="write NOT EXISTS (SELECT 1 FROM t WHERE t.x = ...)",
                span=span_of(node),
            )
        if isinstance(select, exp.Select):
            return _Found(kind=Kind.SEMI, select=select, value=node.this)
    raise UnsupportedError(
        "this query inside a WHERE over streams is not supported",
        hint="x IN (SELECT ...), EXISTS (SELECT ...) and NOT EXISTS (SELECT ...) are, with AND between them; or join "
        "the query in FROM",
        span=span_of(node),
    )


def _taken_apart(select: exp.Select, outer: StagedSource) -> tuple[list[exp.Expr], exp.Select]:
    """Take the conditions that name columns of `outer` out of an inner query."""
    inner = select.copy()
    where = inner.args.get("where")
    own = _names_in(select)
    correlated: list[exp.Expr] = []
    rest: list[exp.Expr] = []
    for part in conjuncts(where.this if where is not None else None):
        outside = any(_is_outer(c, own) and outer.knows(c) for c in part.find_all(exp.Column))
        (correlated if outside else rest).append(part)
    if correlated and (inner.args.get("group") or inner.find(exp.AggFunc, exp.Limit)):
        raise UnsupportedError(
            "an aggregation inside EXISTS or IN that names columns of the query around it is not supported",
            hint="aggregate in FROM, and join the result",
            span=span_of(select),
        )
    inner.set("where", exp.Where(this=exp.and_(*(p.copy() for p in rest))) if rest else None)
    return [part.copy() for part in correlated], inner


def _names_in(select: exp.Select) -> frozenset[str]:
    """Name the relations in the FROM of an inner query."""
    from_ = select.args.get("from_")
    nodes = [] if from_ is None else [from_.this]
    nodes += [j.this if isinstance(j, exp.Join) else j for j in select.args.get("joins") or []]
    return frozenset(node.alias_or_name for node in nodes)


def _is_outer(node: exp.Column, own: frozenset[str]) -> bool:
    # a bare name is the inner query's, as SQL looks there first
    return bool(node.table) and node.table not in own


def _inner(
    select: exp.Select, tests: Sequence[exp.Expr], outer: StagedSource, values: int
) -> tuple[exp.Select, list[exp.Expr]]:
    """Make the inner query give what the conditions need of it, and the conditions name that."""
    own = _names_in(select)
    names: dict[str, str] = {}
    items: list[exp.Expr] = []

    def renamed(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or (_is_outer(node, own) and outer.knows(node)):
            return node
        return given(node)

    def given(node: exp.Expr) -> exp.Expr:
        text = node.sql()
        if text not in names:
            names[text] = unique_name(node.name or "value", list(names.values()))
            items.append(exp.alias_(node.copy(), names[text], quoted=True))
        return column(names[text], INNER, node)

    conditions: list[exp.Expr] = []
    for index, test in enumerate(tests):
        if index < values:  # the value of IN is the outer query's, whatever it names
            test.set("expression", given(test.expression))
            conditions.append(test)
        else:
            conditions.append(test.transform(renamed))
    inner = select.copy()
    if items or not inner.args.get("group"):
        inner.set("expressions", items or [exp.alias_(exp.Literal.number(1), "one", quoted=True)])
    return inner, conditions
