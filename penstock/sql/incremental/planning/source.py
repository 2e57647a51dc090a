"""The rows of FROM and WHERE of a SELECT, under the names that its expressions use.

`project` returns some columns of them as a relation: a SELECT that Spark streams, or a stage over changes. Also
versioned relations, the right side of a temporal join in event time: tables whose changes are versions by their
rowtime, and Flink's view of the last rows (Flink's pages "Versioned Tables"; TemporalJoinUtil).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.sql.dialect import to_text
from penstock.sql.incremental.planning.relation import (
    AppendRelation,
    ChangelogRelation,
    Relation,
    column,
    written,
)
from penstock.sql.incremental.planning.stage_list import StageList
from penstock.sql.plan.clauses.joins import find_column, is_only_of, read_alias_names
from penstock.sql.plan.logical.facts import Item, own_names, unique_name
from penstock.sql.plan.logical.nodes import TemporalJoin
from penstock.sql.plan.rules.changelog_project import is_constant
from penstock.sql.plan.rules.flow import Flow, ScanFlow
from penstock.sql.syntax.positions import attach, source_of, span_of
from penstock.sql.syntax.refusal import Refusal

Scope = Mapping[tuple[str, str], exp.Expr]
"""The values that expressions can name, by relation and column, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSource:
    """A FROM clause that Spark streams by itself: `skeleton` is the SELECT with its FROM and WHERE."""

    skeleton: exp.Select

    def refuse(self, values: Iterable[exp.Expr]) -> Refusal | None:  # noqa: ARG002
        """Refuse nothing: Spark computes what it can by itself."""
        return None

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

    def beside(self, right: ChangelogSource) -> ChangelogSource:
        """Return the rows of this relation under the names of both sides of a join."""
        return replace(self, scope={**self.scope, **right.scope})

    @property
    def flow(self) -> Flow:
        """The rows as a relation, its columns under the names that expressions use."""
        names = {value.name: name for (_, name), value in self.scope.items()}
        key = self.rows.key
        named = key is not None and set(key) <= names.keys()
        return replace(
            self.rows.flow,
            columns=tuple(name for _, name in self.scope),
            key=tuple(names[name] for name in key or ()) if named else None,
            constants=frozenset(),
        )

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

    def unnested(self, join: exp.Expr, call: exp.Expr) -> ChangelogSource | Refusal:
        """Unfold an array of each row: `join` is the clause of the UNNEST `call` in FROM."""
        names, alias = read_alias_names(call), call.alias_or_name
        if isinstance(names, Refusal):
            return names
        if (refusal := self.refuse([join])) is not None:
            return refusal
        scope = {**self.scope, **{(alias, name): column(name, alias) for name in names}}
        return replace(self, scope=scope, unfolded=(*self.unfolded, self.rewritten(join)))

    def project(self, items: Sequence[Item], *, narrow: bool = True) -> ChangelogRelation:
        """Return the values of `items`; the relation itself where they are its columns.

        With others beside them if not `narrow`: a stage of its own costs more than unused columns.
        """
        own = [(name, self.rewritten(value)) for name, value in items]
        simple = not narrow and not self.unfolded and not self.where
        simple = simple and not self.stages.ends_with_join_in_time
        if simple and own and all(_is_named(value, name, self.rows.name) for name, value in own):
            return self.rows
        return self._stage(own)

    def flat(self, extra: Sequence[Item] = ()) -> ChangelogSource:
        """Make every value a column of one relation, with `extra` ones (over its columns) behind them."""
        items: list[Item] = []
        scope: dict[tuple[str, str], exp.Expr] = {}
        for name_in_scope, value in self.scope.items():
            name = unique_name(name_in_scope[1], [name for name, _ in items])
            items.append((name, value))
            scope[name_in_scope] = column(name, like=value)
        rows = self._stage([*items, *extra])
        scope = {
            name_in_scope: column(value.name, rows.name, value)
            for name_in_scope, value in scope.items()
        }
        return ChangelogSource(stages=self.stages, rows=rows, scope=scope)

    def _stage(self, items: Sequence[Item]) -> ChangelogRelation:
        columns_of_items = [
            value.name if isinstance(value, exp.Column) else None for _, value in items
        ]
        names = [name for name, _ in items]
        plain = columns_of_items == names == list(self.rows.columns)
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
        key_stays = key is not None and not self.unfolded and set(key) <= set(carried)
        constants = {carried[name] for name in self.rows.constants if name in carried}
        constants |= {name for name, value in items if is_constant(value)}
        rows = replace(
            self.rows,
            columns=columns,
            key=tuple(carried[name] for name in key) if key_stays and key is not None else None,
            constants=frozenset(constants),
        )
        if not self.unfolded and not self.where:
            narrowed = self.stages.narrowed(self.rows, fields, rows)
            if narrowed is not None:
                return narrowed
        return self.stages.calc(query, (self.rows.name,), rows)


Source = AppendSource | ChangelogSource
"""The rows of FROM and WHERE."""


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


def versions_of_view(
    join: TemporalJoin,
    node: exp.Subquery,
    source: AppendSource,
    needed: frozenset[str] | None,
    stages: StageList,
) -> ChangelogRelation:
    """Treat Flink's view of the last rows of a stream as versions: each row of the stream, `source`, is one."""
    own = {*join.key, join.time}
    items = [one for one in join.versions if needed is None or one[0] in needed or one[0] in own]
    rows = source.project(items)
    return stages.versions(rows.query, rows.columns, join.key, ChangelogMode.INSERT_ONLY, node)


# --- clauses ---


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRelation:
    """A relation in FROM: its name there, and those of its columns."""

    alias: str
    shown: tuple[str, ...]
    rows: Relation

    def open(
        self, stages: StageList, needed: frozenset[str] | None, tests: list[exp.Expr]
    ) -> ChangelogSource | Refusal:
        """Return the relation as changes, with the columns `needed` (None: all) of rows that Spark streams.

        Those of `tests` that name no other relation are applied here, and removed.
        """
        rows, shown = self.rows, self.shown
        own = [test for test in tests if is_only_of(test, self.alias)]
        tests[:] = [test for test in tests if test not in own]
        if isinstance(rows, AppendRelation) and rows.columns == shown:
            rows = rows.filtered(self.alias, own).narrowed(needed)
            shown, own = rows.columns, []
        source = ChangelogSource.of(stages, stages.staged(rows), self.alias, shown)
        return source.refuse(own) or source.filtered(own)


def all_of(node: exp.Expr) -> exp.Select:
    """Return a query for all columns of a relation in FROM, with the place of the relation."""
    bare = node.copy()
    for part in ("joins", "laterals"):
        bare.set(part, None)
    return attach(exp.select("*").from_(bare, copy=False), source_of(node))


def streamed_query(query: exp.Expr, columns: tuple[str, ...]) -> AppendRelation:
    """Return a query that Spark streams by itself, as the user wrote it."""
    while isinstance(query, exp.Subquery):
        query = query.this
    assert isinstance(query, exp.Query), "it is one"
    own = query.copy()
    return AppendRelation(query=own, columns=_name_all(own, columns))


def _name_all(query: exp.Expr, columns: tuple[str, ...]) -> tuple[str, ...]:
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
