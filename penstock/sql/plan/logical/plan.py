"""The logical plan of a query, and the traversal of its operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from sqlglot import exp

from penstock.sql.binding.hints import StateTtl
from penstock.sql.plan.logical.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    LookupJoin,
    Node,
    Opaque,
    Over,
    Project,
    Refused,
    Scan,
    SetOp,
    SubqueryAlias,
    TableFunction,
    TemporalJoin,
    TopN,
    Unnest,
    Values,
    WindowAssign,
)

__all__ = ["Plan", "StateHint", "inputs", "walk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateHint:
    """A hint STATE_TTL; `used` says whether an operator of the plan keeps state that it bounds."""

    hint: StateTtl = field(compare=False)
    used: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A logical plan.

    `scans` are the tables in order of their first mention, also those that only queries inside expressions read;
    `lookups` are the numbers of those that are looked up. `tree` is the query that the plan was built from, `inlined`
    its copy without WITH, of whose nodes the operators are. Neither is changed in place.
    """

    root: Node
    scans: tuple[Scan, ...]
    lookups: frozenset[int] = frozenset()
    hints: tuple[StateHint, ...] = ()
    tree: exp.Expr = field(compare=False, repr=False)
    inlined: exp.Expr = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        assert [scan.index for scan in self.scans] == list(range(len(self.scans))), "by number"


def inputs(node: Node) -> tuple[Node, ...]:
    """Return the inputs of an operator, from left to right."""
    match node:
        case Scan() | Values() | TableFunction() | Opaque():
            return ()
        case (
            SubqueryAlias()
            | WindowAssign()
            | Unnest()
            | Filter()
            | Project()
            | Aggregate()
            | Distinct()
            | TopN()
            | Over()
            | Limit()
        ):
            return (node.input,)
        case Join() | LookupJoin() | TemporalJoin() | SetOp():
            return node.left, node.right
        case Refused():
            return () if node.input is None else (node.input,)
        case _:
            assert_never(node)


def walk(root: Node) -> Iterator[Node]:
    """Iterate over the operators of a plan, inputs before the operator that reads them, from left to right."""
    pending: list[tuple[Node, bool]] = [(root, False)]
    while pending:
        node, entered = pending.pop()
        if entered:
            yield node
            continue
        pending.append((node, True))
        pending += [(given, False) for given in reversed(inputs(node))]
