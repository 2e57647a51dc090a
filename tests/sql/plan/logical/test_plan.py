"""Plans as values: inputs of operators, their exchange, the order of a walk, checks."""

from __future__ import annotations

import pytest
from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.logical.facts import Facts
from penstock.sql.plan.logical.nodes import (
    Block,
    Filter,
    Limit,
    Opaque,
    Refused,
    Scan,
    SetOp,
    Values,
)
from penstock.sql.plan.logical.plan import Plan, inputs, walk
from penstock.sql.syntax.refusal import Refusal
from tests.sql.plan.logical.operators import bid, block_of, join, project, union


def test_a_walk_comes_from_the_tables_upwards() -> None:
    """Inputs before their reader, the left one first."""
    one, two = bid(), bid(1)
    joined = join(one, two)
    kept = Filter(facts=joined.facts, input=joined, condition=exp.true(), block=joined.block)

    assert list(walk(kept)) == [one, two, joined, kept]


def test_a_walk_goes_as_deep_as_the_plan() -> None:
    """UNION ALL of hundreds of queries is deeper than Python's stack."""
    node: SetOp | Scan = bid()
    for _ in range(3000):
        node = union(node, bid())

    assert sum(1 for _ in walk(node)) == 6001


def test_operators_tell_their_inputs() -> None:
    """From left to right; none for one that was refused with what it reads."""
    assert inputs(union(bid(), bid(2))) == (bid(), bid(2))
    refused = Refused(facts=Facts(columns=None), input=None, stage=Refusal(message="no"))
    assert inputs(refused) == ()


def test_plans_of_one_text_are_equal() -> None:
    """Two places of a text have equal operators: what is compared is what is computed."""
    assert project(bid(), "auction + 1 AS a") == project(bid(), "auction + 1 AS a")
    assert project(bid(), "auction + 1 AS a") != project(bid(), "auction + 2 AS a")


def test_scans_of_a_plan_stand_by_their_number() -> None:
    """It is what a checkpoint knows them by."""
    assert (
        Plan(root=bid(), scans=(bid(),), tree=exp.select("*"), inlined=exp.select("*"))
        .scans[0]
        .table
        == "bid"
    )
    with pytest.raises(AssertionError, match="by number"):
        Plan(root=bid(1), scans=(bid(1),), tree=exp.select("*"), inlined=exp.select("*"))


def test_operators_that_cannot_be_are_not_made() -> None:
    """The builder's mistakes show where they are made."""
    with pytest.raises(AssertionError, match="by a key"):
        Scan(facts=bid().facts, index=0, table="t", changes=ChangelogMode.UPSERT)
    with pytest.raises(AssertionError, match="a clause"):
        Limit(facts=bid().facts, input=bid())
    with pytest.raises(AssertionError, match="no inputs"):
        Values(facts=Facts(columns=None))
    with pytest.raises(AssertionError, match="nothing is known"):
        Opaque(facts=bid().facts, syntax=exp.select("*"))
    with pytest.raises(AssertionError, match="something is refused"):
        Refused(facts=Facts(columns=None), input=bid())


def test_the_skeleton_of_a_block_is_its_from_and_where() -> None:
    """As a query of its own: the SELECT of the block is not changed."""
    select = exp.select("a").from_("t").join("u", on="a = b").where("c > 1").group_by("a")

    skeleton = Block(select=select, relations=("t", "u")).skeleton()

    assert skeleton.sql() == "SELECT * FROM t JOIN u ON a = b WHERE c > 1"
    assert select.sql() == "SELECT a FROM t JOIN u ON a = b WHERE c > 1 GROUP BY a"
    assert block_of().first == ""
