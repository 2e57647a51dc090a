"""Relations during planning: append-only rows that Spark streams, or the changelog of a stage.

Also the columns that an aggregate reads of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.catalog.errors import Span
from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_text
from penstock.sql.plan.logical.facts import Item, unique_name
from penstock.sql.plan.rules.aggregate import is_same
from penstock.sql.plan.rules.flow import Flow, OperatorKind, UpdatingOperator
from penstock.sql.syntax.positions import span_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRelation:
    """Append-only rows: `query`, which Spark streams, returns `columns` in this order."""

    query: exp.Query
    columns: tuple[str, ...]

    def filtered(self, alias: str, tests: Sequence[exp.Expr]) -> AppendRelation:
        """Keep the rows for which `tests`, which name them `alias`, hold."""
        if not tests:
            return self
        fields = [exp.alias_(column(name, alias), name, quoted=True) for name in self.columns]
        query = exp.select(*fields).from_(self.query.copy().subquery(alias), copy=False)
        query.set("where", exp.Where(this=exp.and_(*(test.copy() for test in tests))))
        return AppendRelation(query=query, columns=self.columns)

    def narrowed(self, names: frozenset[str] | None) -> AppendRelation:
        """Return only the columns of these names; all where `names` is None."""
        names_read = tuple(name for name in self.columns if names is None or name in names)
        if names_read == self.columns:
            return self
        if isinstance(self.query, exp.Select) and _is_plain(self.query) and names_read:
            narrow = self.query.copy()
            items = [i for i in narrow.expressions if i.alias_or_name in names_read]
            narrow.set("expressions", items)
            return AppendRelation(query=narrow, columns=names_read)
        fields = written([(name, column(name)) for name in names_read])
        query = exp.select(*fields).from_(self.query.copy().subquery("__rows"), copy=False)
        return AppendRelation(query=query, columns=names_read or (ONE,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogRelation:
    """The changes of an input or a stage, under `name`.

    `key`: no two rows agree in these columns (None: unknown). `constants` have the same value in every row. `inserts`:
    rows are never changed. `windowed`: they are, and a windowing function gave
    them windows. `mechanism` is that of the nearest stage with state, `origin` as in a Flow.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...] | None = None
    constants: frozenset[str] = frozenset()
    inserts: bool = False
    windowed: bool = False
    mechanism: UpdatingOperator | None = None
    origin: Span | None = field(default=None, compare=False)

    @property
    def flow(self) -> Flow:
        """The rows as a relation between two operators."""
        return Flow(
            columns=self.columns,
            changes=ChangelogMode.INSERT_ONLY if self.inserts else ChangelogMode.ALL,
            key=self.key,
            constants=self.constants,
            kinds=not self.inserts,
            origin=self.origin,
            mechanism=self.mechanism,
        )


def operator_at(
    kind: OperatorKind, key: tuple[str, ...], state: str, origin: exp.Expr
) -> UpdatingOperator:
    """Return the operator with state at a place of the text."""
    return UpdatingOperator(way=kind, key=key, state=state, span=span_of(origin))


def written(items: Sequence[Item]) -> list[exp.Expr]:
    """Write items as the expressions of a SELECT; one column where there is none."""
    return [exp.alias_(value.copy(), name, quoted=True) for name, value in items] or [_one()]


def _one() -> exp.Expr:
    return exp.alias_(exp.cast(exp.Literal.number(1), exp.DType.INT), ONE, quoted=True)


ONE = "__one"
"""The constant column of rows that are only counted."""


def _is_plain(query: exp.Select) -> bool:
    """Return whether unread columns can be left out of a SELECT."""
    stars = any(item.find(exp.Star) for item in query.expressions)
    return not stars and query.args.get("distinct") is None


def column(name: str, table: str | None = None, like: exp.Expr | None = None) -> exp.Column:
    """Name a column; its type is that of `like`."""
    named = exp.column(name, table, quoted=True)
    if like is not None:
        named.type = like.type
    return named


Relation = AppendRelation | ChangelogRelation


@dataclass(slots=True)
class ReadColumns:
    """The columns that an operator needs: its keys first, then what its expressions read.

    `items` are the values to project below it.
    """

    keys: Sequence[exp.Expr]
    items: list[Item] = field(default_factory=list)
    _read: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for index, key in enumerate(self.keys):
            wanted = key.name if isinstance(key, exp.Column) else f"__group{index}"
            self.items.append((unique_name(wanted, self._taken()), key))

    def over(self, value: exp.Expr) -> exp.Expr:
        """Write an expression over these columns."""
        found: exp.Expr = value.transform(self._own)
        return found

    def _own(self, node: exp.Expr) -> exp.Expr:
        for (name, _), key in zip(self.items, self.keys, strict=False):
            if is_same(node, key):
                return column(name, like=node)
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        text = to_text(node)
        if text not in self._read:
            self._read[text] = unique_name(node.name, self._taken())
            self.items.append((self._read[text], node.copy()))
        return column(self._read[text], like=node)

    def _taken(self) -> list[str]:
        return [name for name, _ in self.items]
