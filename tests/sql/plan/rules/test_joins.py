"""Which joins of streams have a bound in time, so that Spark's append mode runs them."""

from __future__ import annotations

import pytest
from sqlglot import exp

from penstock.sql.plan.logical.nodes import Block
from penstock.sql.plan.rules.joins import bound_of, is_regular, updates
from tests.sql.plan.changing import plan

ON = "SELECT a.id FROM events AS a {kind} JOIN events AS b ON a.id = b.id AND {bound}"


def select(query: str) -> exp.Select:
    """Give the tree of a query, with types."""
    tree = plan(query).query
    assert isinstance(tree, exp.Select)
    return tree


@pytest.mark.parametrize(
    "query",
    [
        ON.format(kind="LEFT", bound="b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR"),
        ON.format(kind="", bound="b.ts > a.ts - INTERVAL '1' HOUR AND b.ts < a.ts"),
        "SELECT a.id FROM events AS a, events AS b WHERE a.id = b.id AND a.ts <= b.ts",
        "SELECT e.id, v FROM events AS e LEFT JOIN UNNEST(e.arr) AS t (v) ON TRUE",
        "SELECT id FROM events WHERE x > 1",
    ],
)
def test_event_times_of_both_sides_are_a_bound(query: str) -> None:
    """So is having no join at all."""
    assert not is_regular(select(query))


@pytest.mark.parametrize(
    "query",
    [
        ON.format(kind="", bound="a.x < b.x"),
        ON.format(kind="", bound="a.ts > a.ts - INTERVAL '1' HOUR"),
    ],
)
def test_anything_else_is_a_regular_join(query: str) -> None:
    """An inner one over rows that stay gives rows that stay."""
    tree = select(query)
    block = Block(select=tree, relations=("a", "b"), bound=bound_of(tree))

    assert is_regular(tree)
    assert updates(block) is None
