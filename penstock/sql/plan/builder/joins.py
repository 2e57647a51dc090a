"""Build the joins of a block: what they compare, what bounds them in time, which versions they join with.

IN and EXISTS are semi joins, NOT EXISTS an anti join: a condition of the inner query that names columns of the outer
one becomes a condition of the join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.dialect import window_tables
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS, is_windowing
from penstock.sql.plan.builder.relations import Scope, ScopedRelation
from penstock.sql.plan.clauses.joins import (
    CorrelatedQuery,
    QueryCondition,
    has_query,
    is_outer,
    join_conditions,
    join_type,
    names_in,
    pairs_of,
    read_correlated,
    read_query_condition,
    using_names,
    words_of,
)
from penstock.sql.plan.clauses.temporal_joins import (
    Versions,
    last_by,
    read_last_row,
    read_table_versions,
    read_view_versions,
    refuse_left_without_rowtime,
    refuse_unversioned,
)
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.facts import (
    Facts,
    facts_of_join,
    facts_of_temporal_join,
    unique_name,
)
from penstock.sql.plan.logical.plan import walk
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.lookup_join import retry_of
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import attach, source_of
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import conjuncts, find_nodes, from_items

# --- queries in WHERE ---

INNER = "__inner"
"""The name of an inner query's columns in the conditions of the join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedQuery:
    """A condition with a query as a semi or an anti join with `select`, a relation named INNER, by `conditions`."""

    condition: exp.Expr
    kind: nodes.JoinType
    select: exp.Select
    conditions: Sequence[exp.Expr]


def _inner_query(
    condition: exp.Expr,
    found: QueryCondition,
    apart: CorrelatedQuery,
    knows: Callable[[exp.Column], bool],
) -> JoinedQuery:
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
        return inner_column(node)

    def inner_column(node: exp.Expr) -> exp.Expr:
        text = node.sql()
        if text not in names:
            names[text] = unique_name(node.name or "value", names.values())
            items.append(exp.alias_(node.copy(), names[text], quoted=True))
        column = exp.column(names[text], INNER, quoted=True)
        column.type = node.type
        return column

    conditions: list[exp.Expr] = []
    for test in tests:  # the value of IN is the outer query's, whatever it names
        test.set("expression", inner_column(test.expression))
        conditions.append(test)
    conditions += [test.transform(renamed) for test in apart.conditions]
    inner = apart.select.copy()
    if items or not inner.args.get("group"):
        inner.set("expressions", items or [exp.alias_(exp.Literal.number(1), "one", quoted=True)])
    return JoinedQuery(
        condition=condition,
        kind=found.kind,
        select=attach(inner, source_of(found.select)),
        conditions=conditions,
    )


# --- joins ---


def join_node(
    left: nodes.Node,
    right: nodes.Node,
    node: exp.Join,
    scopes: tuple[Scope, Scope],
    block: nodes.Block,
    state_ttl_ms: tuple[int | None, int | None] = (None, None),
) -> nodes.Join:
    """Return a join of two relations in FROM; `scopes` are the names of its sides."""
    pairs, rest = pairs_of(join_conditions(node, scopes[0]), *scopes)
    return nodes.Join(
        facts=facts_of_join(left.facts, right.facts),
        origin=node,
        left=left,
        right=right,
        kind=join_type(node),
        pairs=tuple(pairs),
        rest=tuple(rest),
        using=using_names(node),
        state_ttl_ms=state_ttl_ms,
        text=f"{words_of(node)} JOIN".strip(),
        block=block,
    )


def lookup_node(
    left: nodes.Node, right: nodes.Node, node: exp.Join, block: nodes.Block
) -> nodes.LookupJoin:
    """Return a join with the rows that a table has at the time of the batch."""
    return nodes.LookupJoin(
        facts=facts_of_join(left.facts, right.facts),
        origin=node,
        left=left,
        right=right,
        kind=join_type(node),
        on=node.args.get("on"),
        using=using_names(node),
        retry=retry_of(node),
        block=block,
    )


# --- queries in WHERE ---


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


def name_outer_columns(query: exp.Expr, tables: Sequence[ScanFlow]) -> None:
    """Write bare names in the queries of EXISTS and IN with their relation, where that is one of the query around it.

    `query` is changed in place; `tables` are those of its scans, by number.
    """
    for condition in find_nodes(query, exp.Exists, exp.In):
        found = condition.this if isinstance(condition, exp.Exists) else condition.args.get("query")
        inner = None if found is None else found.unnest()
        outer = condition.find_ancestor(exp.Select)
        if not isinstance(inner, exp.Select) or outer is None:
            continue
        own, around = _from_columns(inner, tables), _from_columns(outer, tables)
        if own is None or around is None:
            continue
        for column in inner.find_all(exp.Column):
            bare = not column.table and column.find_ancestor(exp.Select) is inner
            if not bare or any(column.name in names for names in own.values()):
                continue
            holders = [alias for alias, names in around.items() if column.name in names]
            if len(holders) == 1 and holders[0] not in own:
                column.set("table", exp.to_identifier(holders[0], quoted=True))


def _from_columns(
    select: exp.Select, tables: Sequence[ScanFlow]
) -> dict[str, frozenset[str]] | None:
    """Return the columns of each relation in FROM; None where those of one are unknown."""
    found: dict[str, frozenset[str]] = {}
    for node in from_items(select):
        columns = _relation_columns(node, tables)
        if columns is None:
            return None
        found[node.alias_or_name] = columns
    return found


def _relation_columns(node: exp.Expr, tables: Sequence[ScanFlow]) -> frozenset[str] | None:
    if node.alias_column_names:
        return frozenset(node.alias_column_names)
    match node:
        case ScanTable():
            return frozenset(tables[node.scan].columns)
        case exp.Table() if is_windowing(node):
            known = _relation_columns(window_tables(node)[0].input, tables)
            return None if known is None else known | set(WINDOW_COLUMNS)
        case exp.Subquery():
            return _query_columns(node.this, tables)
        case _:
            return None


def _query_columns(query: exp.Expr, tables: Sequence[ScanFlow]) -> frozenset[str] | None:
    while isinstance(query, exp.Subquery | exp.SetOperation):
        query = query.this
    if not isinstance(query, exp.Select):
        return None
    found = {item.alias_or_name for item in query.expressions if not item.is_star}
    if any(item.is_star for item in query.expressions):
        relations = _from_columns(query, tables)
        if relations is None:
            return None
        found.update(*relations.values())  # those of t.* at least: a name more hides an outer one
    return frozenset(found)


def semi_join_node(
    left: nodes.Node,
    right: nodes.Node,
    query: JoinedQuery,
    scope: Scope,
    named: ScopedRelation,
    block: nodes.Block,
) -> nodes.Join:
    """Return the semi or anti join of `left` with the inner query of a condition."""
    pairs, rest = pairs_of(query.conditions, scope, Scope(relations=(named,)))
    return nodes.Join(
        facts=left.facts,
        origin=query.condition,
        left=left,
        right=right,
        kind=query.kind,
        pairs=tuple(pairs),
        rest=tuple(rest),
        text=f"{query.kind} JOIN",
        block=block,
    )


def _joined_query(condition: exp.Expr, scope: Scope) -> JoinedQuery | None:
    found = read_query_condition(condition)
    apart = found if isinstance(found, Refusal) else read_correlated(found, scope.knows)
    if isinstance(found, Refusal) or isinstance(apart, Refusal):
        return None
    return _inner_query(condition, found, apart, scope.knows)


# --- temporal joins ---


def temporal_node(
    left: nodes.Node,
    right: nodes.SubqueryAlias,
    node: exp.Join,
    scope: Scope,
    block: nodes.Block,
    *,
    joined: Sequence[nodes.SubqueryAlias],
    tables: Sequence[ScanFlow],
) -> nodes.TemporalJoin | nodes.Refused:
    """Return a join of `left`, whose names are in `scope`, with the versions of `right`.

    `joined` are the relations of the FROM before, of which the first alone may have been joined otherwise. Refused
    where the right side has no versions, or the left one no such rowtime.
    """
    version = node.this.args["version"]
    found = _versions(right, node.this, tables)
    if isinstance(found, Refusal):
        return _refused(left, right, node, found)
    first, others = joined[0], (*joined[1:], right)
    sources = None
    if version.expression.table in ("", first.alias) and all(map(_is_versioned, others)):
        sources = first.facts.sources(version.expression.name)
    if not sources:
        return _refused(left, right, node, refuse_left_without_rowtime(version))
    return nodes.TemporalJoin(
        facts=facts_of_temporal_join(left.facts, right.facts, scans_in(right)),
        origin=node,
        left=left,
        right=right,
        kind=join_type(node),
        version=version.expression,
        time=found.time,
        key=found.key,
        versions=found.items,
        conditions=tuple(join_conditions(node, scope)),
        using=using_names(node),
        waits_for=sources.union(*map(scans_in, others)),
        text=f"{words_of(node)} JOIN".strip(),
        block=block,
    )


def _versions(
    right: nodes.SubqueryAlias, node: exp.Expr, tables: Sequence[ScanFlow]
) -> Versions | Refusal:
    if isinstance(node, ScanTable):
        return read_table_versions(node, tables)
    assert isinstance(node, exp.Subquery), "tables and views have versions"
    numbered = read_last_row(node)
    if isinstance(numbered, Refusal):
        return numbered
    best = next(
        found
        for found in walk(right)
        if isinstance(found, nodes.TopN) and found.syntax is numbered.select
    )
    if best.input.facts.sources(last_by(numbered).name) is None:
        return refuse_unversioned(node)
    values = {name: value for name, value in best.items if name != best.number}
    return read_view_versions(node, numbered, values)


def _refused(
    left: nodes.Node, right: nodes.Node, node: exp.Join, refusal: Refusal
) -> nodes.Refused:
    columns = facts_of_join(left.facts, right.facts).columns
    return nodes.Refused(facts=Facts(columns=columns), origin=node, input=left, stage=refusal)


def _is_versioned(relation: nodes.SubqueryAlias) -> bool:
    return relation.syntax is not None and relation.syntax.args.get("version") is not None


def scans_in(node: nodes.Node) -> frozenset[int]:
    """Return the numbers of the tables that an operator reads."""
    return frozenset(found.index for found in walk(node) if isinstance(found, nodes.Scan))
