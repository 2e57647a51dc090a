"""The operators of one SELECT, and traits: what an engine gives of an operator, or why it cannot run it.

Also the plan of a query that stages run, which `incremental/planning` makes for `place.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sqlglot import exp

from penstock.sql.incremental.stages import IncrementalQuery
from penstock.sql.plan.logical.nodes import (
    Aggregate,
    Block,
    Distinct,
    Filter,
    Join,
    JoinEnds,
    JoinType,
    Limit,
    LookupJoin,
    Node,
    Over,
    Project,
    Refused,
    Scan,
    SetOp,
    SubqueryAlias,
    TemporalJoin,
    TopN,
    Unnest,
)
from penstock.sql.plan.logical.plan import inputs
from penstock.sql.plan.rules.flow import Flow, ScanFlow
from penstock.sql.syntax.refusal import Refusal

Answer = TypeVar("Answer")


# --- traits ---

Trait = Flow | Refusal
"""The rows that an engine gives of an operator, or the refusal of the first operator that it cannot run."""


def scan_flow(scan: Scan) -> ScanFlow:
    """Return the properties of a scan by which the rules of a SELECT ask."""
    return ScanFlow(
        name=scan.table,
        columns=scan.facts.names or (),
        changes=scan.changes,
        key=scan.key,
        static=scan.static,
        proctimes=scan.proctimes,
        rowtime=scan.rowtime,
        arrival=scan.arrival,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOptions:
    """What stages run beyond what Spark cannot, and in which form; what earlier versions planned has none of these.

    `joins_in_time`: joins whose rows end with the watermark are stages, too, where their rows can be told to end.
    `by_panes`: so are aggregations by windows whose rows are grouped by pane. `by_position`: rows of a table that Top-1
    has to tell apart are numbered in their order. `accumulates`: aggregations of inserts keep accumulators, and give no
    rows before an update where nothing needs these; `retracts`: they give them, and their groups may expire.
    `lists_apart`: SELECT lists of aggregations are computed behind their stages.
    """

    joins_in_time: bool = False
    by_panes: bool = False
    by_position: bool = False
    accumulates: bool = False
    retracts: bool = False
    lists_apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalPlan:
    """A query that stages run: `query` is what Spark streams for them, `flow` describes its result.

    `combined` gives the same rows, and reads a table once for several inputs; checkpoints are compared by `query`.
    `inputs` are the queries of the inputs, in order.

    `waiting` are the leaves that wait for their watermark, as an operator of Spark's drops what is late; `timed` those
    for whose watermarks stages wait. `rows` are those of operators on stages, by their identity; None: Spark streams
    them. `streamed` are the SELECTs whose FROM Spark streams, and `stateful` the places of relations of which operators
    without a bound in time keep rows, by their identity, too.
    """

    maintained: IncrementalQuery
    query: exp.Expr
    combined: exp.Expr
    inputs: tuple[exp.Query, ...]
    flow: Flow
    waiting: frozenset[int]
    timed: frozenset[int]
    rows: Mapping[int, Flow | None] = field(compare=False, repr=False)
    streamed: frozenset[int] = field(compare=False, repr=False)
    stateful: frozenset[int] = field(compare=False, repr=False)


# --- operators of a SELECT ---


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRelation:
    """An item of FROM: `origin` is its syntax, `node` its operator; None for a function that unfolds rows.

    `clause` is the syntax that joins it with those before, and `join` the operator. `refused` is why it is no temporal
    join, though it is written as one; it has no operators then.
    """

    origin: exp.Expr
    node: Node | None
    clause: exp.Expr | None = None
    join: Node | None = None
    refused: Refusal | None = None

    @property
    def alias(self) -> str:
        """The name of the relation."""
        return str(self.origin.alias_or_name)

    @property
    def ends(self) -> JoinEnds | None:
        """When the rows of both sides of its join end with the watermark, so that keyed operators may run it."""
        return self.join.ends if isinstance(self.join, Join) else None

    @property
    def top_n(self) -> TopN | None:
        """The Top-N that the relation is."""
        node = self.node
        while isinstance(node, SubqueryAlias):
            node = node.input
        return node if isinstance(node, TopN) else None

    @property
    def scan(self) -> Scan | None:
        """The table that the relation is."""
        node = self.node
        while isinstance(node, SubqueryAlias):
            node = node.input
        return node if isinstance(node, Scan) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBlock:
    """The operators of a SELECT: `relations` are those of its FROM, from left to right.

    `queries` are the joins with the queries of IN and EXISTS, in the order of the conditions. `core` computes its
    SELECT list. `windowed`: it groups by the bounds of a window, or they are among the columns of its DISTINCT.
    """

    block: Block
    relations: tuple[BlockRelation, ...]
    queries: tuple[Join, ...]
    core: Project | Aggregate | Over | TopN
    windowed: bool = False

    @property
    def select(self) -> exp.Select:
        """The SELECT."""
        return self.block.select


def rowtimes_of(
    core: Project | Aggregate | Over | TopN,
) -> Callable[[exp.Column], frozenset[int] | None]:
    """Return what gives the scans whose watermarks bound a column of FROM; None for one that is no rowtime."""

    def sources(order: exp.Column) -> frozenset[int] | None:
        of_first = order.table in ("", core.block.first)
        return core.input.facts.sources(order.name) if of_first else None

    return sources


def query_block(node: Node) -> QueryBlock | None:
    """Return the SELECT that an operator is the top of; None for all other operators."""
    block = _block(node)
    if block is None:
        return None
    found: list[tuple[Node | None, Node | None, Refusal | None]] = []
    queries: list[Join] = []
    core: Project | Aggregate | Over | TopN | None = node if isinstance(node, TopN) else None
    windowed = False
    child: Node = node if core is None else core.input
    while True:
        match child:
            case Refused(input=inner) if inner is not None:
                found.append((None, None, child.stage))
                child = inner
            case Limit():
                child = child.input
            case Project() | Over() if child.block is block:
                core, child = child, child.input
            case Aggregate() if child.block is block:
                windowed = child.windowed
                core, child = child, child.input
            case Distinct() if child.block is block:
                windowed = child.windowed
                child = child.input
            case Filter() if child.block is block:
                child = child.input
            case Join(kind=JoinType.SEMI | JoinType.ANTI) if child.block is block:
                queries.append(child)
                child = child.left
            case Unnest() if child.block is block:
                found.append((None, child, None))
                child = child.input
            case Join() | LookupJoin() | TemporalJoin() if child.block is block:
                found.append((child.right, child, None))
                child = child.left
            case _:
                found.append((child, None, None))
                break
    assert core is not None, "it has a SELECT list"
    return QueryBlock(
        block=block,
        core=core,
        relations=tuple(_relations(block.select, found[::-1])),
        queries=tuple(reversed(queries)),
        windowed=windowed,
    )


def remembered(node: Node, found: dict[int, Answer], find: Callable[[Node], Answer]) -> Answer:
    """Return what `find` tells of an operator, each asked once; the left sides of a set operation first."""
    pending = [node]
    while id(pending[-1]) not in found and isinstance(pending[-1], SetOp):
        pending.append(pending[-1].left)
    for part in reversed(pending):  # a chain may be longer than the stack is deep
        if id(part) not in found:
            found[id(part)] = find(part)
    return found[id(node)]


def numbering_block(node: Node) -> QueryBlock:
    """Return the query that numbers the rows of a view of last rows."""
    while not isinstance(node, TopN):
        (node,) = inputs(node)
    block = query_block(node)
    assert block is not None, "it is a SELECT"
    return block


def _relations(
    select: exp.Select, found: Sequence[tuple[Node | None, Node | None, Refusal | None]]
) -> Iterator[BlockRelation]:
    from_ = select.args.get("from_")
    if from_ is None:
        return
    clauses: list[exp.Expr | None] = [None, *(select.args.get("joins") or [])]
    clauses += select.args.get("laterals") or []
    for clause, (node, join, refused) in zip(clauses, found, strict=True):
        origin = from_.this if clause is None else clause
        origin = origin.this if isinstance(origin, exp.Join) else origin
        yield BlockRelation(origin=origin, node=node, clause=clause, join=join, refused=refused)


def _block(node: Node) -> Block | None:
    match node:
        case Limit(input=child):
            return _block(child)
        case Project() | Aggregate() | Over() | Distinct() | Filter() | TopN():
            return node.block
        case _:
            return None
