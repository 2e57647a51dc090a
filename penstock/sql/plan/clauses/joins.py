"""Read FROM and WHERE over streams: relations, joins, and conditions with a query, which are semi and anti joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sqlglot import exp

from penstock.sql.plan.logical.nodes import JoinType
from penstock.sql.plan.rules.aggregate import own_aggregates
from penstock.sql.plan.rules.joins import is_filled_later
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import conjuncts, from_items

_SPELLED = {
    "": JoinType.INNER,
    "INNER": JoinType.INNER,
    "CROSS": JoinType.CROSS,
    "LEFT": JoinType.LEFT,
    "LEFT OUTER": JoinType.LEFT,
    "RIGHT": JoinType.RIGHT,
    "RIGHT OUTER": JoinType.RIGHT,
    "FULL": JoinType.FULL,
    "FULL OUTER": JoinType.FULL,
    "NATURAL": JoinType.NATURAL,
}


def words_of(node: exp.Join) -> str:
    """Return the words of a join, without JOIN."""
    return " ".join(filter(None, (node.method, node.side, node.kind))).upper()


def join_type(node: exp.Join) -> JoinType:
    """Return which rows a join in FROM gives."""
    return _SPELLED.get(words_of(node), JoinType.OTHER)


def read_join_kind(node: exp.Join) -> JoinType | Refusal:
    """Read which rows a join gives that has a condition; a refusal for NATURAL and the like."""
    found = join_type(node)
    if found in (JoinType.NATURAL, JoinType.OTHER):
        return Refusal(
            message=f"a {words_of(node)} JOIN of streams is not supported",
            hint="JOIN, LEFT JOIN, RIGHT JOIN and FULL JOIN ... ON a.x = b.x are",
            span=span_of(node),
        )
    return JoinType.INNER if found is JoinType.CROSS else found


# --- relations ---


def refuse_first(select: exp.Select, items: Sequence[exp.Expr]) -> Refusal | None:
    """Return why FROM cannot begin as it does: with VALUES, a function that unfolds rows, or nothing at all."""
    if not items:
        return Refusal(message="a query over streams needs a FROM", span=span_of(select))
    first = items[0]
    if isinstance(first, exp.Table | exp.Subquery):
        return None
    return Refusal(
        message=f"{first.key.upper()} in front of rows that are kept is not supported",
        hint="put it behind them: FROM t JOIN (VALUES (1)) AS v (x) ON t.id = v.x",
        span=span_of(first) or span_of(select),
    )


def read_relation_names(node: exp.Expr, columns: Sequence[str]) -> tuple[str, ...] | Refusal:
    """Name the columns of a relation in FROM, which gives `columns`; a refusal where its alias names others."""
    names = tuple(node.alias_column_names)
    if names and len(names) != len(columns):
        return Refusal(
            message=f"{node.alias} names {len(names)} columns, and the query behind it gives {len(columns)}",
            span=span_of(node),
        )
    return names or tuple(columns)


def read_alias_names(node: exp.Expr) -> list[str] | Refusal:
    """Name the columns of an UNNEST, or of LATERAL; a refusal where they have no names."""
    if not node.alias_column_names:
        lateral = isinstance(node, exp.Lateral)
        example = "LATERAL TABLE(f(a.text))" if lateral else "CROSS JOIN UNNEST(a.items)"
        return Refusal(
            message=f"the columns that {'LATERAL' if lateral else 'UNNEST'} gives have no names here",
            hint=f"name them: {example} AS t (item)",
            span=span_of(node),
        )
    return node.alias_column_names


# --- conditions ---

Value = TypeVar("Value")


class Knows(Protocol):
    """Relations in FROM, whose columns expressions can name."""

    def knows(self, node: exp.Column) -> bool:
        """Return whether a column is one of theirs; fields may follow its name."""
        ...

    def owner(self, name: str) -> str | None:
        """Return the first relation that has a column."""
        ...


def find_column(
    scope: Mapping[tuple[str, str], Value], node: exp.Column
) -> tuple[Value, list[str]] | None:
    """Return what a column stands for, by relation and name, and the fields of it that are asked for."""
    parts = [part.name for part in node.parts]
    if len(parts) > 1 and (parts[0], parts[1]) in scope:
        return scope[parts[0], parts[1]], parts[2:]
    for (_, name), value in scope.items():
        if name == parts[0]:
            return value, parts[1:]
    return None


def using_names(node: exp.Join) -> tuple[str, ...]:
    """Return the columns of USING."""
    return tuple(name.name for name in node.args.get("using") or [])


def join_conditions(node: exp.Join, left: Knows) -> list[exp.Expr]:
    """Return the conditions of ON and USING; ON TRUE is none."""
    conditions = conjuncts(node.args.get("on"))
    for name in using_names(node):
        one = exp.column(name, left.owner(name), quoted=True)
        two = exp.column(name, node.this.alias_or_name, quoted=True)
        conditions.append(exp.EQ(this=one, expression=two))
    return [c for c in conditions if not isinstance(c, exp.Boolean) or not c.this]


def take_pairs(node: exp.Join, tests: list[exp.Expr], left: Knows, right: Knows) -> list[exp.Expr]:
    """Remove the conditions of WHERE from `tests` by which an inner join compares its sides, and return them."""
    if read_join_kind(node) is not JoinType.INNER or is_filled_later(node):
        return []
    used = [test for test in tests if pair_of(test, left, right) is not None]
    tests[:] = [test for test in tests if test not in used]
    return used


def pairs_of(
    conditions: Sequence[exp.Expr], left: Knows, right: Knows
) -> tuple[list[tuple[exp.Expr, exp.Expr]], list[exp.Expr]]:
    """Return the values that are compared for equality, that of `left` first, and the other conditions."""
    pairs = [pair_of(condition, left, right) for condition in conditions]
    rest = [c for c, pair in zip(conditions, pairs, strict=True) if pair is None]
    return [pair for pair in pairs if pair is not None], rest


def pair_of(condition: exp.Expr, left: Knows, right: Knows) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the values that a condition compares for equality, that of `left` first; None for other conditions."""
    test = condition.unnest()
    if not isinstance(test, exp.EQ) or test.find(exp.Query):
        return None
    for one, two in ((test.this, test.expression), (test.expression, test.this)):
        if _is_of(one, left) and _is_of(two, right):
            return one, two
    return None


def _is_of(value: exp.Expr, source: Knows) -> bool:
    columns = list(value.find_all(exp.Column))
    return bool(columns) and all(map(source.knows, columns))


def is_only_of(test: exp.Expr, alias: str) -> bool:
    """Return whether a condition names columns of one relation, by its name."""
    columns = list(test.find_all(exp.Column))
    return bool(columns) and all(c.parts[0].name == alias and c.table for c in columns)


# --- queries in WHERE ---


def has_query(condition: exp.Expr) -> bool:
    """Return whether there is a query inside a condition."""
    return condition.find(exp.Query) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCondition:
    """A condition with a query as a join with it: `value` is what IN compares with its only column."""

    kind: JoinType
    select: exp.Select
    value: exp.Expr | None = None


def read_query_condition(condition: exp.Expr) -> QueryCondition | Refusal:
    """Read IN (SELECT ...), EXISTS and NOT EXISTS; a refusal for other conditions with a query."""
    node, negated = condition.unnest(), False
    if isinstance(node, exp.Not):
        node, negated = node.this.unnest(), True
    if isinstance(node, exp.Exists):
        select = node.this.unnest()
        if isinstance(select, exp.Select):
            if (refusal := _refuse_one_row(node, select)) is not None:
                return refusal
            return QueryCondition(kind=JoinType.ANTI if negated else JoinType.SEMI, select=select)
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        select = node.args["query"].unnest()
        if negated:
            return Refusal(
                message="NOT IN (SELECT ...) over streams is not supported: one NULL in the query would take all rows "
                "away",
                hint="write NOT EXISTS (SELECT 1 FROM t WHERE t.x = ...)",
                span=span_of(node),
            )
        if isinstance(select, exp.Select):
            return QueryCondition(kind=JoinType.SEMI, select=select, value=node.this)
    return Refusal(
        message="this query inside a WHERE over streams is not supported",
        hint="x IN (SELECT ...), EXISTS (SELECT ...) and NOT EXISTS (SELECT ...) are, with AND between them; or join "
        "the query in FROM",
        span=span_of(node),
    )


def _refuse_one_row(node: exp.Expr, select: exp.Select) -> Refusal | None:
    """Refuse EXISTS over an aggregation without GROUP BY, which gives a row whatever it reads."""
    if select.args.get("group") is not None or not own_aggregates(select):
        return None
    having = select.args.get("having") is not None
    return Refusal(
        message="an aggregation without GROUP BY gives one row, whatever it reads: "
        + (
            "EXISTS with HAVING over it is not supported"
            if having
            else "EXISTS over it always holds"
        ),
        hint="aggregate in FROM, and compare the result: FROM a CROSS JOIN (SELECT COUNT(*) AS n FROM b) AS c WHERE "
        "c.n > 0; or EXISTS (SELECT 1 FROM b WHERE b.x = a.x) for the rows that have a match",
        span=span_of(select) or span_of(node),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatedQuery:
    """A query in WHERE apart: `conditions` name columns of the query around it, `select` is the query without them."""

    conditions: Sequence[exp.Expr]
    select: exp.Select


def read_correlated(
    found: QueryCondition, knows: Callable[[exp.Column], bool]
) -> CorrelatedQuery | Refusal:
    """Take from the query of a condition the conditions that name columns which the query around it `knows`.

    A refusal for an aggregation with such conditions, and for IN with other than one named column.
    """
    inner = found.select.copy()
    own = names_in(found.select)
    correlated: list[exp.Expr] = []
    rest: list[exp.Expr] = []
    for part in conjuncts(inner.args.get("where")):
        outside = any(is_outer(c, own) and knows(c) for c in part.find_all(exp.Column))
        (correlated if outside else rest).append(part)
    if correlated and (inner.args.get("group") or inner.find(exp.AggFunc, exp.Limit)):
        return Refusal(
            message="an aggregation inside EXISTS or IN that names columns of the query around it is not supported",
            hint="aggregate in FROM, and join the result",
            span=span_of(found.select),
        )
    inner.set("where", exp.Where(this=exp.and_(*(p.copy() for p in rest))) if rest else None)
    values = [item.unalias() for item in inner.expressions]
    if found.value is not None and (len(values) != 1 or isinstance(values[0], exp.Star)):
        return Refusal(
            message="the query behind IN gives one column, and names it",
            span=span_of(found.select),
        )
    return CorrelatedQuery(conditions=[part.copy() for part in correlated], select=inner)


def names_in(select: exp.Select) -> frozenset[str]:
    """Name the relations in the FROM of an inner query."""
    return frozenset(node.alias_or_name for node in from_items(select))


def is_outer(node: exp.Column, own: frozenset[str]) -> bool:
    """Return whether a column names a relation that is none of an inner query's `own`."""
    # a bare name is the inner query's, as SQL looks there first
    return bool(node.table) and node.table not in own
