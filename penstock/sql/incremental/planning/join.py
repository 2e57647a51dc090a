"""Plan joins as stages: regular ones, semi and anti joins, and temporal joins in event time.

Keys of both sides and of the result, conditions of ON, USING and WHERE, IN and EXISTS as semi and anti joins. A
condition of an inner query that names columns of the outer one becomes a condition of the join. A temporal join gives
each row the version that a table had at the row's time (Flink's rules: TemporalJoinUtil, StreamPhysicalTemporalJoin,
TemporalJoinRewriteWithUniqueKeyRule).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.incremental.planning.relation import ChangelogRelation, column, operator_at
from penstock.sql.incremental.planning.source import ChangelogSource, Scope
from penstock.sql.incremental.stages import (
    VALID_FROM,
    VALID_TO,
    JoinTimes,
    SideTime,
    StageInput,
    TemporalJoin,
)
from penstock.sql.plan.clauses.joins import has_query, join_conditions, pair_of, take_pairs
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.facts import Item, unique_name
from penstock.sql.plan.logical.nodes import JoinType
from penstock.sql.plan.rules.flow import OperatorKind
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

KEY = "__key"


def join(
    kind: JoinType,
    sides: tuple[ChangelogSource, ChangelogSource],
    pairs: Sequence[tuple[exp.Expr, exp.Expr]],
    rest: Sequence[exp.Expr],
    node: exp.Expr,
    life: tuple[int | None, int | None] | nodes.JoinEnds = (None, None),
    *,
    at_once: bool = False,
) -> ChangelogSource | Refusal:
    """Join two relations, by values that are equal and other conditions.

    `node` is the place of the join; `life` are the times of the hint STATE_TTL, for each side, in ms; or when rows end
    with the watermark; `at_once`: closed windows come with that. Refused without equal values, unless one side is a
    single row.
    """
    if not pairs and () not in (sides[0].rows.key, sides[1].rows.key):
        return Refusal(
            message="a join of streams without an equality between their columns is not supported",
            hint="join ON a.x = b.x, with the other conditions behind AND",
            span=span_of(node),
        )
    if (refusal := sides[0].beside(sides[1]).refuse(rest)) is not None:
        return refusal
    one, one_key = keyed(sides[0], [pair[0] for pair in pairs], 0)
    two, two_key = keyed(sides[1], [pair[1] for pair in pairs], 1)
    if one.rows.name == two.rows.name:
        two = _other_name(two)
    return Join(
        kind=kind,
        left=one,
        right=two,
        keys=(one_key, two_key),
        rest=rest,
        times_to_live_ms=(0, 0) if isinstance(life, nodes.JoinEnds) else life,
        times=_join_times((one, two), life, at_once=at_once)
        if isinstance(life, nodes.JoinEnds)
        else None,
    ).stage(node)


def _join_times(
    sides: tuple[ChangelogSource, ChangelogSource], ends: nodes.JoinEnds, *, at_once: bool
) -> JoinTimes:
    """Return the times of both sides as columns of their relations."""

    def side_time(source: ChangelogSource, end: nodes.JoinEnd) -> SideTime:
        return SideTime(
            ends=source.rewritten(end.column).name,
            micros=end.micros,
            rowtime=None if end.rowtime is None else source.rewritten(end.rowtime).name,
        )

    left, right = ends.sides
    return JoinTimes(
        sides=(side_time(sides[0], left), side_time(sides[1], right)),
        waits_for=tuple(sorted(ends.waits_for)),
        at_once=at_once,
    )


def read_conditions(
    node: exp.Join,
    kind: JoinType,
    sides: tuple[ChangelogSource, ChangelogSource],
    tests: list[exp.Expr],
    *,
    ends: bool,
) -> list[exp.Expr] | Refusal:
    """Return the conditions of a join; those of WHERE that belong to it are removed from `tests`.

    `ends`: its rows end with the watermark, so that conditions of WHERE that name both sides belong to an inner one.
    """
    left, right = sides
    if node.args.get("using") and kind not in (JoinType.INNER, JoinType.LEFT):
        return Refusal(
            message=f"USING in a {kind} JOIN of streams is not supported",
            hint="write ON a.x = b.x, and COALESCE(a.x, b.x) in the SELECT",
            span=span_of(node),
        )
    conditions = [*join_conditions(node, left), *take_pairs(node, tests, left, right)]
    if ends and kind is JoinType.INNER:
        conditions += _take_tests_of_both(tests, left, right)
    if any(map(has_query, conditions)):
        return Refusal(message="a query inside ON is not supported", span=span_of(node))
    return conditions


def _take_tests_of_both(
    tests: list[exp.Expr], left: ChangelogSource, right: ChangelogSource
) -> list[exp.Expr]:
    """Remove from `tests` those that name columns of both sides, and return them."""
    both = left.beside(right)
    used = [
        test
        for test in tests
        if (columns := list(test.find_all(exp.Column)))
        and all(map(both.knows, columns))
        and not all(map(left.knows, columns))
        and not all(map(right.knows, columns))
    ]
    tests[:] = [test for test in tests if test not in used]
    return used


def keyed(
    source: ChangelogSource, values: Sequence[exp.Expr], number: int
) -> tuple[ChangelogSource, tuple[str, ...]]:
    """Make a side one relation with its key values as columns; returns the names of these.

    `number` distinguishes the two sides of a join.
    """
    own = [source.rewritten(value) for value in values]
    extra: list[Item] = [
        (f"{KEY}{number}_{index}", value)
        for index, value in enumerate(own)
        if not isinstance(value, exp.Column)
    ]
    if extra or source.unfolded or source.where:
        source = source.flat(extra)
    names = [
        source.rewritten(value).name if isinstance(there, exp.Column) else f"{KEY}{number}_{index}"
        for index, (value, there) in enumerate(zip(values, own, strict=True))
    ]
    return source, tuple(names)


def _other_name(source: ChangelogSource) -> ChangelogSource:
    copied = source.stages.renamed(source.rows)
    scope = {
        name_in_scope: column(v.name, copied.name, v) for name_in_scope, v in source.scope.items()
    }
    return ChangelogSource(stages=source.stages, rows=copied, scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Two relations, the columns by which they are equal, and the other conditions."""

    kind: JoinType
    left: ChangelogSource
    right: ChangelogSource
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    rest: Sequence[exp.Expr]
    times_to_live_ms: tuple[int | None, int | None] = (None, None)
    times: JoinTimes | None = None

    def stage(self, node: exp.Expr) -> ChangelogSource:
        """Add the stage; returns its rows under the names of both sides."""
        left, right = self.left.rows, self.right.rows
        names = self.names
        stages, state = self.left.stages, f"the rows of both sides ({self.kind} join)"
        inner = self.kind in (JoinType.INNER, JoinType.SEMI)
        if self.times is not None:
            state = "the rows of both sides that may still match"
        result = ChangelogRelation(
            name=stages.name("join"),
            columns=tuple(names.values()),
            key=self.key(names),
            # rows of an outer join that match none come when they end, and stay
            inserts=(inner or self.times is not None) and left.inserts and right.inserts,
            mechanism=operator_at(OperatorKind.JOIN, self.keys[0], state, node),
        )
        sides = zip((left, right), self.keys, self.times_to_live_ms, strict=True)
        stage_inputs = [
            StageInput(name=r.name, key=key, time_to_live_ms=ms) for r, key, ms in sides
        ]
        return self.named(
            stages.recompute(result, stage_inputs, self.query(names), joins=True, times=self.times),
            names,
        )

    @property
    def names(self) -> dict[tuple[str, str], str]:
        """The columns of the result, by relation and column."""
        left, right = self.left.rows, self.right.rows
        both = self.kind not in (JoinType.SEMI, JoinType.ANTI)
        names = {(left.name, name): name for name in left.columns if not _is_own(name)}
        for name in right.columns if both else ():
            if not _is_own(name):
                names[right.name, name] = unique_name(name, list(names.values()))
        return names

    def query(self, names: dict[tuple[str, str], str], more: Sequence[exp.Expr] = ()) -> exp.Select:
        """Write the join over both relations as tables; `more` are conditions over their columns."""
        query = exp.select(
            *(exp.alias_(column(n, t), new, quoted=True) for (t, n), new in names.items())
        ).from_(exp.to_table(self.left.rows.name, quoted=True), copy=False)
        query.append("joins", self._clause(more))
        return query

    def named(self, rows: ChangelogRelation, names: dict[tuple[str, str], str]) -> ChangelogSource:
        """Return the rows of the result under the names of both sides."""
        scope = self._scope(rows, names)
        return ChangelogSource(stages=self.left.stages, rows=rows, scope=scope)

    def _clause(self, more: Sequence[exp.Expr]) -> exp.Join:
        left, right = self.left.rows.name, self.right.rows.name
        equal: list[exp.Expr] = [
            exp.EQ(this=column(one, left), expression=column(two, right))
            for one, two in zip(*self.keys, strict=True)
        ]
        both = self.left.beside(self.right)
        tests = [*equal, *more, *(exp.paren(both.rewritten(c)) for c in self.rest)]
        on = exp.and_(*tests) if tests else exp.true()
        side = {JoinType.INNER: None, JoinType.SEMI: "LEFT", JoinType.ANTI: "LEFT"}.get(
            self.kind, self.kind
        )
        kind = self.kind.value if self.kind in (JoinType.SEMI, JoinType.ANTI) else None
        return exp.Join(
            this=exp.to_table(right, quoted=True),
            side=None if side is None else str(side),
            kind=kind,
            on=on,
        )

    def key(self, names: dict[tuple[str, str], str]) -> tuple[str, ...] | None:
        """Return the key of the result: that of one side, where at most one row of the other matches; else both.

        None of a FULL JOIN: a row of each side without a match may have NULLs in all of both.
        """
        left, right = self.left.rows, self.right.rows
        one = _renamed(left, names)
        if self.kind in (JoinType.SEMI, JoinType.ANTI):
            return one
        two = _renamed(right, names)
        if one is None or two is None or self.kind is JoinType.FULL:
            return None
        if self.kind in (JoinType.INNER, JoinType.LEFT) and _is_unique(right, self.keys[1]):
            return one
        if self.kind in (JoinType.INNER, JoinType.RIGHT) and _is_unique(left, self.keys[0]):
            return two
        return (*one, *two)

    def _scope(self, rows: ChangelogRelation, names: dict[tuple[str, str], str]) -> Scope:
        sides = [(self.left, self.left.rows.name)]
        if self.kind not in (JoinType.SEMI, JoinType.ANTI):
            sides.append((self.right, self.right.rows.name))
        return {
            name_in_scope: column(names[own, value.name], rows.name, value)
            for source, own in sides
            for name_in_scope, value in source.scope.items()
        }


def _is_own(name: str) -> bool:
    return name.startswith(KEY)


def _renamed(side: ChangelogRelation, names: dict[tuple[str, str], str]) -> tuple[str, ...] | None:
    if side.key is None or any((side.name, name) not in names for name in side.key):
        return None
    return tuple(names[side.name, name] for name in side.key)


def _is_unique(side: ChangelogRelation, compared: Sequence[str]) -> bool:
    return side.key is not None and set(side.key) <= set(compared)


# --- temporal joins ---


def plan_temporal_join(
    left: ChangelogSource,
    right: ChangelogSource,
    kind: nodes.JoinType,
    conditions: Sequence[exp.Expr],
    join: nodes.TemporalJoin,
    node: exp.Join,
) -> ChangelogSource | Refusal:
    """Join `left`, whose rowtime the FOR SYSTEM_TIME AS OF of `node` names, with the versions `right`.

    The whole key of the versions is compared.
    """
    if (refusal := _refuse_kind(left, kind, node.this.args["version"])) is not None:
        return refusal
    pairs = [pair_of(condition, left, right) for condition in conditions]
    by_key: dict[str, tuple[exp.Expr, exp.Expr]] = {}
    rest: list[exp.Expr] = []
    for condition, pair in zip(conditions, pairs, strict=True):
        name = None if pair is None else _key_column(pair[1], right, join.key)
        if pair is None or name is None or name in by_key:
            rest.append(condition)
        else:
            by_key[name] = pair
    missing = [name for name in join.key if name not in by_key]
    if missing:
        alias = node.this.alias_or_name
        return Refusal(
            message=f"Temporal table's primary key ({', '.join(join.key)}) must be included in the equivalence "
            f"condition of a temporal join: {', '.join(missing)} of {join.label} is not compared",
            hint="ON " + " AND ".join(f"s.x = {alias}.{name}" for name in join.key),
            span=span_of(node),
        )
    if (refusal := left.beside(right).refuse(rest)) is not None:
        return refusal
    one, row_key = keyed(left, [by_key[name][0] for name in join.key], 0)
    joined = Join(kind=kind, left=one, right=right, keys=(row_key, join.key), rest=rest)
    return _stage(joined, join, one.rewritten(join.version).name, node)


def _refuse_kind(left: ChangelogSource, kind: nodes.JoinType, version: exp.Expr) -> Refusal | None:
    if kind not in (nodes.JoinType.INNER, nodes.JoinType.LEFT):
        return Refusal(
            message=f"a temporal join is INNER or LEFT, not {kind}", span=span_of(version)
        )
    if not left.rows.inserts:
        return Refusal(
            message="the left side of a temporal join has rows that are updated or deleted, and only inserts can wait "
            "for the watermark",
            hint="join the table of inserts first, and aggregate the result",
            span=span_of(version),
        )
    return None


def _key_column(value: exp.Expr, right: ChangelogSource, key: tuple[str, ...]) -> str | None:
    """Name the column of the key that a compared value is."""
    own = right.rewritten(value) if isinstance(value, exp.Column) else None
    return own.name if isinstance(own, exp.Column) and own.name in key else None


def _stage(joined: Join, join: nodes.TemporalJoin, time: str, node: exp.Join) -> ChangelogSource:
    rows, right, names = joined.left.rows, joined.right.rows, joined.names
    at, start, end = (
        column(time, rows.name),
        column(VALID_FROM, right.name),
        column(VALID_TO, right.name),
    )
    valid = [
        exp.GTE(this=at, expression=start),
        exp.paren(
            exp.or_(
                exp.Is(this=end, expression=exp.null()),
                exp.LT(this=at.copy(), expression=end.copy()),
            )
        ),
    ]
    state = (
        f"rows until the watermark has passed their {time}; of {join.label} the versions after it, and the last one "
        "before it"
    )
    stages = joined.left.stages
    stage = TemporalJoin(
        name=stages.name("temporal"),
        rows=rows.name,
        time=time,
        row_key=joined.keys[0],
        versions=right.name,
        version_time=join.time,
        version_key=join.key,
        waits_for=tuple(sorted(join.waits_for)),
        query=joined.query(names, valid),
        key=joined.key(names),
        mechanism=operator_at(OperatorKind.TEMPORAL_JOIN, join.key, state, node),
    )
    return joined.named(stages.waiting(stage, columns=tuple(names.values())), names)
