"""Prune columns and fields: those of a table that a query needs, so that no others are decoded.

A star needs all columns where all of its own query are needed: at the top, in a set operation (by position), behind
DISTINCT, under an alias that lists columns. In FROM, under a reader that names its columns, it needs those, as in
Top-N: SELECT a FROM (SELECT *, ROW_NUMBER() OVER (...) AS n FROM t) WHERE n < 3 (Calcite: RelFieldTrimmer). ROWs are
narrowed to the fields that are named. The answer may be too large, never too small: what is not followed is read
whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.model.table import ComputedColumn, Schema
from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect.parser.table_functions import WINDOW_FUNCTIONS
from penstock.sql.expressions.expression import columns_of
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.inline import inline_ctes
from penstock.sql.syntax.nodes import SCAN_PARTS, ScanTable
from penstock.sql.syntax.traversal import all_nodes, copy_tree, from_items

# every part of a SELECT that does not ask for what a star in it stands for; what is not named here counts as asking
_OPEN = {
    "expressions", "from_", "joins", "laterals", "where", "windows", "hint", "order", "limit", "fetch", "offset",
}  # fmt: skip

# every part of a relation in FROM that only names it or says how it is read
_NAMING = {"this", "db", "catalog", "alias", "hints", "version", *SCAN_PARTS}


def _is_unnamed(node: exp.Expr) -> bool:
    """Return whether a node of a query may read columns that are not named: a star, NATURAL JOIN, a list of aliases."""
    match node:
        case exp.Star():
            return not isinstance(node.parent, exp.Count)
        case exp.Join():
            return bool(node.args.get("method"))
        case exp.Table():
            return bool(node.alias_column_names)
        case _:
            return False


def _find_whole_scans(query: exp.Expr, nodes: Sequence[exp.Expr]) -> frozenset[int]:
    """Return the leaves that a query with an unnamed node reads whole; `nodes` are all of its nodes.

    `query` has no views, and its table nodes are labelled with the index of their leaf.
    """
    if any(node.args.get("with_") for node in nodes):
        query = inline_ctes(copy_tree(query))
        nodes = all_nodes(query)
    walk = _ColumnPruner()
    if all(_is_followed(node) for node in nodes if isinstance(node, exp.Star)):
        walk.query(query, asked=True)
    return frozenset(
        node.scan for node in nodes if isinstance(node, ScanTable) and id(node) not in walk.narrow
    )


class _ColumnPruner:
    """Walks from the output of a query down to its tables; `narrow` are the nodes of which not all
    columns are needed.
    """

    def __init__(self) -> None:
        self.narrow: set[int] = set()

    def query(self, node: exp.Expr, *, asked: bool) -> None:
        """Follow a query; `asked`: all its columns are needed, whatever their names."""
        match node:
            case exp.Select():
                self._select(node, asked=asked)
            case exp.SetOperation():
                self.query(node.this, asked=True)
                self.query(node.expression, asked=True)
            case exp.Subquery():
                self._relation(node, asked=asked)
            case _:
                pass

    def _select(self, select: exp.Select, *, asked: bool) -> None:
        joins = select.args.get("joins") or []
        relations = from_items(select)
        stars = _stars_of(select, {relation.alias_or_name for relation in relations})
        asked |= not _is_open(select)
        # NATURAL compares the columns of one name, and USING makes one column of two
        merged = any(join.args.get("method") for join in joins)
        merged |= bool(stars) and any(join.args.get("using") for join in joins)
        for relation in relations:
            covered = bool(stars & {"", relation.alias_or_name})
            self._relation(relation, asked=merged or (asked and covered))
        self._inner(
            node
            for node in select.iter_expressions()
            if not isinstance(node, exp.From | exp.Join | exp.Lateral)
        )
        self._inner(join.args["on"] for join in joins if join.args.get("on") is not None)

    def _relation(self, node: exp.Expr, *, asked: bool) -> None:
        asked |= bool(node.alias_column_names)  # which go by position
        match node:
            case exp.Table() | exp.Subquery() if _has_more(node, _NAMING):
                pass
            case exp.Table(this=exp.Anonymous() as call):
                self._window(call, asked=asked)
            case exp.Table() if not asked:
                self.narrow.add(id(node))
            case exp.Subquery():
                self.query(node.this, asked=asked)
            case exp.Lateral(this=exp.Subquery() as inner):
                self._relation(inner, asked=asked)
            case _:
                pass

    def _window(self, call: exp.Anonymous, *, asked: bool) -> None:
        """Follow the table that a windowing function reads; its time column is named."""
        if call.name.upper() in WINDOW_FUNCTIONS:
            for argument in call.expressions:
                value = argument.expression if isinstance(argument, exp.Kwarg) else argument
                self._relation(value, asked=asked)

    def _inner(self, nodes: Iterable[exp.Expr]) -> None:
        """Follow the queries inside expressions; EXISTS needs no column of them."""
        pending = list(nodes)
        while pending:
            node = pending.pop()
            if isinstance(node, exp.Query):
                self.query(node, asked=not isinstance(node.parent, exp.Exists))
            else:
                pending += node.iter_expressions()


def _is_followed(star: exp.Star) -> bool:
    """Return whether the readers of a star are known: `*` or `t.*` in a SELECT, without more; and COUNT(*)."""
    if isinstance(star.parent, exp.Count):
        return True
    item = star.parent if isinstance(star.parent, exp.Column) else star
    in_select = isinstance(item.parent, exp.Select) and item.arg_key == "expressions"
    return in_select and not _has_more(star, set())


def _stars_of(select: exp.Select, names: set[str]) -> set[str]:
    """Return the relations that stars of a SELECT stand for; an empty name where one stands for all, or for a row."""
    found: set[str] = set()
    for item in select.expressions:
        if isinstance(item, exp.Star):
            found.add("")
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            found.add(item.table if item.table in names else "")
    return found


def _is_open(select: exp.Select) -> bool:
    """Return whether nothing in a SELECT itself needs the columns of its stars: DISTINCT does, ORDER BY 1 may."""
    order = select.args.get("order")
    by_position = order is not None and any(
        isinstance(o.this, exp.Literal) for o in order.expressions
    )
    return not by_position and not _has_more(select, _OPEN)


def _has_more(node: exp.Expr, parts: set[str]) -> bool:
    return any(value and name not in parts for name, value in node.args.items())


def wanted_columns(
    query: exp.Expr, tables: Sequence[ScanFlow], unnamed: frozenset[str] = frozenset()
) -> tuple[frozenset[str] | None, ...]:
    """Return, for each of the tables of `query`, every name that may be a column of it that is read; None for all.

    `query` has no views, and its table nodes are labelled with their index in `tables`. `unnamed` are columns that are
    read though the query names them nowhere. Names are taken from the whole query, so the answer may be too large,
    never too small.
    """
    nodes = all_nodes(query)
    names = unnamed | {node.name for node in nodes if isinstance(node, exp.Identifier)}
    if not any(map(_is_unnamed, nodes)):
        return tuple(names for _ in tables)
    whole = _find_whole_scans(query, nodes)
    return tuple(
        None if index in whole else _behind_stars(table, names)
        for index, table in enumerate(tables)
    )


def _behind_stars(table: ScanFlow, names: frozenset[str]) -> frozenset[str]:
    """Return the columns of a table that stars may stand for.

    With the key of its changes, which a star passes on; at least one, as a star cannot be empty; and in any case, as
    Spark resolves names that static analysis does not.
    """
    folded = {name.casefold() for name in names}
    found = frozenset(name for name in table.columns if name.casefold() in folded)
    if table.changes is not ChangelogMode.INSERT_ONLY:
        found |= set(table.key or ())
    return found or frozenset(table.columns[:1])


def with_key(table: ScanFlow, wanted: frozenset[str] | None) -> frozenset[str] | None:
    """Add the key of upserts, by which the replaced row is found."""
    if wanted is None or table.changes is not ChangelogMode.UPSERT:
        return wanted
    return wanted | set(table.key or ())


def narrowed_input(table: ScanFlow, wanted: frozenset[str] | None) -> ScanFlow:
    """Return a table with the columns that are read of it, to which stars over it expand."""
    if wanted is None:
        return table
    return replace(table, columns=tuple(name for name in table.columns if name in wanted))


def delivered_columns(
    schema: Schema, wanted: frozenset[str] | None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Split the wanted columns into those that the source delivers, in table order, and computed ones.

    The second maps a computed column to its Flink SQL text; the inputs of its expression are delivered too.
    """
    computed: dict[str, str] = {}
    names = {column.name for column in schema.columns} if wanted is None else set(wanted)
    pending = list(names)
    needed: set[str] = set()
    known = {column.name: column for column in schema.columns}
    while pending:
        column = known.get(pending.pop())
        if column is None or column.name in needed:
            continue
        needed.add(column.name)
        if isinstance(column, ComputedColumn):
            computed[column.name] = column.expression
            pending.extend(columns_of(column.expression))
    delivered = tuple(
        c.name for c in schema.columns if c.name in needed and not isinstance(c, ComputedColumn)
    )
    return delivered, computed


# --- columns of inner queries ---


_PLAIN = {"expressions", "from_", "joins", "laterals", "where", "hint"}
"""The parts of an inner query whose rows are those of its tables, one by one."""

_VALUES = (
    exp.Alias, exp.Binary, exp.Boolean, exp.Cast, exp.Column, exp.DataType, exp.Identifier, exp.Literal, exp.Null,
    exp.Paren, exp.Unary,
)  # fmt: skip
"""Values without a function: nothing else happens when they are computed."""


def prune_projections(query: exp.Expr) -> exp.Expr:
    """Return a copy of a query without the columns of its inner queries, such as those of views, that nobody names.

    Spark removes them, too, but only after the sources were asked for them. What a checkpoint is compared with keeps
    them: it would not fit otherwise. The copy may keep too much, never too little.
    """
    pruned = copy_tree(query)
    for node in all_nodes(
        pruned
    ):  # the outer ones first: what they leave out, inner ones do not name
        if isinstance(node, exp.Select) and not _reads_by_position(node):
            relations = list(_inner_queries(from_items(node)))
            for relation in relations:
                _prune(relation, _names(node) - sum(map(_names, relations), Counter()))
    return pruned


def _inner_queries(relations: Iterable[exp.Expr]) -> Iterator[exp.Subquery]:
    """Iterate over the queries in FROM, those that windowing functions read too."""
    for node in relations:
        if isinstance(node, exp.Subquery):
            yield node
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
            is_window = node.this.name.upper() in WINDOW_FUNCTIONS
            arguments = node.this.expressions if is_window else []
            yield from _inner_queries(
                argument.expression if isinstance(argument, exp.Kwarg) else argument
                for argument in arguments
            )


def _reads_by_position(select: exp.Select) -> bool:
    """Return whether a query reads columns that it does not name."""
    joins = select.args.get("joins") or []
    if any(join.args.get("method") or join.args.get("using") for join in joins):
        return True
    return any(
        isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count)
        for item in select.expressions
        for node in all_nodes(item)
    )


def _prune(relation: exp.Subquery, outside: Counter[str]) -> None:
    """Remove the columns of a relation in FROM that are not among the names `outside`."""
    inner, alias = relation.this, relation.args.get("alias")
    if any(value and name not in ("this", "alias") for name, value in relation.args.items()):
        return
    if not isinstance(inner, exp.Select) or not _is_plain(inner):
        return
    named = alias.columns if alias is not None else []
    if named and len(named) != len(inner.expressions):
        return
    names = [c.name for c in named] or [item.alias_or_name for item in inner.expressions]
    indices = [
        index
        for index, (name, item) in enumerate(zip(names, inner.expressions, strict=True))
        if not name
        or outside[name.casefold()]
        or not all(isinstance(node, _VALUES) for node in all_nodes(item))
        or _is_named_beside(item, inner)
    ]
    if len(indices) == len(names):
        return
    indices = indices or [0]
    inner.set("expressions", [inner.expressions[index] for index in indices])
    if alias is not None and named:
        alias.set("columns", [named[index] for index in indices])


def _is_plain(inner: exp.Select) -> bool:
    if any(value and name not in _PLAIN for name, value in inner.args.items()):
        return False
    calls = (exp.AggFunc, exp.Window, exp.Star)
    return not any(
        isinstance(node, calls) for item in inner.expressions for node in all_nodes(item)
    )


def _is_named_beside(item: exp.Expr, inner: exp.Select) -> bool:
    """Return whether another part of the inner query may name the column: Spark knows aliases there."""
    if not isinstance(item, exp.Alias):
        return False
    return _names(inner)[item.alias.casefold()] > _names(item)[item.alias.casefold()]


def _names(tree: exp.Expr) -> Counter[str]:
    """Count the identifiers of a tree; names of columns of tables are compared without case, as by Spark."""
    return Counter(
        node.name.casefold() for node in all_nodes(tree) if isinstance(node, exp.Identifier)
    )
