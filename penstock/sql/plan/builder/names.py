"""Names of columns: of the relations in a FROM, and those that a SELECT list gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.plan.logical.column import Column, Item
from penstock.sql.plan.logical.names import own_names
from penstock.sql.plan.logical.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    LookupJoin,
    Node,
    Opaque,
    Over,
    Project,
    Refused,
    Scan,
    SetOp,
    SubqueryAlias,
    TableFunction,
    TemporalJoin,
    TopN,
    Unnest,
    Values,
    WindowAssign,
)

__all__ = ["Scope", "ScopedRelation", "SelectList", "read_select_list", "shown_columns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedRelation:
    """A relation in FROM: its name, the columns that Spark's planner knows of it, and those that the text tells.

    The second are more: UNNEST names its columns, of which Spark's planner knows nothing. None: unknown.
    """

    alias: str
    columns: tuple[Column, ...] | None
    shown: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The relations that expressions can name, from left to right."""

    relations: tuple[ScopedRelation, ...]

    def knows(self, node: exp.Column) -> bool:
        """Return whether a column is one of these relations'; fields may follow its name."""
        parts = [part.name for part in node.parts]
        if len(parts) > 1 and any(
            relation.alias == parts[0] and (relation.shown is None or parts[1] in relation.shown)
            for relation in self.relations
        ):
            return True
        return any(parts[0] in (relation.shown or ()) for relation in self.relations)

    def has_all_of(self, value: exp.Expr) -> bool:
        """Return whether a value is one of these relations' alone."""
        columns = list(value.find_all(exp.Column))
        return bool(columns) and all(map(self.knows, columns))

    def owner(self, name: str) -> str | None:
        """Return the first relation that has a column."""
        return next((r.alias for r in self.relations if name in (r.shown or ())), None)

    def with_relation(self, relation: ScopedRelation) -> Scope:
        """Return the scope with one relation more."""
        return Scope(relations=(*self.relations, relation))


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectList:
    """The values of a SELECT.

    `items` have unique names, `shown` are the same ones under their names in the text. Stars are written out, and
    `star` says that there were some; one that stands for unknown columns stays. `columns` are those that Spark's
    planner knows.
    """

    items: tuple[Item, ...]
    shown: tuple[Item, ...]
    columns: tuple[Column, ...] | None
    star: bool


def read_select_list(select: exp.Select, scope: Scope) -> SelectList:
    """Read the SELECT list over the relations of its FROM."""
    written: list[exp.Expr] = []
    columns: list[Column] | None = []
    star = False
    for item in select.expressions:
        of = _star_of(item)
        if of is None:
            written.append(item)
            if columns is not None:
                columns.append(Column(name=item.alias_or_name, type=item.unalias().type))
            continue
        star = True
        meant = [r for r in scope.relations if not of or r.alias == of]
        told = not item.args.get("except_")
        if told and all(relation.shown is not None for relation in meant):
            written += _all_of(meant)
        else:
            written.append(item)
        for relation in meant:
            known = told and relation.columns is not None and columns is not None
            columns = [*(columns or ()), *(relation.columns or ())] if known else None
    names = own_names(written)
    values = [item.unalias() for item in written]
    return SelectList(
        items=tuple(zip(names, values, strict=True)),
        shown=tuple((item.alias_or_name, item.unalias()) for item in written),
        columns=None if columns is None else tuple(columns),
        star=star,
    )


def shown_columns(node: Node) -> tuple[str, ...] | None:
    """Return the names by which the reader of a relation knows its columns; None where they are unknown."""
    match node:
        case Scan():
            return node.facts.names
        case WindowAssign():
            given = shown_columns(node.input)
            return None if given is None else (*given, *WINDOW_COLUMNS)
        case SubqueryAlias():
            return node.names or shown_columns(node.input)
        case Filter() | Limit() | Distinct():
            return shown_columns(node.input)
        case Refused():
            return None if node.input is None else shown_columns(node.input)
        case Project() | Aggregate() | Over():
            return _names_of(node.items)
        case TopN():
            names = _names_of(node.items)
            if names is None or node.shows_number:
                return names
            return tuple(name for name in names if name != node.number)
        case SetOp():
            left: Node = node
            while isinstance(left, SetOp):
                left = left.left
            return shown_columns(left)
        case Join() | LookupJoin() | TemporalJoin() | Unnest():
            return None  # their columns are those of several relations
        case Values() | TableFunction() | Opaque():
            return None
        case _:
            assert_never(node)


def _names_of(items: Sequence[Item]) -> tuple[str, ...] | None:
    if any(_star_of(value) is not None for _, value in items):
        return None
    return tuple(name for name, _ in items)


def _all_of(relations: Sequence[ScopedRelation]) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for relation in relations:
        types = {c.name: c.type for c in relation.columns or ()}
        for name in relation.shown or ():
            column = exp.column(name, relation.alias or None, quoted=True)
            column.type = types.get(name)
            found.append(column)
    return found


def _star_of(item: exp.Expr) -> str | None:
    """Return the qualifier of a star, empty for a bare one; None for anything else."""
    if isinstance(item, exp.Star):
        return ""
    return item.table if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) else None
