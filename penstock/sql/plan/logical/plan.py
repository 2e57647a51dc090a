"""The logical plan of a query, and the traversal of its operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from sqlglot import exp

from penstock.sql.binding.hints import StateTtl
from penstock.sql.plan.logical import nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class StateHint:
    """A hint STATE_TTL; `used` says whether an operator of the plan keeps state that it bounds."""

    hint: StateTtl = field(compare=False)
    used: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A logical plan.

    `scans` are the tables in order of their first mention, also those that only queries inside expressions read;
    `lookups` are the numbers of those that are looked up. `follows_windows`: an operator is one of windows, and the
    names of their bounds do not tell that. `tree` is the query that the plan was built from, `inlined` its copy without
    WITH, of whose nodes the operators are. Neither is changed in place.
    """

    root: nodes.Node
    scans: tuple[nodes.Scan, ...]
    lookups: frozenset[int] = frozenset()
    hints: tuple[StateHint, ...] = ()
    follows_windows: bool = False
    tree: exp.Expr = field(compare=False, repr=False)
    inlined: exp.Expr = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        assert [scan.index for scan in self.scans] == list(range(len(self.scans))), "by number"


def inputs(node: nodes.Node) -> tuple[nodes.Node, ...]:
    """Return the inputs of an operator, from left to right."""
    match node:
        case nodes.Scan() | nodes.Values() | nodes.TableFunction() | nodes.Opaque():
            return ()
        case (
            nodes.SubqueryAlias()
            | nodes.WindowAssign()
            | nodes.Unnest()
            | nodes.Filter()
            | nodes.Project()
            | nodes.Aggregate()
            | nodes.Distinct()
            | nodes.TopN()
            | nodes.Over()
            | nodes.Limit()
        ):
            return (node.input,)
        case nodes.Join() | nodes.LookupJoin() | nodes.TemporalJoin() | nodes.SetOp():
            return node.left, node.right
        case nodes.Refused():
            return () if node.input is None else (node.input,)
        case _:
            assert_never(node)


def walk(root: nodes.Node) -> Iterator[nodes.Node]:
    """Iterate over the operators of a plan, inputs before the operator that reads them, from left to right."""
    pending: list[tuple[nodes.Node, bool]] = [(root, False)]
    while pending:
        node, entered = pending.pop()
        if entered:
            yield node
            continue
        pending.append((node, True))
        pending += [(child, False) for child in reversed(inputs(node))]
