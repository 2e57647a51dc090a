"""Traits of Spark: the rows that its append mode or its update mode gives of each operator, or why it cannot.

The changelog modes are those of Flink's planner (FlinkChangelogModeInferenceProgram). An operator that updates its
results gives upserts by its key, and Spark runs only one of them in a query.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.logical.nodes import (
    Limit,
    Node,
    Scan,
    SetOp,
    SubqueryAlias,
    TopN,
    WindowAssign,
)
from penstock.sql.plan.placement.blocks import QueryBlock, query_block
from penstock.sql.plan.placement.trait import Trait, scan_flow
from penstock.sql.plan.rules.changelog_join import JoinedFlow, joined_flow
from penstock.sql.plan.rules.changelog_mode import (
    FromClause,
    check_numbered,
    numbered_flow,
    select_flow,
    union_flow,
    windows_flow,
)
from penstock.sql.plan.rules.changelog_project import QualifiedRelation
from penstock.sql.plan.rules.flow import Flow, ScanFlow, renamed
from penstock.sql.plan.rules.joins import check_temporal
from penstock.sql.plan.rules.row_number import RowNumberQuery, find_row_number
from penstock.sql.syntax.refusal import Refusal

__all__ = ["SparkTraits"]


class SparkTraits:
    """The traits of the operators of one plan, each found once; `scans` are its tables by number."""

    def __init__(self, scans: Sequence[Scan]) -> None:
        self._tables: list[ScanFlow] = [scan_flow(scan) for scan in scans]
        self._found: dict[int, Trait] = {}
        self._clauses: dict[int, FromClause | Refusal] = {}
        self._numbers: dict[int, RowNumberQuery] = {}

    def of(self, node: Node) -> Trait:
        """Return the trait of an operator that is the top of a query, or a relation in FROM."""
        pending = [node]
        while id(pending[-1]) not in self._found and isinstance(pending[-1], SetOp):
            pending.append(pending[-1].left)
        for part in reversed(pending):  # a chain may be longer than the stack is deep
            if id(part) not in self._found:
                self._found[id(part)] = self._of(part)
        return self._found[id(node)]

    def known(self, node: Node) -> Trait | None:
        """Return the trait of an operator that was asked for; None for one inside a SELECT."""
        return self._found.get(id(node))

    def of_from(self, block: QueryBlock) -> FromClause | Refusal:
        """Return the relations of a FROM clause, and the joined one."""
        found = self._clauses.get(id(block.block))
        if found is None:
            found = self._clauses[id(block.block)] = self._from(block)
        return found

    def _of(self, node: Node) -> Trait:
        match node:
            case Scan():
                return self._scan(node)
            case SubqueryAlias():
                return self._aliased(node, self.of(node.input))
            case WindowAssign():
                flow = self.of(node.input)
                if isinstance(flow, Refusal):
                    return flow
                return windows_flow(flow, node.kind, node.span)
            case TopN():
                return self._numbered(node)
            case SetOp():
                return self._combined(node)
            case Limit() if query_block(node) is None:
                return self.of(node.input)
            case _:
                return self._select(node)

    def _scan(self, node: Scan) -> Flow:
        table = self._tables[node.index]
        if table.changes is ChangelogMode.INSERT_ONLY:
            return Flow(columns=table.columns)
        return Flow(
            columns=table.columns,
            changes=table.changes,
            key=table.key,
            kinds=True,
            origin=node.place,
        )

    def _combined(self, node: SetOp) -> Trait:
        flows: list[Flow] = []
        for side in (node.left, node.right):
            flow = self.of(side)
            if isinstance(flow, Refusal):
                return flow
            flows.append(flow)
        assert isinstance(node.syntax, exp.SetOperation), "it is one"
        return union_flow(node.syntax, flows)

    @staticmethod
    def _aliased(node: SubqueryAlias, flow: Trait) -> Trait:
        # what Spark makes of functions in FROM keeps its names here
        known = isinstance(node.input, Scan) or isinstance(node.syntax, exp.Subquery)
        if isinstance(flow, Refusal) or not node.names or not known:
            return flow
        return renamed(flow, list(node.names))

    def _numbered(self, node: TopN) -> Trait:
        numbered, block = self._numbers[id(node)], query_block(node)
        assert block is not None, "it is a SELECT"
        refusal = check_numbered(numbered, self._tables)
        if refusal is not None:
            return refusal
        clause = self.of_from(block)
        return clause if isinstance(clause, Refusal) else numbered_flow(numbered, clause)

    def _select(self, node: Node) -> Trait:
        block = query_block(node)
        if block is None:
            return Flow(columns=None)
        clause = self.of_from(block)
        return clause if isinstance(clause, Refusal) else select_flow(block.select, clause)

    def _from(self, block: QueryBlock) -> FromClause | Refusal:
        select = block.select
        where = select.args.get("where")
        if not block.relations:
            joined = JoinedFlow(flow=Flow(columns=None))
            return FromClause(relations=[], joined=joined, where=where)
        for relation in block.relations:
            refusal = check_temporal(relation.place)
            if refusal is not None:
                return refusal
        relations: list[QualifiedRelation] = []
        for relation in block.relations:
            numbered = find_row_number(where, relation.place)
            if numbered is not None and relation.top_n is not None:
                where = numbered.rest
                self._numbers[id(relation.top_n)] = numbered
            flow = Flow(columns=None) if relation.node is None else self.of(relation.node)
            if isinstance(flow, Refusal):
                return flow
            relations.append(QualifiedRelation(alias=relation.alias, flow=flow))
        scans = {id(relation.place): relation.scan for relation in block.relations}

        def static(place: exp.Expr) -> tuple[int, ScanFlow] | None:
            scan = scans[id(place)]
            if scan is None or not scan.static:
                return None
            return scan.index, self._tables[scan.index]

        found = joined_flow(
            select,
            [relation.place for relation in block.relations],
            [relation.clause for relation in block.relations if relation.clause is not None],
            relations,
            static,
        )
        if isinstance(found, Refusal):
            return found
        return FromClause(relations=relations, joined=found, where=where)
