"""Tell of stages whether keyed operators run them, as far as that is known without Spark's types.

Joins, Top-1 and COUNT(DISTINCT) that Spark can stream by itself are given to stages only if so: stages without keyed
operators cost several jobs a batch. What a keyed operator computes is decided when the query starts
(`incremental/keyed/choose.py`); of what this tells, that refuses types only.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from penstock.sql.dialect.spark.types import INTEGERS, number_kind
from penstock.sql.incremental.stages import (
    Calc,
    ChangelogNormalize,
    EventTimeStage,
    IncrementalQuery,
    PaneAggregate,
    RecomputeOperator,
    WindowAggregate,
)
from penstock.sql.plan.logical.nodes import Join, JoinType, Node
from penstock.sql.plan.logical.plan import walk

_SIMPLE = (
    exp.Select, exp.From, exp.Join, exp.Table, exp.TableAlias, exp.Subquery, exp.Where, exp.Group, exp.Having,
    exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Literal, exp.Boolean, exp.Null, exp.Paren,
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.Is, exp.In,
    exp.Add, exp.Sub, exp.Mul, exp.Case, exp.If, exp.Coalesce, exp.Count, exp.Sum, exp.Max, exp.Min, exp.Distinct,
    exp.Filter, exp.Window, exp.RowNumber, exp.Order, exp.Ordered,
)  # fmt: skip
"""What keyed operators compute over values of whichever type they store."""


def joins_for_good(root: Node) -> bool:
    """Return whether a plan has inner joins that keep the rows of both sides for good."""
    joins = [node for node in walk(root) if isinstance(node, Join)]
    return any(join.kind is JoinType.INNER and not join.block.bounded for join in joins)


def runs_keyed(maintained: IncrementalQuery) -> bool:
    """Return whether all stages of a query are ones of keyed operators."""
    for stage in maintained.stages:
        match stage:
            case Calc() | PaneAggregate() | ChangelogNormalize():
                continue
            case WindowAggregate() if not stage.changes:
                if not _is_simple(stage.query):
                    return False
            case RecomputeOperator():
                if not all(map(_is_simple, _trees(stage))):
                    return False
            case _:
                assert isinstance(stage, EventTimeStage), "there are no others"
                return False
    return True


def _trees(stage: RecomputeOperator) -> Iterator[exp.Expr]:
    yield stage.query
    for one in stage.inputs:
        yield from (measure.value for measure in one.measures)


def _is_simple(tree: exp.Expr) -> bool:
    pending: list[exp.Expr] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
            if node.to.this is not exp.DType.BIGINT:
                return False
            pending.append(node.this)
        elif isinstance(node, exp.Div) and _is_double(node.this):
            pending += [node.this.this, node.expression]
        elif isinstance(node, exp.Div) and _is_whole(node.this) and _is_whole(node.expression):
            pending += [node.this, node.expression]
        elif isinstance(node, exp.Interval):
            continue
        elif isinstance(node, _SIMPLE):
            pending += node.iter_expressions()
        else:
            return False
    return True


def _is_whole(node: exp.Expr) -> bool:
    return number_kind(node) in INTEGERS


def _is_double(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and node.to.this is exp.DType.DOUBLE
