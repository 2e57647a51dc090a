"""Traits of Spark: the rows that its append mode or its update mode gives of each operator, or why it cannot.

The changelog modes are those of Flink's planner (FlinkChangelogModeInferenceProgram). An operator that updates its
results gives upserts by its key, and Spark runs only one of them in a query. For stages it streams queries and FROM
clauses whose rows are inserts, and whose joins all end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from penstock.sql.plan.placement.blocks import (
    BlockRelation,
    QueryBlock,
    StageOptions,
    Trait,
    query_block,
    remembered,
    scan_flow,
)
from penstock.sql.plan.placement.panes import runs_by_panes
from penstock.sql.plan.rules.changelog_mode import (
    FromClause,
    JoinedFlow,
    check_numbered,
    joined_flow,
    numbered_flow,
    select_flow,
    union_flow,
    windows_flow,
)
from penstock.sql.plan.rules.changelog_project import QualifiedRelation, expanded
from penstock.sql.plan.rules.flow import Flow, ScanFlow, renamed
from penstock.sql.plan.rules.joins import check_temporal, is_regular, is_regular_block
from penstock.sql.plan.rules.top_n import RowNumberQuery, find_row_number
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal


class SparkTraits:
    """The traits of the operators of one plan, each found once; `scans` are its tables by number."""

    def __init__(self, scans: Sequence[Scan]) -> None:
        self._tables: list[ScanFlow] = [scan_flow(scan) for scan in scans]
        self._found: dict[int, Trait] = {}
        self._clauses: dict[int, FromClause | Refusal] = {}
        self._numbers: dict[int, RowNumberQuery] = {}

    def of(self, node: Node) -> Trait:
        """Return the trait of an operator that is the top of a query, or a relation in FROM."""
        return remembered(node, self._found, self._of)

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
            case Limit() if not isinstance(node.syntax, exp.Select):
                return self._limited(node)
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
            origin=node.span,
        )

    def _limited(self, node: Limit) -> Trait:
        """Return the rows of a set operation, or of a query in brackets, with clauses behind it."""
        flow = self.of(node.input)
        if isinstance(flow, Refusal) or not flow.is_changing:
            return flow
        return Refusal(
            message="ORDER BY and LIMIT over rows that are updated and deleted are not supported",
            hint="write the changes into a table with a PRIMARY KEY, and query that table",
            span=node.span,
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
        if (refusal := check_numbered(numbered, self._tables)) is not None:
            return refusal
        clause = self.of_from(block)
        return clause if isinstance(clause, Refusal) else numbered_flow(numbered, clause)

    def _select(self, node: Node) -> Trait:
        block = query_block(node)
        if block is None:
            return Flow(columns=None)
        clause = self.of_from(block)
        if isinstance(clause, Refusal):
            return clause
        return select_flow(block.block, clause, windowed=block.windowed)

    def _from(self, block: QueryBlock) -> FromClause | Refusal:
        select = block.select
        where = select.args.get("where")
        if not block.relations:
            joined = JoinedFlow(flow=Flow(columns=None))
            return FromClause(relations=[], joined=joined, where=where)
        for relation in block.relations:
            if (refusal := check_temporal(relation.origin)) is not None:
                return refusal
        relations: list[QualifiedRelation] = []
        for relation in block.relations:
            numbered = find_row_number(where, relation.origin)
            if numbered is not None and relation.top_n is not None:
                where = numbered.rest
                self._numbers[id(relation.top_n)] = numbered
            flow = Flow(columns=None) if relation.node is None else self.of(relation.node)
            if isinstance(flow, Refusal):
                return flow
            relations.append(QualifiedRelation(alias=relation.alias, flow=flow))
        scans = {id(relation.origin): relation.scan for relation in block.relations}

        def static(origin: exp.Expr) -> tuple[int, ScanFlow] | None:
            scan = scans[id(origin)]
            if scan is None or not scan.static:
                return None
            return scan.index, self._tables[scan.index]

        found = joined_flow(
            select,
            [relation.origin for relation in block.relations],
            [relation.clause for relation in block.relations if relation.clause is not None],
            relations,
            static,
        )
        if isinstance(found, Refusal):
            return found
        return FromClause(relations=relations, joined=found, where=where)


# --- streams for stages ---


class StreamedParts:
    """The parts of one plan that Spark streams by itself, by its traits; `options` say what stages run of it."""

    def __init__(self, spark: SparkTraits, options: StageOptions) -> None:
        self._spark = spark
        self._options = options
        self._regular: dict[int, bool] = {}

    def query(self, node: Node) -> tuple[str, ...] | None:
        """Return the columns of a query that Spark streams by itself, as all its rows are inserts."""
        if node.syntax is None or not isinstance(node.syntax, exp.Query):
            return None
        if isinstance(node, Limit) and isinstance(node.syntax, exp.Subquery):
            return None  # inputs of stages are written without their brackets
        flow = self._spark.of(node)
        return None if isinstance(flow, Refusal) or not self.gives(node, flow) else flow.columns

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
        return remembered(node, self._regular, self._has_regular)

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
        if is_regular_block(block.block) or (of_list and self.runs_by_panes(block)):
            return True
        if self._options.joins_in_time and any(relation.ends for relation in block.relations):
            return True
        nodes = (relation.node for relation in block.relations)
        if any(node is not None and self.is_regular(node) for node in nodes):
            return True
        others = ["where"] if not of_list else [part for part in select.args if part != "from_"]
        inner = (query for part in others for query in _queries(select.args.get(part)))
        ons = (q for join in select.args.get("joins") or [] for q in _queries(join.args.get("on")))
        return any(map(is_regular, inner)) or any(map(is_regular, ons))

    def runs_by_panes(self, block: QueryBlock) -> bool:
        """Return whether a SELECT is an aggregation by windows that is not left to Spark."""
        return self._options.by_panes and runs_by_panes(block.core)

    def items(self, block: QueryBlock) -> list[exp.Expr] | Refusal:
        """Return the list of a SELECT with its stars written out, over a FROM that Spark streams."""
        clause = self._spark.of_from(block)
        assert not isinstance(clause, Refusal), "Spark streams it"
        relations = [
            qualified
            if isinstance(relation.origin, exp.Table | exp.Subquery)
            else QualifiedRelation(alias=qualified.alias, flow=Flow(columns=_alias_names(relation)))
            for qualified, relation in zip(clause.relations, block.relations, strict=True)
        ]
        items = expanded(block.select, relations)
        if not isinstance(items, Refusal):
            return items
        for relation, named in zip(block.relations, relations, strict=True):
            if isinstance(relation.origin, exp.Values) and named.flow.columns is None:
                return Refusal(
                    message="the columns of VALUES have no names here",
                    hint="name them: SELECT x FROM (VALUES (1)) AS v (x)",
                    span=span_of(relation.origin) or items.span,
                )
        return items


def _alias_names(relation: BlockRelation) -> tuple[str, ...] | None:
    alias = relation.origin.args.get("alias")
    names = () if alias is None else tuple(column.name for column in alias.columns)
    return names or None


def _queries(part: object) -> Iterator[exp.Select]:
    """Iterate over the SELECTs inside a clause, but those in its FROM."""
    for node in part if isinstance(part, list) else [part]:
        if isinstance(node, exp.Expr) and not isinstance(node, exp.Join | exp.Lateral | exp.With):
            yield from node.find_all(exp.Select)
