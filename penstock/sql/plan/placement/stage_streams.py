"""What Spark streams for stages: queries and FROM clauses whose rows are inserts, and whose joins all end."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from penstock.sql.plan.logical.nodes import Limit, Node, SetOp, SubqueryAlias, WindowAssign
from penstock.sql.plan.placement.blocks import BlockRelation, QueryBlock, query_block
from penstock.sql.plan.placement.spark import SparkTraits
from penstock.sql.plan.placement.stage_select import query_names
from penstock.sql.plan.placement.trait import StageTrait
from penstock.sql.plan.rules.changelog_project import QualifiedRelation, expanded
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.plan.rules.joins import is_regular
from penstock.sql.syntax.refusal import Refusal

__all__ = ["StreamedParts"]


class StreamedParts:
    """The parts of one plan that Spark streams by itself, by its traits."""

    def __init__(self, spark: SparkTraits) -> None:
        self._spark = spark
        self._regular: dict[int, bool] = {}

    def query(self, node: Node) -> StageTrait | None:
        """Return a query that Spark streams by itself, as all its rows are inserts."""
        if node.syntax is None or not isinstance(node.syntax, exp.Query):
            return None
        flow = self._spark.of(node)
        if isinstance(flow, Refusal) or flow.columns is None or not self.gives(node, flow):
            return None
        return StageTrait(columns=query_names(node.syntax, flow.columns), stays=True, native=True)

    def gives(self, node: Node, flow: Flow) -> bool:
        """Return whether Spark streams an operator, of which it gives `flow`."""
        known = flow.columns is not None and not flow.is_changing
        return known and not self.is_regular(node)

    def has_from(self, block: QueryBlock) -> bool:
        """Return whether Spark streams FROM and WHERE of a SELECT."""
        clause = self._spark.of_from(block)
        if isinstance(clause, Refusal) or clause.joined.flow.is_changing or not block.relations:
            return False
        parts = [relation.clause for relation in block.relations]
        numbers = (
            window
            for part in (*parts, block.select.args.get("where"))
            if part is not None
            for window in part.find_all(exp.Window)
        )
        if any(window.find_ancestor(exp.Select) is block.select for window in numbers):
            return False
        return not self._is_regular_block(block, of_list=False)

    def is_regular(self, node: Node) -> bool:
        """Return whether a query has a join without a bound in time somewhere."""
        pending = [node]
        while id(pending[-1]) not in self._regular and isinstance(pending[-1], SetOp):
            pending.append(pending[-1].left)
        for part in reversed(pending):  # a chain may be longer than the stack is deep
            if id(part) not in self._regular:
                self._regular[id(part)] = self._has_regular(part)
        return self._regular[id(node)]

    def _has_regular(self, node: Node) -> bool:
        match node:
            case SetOp():
                return self.is_regular(node.left) or self.is_regular(node.right)
            case SubqueryAlias() | WindowAssign():
                return self.is_regular(node.input)
            case Limit() if query_block(node) is None:
                return self.is_regular(node.input)
            case _:
                block = query_block(node)
                return block is not None and self._is_regular_block(block, of_list=True)

    def _is_regular_block(self, block: QueryBlock, *, of_list: bool) -> bool:
        select = block.select
        if is_regular(select):
            return True
        nodes = (relation.node for relation in block.relations)
        if any(node is not None and self.is_regular(node) for node in nodes):
            return True
        others = ["where"] if not of_list else [part for part in select.args if part != "from_"]
        inner = (query for part in others for query in _queries(select.args.get(part)))
        ons = (q for join in select.args.get("joins") or [] for q in _queries(join.args.get("on")))
        return any(map(is_regular, inner)) or any(map(is_regular, ons))

    def relations(self, block: QueryBlock) -> list[QualifiedRelation]:
        """Return the relations of a FROM that Spark streams, with the columns that stars stand for."""
        clause = self._spark.of_from(block)
        assert not isinstance(clause, Refusal), "Spark streams it"
        return [
            given
            if isinstance(relation.place, exp.Table | exp.Subquery)
            else QualifiedRelation(alias=given.alias, flow=Flow(columns=_alias_names(relation)))
            for given, relation in zip(clause.relations, block.relations, strict=True)
        ]

    def refuse_stars(self, block: QueryBlock) -> Refusal | None:
        """Return why the stars of a SELECT cannot be written out over what Spark streams."""
        items = expanded(block.select, self.relations(block))
        return items if isinstance(items, Refusal) else None


def _alias_names(relation: BlockRelation) -> tuple[str, ...] | None:
    alias = relation.place.args.get("alias")
    return tuple(column.name for column in alias.columns) if alias is not None else None


def _queries(part: object) -> Iterator[exp.Select]:
    """Iterate over the SELECTs inside a clause, but those in its FROM."""
    for node in part if isinstance(part, list) else [part]:
        if isinstance(node, exp.Expr) and not isinstance(node, exp.Join | exp.Lateral | exp.With):
            yield from node.find_all(exp.Select)
