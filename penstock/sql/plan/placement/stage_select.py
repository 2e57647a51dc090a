"""The rows of FROM and WHERE in a stage, and the SELECT list over them: columns that can be named, their key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.expressions.expression import find_nondeterministic
from penstock.sql.plan.clauses.joins import find_column
from penstock.sql.plan.clauses.over import OverWindow, read_call
from penstock.sql.plan.logical.facts import Item, own_names, unique_name
from penstock.sql.plan.logical.nodes import JoinType
from penstock.sql.plan.placement.blocks import StageTrait
from penstock.sql.plan.rules.aggregate import is_same
from penstock.sql.plan.rules.flow import OperatorKind, UpdatingOperator
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = [
    "ONE",
    "StageSource",
    "Streamed",
    "distinct_rows",
    "is_constant",
    "mechanism_at",
    "name_value",
    "needed_names",
    "over_rows",
    "query_names",
    "read_values",
    "refuse_clauses",
    "refuse_nondeterministic",
    "streamed_rows",
]


Place = tuple[str, str]
"""A column as expressions name it: its relation, its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSource:
    """The rows of relations that are joined in a stage.

    `columns` are those that expressions can name, each with what tells it from all others; None: of a function that
    unfolds rows. `key` and `constants` are of these. `unfolded`: a function gives several rows for one.
    """

    columns: Mapping[Place, object | None]
    stays: bool
    key: tuple[object, ...] | None = None
    constants: frozenset[object] = frozenset()
    unfolded: bool = False
    mechanism: UpdatingOperator | None = None
    origin: exp.Expr | None = field(default=None, compare=False)

    @classmethod
    def of(cls, rows: StageTrait, alias: str, shown: Sequence[str]) -> StageSource:
        """Return the rows of one relation, whose columns have the names `shown` there."""
        own: dict[str, object] = {name: object() for name in rows.columns}
        columns = {
            (alias, name): own[mine] for name, mine in zip(shown, rows.columns, strict=False)
        }
        return cls(
            columns=columns,
            stays=rows.stays,
            key=None if rows.key is None else tuple(own[name] for name in rows.key),
            constants=frozenset(own[name] for name in rows.constants if name in own),
            mechanism=rows.mechanism,
            origin=rows.origin,
        )

    @property
    def trait(self) -> StageTrait:
        """The rows under the names of their columns."""
        names = {own: name for (_, name), own in self.columns.items()}
        return StageTrait(
            columns=tuple(name for _, name in self.columns),
            stays=self.stays,
            key=None if self.key is None else tuple(names[own] for own in self.key),
            mechanism=self.mechanism,
            origin=self.origin,
        )

    def knows(self, node: exp.Column) -> bool:
        """Return whether a column is one of these."""
        return find_column(self.columns, node) is not None

    def refuse(self, values: Iterable[exp.Expr]) -> Refusal | None:
        """Return why a value cannot be computed: a query inside it, or a column of no relation."""
        for value in values:
            inner = value.find(exp.Query)
            if inner is not None:
                return Refusal(
                    message="a query inside an expression over rows that are updated or deleted is not supported",
                    hint="join it in FROM; or write x IN (SELECT ...) or EXISTS (SELECT ...) as a condition of its own",
                    span=span_of(inner) or span_of(value),
                )
            for node in value.find_all(exp.Column, bfs=False):
                if not isinstance(node.this, exp.Star) and not self.knows(node):
                    return Refusal(
                        message=f"{to_text(node)} is not a column of the tables named in this FROM",
                        hint="name a column of the query around it only in x IN (SELECT ...) and EXISTS (SELECT ...)",
                        span=span_of(node),
                    )
        return None

    def refuse_beside(self, right: StageSource, values: Iterable[exp.Expr]) -> Refusal | None:
        """Return why a value cannot be computed over these rows and those of `right`."""
        return replace(self, columns={**self.columns, **right.columns}).refuse(values)

    def owner(self, name: str) -> str | None:
        """Return the first relation that has a column."""
        return next((alias for alias, own in self.columns if own == name), None)

    def column(self, value: exp.Expr) -> object | None:
        """Return the column that a value is, whole; None for any other value."""
        found = find_column(self.columns, value) if isinstance(value, exp.Column) else None
        return found[0] if found is not None and not found[1] else None

    def unnested(self, alias: str, names: Sequence[str]) -> StageSource:
        """Unfold rows by a function, whose columns have these names."""
        columns = {**self.columns, **{(alias, name): None for name in names}}
        return replace(self, columns=columns, unfolded=True)

    def joined(
        self,
        right: StageSource,
        kind: JoinType,
        compared: tuple[Iterable[exp.Expr], Iterable[exp.Expr]],
        mechanism: UpdatingOperator,
        origin: exp.Expr,
    ) -> StageSource:
        """Join with other rows by the values `compared` for equality, on each side."""
        left_key, right_key = self._flat_key, right._flat_key
        half = kind in (JoinType.SEMI, JoinType.ANTI)
        inner = kind in (JoinType.INNER, JoinType.SEMI)
        one, two = (
            {source.column(value) for value in values}
            for source, values in zip((self, right), compared, strict=True)
        )
        key: tuple[object, ...] | None = None
        if half:
            key = left_key
        elif left_key is not None and right_key is not None:
            key = (*left_key, *right_key)
            if kind in (JoinType.INNER, JoinType.RIGHT) and set(left_key) <= one:
                key = right_key
            if kind in (JoinType.INNER, JoinType.LEFT) and set(right_key) <= two:
                key = left_key
        columns = _named(self.columns) if half else _named({**self.columns, **right.columns})
        return StageSource(
            columns=columns,
            stays=inner and self.stays and right.stays,
            key=key,
            mechanism=mechanism,
            origin=origin,
        )

    def with_versions(
        self, right: StageSource, mechanism: UpdatingOperator, origin: exp.Expr
    ) -> StageSource:
        """Join with versions of rows, of which one is valid for each row."""
        return StageSource(
            columns=_named({**self.columns, **right.columns}),
            stays=True,
            key=self._flat_key,
            mechanism=mechanism,
            origin=origin,
        )

    def project(self, items: Sequence[Item]) -> StageTrait | Refusal:
        """Return the values of `items`; refused where one cannot be computed."""
        return self.refuse(value for _, value in items) or self.listed(items)

    def listed(self, items: Sequence[Item]) -> StageTrait:
        """Return the values of `items`, which can be computed."""
        carried: dict[object, str] = {}
        for name, value in items:
            own = self.column(value)
            if own is not None:
                carried.setdefault(own, name)
        kept = self._flat_key is not None and all(own in carried for own in self._flat_key)
        constants = {carried[own] for own in self.constants if own in carried}
        return StageTrait(
            columns=tuple(name for name, _ in items),
            stays=self.stays,
            key=tuple(carried[own] for own in self._flat_key or ()) if kept else None,
            constants=frozenset(constants | {name for name, value in items if is_constant(value)}),
            mechanism=self.mechanism,
            origin=self.origin,
        )

    @property
    def _flat_key(self) -> tuple[object, ...] | None:
        return None if self.unfolded else self.key


def _named(columns: Mapping[Place, object | None]) -> dict[Place, object | None]:
    """Return columns of which those of functions are columns like others."""
    return {place: own if own is not None else object() for place, own in columns.items()}


def is_constant(value: exp.Expr) -> bool:
    """Return whether a value is a literal."""
    if isinstance(value, exp.Cast | exp.Neg | exp.Paren):
        return is_constant(value.this)
    return isinstance(value, exp.Literal | exp.Boolean)


# --- SELECT lists ---

ONE = "__one"
"""The column of rows that are only counted."""


class Streamed:
    """FROM and WHERE of a SELECT that Spark streams by itself."""


def refuse_clauses(select: exp.Query) -> Refusal | None:
    """Return why a SELECT, or a query in brackets, cannot be a stage: it has a clause that no stage has."""
    for name in ("order", "limit", "fetch", "offset", "qualify"):
        node = select.args.get(name)
        if node is not None:
            words = {"order": "ORDER BY", "fetch": "FETCH"}.get(name, name.upper())
            return Refusal(
                message=f"{words} of a stream is not supported",
                hint="number the rows: ROW_NUMBER() OVER (ORDER BY ...) AS n in a query in FROM, and WHERE n <= 10 in "
                "the query around it",
                span=span_of(node) or span_of(select),
            )
    return None


def refuse_nondeterministic(select: exp.Select) -> Refusal | None:
    """Return why values of a SELECT cannot be retracted: a function varies. PROCTIME() as an order is no value."""
    own = (
        call
        for call in find_nondeterministic(select)
        if call.find_ancestor(exp.Select) is select
        and not isinstance(call.find_ancestor(exp.Ordered, exp.Window), exp.Ordered)
    )
    varying = next(own, None)
    if varying is None:
        return None
    return Refusal(
        message="a function that gives another value each time is not supported over rows that are kept: what it gave "
        "could not be taken back, or given again",
        hint="call it in the query that reads the table, where it is computed once for each row",
        span=span_of(varying) or span_of(select),
    )


def mechanism_at(
    way: OperatorKind, key: tuple[str, ...], state: str, place: exp.Expr
) -> UpdatingOperator:
    """Return the operator with state at a place of the text."""
    return UpdatingOperator(way=way, key=key, state=state, span=span_of(place))


def distinct_rows(rows: StageTrait, place: exp.Expr) -> StageTrait:
    """Return each row once; those with a key are that already."""
    if rows.key is not None:
        return replace(rows, native=False)
    mechanism = mechanism_at(OperatorKind.DISTINCT, rows.columns, "how many rows there are", place)
    return replace(rows, key=rows.columns, mechanism=mechanism, origin=place, native=False)


def streamed_rows(items: Sequence[Item]) -> StageTrait:
    """Return values that Spark computes in the rows that it streams."""
    names = tuple(name for name, _ in items)
    return StageTrait(columns=names or (ONE,), stays=True, native=True)


def query_names(query: exp.Expr, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Name the columns of a query uniquely; `columns` where a star prevents that."""
    first = query
    while not isinstance(first, exp.Select):
        first = first.this
    if any(item.find(exp.Star) and not item.find(exp.AggFunc) for item in first.expressions):
        return columns
    return own_names(first.expressions)


def name_value(value: exp.Expr, items: list[Item]) -> str:
    """Name the column of a value, a new one where no column has that value."""
    for name, item in items:
        if is_same(item, value):
            return name
    wanted = value.name if isinstance(value, exp.Column) else "__value"
    items.append((unique_name(wanted, [name for name, _ in items]), value))
    return items[-1][0]


def over_rows(
    items: Sequence[Item],
    source: StageSource | Streamed,
    window: OverWindow,
    calls: Sequence[exp.Window],
) -> StageTrait | Refusal:
    """Return the values of a SELECT list with OVER clauses, all of one window."""
    for call in calls:
        read = read_call(call.this, call)
        if isinstance(read, Refusal):
            return read
    stays = isinstance(source, Streamed) or source.stays
    if isinstance(source, StageSource):
        order = [] if window.time is None else [window.time]
        refusal = source.refuse(read_values([*window.partition, *order], items, None))
        if refusal is not None:
            return refusal
    if not stays:
        return Refusal(
            message="OVER of a stream doesn't support consuming update and delete changes: what was given for a row "
            "stays, and rows of this FROM are updated or deleted",
            hint="aggregate tables of inserts by OVER, and update what comes of it; or GROUP BY in its place",
            span=span_of(window.first),
        )
    plain = [(name, exp.null() if value.find(exp.Window) else value) for name, value in items]
    rows = StageSource(columns={}, stays=True) if isinstance(source, Streamed) else source
    given = rows.listed(plain)
    spelled = tuple(to_text(part) for part in window.partition)
    mechanism = mechanism_at(OperatorKind.OVER, spelled, "the rows before", window.first)
    return replace(given, mechanism=mechanism, origin=window.first)


def read_values(
    keys: Sequence[exp.Expr], items: Sequence[Item], having: exp.Expr | None
) -> Iterator[exp.Expr]:
    """Iterate over the values that an operator reads: its keys whole, and other columns."""
    yield from keys
    for value in [*(value for _, value in items), *([] if having is None else [having.this])]:
        for node in value.walk(prune=lambda n: any(is_same(n, key) for key in keys)):
            if not isinstance(node, exp.Column) or any(is_same(node, key) for key in keys):
                continue
            if not isinstance(node.this, exp.Star):
                yield node


def needed_names(select: exp.Select) -> frozenset[str] | None:
    """Return the names that a SELECT may need of its relations; None where a star needs all."""
    if any(item.find(exp.Star) and not item.find(exp.Count) for item in select.expressions):
        return None

    def is_relation(node: exp.Expr) -> bool:
        return isinstance(node, exp.Subquery) and isinstance(node.parent, exp.From | exp.Join)

    found = set[str]()
    for node in select.walk(prune=lambda n: is_relation(n) and n.parent_select is select):
        if isinstance(node, exp.Identifier):
            found.add(node.name)
        elif is_relation(node) and node.parent_select is select:
            parts = (node.args.get("alias"), node.args.get("version"))
            names = (name for part in parts if part for name in part.find_all(exp.Identifier))
            found |= {name.name for name in names}
    return frozenset(found)
