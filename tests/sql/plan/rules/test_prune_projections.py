"""Columns of inner queries that nobody names are not read."""

from __future__ import annotations

import pytest

from penstock.sql.dialect import parse_query, to_text
from penstock.sql.plan.rules.prune_columns import prune_projections


@pytest.mark.parametrize(
    ("query", "pruned"),
    [
        ("SELECT a FROM (SELECT a, b, c FROM t) AS v", "SELECT a FROM (SELECT a FROM t) AS v"),
        ("SELECT x FROM (SELECT a, b FROM t) AS v(x, y)", "SELECT x FROM (SELECT a FROM t) AS v(x)"),
        (
            "SELECT a FROM (SELECT a, b FROM (SELECT a, b, c FROM t) AS u) AS v",
            "SELECT a FROM (SELECT a FROM (SELECT a FROM t) AS u) AS v",
        ),
        (
            "SELECT v.a, w.d FROM (SELECT a, b FROM t) AS v JOIN (SELECT b, d, e FROM s) AS w ON v.a = w.b",
            "SELECT v.a, w.d FROM (SELECT a, b FROM t) AS v JOIN (SELECT b, d FROM s) AS w ON v.a = w.b",
        ),
        (
            "SELECT a FROM (SELECT a, b AS c FROM t WHERE b > 1) AS v",
            "SELECT a FROM (SELECT a FROM t WHERE b > 1) AS v",
        ),
        ("SELECT COUNT(*) FROM (SELECT a, b FROM t) AS v", "SELECT COUNT(*) FROM (SELECT a FROM t) AS v"),
    ],
)  # fmt: skip
def test_a_column_that_no_outer_query_names_is_pruned(query: str, pruned: str) -> None:
    """In nested queries too; a condition of the inner query keeps what it reads itself."""
    tree = parse_query(query)

    assert to_text(prune_projections(tree)) == to_text(parse_query(pruned))
    assert to_text(tree) == to_text(parse_query(query))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM (SELECT a, b FROM t) AS v",
        "SELECT v.* FROM (SELECT a, b FROM t) AS v",
        "SELECT a FROM (SELECT DISTINCT a, b FROM t) AS v",
        "SELECT a FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS v",
        "SELECT a FROM (SELECT a, RAND() AS r FROM t) AS v",
        "SELECT a FROM (SELECT a, b FROM t UNION ALL SELECT a, b FROM s) AS v",
        "SELECT a FROM (SELECT a, b FROM t) AS v NATURAL JOIN s",
        "SELECT d FROM (SELECT a AS c, b + 1 AS e, e * 2 AS d FROM t WHERE c > 1) AS v",
    ],
)
def test_a_column_that_may_count_is_kept(query: str) -> None:
    """By its position, for the number of rows, for what it does, or under a name that Spark knows beside it."""
    tree = parse_query(query)

    assert to_text(prune_projections(tree)) == to_text(tree)
