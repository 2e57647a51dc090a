"""Changelog modes of a query: those of its tables, of each operator, and of the sink.

As Flink's planner (FlinkChangelogModeInferenceProgram) this refuses, at the operator, what cannot run correctly; and
it rewrites the query so that row kinds travel with the rows and updating operators run in Spark's update mode. All of
it is done on syntax trees, before any JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.sql.dialect import window_tables
from penstock.sql.dialect.parser.table_functions import WINDOW_FUNCTIONS
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.plan.rules.aggregate import aggregate, is_windowed, keep_distinct, own_aggregates
from penstock.sql.plan.rules.changelog_join import JoinedFlow, join_changelogs
from penstock.sql.plan.rules.changelog_project import (
    QualifiedRelation,
    add_kind,
    project_changes,
    project_rows,
)
from penstock.sql.plan.rules.flow import LEAF, Flow, ScanFlow, kind_literal, renamed
from penstock.sql.plan.rules.inline import inline_ctes
from penstock.sql.plan.rules.joins import refuse_temporal, updates
from penstock.sql.plan.rules.row_number import find_row_number
from penstock.sql.plan.rules.tie_break import tie_break
from penstock.sql.plan.rules.top_n import rewrite_top_n
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import copy_tree, find_nodes

__all__ = ["LEAF", "ChangelogPlan", "plan_changelog", "refuse_over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogPlan:
    """A query rewritten for its changes, and their flow; `looked_up` are leaves to read again in each batch."""

    query: exp.Expr
    flow: Flow
    looked_up: frozenset[int] = frozenset()


def plan_changelog(query: exp.Expr, tables: Sequence[ScanFlow]) -> ChangelogPlan:
    """Find the changelog mode of `query` and rewrite it accordingly; unchanged where all its rows are inserts.

    `query` has no views, its table nodes are labelled with the index of their leaf in `tables`. Raises
    UnsupportedError at an operator that cannot process its input.
    """
    tree = inline_ctes(copy_tree(query))
    walk = _ChangelogVisitor(tables)
    flow = walk.query(tree)
    if not flow.is_changing:
        return ChangelogPlan(query=query, flow=flow)
    return ChangelogPlan(query=tree, flow=flow, looked_up=frozenset(walk.looked_up))


class _ChangelogVisitor:
    """Walks a query from the tables upwards, rewriting it in place."""

    def __init__(self, tables: Sequence[ScanFlow]) -> None:
        self._tables = tables
        self.looked_up: set[int] = set()

    def query(self, node: exp.Expr) -> Flow:
        match node:
            case exp.Select():
                return self._select(node)
            case exp.SetOperation():
                return self._union(node)
            case exp.Subquery():
                return self._aliased(node, self.query(node.this))
            case _:
                return Flow(columns=None)

    # --- relations ---

    def _relation(self, node: exp.Expr, reader: exp.Select) -> Flow:
        match node:
            case exp.Subquery() if numbered := find_row_number(reader, node):
                if numbered.is_by_arrival(frozenset().union(*(t.proctimes for t in self._tables))):
                    raise UnsupportedError(
                        "the order in which rows come is not known in Spark's update mode",
                        hint="order by a column of the rows",
                        span=span_of(numbered.item),
                    )
                relations, joined = self._from(numbered.select)
                self._refuse_chain(joined.flow, numbered.item, "ROW_NUMBER")
                tie = tie_break(
                    numbered, self._tables
                )  # columns of FROM are told before it has one more
                return self._aliased(node, rewrite_top_n(numbered, relations, joined.flow, tie))
            case exp.Subquery():
                return self.query(node)
            case exp.Table() if isinstance(node.this, exp.Anonymous):
                return self._window(node)
            case exp.Table() if LEAF in node.meta:
                return self._aliased(node, self._leaf(node))
            case _:
                return Flow(columns=None)

    def _leaf(self, node: exp.Table) -> Flow:
        table = self._tables[node.meta[LEAF]]
        if table.changes is ChangelogMode.INSERT_ONLY:
            return Flow(columns=table.columns)
        return Flow(
            columns=table.columns, changes=table.changes, key=table.key, kinds=True, origin=node
        )

    def _window(self, node: exp.Table) -> Flow:
        if node.this.name.upper() not in WINDOW_FUNCTIONS:
            return Flow(columns=None)
        window = next(w for w in window_tables(node) if w.node is node)
        flow = self._relation(window.input, exp.Select())
        if flow.is_changing:
            raise UnsupportedError(
                f"{window.kind} over rows that are updated or deleted is not supported",
                hint="aggregate without a window into a table with a PRIMARY KEY: GROUP BY FLOOR(ts TO MINUTE), ...",
                span=window.span,
            )
        columns = None if flow.columns is None else (*flow.columns, *WINDOW_COLUMNS)
        return replace(flow, columns=columns)

    @staticmethod
    def _aliased(node: exp.Expr, flow: Flow) -> Flow:
        alias = node.args.get("alias")
        names = [column.name for column in alias.columns] if alias is not None else []
        if alias is None or not names:
            return flow
        if flow.kinds:
            alias.append("columns", exp.to_identifier(ROW_KIND, quoted=True))
        return renamed(flow, names)

    def _from(self, select: exp.Select) -> tuple[list[QualifiedRelation], JoinedFlow]:
        """Return the relations of a FROM clause, and the joined one."""
        from_ = select.args.get("from_")
        if from_ is None:
            return [], JoinedFlow(flow=Flow(columns=None))
        joins: list[exp.Expr] = [
            *(select.args.get("joins") or []), *(select.args.get("laterals") or []),
        ]  # fmt: skip
        nodes = [from_.this, *(join.this if isinstance(join, exp.Join) else join for join in joins)]
        for node in nodes:
            refuse_temporal(node)
        relations = [
            QualifiedRelation(alias=node.alias_or_name, flow=self._relation(node, select))
            for node in nodes
        ]
        joined = join_changelogs(select, nodes, joins, relations, self._static_leaf)
        self.looked_up |= joined.looked_up
        return relations, joined

    def _static_leaf(self, node: exp.Expr) -> tuple[int, ScanFlow] | None:
        """Return the leaf that a join may read once a batch; None for any other relation."""
        if not isinstance(node, exp.Table) or LEAF not in node.meta:
            return None
        index = node.meta[LEAF]
        return (index, self._tables[index]) if self._tables[index].static else None

    # --- operators ---

    def _select(self, select: exp.Select) -> Flow:
        relations, joined = self._from(select)
        source = joined.flow
        refuse_over(select)
        _refuse_sorting(select)
        group, distinct = select.args.get("group"), select.args.get("distinct")
        if group is not None or own_aggregates(select):
            if not source.is_changing and is_windowed(group.expressions if group else []):
                keep_distinct(select)
                return project_rows(select, relations, group)
            self._refuse_chain(source, group or select, "an aggregation")
            if joined.conditions:
                raise UnsupportedError(
                    "an aggregation over a join of upserts is not supported",
                    span=span_of(group or select),
                )
            return aggregate(select, relations, source)
        if source.is_changing:
            return project_changes(select, relations, source, joined.conditions)
        _refuse_keeping_all(select)
        stateful = source.stateful or (select if distinct is not None else None)
        return project_rows(select, relations, stateful)

    @staticmethod
    def _refuse_chain(source: Flow, node: exp.Expr, name: str) -> None:
        """Refuse an updating operator over one that keeps state, or that emits no row before an update."""
        place = span_of(node)
        if source.mechanism is not None:
            raise UnsupportedError(
                f"{name} over the results of {source.mechanism.named} is not supported: "
                "Spark updates one such operator in a query",
                hint="write the inner results into a Delta table with a PRIMARY KEY, and query that table",
                span=place,
            )
        if source.stateful is not None:
            raise UnsupportedError(
                f"{name} without a window over a windowed aggregation, a join of streams or a DISTINCT is not "
                "supported",
                hint="write the inner results into a Delta table, and read that in a second INSERT",
                span=place,
            )
        if source.changes is ChangelogMode.UPSERT:
            raise UnsupportedError(
                f"{name} over upserts is not supported: what a row was before is not told",
                hint="write the upserts into a Delta table with the same PRIMARY KEY and aggregate that, or read the "
                "changes in a format that has the row before (debezium-json)",
                span=place,
            )

    def _union(self, node: exp.SetOperation) -> Flow:
        branches = [(side, self.query(side)) for side in (node.this, node.expression)]
        changing = [flow for _, flow in branches if flow.is_changing]
        plain = isinstance(node, exp.Union) and not node.args.get("distinct")
        stateful = next((flow.stateful for _, flow in branches if flow.stateful is not None), None)
        if not changing:
            if not plain:
                raise UnsupportedError(
                    f"{node.key.upper()} of streams keeps every row it has seen and is not supported in Spark's "
                    "append mode",
                    hint="UNION ALL is",
                    span=span_of(node),
                )
            return Flow(columns=branches[0][1].columns, stateful=stateful)
        _check_union(node, [flow for _, flow in branches], plain=plain, stateful=stateful)
        names = list(branches[0][1].columns or ())
        flows = [renamed(flow, names) for _, flow in branches]
        first = next(flow for flow in flows if flow.is_changing)
        upserts = [flow for flow in flows if flow.changes is ChangelogMode.UPSERT]
        if any(flow.key != first.key for flow in upserts):
            raise UnsupportedError(
                "UNION ALL of upserts by different keys is not supported",
                hint="give the key the same columns in both queries",
                span=span_of(node),
            )
        kinds = any(flow.kinds for flow in flows)
        for side, flow in branches if kinds else ():
            if not flow.kinds:
                kind = RowKind.UPDATE_AFTER if flow.is_changing else RowKind.INSERT
                add_kind(side, kind_literal(kind))
        if first.changes is ChangelogMode.ALL:
            first = replace(first, key=None)  # a key of each part is no key of all
        constants = frozenset.intersection(*(flow.constants for flow in flows))
        return replace(
            first, kinds=kinds, constants=constants if first.mechanism is None else frozenset()
        )


def refuse_over(select: exp.Select) -> None:
    """Raise UnsupportedError at an OVER of the SELECT itself."""
    for window in find_nodes(select, exp.Window):
        call = window.this.find(exp.Func)  # none in a WINDOW clause: what is OVER it comes, too
        if call is not None and window.find_ancestor(exp.Select) is select:
            raise UnsupportedError(
                f"{call.sql_name()} OVER a stream is not supported here: beside GROUP BY, lookups, or outside the "
                "SELECT list",
                hint="give it a SELECT of its own: aggregate or look up in a query in FROM or in a second INSERT, and "
                "filter on its result in the query around it",
                span=span_of(window),
            )


def _refuse_sorting(select: exp.Select) -> None:
    """Refuse clauses that would have to wait for the end of a stream."""
    if not any(LEAF in table.meta for table in find_nodes(select, exp.Table)):
        return
    for name, words in (("order", "ORDER BY"), ("offset", "OFFSET")):
        node = select.args.get(name)
        if node is not None:
            raise UnsupportedError(
                f"{words} of a stream is not supported",
                hint="sort where the rows are read; ROW_NUMBER() OVER (ORDER BY ...) AS n in a query in FROM, and "
                "WHERE n <= 10 in the query around it keep the best",
                span=span_of(node) or span_of(select),
            )


def _refuse_keeping_all(select: exp.Select) -> None:
    """Refuse what would keep every row in Spark permanently, or what Spark's append mode cannot do."""
    join = updates(select)
    if join is not None:
        raise UnsupportedError(
            "this join of streams has no bound in time, and its results may change",
            hint="compare event times: b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR",
            span=span_of(join) or span_of(select),
        )
    if select.args.get("distinct") is not None and not is_windowed(select.expressions):
        raise UnsupportedError(
            "SELECT DISTINCT over a stream keeps every row it has seen and is not supported without a window",
            hint="add window_start and window_end of a windowing function to the selected columns",
            span=span_of(select),
        )


def _check_union(
    node: exp.SetOperation, flows: Sequence[Flow], *, plain: bool, stateful: exp.Expr | None
) -> None:
    changing = [flow for flow in flows if flow.is_changing]
    if not plain:
        raise UnsupportedError(
            f"{node.key.upper()} of rows that are updated or deleted is not supported",
            hint="UNION ALL is",
            span=span_of(node),
        )
    updating = [flow for flow in changing if flow.mechanism is not None]
    if len(updating) > 1 or (updating and stateful is not None):
        raise UnsupportedError(
            "Spark updates one operator with state in a query; this UNION ALL has two",
            hint="write one INSERT for each part",
            span=span_of(node),
        )
    if len({flow.changes for flow in changing}) > 1:
        raise UnsupportedError(
            "UNION ALL of upserts with changes that have the row before is not supported",
            hint="write one INSERT for each part",
            span=span_of(node),
        )
    if any(flow.columns is None for flow in flows):
        raise UnsupportedError(
            "the columns of a part of this UNION ALL cannot be told",
            hint="name the columns",
            span=span_of(node),
        )
