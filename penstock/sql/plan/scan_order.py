"""The order of the tables of an incremental query: that in which Spark finds them in the union of its inputs.

A checkpoint knows the sources of a query by their place in this order alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlglot import exp

from penstock.sql.incremental.stages import EventTimeStage, IncrementalQuery
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.traversal import copy_tree

__all__ = ["ScanOrder"]

Leaf = TypeVar("Leaf")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOrder:
    """New numbers of tables: `numbers` are the old ones, in the order of the new. A table that is not read has none."""

    numbers: tuple[int, ...]

    @classmethod
    def of(cls, query: exp.Expr) -> ScanOrder:
        """Return the order of the tables in a query."""
        found = dict.fromkeys(node.scan for node in query.find_all(ScanTable, bfs=False))
        return cls(numbers=tuple(found))

    def leaves(self, leaves: Sequence[Leaf]) -> tuple[Leaf, ...]:
        """Return the tables in this order."""
        return tuple(leaves[number] for number in self.numbers)

    def query(self, query: exp.Expr) -> exp.Expr:
        """Return a query with the new numbers."""
        copied = copy_tree(query)
        for node in copied.find_all(ScanTable):
            node.set("scan", self.numbers.index(node.scan))
        return copied

    def stages(self, maintained: IncrementalQuery) -> IncrementalQuery:
        """Return stages that wait for watermarks by the new numbers."""
        stages = tuple(
            replace(stage, waits_for=tuple(sorted(map(self.numbers.index, stage.waits_for))))
            if isinstance(stage, EventTimeStage)
            else stage
            for stage in maintained.stages
        )
        return replace(maintained, stages=stages)
