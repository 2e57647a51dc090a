"""What stands in FROM of a query with a group window, as one query in FROM that the window's function reads.

It selects what the aggregation around it takes from the tables: `SELECT a.x, SUM(b.y) FROM a JOIN b ...` becomes
`SELECT g.x, SUM(g.y) FROM (SELECT a.x AS x, b.y AS y FROM a JOIN b ...) AS g`. Called by group_windows.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.syntax.positions import extent

MOVED = ("hint", "from_", "joins", "laterals", "where")
"""The clauses that come before GROUP BY, and go into the query in FROM."""

MADE = "penstock.made"
"""On columns that were put there: they are no columns of the tables."""


def relations_of(select: exp.Select) -> frozenset[str]:
    """Return the names that columns know the relations in FROM by."""
    from_ = select.args.get("from_")
    joins = [*(select.args.get("joins") or ()), *(select.args.get("laterals") or ())]
    nodes = [join.this if isinstance(join, exp.Join) else join for join in joins]
    nodes += [] if from_ is None else [from_.this]
    return frozenset(node.alias_or_name for node in nodes)


def own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of a SELECT that are calculated after its rows are grouped, without those of queries inside them.

    Outer ones come first; what is below a node that was replaced meanwhile does not come.
    """
    for key, value in list(select.args.items()):
        if key not in (*MOVED, "with_"):
            for node in list(value) if isinstance(value, list) else [value]:
                if isinstance(node, exp.Expr):
                    yield from _below(node)


def own_columns(select: exp.Select) -> Iterator[exp.Column]:
    """The columns of tables among `own_nodes`; what ORDER BY calls by a name that SELECT gave is none."""
    aliases = {item.alias for item in select.expressions if isinstance(item, exp.Alias)}
    for node in own_nodes(select):
        if isinstance(node, exp.Column) and not node.meta_get(MADE):
            by_name = len(node.parts) == 1 and node.name in aliases
            if not (by_name and node.find_ancestor(exp.Order)):
                yield node


def _below(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Query):
        return
    parent = node.parent
    yield node
    if node.parent is parent:
        for child in list(node.iter_expressions()):
            yield from _below(child)


def placed_column(table: str, name: str, instead: exp.Expr) -> exp.Column:
    """A column that is put in the place of the node `instead`, and has its place in the text."""
    column = exp.column(
        exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True)
    )
    column.meta[MADE] = True
    extent_of = extent(instead)
    if extent_of is not None:
        column.meta["start"], column.meta["end"] = extent_of
    return column


def is_same_column(one: exp.Column, other: exp.Column, relations: frozenset[str]) -> bool:
    """Return whether two columns are the same; one of them may leave out which of the `relations` it is of."""
    (table, path), (other_table, other_path) = (_parted(c, relations) for c in (one, other))
    return path == other_path and (table == other_table or not (table and other_table))


def _parted(column: exp.Column, relations: frozenset[str]) -> tuple[str, list[str]]:
    names = [part.name for part in column.parts]
    return (names[0], names[1:]) if len(names) > 1 and names[0] in relations else ("", names)


class GroupedInput:
    """The query in FROM of one SELECT while it is made; the SELECT's own clauses are whole until `build`.

    `relations` are the names in FROM; `alias` is the name that the query, and what reads it, has there.
    """

    def __init__(self, select: exp.Select, alias: str, relations: frozenset[str]) -> None:
        self._select, self._alias, self._relations = select, alias, relations
        self._items: list[tuple[exp.Expr, str]] = []

    def take(self, node: exp.Expr) -> exp.Column:
        """The column that has the value of `node` outside of the query, which selects the node from now on."""
        name = next((name for known, name in self._items if self._is_same(known, node)), None)
        if name is None:
            name = self._free_name(node.name if isinstance(node, exp.Column) else "key")
            self._items.append((node, name))
        return placed_column(self._alias, name, node)

    def take_all(self, keys: Sequence[exp.Expr]) -> None:
        """Substitute columns of the query for the grouping `keys` and of all columns of the SELECT."""
        columns = list(own_columns(self._select))  # they live, and so do their ids
        known = {id(column) for column in columns}
        for node in own_nodes(self._select):
            if id(node) in known or (not isinstance(node, exp.Column) and node in keys):
                self._replace(node)

    def _replace(self, node: exp.Expr) -> None:
        column: exp.Expr = self.take(node)
        named = isinstance(node, exp.Column) and node.name != column.name
        if named and node.parent is self._select:
            column = exp.alias_(column, node.name, quoted=True)
        node.replace(column)

    def build(self) -> exp.Subquery:
        """The query, with the clauses of the SELECT that come before GROUP BY, which has them no more."""
        items = [exp.alias_(node, name, quoted=True, copy=False) for node, name in self._items]
        inner = exp.Select(expressions=items)
        for key in MOVED:
            value = self._select.args.get(key)
            if value:
                self._select.set(key, None)
                inner.set(key, value)
        return exp.Subquery(this=inner)

    def _free_name(self, name: str) -> str:
        # Spark does not tell names apart by their case
        used = {*WINDOW_COLUMNS, *(known.lower() for _, known in self._items)}
        number, free = 1, name
        while free.lower() in used:
            number, free = number + 1, f"{name}_{number}"
        return free

    def _is_same(self, known: exp.Expr, node: exp.Expr) -> bool:
        if isinstance(known, exp.Column) and isinstance(node, exp.Column):
            return is_same_column(known, node, self._relations)
        return known == node
