"""Write a query over changes for Spark: the walk over its operators, from the tables upwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.dialect import window_tables
from penstock.sql.dialect.windows.window_tables import is_windowing
from penstock.sql.plan.rules.changelog_mode import (
    FromClause,
    SparkFlows,
    is_aggregation,
    is_of_windows,
)
from penstock.sql.plan.rules.flow import Flow, ScanFlow
from penstock.sql.plan.rules.inline import inline_ctes
from penstock.sql.plan.rules.row_number import RowNumberQuery, find_row_number, take_bound
from penstock.sql.plan.rules.tie_break import arrival_carriers, carry_arrival, winner
from penstock.sql.plan.spark_text.aggregates import keep_distinct, write_aggregate
from penstock.sql.plan.spark_text.changes import add_kind, kind_literal, project_changes
from penstock.sql.plan.spark_text.joins import write_joins
from penstock.sql.plan.spark_text.top_n import write_top_n
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import copy_tree

__all__ = ["ChangelogPlan", "plan_changelog"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogPlan:
    """A query as Spark runs it, and the rows that it gives; `looked_up` are leaves to read again in each batch."""

    query: exp.Expr
    flow: Flow
    looked_up: frozenset[int] = frozenset()


def plan_changelog(query: exp.Expr, tables: Sequence[ScanFlow]) -> ChangelogPlan | Refusal:
    """Find the changelog mode of `query` and rewrite it accordingly; unchanged where all its rows are inserts.

    `query` has no views, and its tables are numbered as `tables`. Refused at the first operator that cannot process
    its input.
    """
    tree = inline_ctes(copy_tree(query))
    flows = SparkFlows(tables)
    flow = flows.of(tree)
    if isinstance(flow, Refusal):
        return flow
    if not flow.is_changing:
        return ChangelogPlan(query=query, flow=flow)
    writer = _ChangelogWriter(flows, tables)
    writer.query(tree)
    return ChangelogPlan(query=tree, flow=flow, looked_up=frozenset(writer.looked_up))


class _ChangelogWriter:
    """Rewrites a tree in place, by the flows of its operators; those below an operator before it."""

    def __init__(self, flows: SparkFlows, tables: Sequence[ScanFlow]) -> None:
        self._flows = flows
        self._tables = tables
        self.looked_up: set[int] = set()

    def query(self, node: exp.Expr) -> None:
        """Rewrite a query, or a relation in FROM that numbers no rows."""
        match node:
            case exp.Select():
                self._select(node)
            case exp.SetOperation():
                self._union(node)
            case exp.Subquery():
                kinds = self._of(node).kinds
                self.query(node.this)
                _alias_kind(node, kinds=kinds)
            case exp.Table() if is_windowing(node):
                self.query(next(w.input for w in window_tables(node) if w.node is node))
            case ScanTable():
                _alias_kind(node, kinds=self._of(node).kinds)
            case _:
                pass

    def _of(self, node: exp.Expr) -> Flow:
        flow = self._flows.of(node)
        assert isinstance(flow, Flow), "it was checked"
        return flow

    def _of_from(self, select: exp.Select) -> FromClause:
        found = self._flows.of_from(select)
        assert isinstance(found, FromClause), "it was checked"
        return found

    def _select(self, select: exp.Select) -> None:
        found = self._of_from(select)
        self._from(select, found)
        source = found.joined.flow
        if is_aggregation(select):
            if is_of_windows(select, source):
                keep_distinct(select)
            else:
                write_aggregate(select, source)
        elif source.is_changing:
            project_changes(select, found.relations, source, found.joined.conditions)

    def _from(self, select: exp.Select, found: FromClause) -> None:
        from_ = select.args.get("from_")
        if from_ is None:
            return
        joins = [*(select.args.get("joins") or []), *(select.args.get("laterals") or [])]
        nodes = [from_.this, *(join.this if isinstance(join, exp.Join) else join for join in joins)]
        for node in nodes:
            numbered = find_row_number(select.args.get("where"), node)
            if numbered is None:
                self.query(node)
            else:
                take_bound(select, numbered)
                self._top_n(numbered)
        write_joins(select, found.joined)
        self.looked_up |= found.joined.looked_up

    def _top_n(self, numbered: RowNumberQuery) -> None:
        found = self._of_from(numbered.select)
        self._from(numbered.select, found)
        carriers = arrival_carriers(numbered.select, self._tables)
        tie = None if carriers is None else winner(numbered, self._tables)
        carry_arrival(carriers or [])
        write_top_n(numbered, found.relations, tie)

    def _union(self, node: exp.SetOperation) -> None:
        sides = [(side, self._of(side)) for side in (node.this, node.expression)]
        for side, _ in sides:
            self.query(side)
        if not any(flow.kinds for _, flow in sides):
            return
        for side, flow in sides:
            if not flow.kinds:
                kind = RowKind.UPDATE_AFTER if flow.is_changing else RowKind.INSERT
                add_kind(side, kind_literal(kind))


def _alias_kind(node: exp.Expr, *, kinds: bool) -> None:
    """Name the hidden column behind those that an alias names."""
    alias = node.args.get("alias")
    if kinds and alias is not None and alias.columns:
        alias.append("columns", exp.to_identifier(ROW_KIND, quoted=True))
