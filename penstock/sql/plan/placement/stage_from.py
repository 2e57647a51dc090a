"""The relations of a FROM clause as stages read and join them: what they give, and what cannot be joined."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_text
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.plan.clauses.joins import (
    conjuncts,
    refuse_join_without_equality,
    refuse_query_in_on,
    refuse_using,
)
from penstock.sql.plan.clauses.select_clauses import (
    read_alias_names,
    read_numbered_order,
    refuse_column_counts,
    refuse_set_operation,
    refuse_star_over_using,
    refuse_unnamed_column,
    refuse_window,
)
from penstock.sql.plan.clauses.temporal_joins import refuse_kind_or_updates, refuse_missing_key
from penstock.sql.plan.logical.nodes import (
    JoinType,
    Scan,
    SubqueryAlias,
    TemporalJoin,
    TopN,
    WindowAssign,
)
from penstock.sql.plan.placement.blocks import BlockRelation, StageTrait
from penstock.sql.plan.placement.stage_select import (
    ONE,
    StageSource,
    Streamed,
    distinct_rows,
    mechanism_at,
    name_value,
    streamed_rows,
)
from penstock.sql.plan.rules.changelog_project import QualifiedRelation, expanded
from penstock.sql.plan.rules.flow import Flow, OperatorKind, UpdatingOperator
from penstock.sql.plan.rules.joins import is_filled_later
from penstock.sql.plan.rules.top_n import RowNumberQuery, check_row_number
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = [
    "Shown",
    "join_conditions",
    "join_rows",
    "join_versions",
    "open_relation",
    "refuse_stars",
    "set_rows",
    "table_rows",
    "top_n_rows",
    "unnest_rows",
    "version_rows",
    "window_rows",
]


# --- relations ---


def set_rows(place: exp.SetOperation, left: StageTrait, right: StageTrait) -> StageTrait | Refusal:
    """Return the rows of a set operation, column by column."""
    refusal = refuse_set_operation(place) or refuse_column_counts(
        place, len(left.columns), len(right.columns)
    )
    if refusal is not None:
        return refusal
    distinct = bool(place.args.get("distinct"))
    if not isinstance(place, exp.Union):
        mechanism = mechanism_at(OperatorKind.SET, left.columns, "the rows of both sides", place)
        key = left.columns if distinct else None
        return StageTrait(
            columns=left.columns, stays=False, key=key, mechanism=mechanism, origin=place
        )
    like = left if left.mechanism is not None or not left.stays else right
    rows = StageTrait(
        columns=left.columns,
        stays=left.stays and right.stays,
        mechanism=like.mechanism,
        origin=like.origin,
    )
    return distinct_rows(rows, place) if distinct else rows


def table_rows(scan: Scan, needed: frozenset[str] | None) -> StageTrait:
    """Return the columns `needed` (None: all) of a table: rows that stay are left to Spark."""
    if scan.changes is ChangelogMode.INSERT_ONLY:
        names = tuple(n for n in scan.facts.names or () if needed is None or n in needed)
        return StageTrait(columns=names or (ONE,), stays=True, native=True)
    own = scan.key if scan.changes is ChangelogMode.UPSERT and scan.key is not None else ()
    known = scan.facts.names or ()
    known = (*known, *(name for name in own if name not in known))
    names = tuple(n for n in known if needed is None or n in needed or n in own)
    key = scan.key if scan.key is not None and set(scan.key) <= set(names) else None
    return StageTrait(columns=names, stays=False, key=key, origin=scan.place)


def window_rows(node: WindowAssign, given: StageTrait) -> StageTrait | Refusal:
    """Return rows of a stage with their windows."""
    refusal = refuse_window(
        node.kind,
        node.time_column,
        node.span,
        node.input.facts.sources(node.time_column),
        inserts=given.stays,
    )
    if refusal is not None:
        return refusal
    return StageTrait(
        columns=(*given.columns, *WINDOW_COLUMNS),
        stays=True,
        constants=given.constants,
        mechanism=given.mechanism,
        origin=given.origin,
    )


def version_rows(join: TemporalJoin, place: exp.Expr, needed: frozenset[str] | None) -> StageTrait:
    """Return the versions on the right side of a temporal join, with the columns `needed` and those that make them."""
    alias = join.right
    assert isinstance(alias, SubqueryAlias), "each relation has a name"
    own = {*join.key, join.time}
    given = alias.input.facts.names or ()
    given = (*given, *(name for name in join.key if name not in given))
    names = tuple(n for n in given if needed is None or n in needed or n in own)
    return StageTrait(columns=names, stays=False, key=join.key, origin=place)


def top_n_rows(
    node: TopN, numbered: RowNumberQuery, source: StageSource | Streamed
) -> StageTrait | Refusal:
    """Return the best rows of `source`, under the names that their reader knows."""
    refusal = check_row_number(numbered)
    if refusal is not None:
        return refusal
    columns = [(name, value) for name, value in node.items if name != node.number]
    names = [name for name, _ in columns]
    if not all(names) or len(set(names)) < len(names):
        return refuse_unnamed_column(numbered)
    parts = read_numbered_order(numbered)
    if isinstance(parts, Refusal):
        return parts
    partition = [name_value(part, columns) for part in node.partition]
    for part in parts[1 if node.by_arrival else 0 :]:
        name_value(part.this, columns)
    rows = source.project(columns) if isinstance(source, StageSource) else streamed_rows(columns)
    if isinstance(rows, Refusal):
        return rows
    one = node.limit == 1 and not node.ties
    key = rows.key if rows.key is not None and set(rows.key) <= set(names) else None
    if set(partition) <= set(names):
        if one:
            key = tuple(partition)
        elif not node.ties and node.shows_number:
            key = (*partition, node.number)
    shown = [n for n, _ in node.items if node.shows_number or n != node.number]
    alone = node.shows_number and node.limit == 1
    spelled = tuple(to_text(part) for part in node.partition)
    return StageTrait(
        columns=tuple(shown),
        stays=rows.stays and one and node.by_arrival and not parts[0].args.get("desc"),
        key=key,
        constants=frozenset({node.number}) if alone else frozenset(),
        mechanism=mechanism_at(OperatorKind.TOP_N, spelled, "the best rows", numbered.item),
        origin=numbered.item,
    )


# --- joins ---

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
    if kind is JoinType.INNER and not is_filled_later(node):
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
