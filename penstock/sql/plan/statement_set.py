"""Decides how a statement set runs: as one query that reads once and writes every sink, or as a query per INSERT.

One query is only made of INSERTs whose rows are a function of the rows of the batch: each of them is evaluated over
the batch when it is written, and again when a batch is replayed. Pure; `sql/run/statement_set.py` runs the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.connector.registry import connector_of
from penstock.sql.dialect import parse_query, window_tables
from penstock.sql.plan.analysed_query import AnalysedLeaf, AnalysedQuery
from penstock.sql.plan.analysis import LEAF
from penstock.sql.plan.columns import delivered_columns
from penstock.sql.plan.fields import Paths, merged
from penstock.sql.plan.varying import chance_in, varying_in

__all__ = [
    "SET_NAME",
    "SharedRead",
    "SideBySide",
    "read_of",
    "reading",
    "share",
]

SET_NAME = "statement-set"
"""What the one query of a set is named by, as others are by their sinks."""

_NO_FUNCTION_OF_A_ROW = (
    exp.AggFunc, exp.Distinct, exp.Except, exp.Group, exp.Intersect, exp.Join, exp.Limit, exp.Offset,
    exp.Order, exp.Window,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRead:
    """One query: `leaf` is the table with every column that one of the INSERTs needs."""

    leaf: AnalysedLeaf


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """A query per INSERT, and in words why."""

    reason: str


def share(queries: Sequence[AnalysedQuery], project: Path) -> SharedRead | SideBySide:
    """Decide for the queries of a set, in order."""
    if len(queries) == 1:
        return SideBySide(reason="there is one INSERT")
    first = queries[0].leaves
    if any(len(query.leaves) != 1 for query in queries) or not first:
        return SideBySide(reason="an INSERT reads no table, or several")
    if any(not query.followed for query in queries):
        return SideBySide(reason=f"{first[0].table.identifier} is read once, and not followed")
    if any(query.leaves[0].table != first[0].table for query in queries):
        return SideBySide(
            reason="the INSERTs read different tables, or one table with different options"
        )
    source = connector_of(first[0].table, project=project).source(first[0].table)
    if source.changes is not ChangelogMode.INSERT_ONLY:
        return SideBySide(reason="the table that they read gives changes, not only new rows")
    for query in queries:
        if query.maintained is not None:
            return SideBySide(reason="an INSERT is maintained: it keeps state of its own")
        reason = _reason(query.query) or _reason_of_columns(query.leaves[0])
        if query.flow.is_changing:
            reason = reason or "an INSERT gives changes, not only new rows"
        if reason is not None:
            return SideBySide(reason=reason)
    return SharedRead(leaf=_union([query.leaves[0] for query in queries]))


def read_of(leaf: AnalysedLeaf) -> AnalysedQuery:
    """Give the query that reads the shared table and nothing else."""
    table = exp.to_table("penstock_shared")
    table.meta[LEAF] = 0
    return AnalysedQuery(query=exp.select("*").from_(table), leaves=(leaf,))


def reading(query: AnalysedQuery, view: str) -> exp.Expr:
    """Give an INSERT's query, over a view of the batch's rows in the place of its table."""
    tree = query.query.copy()
    for node in list(tree.find_all(exp.Table)):
        if node.meta.get(LEAF) is None:
            continue
        given = node.args.get("alias")
        alias = exp.TableAlias(
            this=exp.to_identifier(node.alias or node.name, quoted=True),
            columns=[] if given is None else given.columns,
        )
        node.replace(exp.Table(this=exp.to_identifier(view), alias=alias))
    return tree


def _union(leaves: Sequence[AnalysedLeaf]) -> AnalysedLeaf:
    names = {name for leaf in leaves for name in (*leaf.columns, *leaf.computed)}
    columns, computed = delivered_columns(leaves[0].table.schema, frozenset(names))
    return replace(leaves[0], columns=columns, computed=computed, fields=_fields(columns, leaves))


def _fields(columns: Sequence[str], leaves: Sequence[AnalysedLeaf]) -> dict[str, Paths]:
    """Give what is read of the columns that no INSERT reads whole."""
    narrow: dict[str, Paths] = {}
    for name in columns:
        readers = [leaf for leaf in leaves if name in leaf.columns]
        if readers and all(name in leaf.fields for leaf in readers):
            narrow[name] = merged(leaf.fields[name] for leaf in readers)
    return narrow


def _reason_of_columns(leaf: AnalysedLeaf) -> str | None:
    """Say which computed column is no function of its row; the time of a batch is kept with the batch."""
    for name, text in leaf.computed.items():
        if any(True for _ in chance_in(parse_query(f"SELECT {text}"))):
            return f"the column {name} AS {text} asks for chance: a replayed batch would not give the same rows"
    return None


def _reason(query: exp.Expr) -> str | None:
    """Say why a query is no function of each row; None where it is one."""
    if window_tables(query) or query.find(*_NO_FUNCTION_OF_A_ROW) is not None:
        return (
            "an INSERT has an operator that looks at more than one row: it keeps state of its own"
        )
    if any(union.args.get("distinct") for union in query.find_all(exp.Union)):
        return "an INSERT has a UNION without ALL: it keeps state of its own"
    if any(where.find(exp.Select) is not None for where in query.find_all(exp.Where)):
        return "an INSERT has a query in its WHERE: it is a join"
    if any(True for _ in varying_in(query)):
        return "an INSERT asks for the current time or for chance: a replayed batch would not give the same rows"
    return None
