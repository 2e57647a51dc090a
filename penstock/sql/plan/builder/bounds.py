"""The bounds in time of the joins of a FROM: which of their sides the watermark ends.

A comparison of one time with another, `later >= earlier + INTERVAL ...`, ends the rows of `later`: no `earlier` that
comes behind the watermark matches them. An outer join in Spark has to end the rows that it fills with NULLs by its own
ON, as these come when they are ended; the bound of a join ends both sides. Called by the builder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.plan.builder.relations import ColumnRef, Scope
from penstock.sql.plan.clauses.joins import join_type
from penstock.sql.plan.logical.nodes import JoinBound, JoinType, Scan, SubqueryAlias
from penstock.sql.plan.rules.joins import compares_windows, is_temporal, is_time
from penstock.sql.plan.rules.lookup_join import is_lookup
from penstock.sql.syntax.intervals import interval_value
from penstock.sql.syntax.traversal import conjuncts


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTimeBound:
    """The bound in time of a join of streams: `NONE` unless it ends the rows of both sides.

    `ends_filled`: ON ends all rows that the join fills with NULLs.
    """

    bound: JoinBound
    ends_filled: bool


def join_time_bounds(
    select: exp.Select,
    first: SubqueryAlias,
    joined: Sequence[tuple[exp.Join, SubqueryAlias]],
    scope: Scope,
) -> dict[int, JoinTimeBound]:
    """Return the bounds in time of the joins of streams in a FROM, by the id of their syntax.

    The relations of the FROM are `first`, those `joined`, and `scope`.
    """
    found: dict[int, JoinTimeBound] = {}
    relations = [first]
    tests = conjuncts(select.args.get("where"))
    for join, right in joined:
        if not is_lookup(join) and not is_temporal(join.this):
            found[id(join)] = _join_time_bound(join, relations, right, tests, scope)
        relations.append(right)
    return found


def _join_time_bound(
    join: exp.Join,
    lefts: Sequence[SubqueryAlias],
    right: SubqueryAlias,
    where: list[exp.Expr],
    scope: Scope,
) -> JoinTimeBound:
    kind, own = join_type(join), conjuncts(join.args.get("on"))
    tests = own if join.side else [*own, *where]
    if any(map(compares_windows, tests)):
        return JoinTimeBound(bound=JoinBound.WINDOW, ends_filled=True)
    relations = {relation.alias: relation for relation in (*lefts, right)}
    ended = {
        later == right.alias
        for test in tests
        for later, earlier in _ended(test, relations, scope)
        if (later == right.alias) != (earlier == right.alias)
    }
    filled = {
        JoinType.LEFT: {False},
        JoinType.RIGHT: {True},
        JoinType.FULL: {False, True},
    }.get(kind, set[bool]())
    both = ended == {False, True}
    return JoinTimeBound(
        bound=JoinBound.INTERVAL if both else JoinBound.NONE, ends_filled=filled <= ended
    )


def _ended(
    test: exp.Expr, relations: Mapping[str, SubqueryAlias], scope: Scope
) -> Iterator[tuple[str, str]]:
    """Iterate over the relations whose rows a condition ends, each with the one whose watermark ends them."""
    for later, earlier in compared(test.unnest()):
        one, two = _time(later, scope), _time(earlier, scope)
        if one is None or two is None or not {one[0], two[0]} <= relations.keys():
            continue
        if _is_rowtime(two, relations[two[0]]):
            yield one[0], two[0]


def compared(test: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Iterate over what a condition compares, the greater value first."""
    match test:
        case exp.GT() | exp.GTE():
            yield test.this, test.expression
        case exp.LT() | exp.LTE():
            yield test.expression, test.this
        case exp.EQ():
            yield test.this, test.expression
            yield test.expression, test.this
        case exp.Between():
            yield test.this, test.args["low"]
            yield test.args["high"], test.this
        case _:
            return


def _time(value: exp.Expr, scope: Scope) -> ColumnRef | None:
    """Return the column of a time, to which an interval may be added; None for other values."""
    bare = value.unnest()
    while isinstance(bare, exp.Add | exp.Sub | exp.Cast):
        if not _keeps_distance(bare):
            return None
        bare = bare.this.unnest()
    if not isinstance(bare, exp.Column) or not is_time(bare):
        return None
    return scope.column_ref(bare)


def _keeps_distance(value: exp.Add | exp.Sub | exp.Cast) -> bool:
    """Return whether a time and the one that is made of it differ by a fixed time, as far as Spark follows that."""
    if isinstance(value, exp.Cast):
        return not isinstance(value, exp.TryCast) and value.to.this is exp.DType.TIMESTAMPLTZ
    moved = value.expression
    months = any(interval_value(node).year_month for node in moved.find_all(exp.Interval))
    return not months and moved.find(exp.Column) is None


def _is_rowtime(column: ColumnRef, relation: SubqueryAlias) -> bool:
    """Return whether a time has a watermark, as far as that is known: not behind joins of a query in FROM."""
    facts = relation.facts
    if not facts.rowtimes and not isinstance(relation.input, Scan):
        return True
    return facts.sources(column[1]) is not None
