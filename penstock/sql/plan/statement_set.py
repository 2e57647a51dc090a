"""Decide how a statement set runs: as one query that reads once and writes every sink, or as a query for each
INSERT.

The sinks get names. One query is made only of INSERTs whose rows are a function of the batch's rows: each is
evaluated when the batch is written, and again when it is replayed. Sinks know a batch by the query and the
sink's name: if two sinks swapped names, a batch that one has and the other has not would be skipped by the
wrong one. Pure; `sql/runner/plan.py` runs the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlglot import exp

from penstock.catalog.errors import StateMismatchError
from penstock.connector.changelog import ChangelogMode
from penstock.connector.registry import connector_of
from penstock.sql.checkpoint.fingerprint import START_OVER_HINTS
from penstock.sql.checkpoint.identity import (
    CheckpointIdentity,
    QueryLocation,
    old_folder_name,
    same_text,
    statement_text,
)
from penstock.sql.dialect import parse_query, window_tables
from penstock.sql.expressions.expression import find_nondeterministic, find_random_functions
from penstock.sql.plan.analysed import AnalysedInsert, AnalysedQuery, TableScan
from penstock.sql.plan.rules.field_paths import Paths, merged
from penstock.sql.plan.rules.prune_columns import delivered_columns
from penstock.sql.syntax.nodes import ScanTable


def order_sinks(
    members: Sequence[AnalysedInsert], location: QueryLocation, found: CheckpointIdentity | None
) -> tuple[list[tuple[int, str]], QueryLocation]:
    """Return the members' indices in `members` and their names, in the checkpoint's order, and the new content of the
    checkpoint.

    `found` is its present content. Raises StateMismatchError where several INSERTs into one table are ambiguous.
    """
    texts = [statement_text(one.statement) for one in members]
    names = _names(members)
    if found is not None:
        names = _known_names(members, texts, names, found)
    order = list(enumerate(names))
    if found is not None:
        known = [name for name, _ in found.statements]
        if set(known) == set(names):
            order.sort(key=lambda one: known.index(one[1]))
    statements = tuple((name, texts[index]) for index, name in order)
    return order, replace(location, identity=replace(location.identity, statements=statements))


def _names(members: Sequence[AnalysedInsert]) -> list[str]:
    """Name sinks by their queries, as earlier versions wrote them where that is unambiguous."""
    raw = [one.location.identity.query for one in members if one.location is not None]
    assert len(raw) == len(members), "they are placed"
    written = [old_folder_name(name) or name for name in raw]
    return [
        old if written.count(old) == 1 else name for old, name in zip(written, raw, strict=True)
    ]


def _known_names(
    members: Sequence[AnalysedInsert],
    texts: Sequence[str],
    names: Sequence[str],
    found: CheckpointIdentity,
) -> list[str]:
    free = dict(found.statements)
    by_index: dict[int, str] = {}
    for index, text in enumerate(texts):
        name = next((name for name, known in free.items() if same_text(known, text)), None)
        if name is not None:
            by_index[index] = name
            del free[name]
    for index, name in enumerate(names):
        if index in by_index:
            continue
        table = members[index].target.identifier
        same = [i for i, one in enumerate(members) if one.target.identifier == table]
        if len([i for i in same if i not in by_index]) > 1 and len(free) > 0:
            raise StateMismatchError(
                f"which of the set's INSERTs INTO {table.name} is which in the checkpoint of {found.query!r} is not "
                "clear: the text of several changed",
                hint="change one at a time, with a run in between; or "
                + "; or ".join(START_OVER_HINTS),
                span=members[index].statement.span,
            )
        if name not in free:
            # the one that is left of this table, whatever it was called by its place
            left = [n for n in free if n == table.name or n.startswith(f"{table.name}-")]
            by_index[index] = left[0] if len(left) == 1 else name
        else:
            by_index[index] = name
        free.pop(by_index[index], None)
    return [by_index[index] for index in range(len(members))]


SET_NAME = "statement-set"
"""The name of a set's one query, as others have their sinks'."""

_NO_FUNCTION_OF_A_ROW = (
    exp.AggFunc, exp.Distinct, exp.Except, exp.Group, exp.Intersect, exp.Join, exp.Limit, exp.Offset,
    exp.Order, exp.Window,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRead:
    """One query: `leaf` is the table with every column that one of the INSERTs needs."""

    leaf: TableScan


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparateQueries:
    """A query per INSERT, and the reason in words."""

    reason: str


def share(queries: Sequence[AnalysedQuery], project: Path) -> SharedRead | SeparateQueries:
    """Decide for the queries of a set, in order."""
    if len(queries) == 1:
        return SeparateQueries(reason="there is one INSERT")
    first = queries[0].leaves
    if any(len(query.leaves) != 1 for query in queries) or not first:
        return SeparateQueries(reason="an INSERT reads no table, or several")
    if any(not query.followed for query in queries):
        return SeparateQueries(reason=f"{first[0].table.identifier} is read once, and not followed")
    if any(query.leaves[0].table != first[0].table for query in queries):
        return SeparateQueries(
            reason="the INSERTs read different tables, or one table with different options"
        )
    source = connector_of(first[0].table, project=project).source(first[0].table)
    if source.changes is not ChangelogMode.INSERT_ONLY:
        return SeparateQueries(reason="the table that they read gives changes, not only new rows")
    for query in queries:
        if query.maintained is not None:
            return SeparateQueries(reason="an INSERT is maintained: it keeps state of its own")
        reason = _reason(query.query) or _reason_of_columns(query.leaves[0])
        if query.flow.is_changing:
            reason = reason or "an INSERT gives changes, not only new rows"
        if reason is not None:
            return SeparateQueries(reason=reason)
    return SharedRead(leaf=_union([query.leaves[0] for query in queries]))


def read_of(leaf: TableScan) -> AnalysedQuery:
    """Return the query that reads the shared table and nothing else."""
    table = ScanTable(this=exp.to_identifier("penstock_shared"), scan=0)
    return AnalysedQuery(query=exp.select("*").from_(table), leaves=(leaf,))


def reading(query: AnalysedQuery, view: str) -> exp.Expr:
    """Return an INSERT's query, with a view of the batch's rows as its table."""
    tree = query.executed
    for node in list(tree.find_all(ScanTable)):
        table_alias = node.args.get("alias")
        alias = exp.TableAlias(
            this=exp.to_identifier(node.alias or node.name, quoted=True),
            columns=[] if table_alias is None else table_alias.columns,
        )
        node.replace(exp.Table(this=exp.to_identifier(view), alias=alias))
    return tree


def _union(leaves: Sequence[TableScan]) -> TableScan:
    names = {name for leaf in leaves for name in (*leaf.columns, *leaf.computed)}
    columns, computed = delivered_columns(leaves[0].table.schema, frozenset(names))
    fields = _fields(columns, leaves)
    return replace(leaves[0], columns=columns, computed=computed, fields=fields, fragment=None)


def _fields(columns: Sequence[str], leaves: Sequence[TableScan]) -> dict[str, Paths]:
    """Return what is read of the columns that no INSERT reads whole."""
    narrow: dict[str, Paths] = {}
    for name in columns:
        readers = [leaf for leaf in leaves if name in leaf.columns]
        if readers and all(name in leaf.fields for leaf in readers):
            narrow[name] = merged(leaf.fields[name] for leaf in readers)
    return narrow


def _reason_of_columns(leaf: TableScan) -> str | None:
    """Name the computed column that is no function of its row; the time of a batch is kept with the batch."""
    for name, text in leaf.computed.items():
        if any(True for _ in find_random_functions(parse_query(f"SELECT {text}"))):
            return f"the column {name} AS {text} asks for chance: a replayed batch would not give the same rows"
    return None


def _reason(query: exp.Expr) -> str | None:
    """Explain why a query is no function of each row; None where it is one."""
    if window_tables(query) or query.find(*_NO_FUNCTION_OF_A_ROW) is not None:
        return (
            "an INSERT has an operator that looks at more than one row: it keeps state of its own"
        )
    if any(union.args.get("distinct") for union in query.find_all(exp.Union)):
        return "an INSERT has a UNION without ALL: it keeps state of its own"
    if any(where.find(exp.Select) is not None for where in query.find_all(exp.Where)):
        return "an INSERT has a query in its WHERE: it is a join"
    if any(True for _ in find_nondeterministic(query)):
        return "an INSERT asks for the current time or for chance: a replayed batch would not give the same rows"
    return None
