"""Rows of FROM and WHERE in a stage: which columns expressions can name, their key, and joins of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.sql.plan.clauses.select_clauses import refuse_inner_query, refuse_unknown_column
from penstock.sql.plan.logical.column import Item
from penstock.sql.plan.logical.nodes import JoinType
from penstock.sql.plan.placement.trait import StageTrait
from penstock.sql.plan.rules.flow import UpdatingOperator
from penstock.sql.syntax.refusal import Refusal

__all__ = ["StageSource"]

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
        return self._find(node) is not None

    def refuse(self, values: Iterable[exp.Expr]) -> Refusal | None:
        """Return why a value cannot be computed: a query inside it, or a column of no relation."""
        for value in values:
            refusal = refuse_inner_query(value) or refuse_unknown_column(value, self.knows)
            if refusal is not None:
                return refusal
        return None

    def refuse_beside(self, right: StageSource, values: Iterable[exp.Expr]) -> Refusal | None:
        """Return why a value cannot be computed over these rows and those of `right`."""
        return replace(self, columns={**self.columns, **right.columns}).refuse(values)

    def owner(self, name: str) -> str | None:
        """Return the first relation that has a column."""
        return next((alias for alias, own in self.columns if own == name), None)

    def column(self, value: exp.Expr) -> object | None:
        """Return the column that a value is, whole; None for any other value."""
        found = self._find(value) if isinstance(value, exp.Column) else None
        return found[0] if found is not None and found[1] else None

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

    def _find(self, node: exp.Column) -> tuple[object | None, bool] | None:
        """Return the column that a name stands for, and whether it is meant whole."""
        parts = [part.name for part in node.parts]
        if len(parts) > 1 and (parts[0], parts[1]) in self.columns:
            return self.columns[parts[0], parts[1]], len(parts) == 2
        for (_, name), own in self.columns.items():
            if name == parts[0]:
                return own, len(parts) == 1
        return None


def _named(columns: Mapping[Place, object | None]) -> dict[Place, object | None]:
    """Return columns of which those of functions are columns like others."""
    return {place: own if own is not None else object() for place, own in columns.items()}


def is_constant(value: exp.Expr) -> bool:
    """Return whether a value is a literal."""
    if isinstance(value, exp.Cast | exp.Neg | exp.Paren):
        return is_constant(value.this)
    return isinstance(value, exp.Literal | exp.Boolean)
