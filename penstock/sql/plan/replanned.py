"""Plans of earlier versions that gave wrong rows: their checkpoints are refused, and this says why.

Where an earlier plan was right, a checkpoint resumes in it (`PlanForm`). Called for the fingerprint of an INSERT.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.checkpoint.fingerprint import Replanned
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.plan import walk
from penstock.sql.plan.placement.blocks import QueryBlock, query_block
from penstock.sql.plan.placement.place import PhysicalPlan
from penstock.sql.plan.placement.spark import SparkTraits
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.plan.rules.joins import bound_of, is_filled_later, is_null_filled
from penstock.sql.syntax.traversal import conjuncts

_UNION = Replanned(
    wrong="UNION ALL of upserts was written by the key of one part: of rows of two parts with one key the target has "
    "one, and a delete in one part deleted the row of the other"
)
_INTERVAL = Replanned(
    wrong="a FULL JOIN whose interval ends one of its sides only did not give the rows of the other without a match"
)
_BOUND = Replanned(
    wrong="the bound of a Top-N was taken from another column with the name of its number, or let rows pass that have "
    "no match in an outer join",
    staged=True,
)
_EQUALITY = Replanned(
    wrong="an equality of WHERE was forgotten in front of a RIGHT or FULL JOIN", staged=True
)


def replanned(physical: PhysicalPlan) -> tuple[Replanned, ...]:
    """Return the wrong plans that earlier versions had for what stages run now."""
    if physical.stages is None:
        return ()
    found = (one for node in walk(physical.plan.root) for one in _of_node(node, physical.traits))
    return tuple(dict.fromkeys(found))


def _of_node(node: nodes.Node, spark: SparkTraits) -> Iterator[Replanned]:
    match node:
        case nodes.SetOp(kind=nodes.SetKind.UNION, all=True) if _unites_upserts(node, spark):
            yield _UNION
        case nodes.Join(kind=nodes.JoinType.FULL, bound=nodes.JoinBound.NONE):
            if bound_of(node.block.select) is nodes.JoinBound.INTERVAL:
                yield _INTERVAL
        case nodes.Project() | nodes.Aggregate() | nodes.Over() | nodes.TopN():
            block = query_block(node)
            if block is not None and len(block.relations) > 1:
                yield from _of_block(block)
        case _:
            return


def _unites_upserts(node: nodes.SetOp, spark: SparkTraits) -> bool:
    flows = [spark.of(side) for side in (node.left, node.right)]
    keys = {
        flow.key
        for flow in flows
        if isinstance(flow, Flow) and flow.changes is ChangelogMode.UPSERT
    }
    return len(keys) == 1 and all(isinstance(flow, Flow) for flow in flows)


def _of_block(block: QueryBlock) -> Iterator[Replanned]:
    tests = conjuncts(block.select.args.get("where"))
    named = {(c.table, c.name) for test in tests for c in test.find_all(exp.Column)}
    for relation in block.relations:
        best = relation.top_n
        if best is None:
            continue
        others = {table for table, name in named if name == best.shown} - {"", relation.alias}
        if others or is_null_filled(relation.origin):
            yield _BOUND
    equal = any(
        isinstance(test, exp.EQ) and test.this.find(exp.Column) and test.expression.find(exp.Column)
        for test in tests
    )
    joins = [relation.clause for relation in block.relations]
    if equal and any(
        isinstance(join, exp.Join) and not join.side and is_filled_later(join) for join in joins
    ):
        yield _EQUALITY
