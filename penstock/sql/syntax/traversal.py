"""Traverse and copy syntax trees, faster than sqlglot's own walk and copy.

Every check goes through the whole query and makes several copies of it; both were most of its cost. Copies
share the types of nodes: a type is never changed in place, only replaced.
"""

# ruff: noqa: SLF001 - the properties look at what they give, and make dictionaries
from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

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


def from_items(select: exp.Expr) -> list[exp.Expr]:
    """Return the relations and functions in the FROM of a SELECT, from left to right."""
    from_ = select.args.get("from_")
    joins = [*(select.args.get("joins") or []), *(select.args.get("laterals") or [])]
    found = [] if from_ is None else [from_.this]
    return found + [join.this if isinstance(join, exp.Join) else join for join in joins]


def is_table(node: exp.Expr) -> bool:
    """Return whether an item of FROM is a table or a query, rather than a function that unfolds each row."""
    return isinstance(node, exp.Table | exp.Subquery)


def star_qualifier(item: exp.Expr) -> str | None:
    """Return the qualifier of a star, empty for a bare one; None for anything else."""
    if isinstance(item, exp.Star):
        return ""
    return item.table if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) else None


def conjuncts(condition: exp.Expr | None, *, nested: bool = True) -> list[exp.Expr]:
    """Split a condition, or a WHERE, at its ANDs; without `nested` not at those that have parentheses of their own.

    What makes a text of the parts, or decides a plan by them, leaves those together: checkpoints compare it.
    """
    if condition is None:
        return []
    bare = (condition.this if isinstance(condition, exp.Where) else condition).unnest()
    if not isinstance(bare, exp.And):
        return [bare]
    if not nested:
        return list(bare.flatten())
    return [*conjuncts(bare.this), *conjuncts(bare.expression)]


def copy_tree(tree: exp.Expr) -> exp.Expr:
    """Copy a tree, with comments and with what its nodes carry as `meta`."""
    return whole_copies(tree)[0][1]


def whole_copies(tree: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    """Copy a tree as `copy_tree` does: every node with its copy, the root first."""
    pairs = copies(tree)
    for node, copied in pairs:
        if node._meta:
            copied._meta = dict(node._meta)
    return pairs


def copies(tree: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    """Copy a tree without `meta`: every node with its copy, the root first."""
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    root = _bare_copy(tree, None, pairs)
    root.arg_key = root.index = None
    for node, copied in pairs:  # grows while it is read
        args = copied.args
        for key, value in node.args.items():
            if type(value) is list:
                args[key] = [
                    _bare_copy(item, copied, pairs) if isinstance(item, exp.Expr) else item
                    for item in value
                ]
            elif isinstance(value, exp.Expr):
                args[key] = _bare_copy(value, copied, pairs)
            else:
                args[key] = value
    return pairs


def _bare_copy(
    node: exp.Expr, parent: exp.Expr | None, pairs: list[tuple[exp.Expr, exp.Expr]]
) -> exp.Expr:
    """Copy a node without what is below it; it stands in its parent where the other does."""
    copied: exp.Expr = object.__new__(node.__class__)  # its __init__ would look at every argument
    copied.args = {}
    copied.parent, copied.arg_key, copied.index = parent, node.arg_key, node.index
    copied.comments = None if node.comments is None else list(node.comments)
    copied._type, copied._hash, copied._meta = node._type, node._hash, None
    pairs.append((node, copied))
    return copied
