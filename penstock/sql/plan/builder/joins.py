"""Read the joins of a block: kind, values compared for equality, what bounds them in time."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.plan.builder.names import Scope, ScopedRelation
from penstock.sql.plan.builder.subqueries import InnerQuery, inner_query
from penstock.sql.plan.clauses.joins import (
    conjuncts,
    has_query,
    join_type,
    read_correlated,
    read_query_condition,
    words_of,
)
from penstock.sql.plan.logical.block import Block
from penstock.sql.plan.logical.derive import facts_of_join
from penstock.sql.plan.logical.nodes import Join, JoinBound, JoinType, LookupJoin, Node
from penstock.sql.plan.rules.joins import compares_windows
from penstock.sql.plan.rules.lookup_join import retry_of
from penstock.sql.syntax.refusal import Refusal

__all__ = [
    "Conditions",
    "JoinedQuery",
    "join_node",
    "lookup_node",
    "query_conditions",
    "read_conditions",
    "read_using",
    "semi_join_node",
    "written_conditions",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions of a join: `pairs` are compared for equality, that of the left side first; `rest` are others."""

    pairs: tuple[tuple[exp.Expr, exp.Expr], ...]
    rest: tuple[exp.Expr, ...]


def read_using(node: exp.Join) -> tuple[str, ...]:
    """Return the columns of USING."""
    return tuple(name.name for name in node.args.get("using") or [])


def written_conditions(node: exp.Join, left: Scope, alias: str) -> list[exp.Expr]:
    """Return the conditions of ON and USING; the right side is named `alias`."""
    conditions = conjuncts(node.args.get("on"))
    for name in read_using(node):
        one = exp.column(name, left.owner(name), quoted=True)
        two = exp.column(name, alias, quoted=True)
        conditions.append(exp.EQ(this=one, expression=two))
    return [c for c in conditions if not isinstance(c, exp.Boolean) or not c.this]


def read_conditions(conditions: list[exp.Expr], left: Scope, right: Scope) -> Conditions:
    """Tell equalities between two sides from other conditions."""
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    rest: list[exp.Expr] = []
    for condition in conditions:
        pair = _pair(condition, left, right)
        if pair is None:
            rest.append(condition)
        else:
            pairs.append(pair)
    return Conditions(pairs=tuple(pairs), rest=tuple(rest))


def _pair(condition: exp.Expr, left: Scope, right: Scope) -> tuple[exp.Expr, exp.Expr] | None:
    test = condition.unnest()
    if not isinstance(test, exp.EQ) or test.find(exp.Query):
        return None
    for one, two in ((test.this, test.expression), (test.expression, test.this)):
        if left.has_all_of(one) and right.has_all_of(two):
            return one, two
    return None


def join_node(
    left: Node,
    right: Node,
    node: exp.Join,
    scopes: tuple[Scope, Scope],
    block: Block,
    state_ttl_ms: tuple[int | None, int | None] = (None, None),
) -> Join:
    """Return a join of two relations in FROM; `scopes` are the names of its sides."""
    found = read_conditions(
        written_conditions(node, scopes[0], node.this.alias_or_name), scopes[0], scopes[1]
    )
    return Join(
        facts=facts_of_join(left.facts, right.facts),
        place=node,
        left=left,
        right=right,
        kind=join_type(node),
        pairs=found.pairs,
        rest=found.rest,
        using=read_using(node),
        bound=_bound(block),
        state_ttl_ms=state_ttl_ms,
        text=f"{words_of(node)} JOIN".strip(),
        block=block,
    )


def lookup_node(left: Node, right: Node, node: exp.Join, block: Block) -> LookupJoin:
    """Return a join with the rows that a table has at the time of the batch."""
    return LookupJoin(
        facts=facts_of_join(left.facts, right.facts),
        place=node,
        left=left,
        right=right,
        kind=join_type(node),
        on=node.args.get("on"),
        using=read_using(node),
        retry=retry_of(node),
        block=block,
    )


def _bound(block: Block) -> JoinBound:
    if not block.bounded:
        return JoinBound.NONE
    return JoinBound.WINDOW if compares_windows(block.select) else JoinBound.INTERVAL


# --- queries in WHERE ---


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedQuery:
    """A condition with a query that is a semi or an anti join."""

    condition: exp.Expr
    kind: JoinType
    inner: InnerQuery


def query_conditions(
    condition: exp.Expr, scope: Scope
) -> tuple[exp.Expr | None, tuple[JoinedQuery, ...]]:
    """Tell the conditions of a WHERE that are joins from the rest; None: there is no rest."""
    tests = conjuncts(condition)
    found = {
        id(test): joined
        for test in tests
        if has_query(test) and (joined := _joined_query(test, scope)) is not None
    }
    if not found:
        return condition, ()
    rest = [test.copy() for test in tests if id(test) not in found]
    return (exp.and_(*rest) if rest else None), tuple(found.values())


def semi_join_node(
    left: Node,
    right: Node,
    query: JoinedQuery,
    scope: Scope,
    named: ScopedRelation,
    block: Block,
) -> Join:
    """Return the semi or anti join of `left` with the inner query of a condition."""
    conditions = read_conditions(list(query.inner.conditions), scope, Scope(relations=(named,)))
    return Join(
        facts=left.facts,
        place=query.condition,
        left=left,
        right=right,
        kind=query.kind,
        pairs=conditions.pairs,
        rest=conditions.rest,
        bound=_bound(block),
        text=f"{query.kind} JOIN",
        block=block,
    )


def _joined_query(condition: exp.Expr, scope: Scope) -> JoinedQuery | None:
    found = read_query_condition(condition)
    apart = found if isinstance(found, Refusal) else read_correlated(found, scope.knows)
    if isinstance(found, Refusal) or isinstance(apart, Refusal):
        return None
    return JoinedQuery(
        condition=condition,
        kind=found.kind,
        inner=inner_query(found, apart, scope.knows),
    )
