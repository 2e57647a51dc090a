"""Joins as stages: the keys of both sides, which keep their rows, and the key of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.sql.maintain.relation import Item, Staged, column, unique_name
from penstock.sql.maintain.source import Scope, StagedSource
from penstock.sql.maintain.stages import Input
from penstock.sql.plan.mechanism import Mechanism, Way
from penstock.sql.positions import span_of

__all__ = ["Join", "Kind", "join", "keyed", "kind_of", "pair_of", "spans"]

KEY = "__key"


class Kind(StrEnum):
    """The joins that are maintained."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "SEMI"
    ANTI = "ANTI"


_SPELLED = {
    "": Kind.INNER,
    "INNER": Kind.INNER,
    "CROSS": Kind.INNER,
    "LEFT": Kind.LEFT,
    "LEFT OUTER": Kind.LEFT,
    "RIGHT": Kind.RIGHT,
    "RIGHT OUTER": Kind.RIGHT,
    "FULL": Kind.FULL,
    "FULL OUTER": Kind.FULL,
}


def kind_of(node: exp.Join) -> Kind:
    """Read the kind of a join in FROM. Raises UnsupportedError for NATURAL and the like."""
    words = " ".join(filter(None, (node.method, node.side, node.kind))).upper()
    if words not in _SPELLED:
        raise UnsupportedError(
            f"a {words} JOIN of streams is not supported",
            hint="JOIN, LEFT JOIN, RIGHT JOIN and FULL JOIN ... ON a.x = b.x are",
            span=span_of(node),
        )
    return _SPELLED[words]


def spans(condition: exp.Expr, left: StagedSource, right: StagedSource) -> bool:
    """Tell whether a condition is an equality between both sides, by which they can be joined."""
    return pair_of(condition, left, right) is not None


def join(
    kind: Kind,
    left: StagedSource,
    right: StagedSource,
    conditions: Sequence[exp.Expr],
    node: exp.Expr,
    times_to_live_ms: tuple[int | None, int | None] = (None, None),
) -> StagedSource:
    """Join two relations. `node` is where the join stands; `times_to_live_ms` are of the hint STATE_TTL, for each side.

    Raises UnsupportedError for one without an equality, unless one side is a single row.
    """
    pairs = [pair_of(condition, left, right) for condition in conditions]
    rest = [c for c, pair in zip(conditions, pairs, strict=True) if pair is None]
    equal = [pair for pair in pairs if pair is not None]
    if not equal and () not in (left.rows.key, right.rows.key):
        raise UnsupportedError(
            "a join of streams without an equality between their columns is not supported",
            hint="join ON a.x = b.x, with the other conditions behind AND",
            span=span_of(node),
        )
    one, one_key = keyed(left, [pair[0] for pair in equal], 0)
    two, two_key = keyed(right, [pair[1] for pair in equal], 1)
    if one.rows.name == two.rows.name:
        two = _other_name(two)
    return Join(
        kind=kind,
        left=one,
        right=two,
        keys=(one_key, two_key),
        rest=rest,
        times_to_live_ms=times_to_live_ms,
    ).stage(node)


def pair_of(
    condition: exp.Expr, left: StagedSource, right: StagedSource
) -> tuple[exp.Expr, exp.Expr] | None:
    """Give the values that a condition says are equal, that of `left` first; None where it is no such equality."""
    test = condition.unnest()
    if not isinstance(test, exp.EQ) or test.find(exp.Query):
        return None
    for one, two in ((test.this, test.expression), (test.expression, test.this)):
        if _is_of(one, left) and _is_of(two, right):
            return one, two
    return None


def _is_of(value: exp.Expr, source: StagedSource) -> bool:
    columns = list(value.find_all(exp.Column))
    return bool(columns) and all(source.knows(c) for c in columns)


def keyed(
    source: StagedSource, values: Sequence[exp.Expr], number: int
) -> tuple[StagedSource, tuple[str, ...]]:
    """Make a side one relation with its key values as columns; gives the names of these.

    `number` tells the two sides of a join apart.
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


def _other_name(source: StagedSource) -> StagedSource:
    copied = source.stages.renamed(source.rows)
    scope = {place: column(v.name, copied.name, v) for place, v in source.scope.items()}
    return StagedSource(stages=source.stages, rows=copied, scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Two relations, the columns by which they are equal, and the other conditions."""

    kind: Kind
    left: StagedSource
    right: StagedSource
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    rest: Sequence[exp.Expr]
    times_to_live_ms: tuple[int | None, int | None] = (None, None)

    def stage(self, node: exp.Expr) -> StagedSource:
        """Add the stage; gives its rows under the names of both sides."""
        left, right = self.left.rows, self.right.rows
        names = self.names
        mechanism = Mechanism(
            way=Way.JOIN,
            key=self.keys[0],
            state=f"the rows of both sides ({self.kind} join)",
            span=span_of(node),
        )
        inserts = self.kind in (Kind.INNER, Kind.SEMI) and left.inserts and right.inserts
        rows = self.left.stages.recompute(
            "join",
            [
                Input(name=side.name, key=key, time_to_live_ms=time)
                for side, key, time in zip(
                    (left, right), self.keys, self.times_to_live_ms, strict=True
                )
            ],
            self.query(names),
            columns=tuple(names.values()),
            key=self.key(names),
            mechanism=mechanism,
            origin=node,
            joins=True,
            inserts=inserts,
        )
        return self.named(rows, names)

    @property
    def names(self) -> dict[tuple[str, str], str]:
        """The columns of the result, by relation and column."""
        left, right = self.left.rows, self.right.rows
        both = self.kind not in (Kind.SEMI, Kind.ANTI)
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

    def named(self, rows: Staged, names: dict[tuple[str, str], str]) -> StagedSource:
        """Give the rows of the result under the names of both sides."""
        scope = self._scope(rows, names)
        return StagedSource(stages=self.left.stages, rows=rows, scope=scope)

    def _clause(self, more: Sequence[exp.Expr]) -> exp.Join:
        left, right = self.left.rows.name, self.right.rows.name
        equal: list[exp.Expr] = [
            exp.EQ(this=column(one, left), expression=column(two, right))
            for one, two in zip(*self.keys, strict=True)
        ]
        both = StagedSource(
            stages=self.left.stages,
            rows=self.left.rows,
            scope={**self.left.scope, **self.right.scope},
        )
        tests = [*equal, *more, *(exp.paren(both.rewritten(c)) for c in self.rest)]
        on = exp.and_(*tests) if tests else exp.true()
        side = {Kind.INNER: None, Kind.SEMI: "LEFT", Kind.ANTI: "LEFT"}.get(self.kind, self.kind)
        kind = self.kind.value if self.kind in (Kind.SEMI, Kind.ANTI) else None
        return exp.Join(
            this=exp.to_table(right, quoted=True),
            side=None if side is None else str(side),
            kind=kind,
            on=on,
        )

    def key(self, names: dict[tuple[str, str], str]) -> tuple[str, ...] | None:
        """Give the key of the result: that of one side, where at most one row of the other matches; else both."""
        left, right = self.left.rows, self.right.rows
        one = _renamed(left, names)
        if self.kind in (Kind.SEMI, Kind.ANTI):
            return one
        two = _renamed(right, names)
        if one is None or two is None:
            return None
        if self.kind in (Kind.INNER, Kind.LEFT) and _is_unique(right, self.keys[1]):
            return one
        if self.kind in (Kind.INNER, Kind.RIGHT) and _is_unique(left, self.keys[0]):
            return two
        return (*one, *two)

    def _scope(self, rows: Staged, names: dict[tuple[str, str], str]) -> Scope:
        sides = [(self.left, self.left.rows.name)]
        if self.kind not in (Kind.SEMI, Kind.ANTI):
            sides.append((self.right, self.right.rows.name))
        return {
            place: column(names[own, value.name], rows.name, value)
            for source, own in sides
            for place, value in source.scope.items()
        }


def _is_own(name: str) -> bool:
    return name.startswith(KEY)


def _renamed(side: Staged, names: dict[tuple[str, str], str]) -> tuple[str, ...] | None:
    if side.key is None or any((side.name, name) not in names for name in side.key):
        return None
    return tuple(names[side.name, name] for name in side.key)


def _is_unique(side: Staged, compared: Sequence[str]) -> bool:
    return side.key is not None and set(side.key) <= set(compared)
