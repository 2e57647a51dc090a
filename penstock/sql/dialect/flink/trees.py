"""What others ask of a syntax tree: its text, the options in its hints, the tables that it names."""

from __future__ import annotations

from typing import TypeGuard

from sqlglot import exp

from penstock.sql.dialect.flink.dialect import Flink
from penstock.sql.dialect.windows.group_windows import translate_group_windows
from penstock.sql.syntax.positions import attach
from penstock.sql.syntax.traversal import LEAVES, copy_tree

FLINK = Flink()
"""The dialect as one object: sqlglot makes one for each call that is given the class."""


def parse_query(text: str) -> exp.Query:
    """The tree of a query that is known to be right, such as a view's. Its nodes have no place.

    Its group windows are written as windowing functions.
    """
    (tree,) = FLINK.parse(text)
    assert isinstance(tree, exp.Query | exp.Values), f"not a query: {text}"
    translate_group_windows(tree)
    return attach(tree, None)  # type: ignore[return-value]  # VALUES stands where a query does


def to_text(node: exp.Expr) -> str:
    """Flink SQL of a tree, without comments; equal trees give equal texts."""
    return copy_tree(node).sql(FLINK, comments=False, copy=False)


def table_options(table: exp.Table) -> dict[str, str]:
    """The options in the hints /*+ OPTIONS('k'='v') */ of a table, the last one of a key; as in Flink."""
    options: dict[str, str] = {}
    for hint in table.args.get("hints") or []:
        for call in hint.expressions:
            if call.name == "OPTIONS":
                options |= {pair.this.name: pair.expression.name for pair in call.expressions}
    return options


NAMES_NOTHING = LEAVES | {exp.Column}
"""Kinds of nodes that no table is below of."""


def named_tables(query: exp.Expr) -> list[exp.Table]:
    """The tables that a query names, those in windowing functions too, names of WITH not; in order."""
    found: list[exp.Table] = []
    _collect(query, frozenset(), found)
    return found


def _collect(node: exp.Expr, hidden: frozenset[str], found: list[exp.Table]) -> None:
    """`hidden` are the names that WITH clauses around `node` define."""
    if type(node) in NAMES_NOTHING:
        return
    with_ = node.args.get("with_")
    if with_ is not None:
        for cte in with_.expressions:
            _collect(cte.this, hidden, found)
            hidden |= {cte.alias}
    if _is_name(node) and (node.db or node.name not in hidden):
        found.append(node)
    for value in node.args.values():
        if type(value) is list:
            for item in value:
                if isinstance(item, exp.Expr):
                    _collect(item, hidden, found)
        elif isinstance(value, exp.Expr) and value is not with_:
            _collect(value, hidden, found)


def _is_name(node: exp.Expr) -> TypeGuard[exp.Table]:
    return isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)
