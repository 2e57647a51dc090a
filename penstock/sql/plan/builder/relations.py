"""Relations in FROM that read no query, and the names by which expressions reach columns.

Tables, windowing functions, functions of users, VALUES, UNNEST; the names in their scope, those that a SELECT list
gives, and the hints STATE_TTL that name a relation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from sqlglot import exp

from penstock.sql.binding.hints import StateTtl, bounds_state, state_ttls, take_state_ttl
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS, WindowKind, WindowTable
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.facts import (
    Arrival,
    Column,
    Facts,
    Item,
    Window,
    facts_of_alias,
    facts_of_scan,
    facts_of_unnest,
    facts_of_windows,
    own_names,
)
from penstock.sql.plan.logical.plan import StateHint
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.syntax.traversal import find_nodes, star_qualifier

ColumnRef = tuple[str, str]
"""A column in FROM: its relation, and its name there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedRelation:
    """A relation in FROM: its name, the columns that Spark's planner knows of it, and those that the text tells.

    The second are more: UNNEST names its columns, of which Spark's planner knows nothing. None: unknown. `windows` are
    those of its rows.
    """

    alias: str
    columns: tuple[Column, ...] | None
    shown: tuple[str, ...] | None
    windows: tuple[Window[str], ...] = ()


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

    def owner(self, name: str) -> str | None:
        """Return the first relation that has a column."""
        return next((r.alias for r in self.relations if name in (r.shown or ())), None)

    def column_ref(self, value: exp.Expr) -> ColumnRef | None:
        """Return the column of a relation that a value is, whole; None for any other value."""
        if not isinstance(value, exp.Column):
            return None
        parts = [part.name for part in value.parts]
        if len(parts) == 1:
            owner = self.owner(parts[0])
            return None if owner is None else (owner, parts[0])
        named = len(parts) == 2 and any(r.alias == parts[0] for r in self.relations)
        return (parts[0], parts[1]) if named else None

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
        of = star_qualifier(item)
        if of is None:
            written.append(item)
            if columns is not None:
                columns.append(Column(name=item.alias_or_name, type=item.unalias().type))
            continue
        star = True
        meant = [r for r in scope.relations if not of or r.alias == of]
        expands = not item.args.get("except_")
        if expands and all(relation.shown is not None for relation in meant):
            written += _all_of(meant)
        else:
            written.append(item)
        for relation in meant:
            known = expands and relation.columns is not None and columns is not None
            columns = [*(columns or ()), *(relation.columns or ())] if known else None
    names = own_names(written)
    values = [item.unalias() for item in written]
    return SelectList(
        items=tuple(zip(names, values, strict=True)),
        shown=tuple((item.alias_or_name, item.unalias()) for item in written),
        columns=None if columns is None else tuple(columns),
        star=star,
    )


def shown_columns(node: nodes.Node) -> tuple[str, ...] | None:
    """Return the names by which the reader of a relation knows its columns; None where they are unknown."""
    match node:
        case nodes.Scan():
            return node.facts.names
        case nodes.WindowAssign():
            child = shown_columns(node.input)
            return None if child is None else (*child, *WINDOW_COLUMNS)
        case nodes.SubqueryAlias():
            return node.names or shown_columns(node.input)
        case nodes.Filter() | nodes.Limit() | nodes.Distinct():
            return shown_columns(node.input)
        case nodes.Refused():
            return None if node.input is None else shown_columns(node.input)
        case nodes.Project() | nodes.Aggregate() | nodes.Over():
            return _names_of(node.items)
        case nodes.TopN():
            return None if _names_of(node.items) is None else node.shown_names
        case nodes.SetOp():
            left: nodes.Node = node
            while isinstance(left, nodes.SetOp):
                left = left.left
            return shown_columns(left)
        case nodes.Join() | nodes.LookupJoin() | nodes.TemporalJoin() | nodes.Unnest():
            return None  # their columns are those of several relations
        case nodes.Values() | nodes.TableFunction() | nodes.Opaque():
            return None
        case _:
            assert_never(node)


def _names_of(items: Sequence[Item]) -> tuple[str, ...] | None:
    if any(star_qualifier(value) is not None for _, value in items):
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


# --- relations ---


def has_over(select: exp.Select) -> bool:
    """Return whether values of a SELECT list have an OVER clause."""
    return any(item.find(exp.Window) for item in select.expressions)


def names_columns(query: exp.Expr) -> bool:
    """Return whether a query names its columns, without a star."""
    first = query
    while not isinstance(first, exp.Select):
        if not isinstance(first, exp.Subquery | exp.SetOperation):
            return False
        first = first.this
    return not any(item.find(exp.Star) for item in first.expressions)


def scan_node(index: int, table: ScanFlow, origin: exp.Expr | None = None) -> nodes.Scan:
    """Return the operator that reads table number `index`."""
    by_record = table.arrival is Arrival.RECORD
    return nodes.Scan(
        facts=facts_of_scan(index, table.columns, table.rowtime, arrival=by_record),
        origin=origin,
        syntax=origin,
        index=index,
        table=table.name,
        changes=table.changes,
        key=table.key,
        static=table.static,
        proctimes=table.proctimes,
        rowtime=table.rowtime,
        arrival=table.arrival,
    )


def window_node(window: WindowTable, child: nodes.Node, *, follows: bool) -> nodes.WindowAssign:
    """Return the operator of a windowing function over what it reads; `follows` as in `facts_of_windows`."""
    followed = follows and window.kind is not WindowKind.SESSION
    return nodes.WindowAssign(
        facts=facts_of_windows(child.facts, window.time_column, follows=followed),
        origin=window.node.this,
        syntax=window.node,
        input=child,
        kind=window.kind,
        time_column=window.time_column,
        size_ms=window.size_ms,
        slide_ms=window.slide_ms,
        step_ms=window.step_ms,
        gap_ms=window.gap_ms,
        offset_ms=window.offset_ms,
        partition_by=window.partition_by,
    )


def function_node(node: exp.Expr) -> nodes.Values | nodes.TableFunction | nodes.Opaque:
    """Return a relation of which Spark alone knows the columns."""
    facts = Facts(columns=None)
    match node:
        case exp.Values():
            return nodes.Values(facts=facts, origin=node, syntax=node)
        case exp.Unnest():
            return nodes.TableFunction(facts=facts, origin=node, syntax=node, call=node)
        case exp.Table() if isinstance(node.this, exp.Anonymous):
            return nodes.TableFunction(facts=facts, origin=node, syntax=node, call=node.this)
        case _:
            return nodes.Opaque(facts=facts, origin=node, syntax=node)


def aliased(
    child: nodes.Node, node: exp.Expr, *, keeps_rowtimes: bool = False
) -> nodes.SubqueryAlias:
    """Return a relation under its name in FROM; `keeps_rowtimes`: rowtimes stay ones under other names."""
    names = tuple(node.alias_column_names)
    facts = facts_of_alias(child.facts, names, keeps_rowtimes=keeps_rowtimes)
    if isinstance(child, nodes.Values | nodes.TableFunction | nodes.Opaque) and not isinstance(
        node, exp.Subquery
    ):
        facts = Facts(columns=None)  # a key is not sought among columns that only the text tells
    if isinstance(child, nodes.WindowAssign) and names:
        facts = replace(facts, windows=())  # Spark knows its columns by their own names
    return nodes.SubqueryAlias(
        facts=facts, origin=node, syntax=node, input=child, alias=node.alias_or_name, names=names
    )


def unnest_node(child: nodes.Node, join: exp.Expr, block: nodes.Block) -> nodes.Unnest:
    """Return the operator of a function that unfolds each row of `child`."""
    call = join.this if isinstance(join, exp.Join) else join
    names = tuple(call.alias_column_names)
    return nodes.Unnest(
        facts=facts_of_unnest(child.facts, names),
        origin=join,
        input=child,
        call=call,
        alias=call.alias_or_name,
        names=names,
        outer=isinstance(join, exp.Join) and bool(join.side),
        lateral=isinstance(call, exp.Lateral),
        block=block,
    )


def named_relation(node: nodes.SubqueryAlias | nodes.Unnest) -> ScopedRelation:
    """Return a relation as expressions name it."""
    if isinstance(node, nodes.Unnest):
        return ScopedRelation(alias=node.alias, columns=None, shown=node.names or None)
    return ScopedRelation(
        alias=node.alias,
        columns=node.facts.columns,
        shown=shown_columns(node),
        windows=node.facts.windows,
    )


# --- hints ---


class StateHints:
    """Collects the hints of a query, in which each relation has an alias, and removes them from it.

    Rows that are read for a hint and without one are the same rows.
    """

    def __init__(self, tree: exp.Expr) -> None:
        self._hints: list[StateTtl] = []
        self._taken: set[int] = set()
        self._numbers: dict[int, dict[str, int]] = {}
        for select in find_nodes(tree, exp.Select) if bounds_state(tree) else ():
            for hint in state_ttls(select):
                names = self._numbers.setdefault(id(select), {})
                names[hint.relation.alias_or_name] = len(self._hints)
                self._hints.append(hint)
            if id(select) in self._numbers:
                take_state_ttl(select)

    def of(self, select: exp.Select, alias: str) -> int | None:
        """Return the time to live, in milliseconds, of an operator's state of a relation; None without a hint."""
        number = self._numbers.get(id(select), {}).get(alias)
        if number is None:
            return None
        self._taken.add(number)
        return self._hints[number].milliseconds

    @property
    def hints(self) -> tuple[StateHint, ...]:
        """The hints in order of the text, and whether an operator took each."""
        return tuple(
            StateHint(hint=hint, used=number in self._taken)
            for number, hint in enumerate(self._hints)
        )
