"""Goes through syntax trees; faster than sqlglot's own walk, whose generators cost more than most questions do.

Every question of a check goes through the whole query, so that the walk was a good part of its cost.
"""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

__all__ = ["LEAVES", "all_nodes", "find_nodes"]

Node = TypeVar("Node", bound=exp.Expr)

LEAVES = frozenset({exp.Identifier, exp.Literal})
"""Kinds of nodes with no others below them: half of those that a tree has."""


def all_nodes(tree: exp.Expr) -> list[exp.Expr]:
    """The nodes of a tree, the root first, then level by level, as `tree.walk()`; a tree may be changed meanwhile."""
    found = [tree]
    for node in found:  # grows while it is read
        if type(node) in LEAVES:
            continue
        for value in node.args.values():
            if value is None or value is False:
                continue
            if type(value) is list:
                found += [item for item in value if isinstance(item, exp.Expr)]
            elif isinstance(value, exp.Expr):
                found.append(value)
    return found


def find_nodes(tree: exp.Expr, *kinds: type[Node]) -> list[Node]:
    """The nodes of some kinds, in the order of `all_nodes`."""
    return [node for node in all_nodes(tree) if isinstance(node, kinds)]
