"""The nodes of a SELECT that are calculated behind its GROUP BY, without those that aggregates read; to replace them.

Called by unfolded_sets.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from penstock.sql.dialect.access import to_text
from penstock.sql.dialect.copying import copy_tree
from penstock.sql.dialect.grouping_sets import is_grouping_call

__all__ = ["Instead", "grouping_calls", "replace_item", "replace_nodes"]

BELOW_GROUPS = (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.Query, exp.DataType, exp.Interval)
"""What is not looked into: aggregates read rows that are not grouped yet."""

Instead = Callable[[exp.Expr], exp.Expr | None]
"""Gives what stands for a node; None where it stays, and what is below it is asked for."""


def grouping_calls(select: exp.Select) -> Iterator[exp.Expr]:
    """The calls of GROUPING and its like that a SELECT itself has, behind its GROUP BY."""
    for name in ("expressions", "having", "qualify", "order"):
        clause = select.args.get(name)
        for node in clause if isinstance(clause, list) else [clause]:
            pending = [] if node is None else [node]
            while pending:
                found = pending.pop(0)
                if is_grouping_call(found):
                    yield found
                elif not isinstance(found, BELOW_GROUPS):
                    pending += found.iter_expressions()
                elif _is_over(found):
                    pending += _called(found).iter_expressions()


def replace_item(item: exp.Expr, instead: Instead) -> None:
    """Replace what is in an item of the SELECT; it keeps the name that it has without one."""
    if isinstance(item, exp.Alias):
        replace_nodes(item.this, instead)
        return
    name = item.name if isinstance(item, exp.Column) else to_text(item)
    select, place = item.parent, item.index
    assert select is not None
    assert place is not None, "it is one of a list"
    before = to_text(item)
    replace_nodes(item, instead)
    now = select.expressions[place]
    if to_text(now) != before:
        now.replace(exp.alias_(copy_tree(now), name, quoted=True))


def replace_nodes(
    node: exp.Expr, instead: Instead, names: frozenset[str] | set[str] = frozenset()
) -> None:
    """Replace nodes, outer ones first; `names` are of columns that are those of the result (ORDER BY)."""
    if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name in names:
        return
    found = instead(node)
    if found is not None:
        node.replace(found)
        return
    if isinstance(node, BELOW_GROUPS):
        if not _is_over(node):
            return
        node = _called(node)
    for child in list(node.iter_expressions()):
        replace_nodes(child, instead, names)


def _called(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Filter) else node


def _is_over(node: exp.Expr) -> bool:
    """Whether an aggregate is one of OVER, which is calculated behind GROUP BY."""
    return isinstance(node.parent, exp.Window) and node.arg_key == "this"
