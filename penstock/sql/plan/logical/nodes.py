"""The operators of a logical plan.

A plan is what is read from the text of a query: it says what is computed, not which engine does. Expressions stay
syntax, over the relations that FROM names; they are never changed in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sqlglot import exp

from penstock.catalog.errors import Span
from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect.windows.window_tables import WindowKind
from penstock.sql.plan.logical.facts import (
    Arrival,
    Facts,
    GroupKey,
    Item,
    LookupRetry,
    TieBreak,
    WindowTime,
)
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

_SKELETON = ("from_", "joins", "laterals", "where", "hint")


class JoinBound(StrEnum):
    """What ends the state of a join."""

    NONE = "none"
    INTERVAL = "interval"
    WINDOW = "window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The SELECT that operators are built from, which is never changed in place.

    `relations` are the names in its FROM, from left to right. `bound` is the interval of time, or the window, that its
    joins or its WHERE compare. `has_query`: its WHERE has a query.
    """

    select: exp.Select = field(compare=False, repr=False)
    relations: tuple[str, ...]
    bound: JoinBound = JoinBound.NONE
    has_query: bool = False

    @property
    def bounded(self) -> bool:
        """Whether its joins end with the watermark."""
        return self.bound is not JoinBound.NONE

    @property
    def first(self) -> str:
        """The name of the first relation in FROM; empty where there is none."""
        return self.relations[0] if self.relations else ""

    def skeleton(self) -> exp.Select:
        """Return a query for all columns of FROM and WHERE."""
        bare = exp.Select(expressions=[exp.Star()])
        for part in _SKELETON:
            value = self.select.args.get(part)
            if value is not None:
                copied = [v.copy() for v in value] if isinstance(value, list) else value.copy()
                bare.set(part, copied)
        return bare


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What all operators have.

    `origin` is the syntax that the operator stands for in messages. `syntax` is the query, or the relation in FROM,
    that it is the top of; None for operators inside a block.
    """

    facts: Facts
    origin: exp.Expr | None = field(default=None, compare=False, repr=False)
    syntax: exp.Expr | None = field(default=None, compare=False, repr=False)

    @property
    def span(self) -> Span | None:
        """The place in the text; None where the query does not come from one."""
        return None if self.origin is None else span_of(self.origin)


class Clause(StrEnum):
    """The clause that a filter comes from."""

    WHERE = "WHERE"
    HAVING = "HAVING"
    QUALIFY = "QUALIFY"


class JoinType(StrEnum):
    """The rows of its sides that a join gives."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    CROSS = "CROSS"
    SEMI = "SEMI"
    ANTI = "ANTI"
    NATURAL = "NATURAL"
    OTHER = "OTHER"
    """A join that streams do not have; its words are in `Join.text`."""


class SetKind(StrEnum):
    """The set operations."""

    UNION = "UNION"
    INTERSECT = "INTERSECT"
    EXCEPT = "EXCEPT"


# --- relations ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan(Operator):
    """A table that the query reads: number `index` in order of first mention.

    `static`: Spark reads it by itself, so that a query may read it once a batch instead of following it. `proctimes`
    are its columns of processing time. `rowtime` is the column of its WATERMARK, where the split runtime follows that.
    `arrival` is the known arrival order of its rows.
    """

    index: int
    table: str
    changes: ChangelogMode = ChangelogMode.INSERT_ONLY
    key: tuple[str, ...] | None = None
    static: bool = False
    proctimes: frozenset[str] = frozenset()
    rowtime: str | None = None
    arrival: Arrival = Arrival.OPEN

    def __post_init__(self) -> None:
        assert self.facts.columns is not None, "the columns of a table are known"
        assert self.changes is not ChangelogMode.UPSERT or self.key is not None, "by a key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Values(Operator):
    """Rows that are written in the query: VALUES, or a SELECT without FROM."""

    def __post_init__(self) -> None:
        assert self.syntax is not None, "it has no inputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubqueryAlias(Operator):
    """A relation under its name in FROM, with other names of its columns; none: those of its input."""

    input: Node
    alias: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAssign(Operator):
    """Each row with its windows: TUMBLE, HOP, CUMULATE, SESSION. Lengths are milliseconds."""

    input: Node
    kind: WindowKind
    time_column: str
    size_ms: int = 0
    slide_ms: int | None = None
    step_ms: int | None = None
    gap_ms: int | None = None
    offset_ms: int = 0
    partition_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert (self.kind is WindowKind.SESSION) == (self.gap_ms is not None), "by its gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnest(Operator):
    """Each row with what a function in FROM gives for it: UNNEST, LATERAL, VALUES behind a table.

    No `names`: those of its columns are unknown.
    """

    input: Node
    call: exp.Expr
    alias: str
    names: tuple[str, ...] = ()
    outer: bool = False
    lateral: bool = False
    block: Block | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFunction(Operator):
    """The rows of a function of the user's: TABLE(f(...))."""

    call: exp.Expr

    def __post_init__(self) -> None:
        assert self.syntax is not None, "it has no inputs"


# --- operators of one input ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Operator):
    """The rows for which a condition holds."""

    input: Node
    condition: exp.Expr
    clause: Clause = Clause.WHERE
    block: Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Project(Operator):
    """The values of a SELECT list.

    `items` have unique names. `star`: one of them was written out; one that could not be is an item itself, and
    the columns are unknown.
    """

    input: Node
    items: tuple[Item, ...]
    star: bool = False
    block: Block

    def __post_init__(self) -> None:
        assert _fits(self.facts, self.items), "a column for each item"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(Operator):
    """GROUP BY, its SELECT list and HAVING; no keys: one row in all.

    `windowed`: the bounds of a window are among the keys, and `closed` says by which time that is closed where the rows
    are not closed already. `grouping_sets` is what the query wrote for sets that are unfolded. `state_ttl_ms` is of the
    hint STATE_TTL.
    """

    input: Node
    keys: tuple[GroupKey, ...]
    items: tuple[Item, ...]
    having: exp.Expr | None = None
    windowed: bool = False
    closed: WindowTime | None = None
    grouping_sets: str | None = None
    state_ttl_ms: int | None = None
    star: bool = False
    block: Block

    def __post_init__(self) -> None:
        assert self.keys or self.items, "it computes something"
        assert not self.windowed or self.keys, "windows are among its keys"
        assert _fits(self.facts, self.items), "a column for each item"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(Operator):
    """Each row once. `windowed`: the bounds of a window are among its columns."""

    input: Node
    windowed: bool = False
    state_ttl_ms: int | None = None
    block: Block


@dataclass(frozen=True, slots=True, kw_only=True)
class TopN(Operator):
    """The `limit` first rows of each value of `partition`: a query that numbers rows, and the bound of its reader.

    `function` is ROW_NUMBER, RANK or DENSE_RANK. `items` are all of the query's, with the number under the name
    `number`; its reader calls it `shown`, and `shows_number` where it reads it. `by_arrival`: rows are in order of
    arrival. Ties are open where `tie` is None, and broken by record
    or by batch; `by_record`: each row is that of a record.
    """

    input: Node
    function: exp.Expr
    partition: tuple[exp.Expr, ...]
    order: tuple[exp.Ordered, ...]
    limit: int
    number: str
    shown: str
    shows_number: bool
    by_arrival: bool
    items: tuple[Item, ...]
    star: bool = False
    tie: TieBreak | None = None
    by_record: bool = False
    block: Block

    def __post_init__(self) -> None:
        assert self.limit >= 1, "it gives rows"
        assert not self.ties or self.tie is None, "they have one number"
        assert any(name == self.number for name, _ in self.items), "the number is an item"

    @property
    def ties(self) -> bool:
        """Whether ties have one number: RANK and DENSE_RANK."""
        return isinstance(self.function, exp.Rank | exp.DenseRank)

    @property
    def shown_names(self) -> tuple[str, ...]:
        """The columns that its reader knows."""
        return tuple(name for name, _ in self.items if self.shows_number or name != self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Over(Operator):
    """Each row with aggregates of the rows before it. `calls` are the OVER clauses in its items, in order."""

    input: Node
    items: tuple[Item, ...]
    calls: tuple[exp.Window, ...]
    star: bool = False
    block: Block

    def __post_init__(self) -> None:
        assert self.calls, "it aggregates"
        assert _fits(self.facts, self.items), "a column for each item"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Operator):
    """ORDER BY, LIMIT, OFFSET and FETCH of a query, as they are written."""

    input: Node
    order: exp.Expr | None = None
    limit: exp.Expr | None = None
    offset: exp.Expr | None = None
    fetch: exp.Expr | None = None

    def __post_init__(self) -> None:
        parts = (self.order, self.limit, self.offset, self.fetch)
        assert any(part is not None for part in parts), "it has a clause"


# --- operators of two inputs ---


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinEnd:
    """When rows of a side of a join match no later row of the other side: `micros` behind the time `column`.

    `rowtime` is the column by which its rows are late; None: the rows come when their windows are closed.
    """

    column: exp.Column
    micros: int
    rowtime: exp.Column | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinEnds:
    """When rows of both sides of a join end, by the lowest watermark of the scans `waits_for`."""

    sides: tuple[JoinEnd, JoinEnd]
    waits_for: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(Operator):
    """A join of two relations, or of a relation with the query of an IN or EXISTS (SEMI, ANTI).

    `pairs` are values that are compared for equality, that of the left side first, and `rest` the other conditions.
    `state_ttl_ms` are of the hint STATE_TTL, for each side. `text` are its words. `ends`: keyed operators may run it.
    """

    left: Node
    right: Node
    kind: JoinType
    pairs: tuple[tuple[exp.Expr, exp.Expr], ...] = ()
    rest: tuple[exp.Expr, ...] = ()
    using: tuple[str, ...] = ()
    bound: JoinBound = JoinBound.NONE
    ends: JoinEnds | None = None
    state_ttl_ms: tuple[int | None, int | None] = (None, None)
    text: str = "JOIN"
    block: Block


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupJoin(Operator):
    """Each row with the rows that a table has at the time of the batch."""

    left: Node
    right: Node
    kind: JoinType
    on: exp.Expr | None
    using: tuple[str, ...] = ()
    retry: LookupRetry | None = None
    block: Block

    def __post_init__(self) -> None:
        assert self.kind in (JoinType.INNER, JoinType.LEFT), "other kinds are refused before"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalJoin(Operator):
    """Each row with the version that a relation had at the row's time.

    `version` is the column of the left side that FOR SYSTEM_TIME AS OF names. `time` and `key` are the rowtime and
    the key of the versions; those of a view of last rows are `versions`, over what it numbers. `waits_for` are the
    scans whose watermarks rows wait for: of the left side and of all versions up to these.
    """

    left: Node
    right: Node
    kind: JoinType
    version: exp.Column
    time: str
    key: tuple[str, ...]
    versions: tuple[Item, ...] = ()
    conditions: tuple[exp.Expr, ...] = ()
    using: tuple[str, ...] = ()
    waits_for: frozenset[int]
    text: str = "JOIN"
    block: Block

    def __post_init__(self) -> None:
        assert self.waits_for, "rows wait for a watermark"
        assert self.key, "versions have a key"

    @property
    def label(self) -> str:
        """The name of the versions: of their table, or of their view."""
        assert isinstance(self.right, SubqueryAlias), "each relation has a name"
        versioned = self.right.input
        return versioned.table if isinstance(versioned, Scan) else self.right.alias


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOp(Operator):
    """UNION, INTERSECT or EXCEPT; `all` keeps equal rows."""

    left: Node
    right: Node
    kind: SetKind
    all: bool


# --- what has no operator ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque(Operator):
    """A query or relation that there is no operator for. Spark may still run it as it is."""

    def __post_init__(self) -> None:
        assert self.syntax is not None, "it has no inputs"
        assert self.facts.columns is None, "nothing is known of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Operator):
    """An operator that a rule found to be impossible: by Spark, as a stage, or both."""

    input: Node | None
    spark: Refusal | None = None
    stage: Refusal | None = None

    def __post_init__(self) -> None:
        assert self.spark is not None or self.stage is not None, "something is refused"


Node = (
    Scan
    | Values
    | SubqueryAlias
    | WindowAssign
    | Unnest
    | TableFunction
    | Filter
    | Project
    | Aggregate
    | Distinct
    | TopN
    | Over
    | Limit
    | Join
    | LookupJoin
    | TemporalJoin
    | SetOp
    | Opaque
    | Refused
)


def _fits(facts: Facts, items: Sequence[Item]) -> bool:
    return facts.columns is None or len(facts.columns) == len(items)
