"""Write a planned query as Spark runs it: the walk over its operators, from the tables upwards.

A table that Spark reads by itself is broadcast where changes are joined with it: a shuffle would lose the order of a
key's changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.plan.logical.nodes import Limit, Node, SetOp, SubqueryAlias, TopN, WindowAssign
from penstock.sql.plan.logical.plan import Plan
from penstock.sql.plan.placement.blocks import (
    BlockRelation,
    QueryBlock,
    Trait,
    query_block,
)
from penstock.sql.plan.placement.place import PhysicalPlan
from penstock.sql.plan.placement.spark import SparkTraits
from penstock.sql.plan.rules.changelog_mode import FromClause, JoinedFlow, is_aggregation
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.plan.rules.top_n import (
    carry_arrival,
    find_row_number,
)
from penstock.sql.plan.spark_text.changes import (
    add_kind,
    keep_distinct,
    kind_literal,
    project_changes,
    write_aggregate,
)
from penstock.sql.plan.spark_text.top_n import write_top_n
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import whole_copies


def _write_joins(select: exp.Select, joined: JoinedFlow) -> None:
    """Rewrite the joins of a SELECT over changes: the tables are broadcast, and upserts keep rows without a match."""
    for alias in joined.broadcast:
        _broadcast(select, alias)
    joins = select.args.get("joins") or []
    for index in joined.outer:
        joins[index].set("side", "LEFT")
        joins[index].set("kind", None)


def _broadcast(select: exp.Select, alias: str) -> None:
    hint = exp.Anonymous(this="BROADCAST", expressions=[exp.to_identifier(alias, quoted=True)])
    known = select.args.get("hint")
    if known is None:
        select.set("hint", exp.Hint(expressions=[hint]))
    else:
        known.append("expressions", hint)


Syntax = TypeVar("Syntax", bound=exp.Expr)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkQuery:
    """A query as Spark runs it; `looked_up` are leaves to read again in each batch."""

    query: exp.Expr
    looked_up: frozenset[int] = frozenset()


def spark_query(placed: PhysicalPlan) -> SparkQuery:
    """Write a plan that Spark runs by itself: as the user wrote it where all rows are inserts.

    Else row kinds travel with the rows, and one operator may update its results.
    """
    if not placed.flow.is_changing:
        return SparkQuery(query=placed.plan.tree)
    writer = _SparkWriter(placed.plan, placed.traits)
    writer.query(placed.plan.root)
    return SparkQuery(query=writer.tree, looked_up=frozenset(writer.looked_up))


class _SparkWriter:
    """Rewrites a copy of a query by the traits of its operators, the lower ones first."""

    def __init__(self, plan: Plan, traits: SparkTraits) -> None:
        pairs = whole_copies(plan.inlined)
        self.tree = pairs[0][1]
        self._copies = {id(node): copied for node, copied in pairs}
        self._traits = traits
        self.looked_up: set[int] = set()

    def query(self, node: Node) -> None:
        """Rewrite a query."""
        block = query_block(node)
        match node:
            case SetOp():
                self._set(node)
            case SubqueryAlias() | WindowAssign():
                self.query(node.input)
            case Limit() if block is None:
                self.query(node.input)
            case _ if block is not None:
                self._select(block)

    def _copy(self, node: Syntax) -> Syntax:
        copied = self._copies[id(node)]
        assert isinstance(copied, type(node)), "the copy of a node is of its class"
        return copied

    # --- operators ---

    def _set(self, node: SetOp) -> None:
        chain = [node]
        while isinstance(chain[-1].left, SetOp):
            chain.append(chain[-1].left)
        self.query(chain[-1].left)
        for part in reversed(chain):  # a chain may be longer than the stack is deep
            self.query(part.right)
            self._add_kinds(part)

    def _add_kinds(self, node: SetOp) -> None:
        assert isinstance(node.syntax, exp.SetOperation), "it is one"
        written = self._copy(node.syntax)
        left, right = _flow(self._traits.of(node.left)), _flow(self._traits.of(node.right))
        if not (left.kinds or right.kinds):
            return
        for side, flow in ((written.this, left), (written.expression, right)):
            if not flow.kinds:
                kind = RowKind.UPDATE_AFTER if flow.is_changing else RowKind.INSERT
                add_kind(side, kind_literal(kind))

    def _select(self, block: QueryBlock) -> None:
        found, select = self._from(block), self._copy(block.select)
        source = found.joined.flow
        if is_aggregation(select):
            if block.windowed and not source.is_changing:
                keep_distinct(select)
            else:
                write_aggregate(select, source)
        elif source.is_changing:
            project_changes(select, found.relations, source, found.joined.conditions)

    # --- FROM ---

    def _from(self, block: QueryBlock) -> FromClause:
        found, select = self._traits.of_from(block), self._copy(block.select)
        assert isinstance(found, FromClause), "it was placed on Spark"
        for relation in block.relations:
            if relation.top_n is not None:
                self._top_n(select, relation, relation.top_n)
            elif relation.node is not None:
                self.query(relation.node)
            self._name_kind(relation)
        _write_joins(select, found.joined)
        self.looked_up |= found.joined.looked_up
        return found

    def _top_n(self, reader: exp.Select, relation: BlockRelation, node: TopN) -> None:
        numbered = find_row_number(reader.args.get("where"), self._copy(relation.origin))
        block = query_block(node)
        assert numbered is not None, "it numbers rows"
        assert block is not None, "it is a SELECT"
        reader.set("where", numbered.rest)  # without the bound
        found = self._from(block)
        tie = node.tie if node.by_record else None
        if tie is not None:
            carry_arrival(numbered.select)
        write_top_n(numbered, found.relations, tie)

    def _name_kind(self, relation: BlockRelation) -> None:
        """Name the hidden column behind those that an alias names."""
        alias = self._copy(relation.origin).args.get("alias")
        if relation.node is None or alias is None or not alias.columns:
            return
        if _flow(self._traits.of(relation.node)).kinds:
            alias.append("columns", exp.to_identifier(ROW_KIND, quoted=True))


def _flow(trait: Trait) -> Flow:
    assert not isinstance(trait, Refusal), "it was placed on Spark"
    return trait
