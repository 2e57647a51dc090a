"""The relations of a FROM clause as stages read and join them: what they give, and what cannot be joined."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_text
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS, WindowKind
from penstock.sql.plan.clauses.joins import (
    has_query,
    is_only_of,
    join_conditions,
    pair_of,
    read_alias_names,
    take_pairs,
)
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
    refuse_clauses,
    streamed_rows,
)
from penstock.sql.plan.rules.changelog_mode import windows_flow
from penstock.sql.plan.rules.changelog_project import QualifiedRelation, expanded
from penstock.sql.plan.rules.flow import Flow, OperatorKind
from penstock.sql.plan.rules.top_n import RowNumberQuery, check_row_number
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = [
    "Shown",
    "expanded_items",
    "join_rows",
    "join_versions",
    "open_relation",
    "read_conditions",
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
    if (refusal := refuse_clauses(place)) is not None:
        return refusal
    one, two = len(left.columns), len(right.columns)
    if one != two:
        return Refusal(
            message=f"the queries of this {place.key.upper()} give {one} and {two} columns",
            span=span_of(place),
        )
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
    if isinstance(refusal := windows_flow(given.flow, node.kind, node.span), Refusal):
        return refusal
    if not node.input.facts.sources(node.time_column):
        return Refusal(
            message=f"{node.time_column} is not a rowtime of the rows that {node.kind} reads",
            hint="a rowtime is the column of a stream's WATERMARK, also in a query that selects it; write the rows "
            "into a table with a WATERMARK, and window that in a second INSERT",
            span=node.span,
        )
    if node.kind is WindowKind.SESSION:
        return Refusal(
            message="SESSION over the results of OVER or of a temporal join is not supported",
            hint="write them into a table with a WATERMARK, and window that in a second INSERT",
            span=node.span,
        )
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
    if (refusal := check_row_number(numbered)) is not None:
        return refusal
    columns = [(name, value) for name, value in node.items if name != node.number]
    names = [name for name, _ in columns]
    if not all(names) or len(set(names)) < len(names):
        return Refusal(
            message="a column of a query that numbers rows has no name of its own",
            hint="name it with AS",
            span=span_of(numbered.select),
        )
    if not node.order:
        return Refusal(
            message=f"{to_text(numbered.window.this)} without ORDER BY is not supported",
            hint="add ORDER BY to its OVER",
            span=span_of(numbered.item),
        )
    partition = [name_value(part, columns) for part in node.partition]
    for part in node.order[1 if node.by_arrival else 0 :]:
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
    alone = node.shows_number and node.limit == 1
    spelled = tuple(to_text(part) for part in node.partition)
    return StageTrait(
        columns=node.shown_names,
        stays=rows.stays and one and node.by_arrival and not node.order[0].args.get("desc"),
        key=key,
        constants=frozenset({node.number}) if alone else frozenset(),
        mechanism=mechanism_at(OperatorKind.TOP_N, spelled, "the best rows", numbered.item),
        origin=numbered.item,
    )


# --- joins ---

Shown = tuple[StageTrait, Sequence[str]]
"""A relation in FROM, and the names of its columns there."""


def expanded_items(
    select: exp.Select, places: Sequence[exp.Expr], shown: Sequence[Sequence[str] | None]
) -> list[exp.Expr] | Refusal:
    """Return the SELECT list with its stars written out, over the relations of FROM; None: a function names its own."""
    using = any(join.args.get("using") for join in select.args.get("joins") or [])
    if using and any(isinstance(item, exp.Star) for item in select.expressions):
        return Refusal(
            message="* over a join with USING is not supported here",
            hint="name the columns",
            span=span_of(select),
        )
    tables: list[QualifiedRelation] = []
    functions: list[QualifiedRelation] = []
    for place, given in zip(places, shown, strict=True):
        names = read_alias_names(place) if given is None else given
        if isinstance(names, Refusal):
            return names
        flow = Flow(columns=tuple(names))
        found = QualifiedRelation(alias=place.alias_or_name, flow=flow)
        (functions if given is None else tables).append(found)
    return expanded(select, [*tables, *functions])


def open_relation(
    relation: BlockRelation, shown: Shown, tests: list[exp.Expr]
) -> StageSource | Refusal:
    """Return a relation as rows of a stage; those of `tests` that name no other are applied here, and removed."""
    rows, names = shown
    own = [test for test in tests if is_only_of(test, relation.alias)]
    tests[:] = [test for test in tests if test not in own]
    source = StageSource.of(rows, relation.alias, names)
    if rows.native and tuple(names) == rows.columns:
        return source
    return source.refuse(own) or source


def unnest_rows(source: StageSource, relation: BlockRelation) -> StageSource | Refusal:
    """Return rows with what a function in FROM gives for each."""
    names = read_alias_names(relation.place)
    if isinstance(names, Refusal):
        return names
    assert relation.clause is not None, "it stands behind a relation"
    return source.refuse([relation.clause]) or source.unnested(relation.alias, names)


def read_conditions(
    node: exp.Join, kind: JoinType, left: StageSource, right: StageSource, tests: list[exp.Expr]
) -> list[exp.Expr] | Refusal:
    """Return the conditions of a join; those of WHERE that belong to it are removed from `tests`."""
    if node.args.get("using") and kind not in (JoinType.INNER, JoinType.LEFT):
        return Refusal(
            message=f"USING in a {kind} JOIN of streams is not supported",
            hint="write ON a.x = b.x, and COALESCE(a.x, b.x) in the SELECT",
            span=span_of(node),
        )
    conditions = [*join_conditions(node, left), *take_pairs(node, tests, left, right)]
    if any(map(has_query, conditions)):
        return Refusal(message="a query inside ON is not supported", span=span_of(node))
    return conditions


def join_rows(
    kind: JoinType,
    left: StageSource,
    right: StageSource,
    conditions: tuple[Sequence[tuple[exp.Expr, exp.Expr]], Sequence[exp.Expr]],
    node: exp.Expr,
) -> StageSource | Refusal:
    """Join two relations by equal values and other conditions; refused without the first, unless one side is a single
    row. `node` is its place.
    """
    pairs, rest = conditions
    if not pairs and () not in (left.key, right.key):
        return Refusal(
            message="a join of streams without an equality between their columns is not supported",
            hint="join ON a.x = b.x, with the other conditions behind AND",
            span=span_of(node),
        )
    state = f"the rows of both sides ({kind} join)"
    mechanism = mechanism_at(OperatorKind.JOIN, (), state, node)
    compared = [one for one, _ in pairs], [two for _, two in pairs]
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
    if kind not in (JoinType.INNER, JoinType.LEFT):
        return Refusal(
            message=f"a temporal join is INNER or LEFT, not {kind}", span=span_of(version)
        )
    if not left.stays:
        return Refusal(
            message="the left side of a temporal join has rows that are updated or deleted, and only inserts can wait "
            "for the watermark",
            hint="join the table of inserts first, and aggregate the result",
            span=span_of(version),
        )
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
    missing = [name for name in join.key if name not in compared]
    if missing:
        return Refusal(
            message=f"Temporal table's primary key ({', '.join(join.key)}) must be included in the equivalence "
            f"condition of a temporal join: {', '.join(missing)} of {join.label} is not compared",
            hint="ON " + " AND ".join(f"s.x = {relation.alias}.{name}" for name in join.key),
            span=span_of(node),
        )
    state = "rows until the watermark has passed them"
    mechanism = mechanism_at(OperatorKind.TEMPORAL_JOIN, join.key, state, node)
    return left.refuse_beside(right, rest) or left.with_versions(right, mechanism, node)
