"""The rows of FROM and WHERE of a SELECT, under the names that its expressions use.

`project` returns some columns of them as a relation: a SELECT that Spark streams, or a stage over changes. Also
versioned relations, the right side of a temporal join in event time: tables whose changes are versions by their
rowtime, and Flink's view of the last rows (Flink's pages "Versioned Tables"; TemporalJoinUtil).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.sql.incremental.planning.relation import (
    AppendRelation,
    ChangelogRelation,
    Item,
    Relation,
    column,
    known,
    written,
)
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.plan.clauses.joins import find_column
from penstock.sql.plan.clauses.temporal_joins import LastRows, read_last_row
from penstock.sql.plan.logical.facts import own_names, unique_name
from penstock.sql.plan.logical.nodes import TemporalJoin
from penstock.sql.plan.placement.stage_select import is_constant
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.syntax.positions import attach, source_of

__all__ = [
    "AppendSource",
    "ChangelogSource",
    "NamedRelation",
    "Scope",
    "all_of",
    "last_rows",
    "name_all",
    "versions_of_table",
]


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
    ) -> ChangelogSource:
        """Name the columns of a relation `alias.shown`."""
        scope = {
            (alias, name): column(own, rows.name)
            for name, own in zip(shown, rows.columns, strict=False)
        }
        return cls(stages=stages, rows=rows, scope=scope)

    def knows(self, node: exp.Column) -> bool:
        """Return whether a column is one of these."""
        return find_column(self.scope, node) is not None

    def owner(self, name: str) -> str | None:
        """Return the first relation that has a column."""
        return next((alias for alias, shown in self.scope if shown == name), None)

    def rewritten(self, value: exp.Expr) -> exp.Expr:
        """Return an expression over the columns of `rows`."""

        def own(node: exp.Expr) -> exp.Expr:
            return self._own(node) if isinstance(node, exp.Column) else node

        found: exp.Expr = value.transform(own)
        return found

    def _own(self, node: exp.Column) -> exp.Expr:
        if isinstance(node.this, exp.Star):
            return node
        found = find_column(self.scope, node)
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
        constants |= {name for name, value in items if is_constant(value)}
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


# --- versions ---


def versions_of_table(
    join: TemporalJoin,
    node: exp.Table,
    table: ScanFlow,
    needed: frozenset[str] | None,
    stages: StageList,
) -> ChangelogRelation:
    """Treat a table as versions, with the columns `needed` (None: all) and those that make it versioned."""
    own = {*join.key, join.time}
    names = tuple(n for n in table.columns if needed is None or n in needed or n in own)
    bare = node.copy()
    for part in ("alias", "joins", "laterals", "version"):
        bare.set(part, None)
    fields: Sequence[exp.Expr] = written([(name, column(name)) for name in names])
    if table.changes is not ChangelogMode.INSERT_ONLY:
        fields = [column(name) for name in (*names, ROW_KIND)]
    query = exp.select(*fields).from_(bare, copy=False)
    return stages.versions(query, names, join.key, table.changes, node)


def last_rows(
    join: TemporalJoin,
    node: exp.Subquery,
    needed: frozenset[str] | None,
    source: Callable[[exp.Select], AppendSource | ChangelogSource],
    stages: StageList,
) -> ChangelogRelation:
    """Treat Flink's view of the last rows of a stream as versions: each row of the stream is one.

    `source` plans FROM and WHERE of a SELECT.
    """
    numbered = known(read_last_row(node))
    inner = source(numbered.select)
    items_of = (i for i in numbered.select.expressions if i is not numbered.item)
    view = LastRows.of(node, numbered, {i.alias_or_name: i.unalias() for i in items_of})
    assert isinstance(inner, AppendSource), "others are refused"
    items: list[Item] = [
        (name, view.values[own])
        for name, own in view.names.items()
        if needed is None or name in needed or name in (*join.key, join.time)
    ]
    rows = inner.project(items)
    return stages.versions(rows.query, rows.columns, join.key, ChangelogMode.INSERT_ONLY, node)


# --- clauses ---


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRelation:
    """A relation in FROM: its name there, and those of its columns."""

    alias: str
    shown: tuple[str, ...]
    rows: Relation


def all_of(node: exp.Expr) -> exp.Select:
    """Return a query for all columns of a relation in FROM, with the place of the relation."""
    bare = node.copy()
    for part in ("joins", "laterals"):
        bare.set(part, None)
    return attach(exp.select("*").from_(bare, copy=False), source_of(node))


def name_all(query: exp.Expr, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Name every column of a query uniquely, in place; `columns` where a star prevents that."""
    first = query
    while not isinstance(first, exp.Select):
        first = first.this
    if any(item.find(exp.Star) and not item.find(exp.AggFunc) for item in first.expressions):
        return columns
    names = own_names(first.expressions)
    items = zip(first.expressions, names, strict=True)
    first.set("expressions", [exp.alias_(i.unalias(), name, quoted=True) for i, name in items])
    return names
