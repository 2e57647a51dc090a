"""Join the relations of a FROM clause as stages do: conditions, keys of the rows, and what cannot be joined."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.plan.clauses.joins import (
    conjuncts,
    refuse_join_without_equality,
    refuse_query_in_on,
    refuse_using,
)
from penstock.sql.plan.clauses.select_clauses import read_alias_names, refuse_star_over_using
from penstock.sql.plan.clauses.temporal_joins import refuse_kind_or_updates, refuse_missing_key
from penstock.sql.plan.logical.nodes import JoinType, Scan, SubqueryAlias, TemporalJoin
from penstock.sql.plan.placement.blocks import BlockRelation
from penstock.sql.plan.placement.stage_source import StageSource
from penstock.sql.plan.placement.trait import StageTrait
from penstock.sql.plan.rules.changelog_project import QualifiedRelation, expanded
from penstock.sql.plan.rules.flow import Flow, OperatorKind, UpdatingOperator
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = [
    "Shown",
    "join_conditions",
    "join_rows",
    "join_versions",
    "open_relation",
    "refuse_stars",
    "unnest_rows",
]

Shown = tuple[StageTrait, Sequence[str]]
"""A relation in FROM, and the names of its columns there."""


def refuse_stars(
    select: exp.Select, relations: Sequence[BlockRelation], shown: Sequence[Shown | None]
) -> Refusal | None:
    """Return why the stars of a SELECT cannot be written out."""
    joins = [relation.clause for relation in relations if relation.clause is not None]
    refusal = refuse_star_over_using(select, joins)
    if refusal is not None:
        return refusal
    tables: list[QualifiedRelation] = []
    functions: list[QualifiedRelation] = []
    for relation, given in zip(relations, shown, strict=True):
        names = read_alias_names(relation.place) if given is None else given[1]
        if isinstance(names, Refusal):
            return names
        flow = Flow(columns=tuple(names))
        found = QualifiedRelation(alias=relation.alias, flow=flow)
        (functions if given is None else tables).append(found)
    items = expanded(select, [*tables, *functions])
    return items if isinstance(items, Refusal) else None


def open_relation(
    relation: BlockRelation, shown: Shown, tests: list[exp.Expr]
) -> StageSource | Refusal:
    """Return a relation as rows of a stage; those of `tests` that name no other are applied here, and removed."""
    rows, names = shown
    own = [test for test in tests if _is_only_of(test, relation.alias)]
    tests[:] = [test for test in tests if test not in own]
    source = StageSource.of(rows, relation.alias, names)
    if rows.native and tuple(names) == rows.columns:
        return source
    return source.refuse(own) or source


def _is_only_of(test: exp.Expr, alias: str) -> bool:
    columns = list(test.find_all(exp.Column))
    return bool(columns) and all(c.parts[0].name == alias and c.table for c in columns)


def unnest_rows(source: StageSource, relation: BlockRelation) -> StageSource | Refusal:
    """Return rows with what a function in FROM gives for each."""
    names = read_alias_names(relation.place)
    if isinstance(names, Refusal):
        return names
    assert relation.clause is not None, "it stands behind a relation"
    return source.refuse([relation.clause]) or source.unnested(relation.alias, names)


def join_conditions(
    relation: BlockRelation,
    kind: JoinType,
    left: StageSource,
    right: StageSource,
    tests: list[exp.Expr],
) -> list[exp.Expr] | Refusal:
    """Return the conditions of a join; those of WHERE that belong to it are removed from `tests`."""
    node = relation.clause
    assert isinstance(node, exp.Join), "tables are joined"
    refusal = refuse_using(node, kind)
    if refusal is not None:
        return refusal
    conditions = conjuncts(node.args.get("on"))
    for name in (column.name for column in node.args.get("using") or []):
        one = exp.column(name, left.owner(name), quoted=True)
        two = exp.column(name, relation.alias, quoted=True)
        conditions.append(exp.EQ(this=one, expression=two))
    if kind is JoinType.INNER:
        used = [test for test in tests if pair_of(test, left, right) is not None]
        conditions += used
        tests[:] = [test for test in tests if test not in used]
    refusal = refuse_query_in_on(node, conditions)
    if refusal is not None:
        return refusal
    return [c for c in conditions if not isinstance(c, exp.Boolean) or not c.this]


def pair_of(
    condition: exp.Expr, left: StageSource, right: StageSource
) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the values that a condition compares for equality, that of `left` first; None for other conditions."""
    test = condition.unnest()
    if not isinstance(test, exp.EQ) or test.find(exp.Query):
        return None
    for one, two in ((test.this, test.expression), (test.expression, test.this)):
        if _is_of(one, left) and _is_of(two, right):
            return one, two
    return None


def _is_of(value: exp.Expr, source: StageSource) -> bool:
    columns = list(value.find_all(exp.Column))
    return bool(columns) and all(map(source.knows, columns))


def join_rows(
    kind: JoinType,
    left: StageSource,
    right: StageSource,
    conditions: Sequence[exp.Expr],
    node: exp.Expr,
) -> StageSource | Refusal:
    """Join two relations; refused without an equality, unless one side is a single row. `node` is its place."""
    pairs = [pair_of(condition, left, right) for condition in conditions]
    equal = [pair for pair in pairs if pair is not None]
    if not equal and () not in (left.key, right.key):
        return refuse_join_without_equality(node)
    rest = [c for c, pair in zip(conditions, pairs, strict=True) if pair is None]
    mechanism = UpdatingOperator(
        way=OperatorKind.JOIN,
        key=(),
        state=f"the rows of both sides ({kind} join)",
        span=span_of(node),
    )
    compared = [one for one, _ in equal], [two for _, two in equal]
    return left.refuse_beside(right, rest) or left.joined(right, kind, compared, mechanism, node)


def join_versions(
    relation: BlockRelation,
    kind: JoinType,
    left: StageSource,
    right: StageSource,
    conditions: Sequence[exp.Expr],
) -> StageSource | Refusal:
    """Join rows with the versions of a relation, which are valid at their rowtime."""
    node, join = relation.clause, relation.join
    assert isinstance(node, exp.Join), "tables are joined"
    assert isinstance(join, TemporalJoin), "others are refused"
    version = relation.place.args["version"]
    refusal = refuse_kind_or_updates(kind, version, inserts=left.stays)
    if refusal is not None:
        return refusal
    pairs = [pair_of(condition, left, right) for condition in conditions]
    names = {right.column(exp.column(name, relation.alias)): name for name in join.key}
    compared: list[str] = []
    rest: list[exp.Expr] = []
    for condition, pair in zip(conditions, pairs, strict=True):
        name = None if pair is None else names.get(right.column(pair[1]))
        if name is None or name in compared:
            rest.append(condition)
        else:
            compared.append(name)
    refusal = refuse_missing_key(node, _label(join), join.key, compared)
    if refusal is not None:
        return refusal
    mechanism = UpdatingOperator(
        way=OperatorKind.TEMPORAL_JOIN,
        key=join.key,
        state="rows until the watermark has passed them",
        span=span_of(node),
    )
    return left.refuse_beside(right, rest) or left.with_versions(right, mechanism, node)


def _label(join: TemporalJoin) -> str:
    right = join.right
    assert isinstance(right, SubqueryAlias), "each relation has a name"
    return right.input.table if isinstance(right.input, Scan) else right.alias
