"""Which tables of a query are read whole, as somebody asks for all columns that a `*` stands for.

A star asks for all of a table where all columns of its own query are asked for: at the top, in a set operation, which
goes by position, behind DISTINCT, under an alias that lists columns. In a query in FROM whose reader names its columns
it asks for nothing else, as in Top-N: SELECT a FROM (SELECT *, ROW_NUMBER() OVER (...) AS n FROM t) WHERE n < 3.
(Calcite's RelFieldTrimmer does the same to relational algebra.) What is not followed here is read whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from penstock.sql.dialect.copying import copy_tree
from penstock.sql.dialect.query import WINDOW_FUNCTIONS
from penstock.sql.plan.changelog import LEAF
from penstock.sql.plan.inlining import inline_ctes
from penstock.sql.walking import all_nodes

__all__ = ["is_unnamed", "whole_leaves"]

# every part of a SELECT that does not ask for what a star in it stands for; what is not named here counts as asking
_OPEN = {
    "expressions", "from_", "joins", "laterals", "where", "windows", "hint", "order", "limit", "fetch", "offset",
}  # fmt: skip
# every part of a relation in FROM that only names it or says how it is read
_NAMING = {"this", "db", "catalog", "alias", "hints", "version"}


def is_unnamed(node: exp.Expr) -> bool:
    """Tell whether a node of a query may read columns that are not named: a star, NATURAL JOIN, a list of aliases."""
    match node:
        case exp.Star():
            return not isinstance(node.parent, exp.Count)
        case exp.Join():
            return bool(node.args.get("method"))
        case exp.Table():
            alias = node.args.get("alias")
            return alias is not None and bool(alias.columns)
        case _:
            return False


def whole_leaves(query: exp.Expr, nodes: Sequence[exp.Expr]) -> frozenset[int]:
    """Give the leaves that a query with an unnamed node reads whole; `nodes` are all of its nodes.

    `query` has no views, and its table nodes are labelled with the index of their leaf.
    """
    if any(node.args.get("with_") for node in nodes):
        query = inline_ctes(copy_tree(query))
        nodes = all_nodes(query)
    walk = _Walk()
    if all(_is_followed(node) for node in nodes if isinstance(node, exp.Star)):
        walk.query(query, asked=True)
    return frozenset(
        node.meta[LEAF]
        for node in nodes
        if isinstance(node, exp.Table) and LEAF in node.meta and id(node) not in walk.narrow
    )


class _Walk:
    """Goes from what a query gives down to its tables; `narrow` are the nodes that are not asked for all columns."""

    def __init__(self) -> None:
        self.narrow: set[int] = set()

    def query(self, node: exp.Expr, *, asked: bool) -> None:
        """Follow a query; `asked`: all its columns are, whatever their names."""
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
        from_ = select.args.get("from_")
        relations = [] if from_ is None else [from_.this]
        relations += [join.this for join in joins]
        relations += select.args.get("laterals") or []
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
        alias = node.args.get("alias")
        asked |= alias is not None and bool(alias.columns)  # which go by position
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
        """Follow the queries inside expressions; EXISTS asks them for no column."""
        pending = list(nodes)
        while pending:
            node = pending.pop()
            if isinstance(node, exp.Query):
                self.query(node, asked=not isinstance(node.parent, exp.Exists))
            else:
                pending += node.iter_expressions()


def _is_followed(star: exp.Star) -> bool:
    """Tell a star of which it is known who reads it: `*` or `t.*` in a SELECT, without more; and COUNT(*)."""
    if isinstance(star.parent, exp.Count):
        return True
    item = star.parent if isinstance(star.parent, exp.Column) else star
    in_select = isinstance(item.parent, exp.Select) and item.arg_key == "expressions"
    return in_select and not _has_more(star, set())


def _stars_of(select: exp.Select, names: set[str]) -> set[str]:
    """Give the relations that stars of a SELECT stand for; an empty name where one stands for all, or for a row."""
    found: set[str] = set()
    for item in select.expressions:
        if isinstance(item, exp.Star):
            found.add("")
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            found.add(item.table if item.table in names else "")
    return found


def _is_open(select: exp.Select) -> bool:
    """Tell whether nothing in a SELECT itself asks for what its stars stand for: DISTINCT does, ORDER BY 1 may."""
    order = select.args.get("order")
    by_place = order is not None and any(isinstance(o.this, exp.Literal) for o in order.expressions)
    return not by_place and not _has_more(select, _OPEN)


def _has_more(node: exp.Expr, parts: set[str]) -> bool:
    return any(value and name not in parts for name, value in node.args.items())
