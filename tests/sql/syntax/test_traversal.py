"""Walks through syntax trees say what sqlglot's own say."""

from __future__ import annotations

import pytest
from sqlglot import exp

from penstock.sql.dialect import parse_query
from penstock.sql.syntax.traversal import all_nodes, copy_tree, find_nodes

QUERIES = (
    "SELECT a, b + 1 AS c FROM t WHERE a > 1",
    "WITH x AS (SELECT a FROM t) SELECT CASE WHEN a > 1 THEN 'x' ELSE f(a) END FROM x JOIN u ON x.a = u.a",
    "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start",
)


@pytest.mark.parametrize("query", QUERIES)
def test_all_nodes_come_level_by_level(query: str) -> None:
    """What looked at a tree by sqlglot's walk sees the same nodes in the same order."""
    tree = parse_query(query)

    assert all_nodes(tree) == list(tree.walk())
    assert find_nodes(tree, exp.Column, exp.Identifier) == list(
        tree.find_all(exp.Column, exp.Identifier)
    )


@pytest.mark.parametrize("query", QUERIES)
def test_a_copy_is_whole_and_stands_alone(query: str) -> None:
    """Every node of a copy knows its parent and its place there, and what it carries is its own."""
    tree = parse_query(query)
    tree.meta["mark"] = 1
    copied = copy_tree(tree)
    copied.meta["mark"] = 2

    assert copied == tree
    assert tree.meta["mark"] == 1
    assert not {id(node) for node in all_nodes(tree)} & {id(node) for node in all_nodes(copied)}
    assert all(
        child.parent is node for node in all_nodes(copied) for child in node.iter_expressions()
    )
    assert [(n.arg_key, n.index) for n in all_nodes(copied)] == [
        (n.arg_key, n.index) for n in all_nodes(tree)
    ]
