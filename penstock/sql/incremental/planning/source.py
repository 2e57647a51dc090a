"""The rows of FROM and WHERE of a SELECT, under the names that its expressions use.

`project` returns some columns of them as a relation: a SELECT that Spark streams, or a stage over changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND
from penstock.sql.incremental.planning.accepted import accepted
from penstock.sql.incremental.planning.relation import (
    AppendRelation,
    ChangelogRelation,
    Item,
    column,
    written,
)
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.plan.clauses.select_clauses import refuse_inner_query, refuse_unknown_column
from penstock.sql.plan.logical.names import unique_name

__all__ = ["AppendSource", "ChangelogSource", "Scope"]

Scope = Mapping[tuple[str, str], exp.Expr]
"""The values that expressions can name, by relation and column, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSource:
    """A FROM clause that Spark streams by itself: `skeleton` is the SELECT with its FROM and WHERE."""

    skeleton: exp.Select

    def project(self, items: Sequence[Item], *, narrow: bool = True) -> AppendRelation:  # noqa: ARG002
        """Return the values of `items`. Omitting others costs nothing, whether `narrow` or not."""
        query = self.skeleton.copy()
        query.set("expressions", written(items))
        names = [name for name, _ in items] or [item.alias for item in query.expressions]
        return AppendRelation(query=query, columns=tuple(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogSource:
    """The changes of one stage, under the names of the relations that are joined in it.

    `rows_as_lists` are UNNESTs, `where` the conditions, both over the columns of `rows`.
    """

    stages: StageList
    rows: ChangelogRelation
    scope: Scope
    unfolded: tuple[exp.Expr, ...] = ()
    where: tuple[exp.Expr, ...] = ()

    @classmethod
    def of(
        cls,
        stages: StageList,
        rows: ChangelogRelation,
        alias: str,
        shown: Sequence[str],
        like: Scope,
    ) -> ChangelogSource:
        """Name the columns of a relation `alias.shown`; `like` has nodes whose types are known."""
        scope = {
            (alias, name): column(own, rows.name, like.get((alias, name)))
            for name, own in zip(shown, rows.columns, strict=True)
        }
        return cls(stages=stages, rows=rows, scope=scope)

    def knows(self, node: exp.Column) -> bool:
        """Return whether a column is one of these."""
        return _find(self.scope, node) is not None

    def rewritten(self, value: exp.Expr) -> exp.Expr:
        """Return an expression over the columns of `rows`. Raises UnsupportedError for others, and for a query
        inside it.
        """
        accepted(refuse_inner_query(value))
        accepted(refuse_unknown_column(value, self.knows))

        def own(node: exp.Expr) -> exp.Expr:
            return self._own(node) if isinstance(node, exp.Column) else node

        found: exp.Expr = value.transform(own)
        return found

    def _own(self, node: exp.Column) -> exp.Expr:
        if isinstance(node.this, exp.Star):
            return node
        found = _find(self.scope, node)
        assert found is not None, "others are refused"
        value, fields = found
        value = value.copy()
        for name in fields:
            value = exp.Dot(this=value, expression=exp.to_identifier(name, quoted=True))
        value.type = node.type
        return value

    def filtered(self, conditions: Sequence[exp.Expr]) -> ChangelogSource:
        """Keep the rows for which the conditions hold."""
        return replace(self, where=(*self.where, *(self.rewritten(c) for c in conditions)))

    def unnested(self, join: exp.Expr, alias: str, names: Sequence[str]) -> ChangelogSource:
        """Unfold an array of each row: `join` is the UNNEST in FROM."""
        scope = {**self.scope, **{(alias, name): column(name, alias) for name in names}}
        return replace(self, scope=scope, unfolded=(*self.unfolded, self.rewritten(join)))

    def project(self, items: Sequence[Item], *, narrow: bool = True) -> ChangelogRelation:
        """Return the values of `items`; the relation itself where they are its columns.

        With others beside them if not `narrow`: a stage of its own costs more than unused columns.
        """
        own = [(name, self.rewritten(value)) for name, value in items]
        simple = not narrow and not self.unfolded and not self.where
        if simple and own and all(_is_named(value, name, self.rows.name) for name, value in own):
            return self.rows
        return self._stage(own)

    def flat(self, extra: Sequence[Item] = ()) -> ChangelogSource:
        """Make every value a column of one relation, with `extra` ones (over its columns) behind them."""
        items: list[Item] = []
        scope: dict[tuple[str, str], exp.Expr] = {}
        for place, value in self.scope.items():
            name = unique_name(place[1], [name for name, _ in items])
            items.append((name, value))
            scope[place] = column(name, like=value)
        rows = self._stage([*items, *extra])
        scope = {place: column(value.name, rows.name, value) for place, value in scope.items()}
        return ChangelogSource(stages=self.stages, rows=rows, scope=scope)

    def _stage(self, items: Sequence[Item]) -> ChangelogRelation:
        given = [value.name if isinstance(value, exp.Column) else None for _, value in items]
        names = [name for name, _ in items]
        plain = given == names == list(self.rows.columns)
        if plain and not self.unfolded and not self.where:
            return self.rows
        fields = written(items)
        columns = tuple(field.alias for field in fields)
        query = exp.select(*fields, column(ROW_KIND, self.rows.name)).from_(
            exp.to_table(self.rows.name, quoted=True), copy=False
        )
        for join in self.unfolded:
            query.append("joins", join.copy())
        if self.where:
            query.set("where", exp.Where(this=exp.and_(*(c.copy() for c in self.where))))
        carried = {
            value.name: name
            for name, value in reversed(items)
            if isinstance(value, exp.Column) and value.table == self.rows.name
        }
        key = self.rows.key
        kept = key is not None and not self.unfolded and set(key) <= set(carried)
        constants = {carried[name] for name in self.rows.constants if name in carried}
        constants |= {name for name, value in items if _is_constant(value)}
        return self.stages.stateless(
            query,
            (self.rows.name,),
            columns=columns,
            key=tuple(carried[name] for name in key) if kept and key is not None else None,
            constants=frozenset(constants),
            like=self.rows,
            inserts=self.rows.inserts,
        )


def _is_named(value: exp.Expr, name: str, table: str) -> bool:
    return isinstance(value, exp.Column) and value.name == name and value.table == table


def _find(scope: Scope, node: exp.Column) -> tuple[exp.Expr, list[str]] | None:
    """Return the value that a column stands for, and the fields of it that are asked for."""
    parts = [part.name for part in node.parts]
    if len(parts) > 1 and (parts[0], parts[1]) in scope:
        return scope[parts[0], parts[1]], parts[2:]
    for (_, name), value in scope.items():
        if name == parts[0]:
            return value, parts[1:]
    return None


def _is_constant(value: exp.Expr) -> bool:
    if isinstance(value, exp.Cast | exp.Neg | exp.Paren):
        return _is_constant(value.this)
    return isinstance(value, exp.Literal | exp.Boolean)
