"""The SELECT list in a stage: names of columns, OVER aggregates, what aggregations and relations read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.plan.clauses.over_calls import read_call
from penstock.sql.plan.clauses.over_clauses import OverWindow, refuse_changes
from penstock.sql.plan.logical.column import Item
from penstock.sql.plan.logical.names import own_names, unique_name
from penstock.sql.plan.placement.stage_source import StageSource
from penstock.sql.plan.placement.trait import StageTrait
from penstock.sql.plan.rules.aggregate import is_same
from penstock.sql.plan.rules.flow import OperatorKind, UpdatingOperator
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = [
    "ONE", "Streamed", "distinct_rows", "mechanism_at", "name_value", "needed_names", "over_rows", "query_names",
    "read_values", "streamed_rows",
]  # fmt: skip

ONE = "__one"
"""The column of rows that are only counted."""


class Streamed:
    """FROM and WHERE of a SELECT that Spark streams by itself."""


def mechanism_at(
    way: OperatorKind, key: tuple[str, ...], state: str, place: exp.Expr
) -> UpdatingOperator:
    """Return the operator with state at a place of the text."""
    return UpdatingOperator(way=way, key=key, state=state, span=span_of(place))


def distinct_rows(rows: StageTrait, place: exp.Expr) -> StageTrait:
    """Return each row once; those with a key are that already."""
    if rows.key is not None:
        return replace(rows, native=False)
    mechanism = mechanism_at(OperatorKind.DISTINCT, rows.columns, "how many rows there are", place)
    return replace(rows, key=rows.columns, mechanism=mechanism, origin=place, native=False)


def streamed_rows(items: Sequence[Item]) -> StageTrait:
    """Return values that Spark computes in the rows that it streams."""
    names = tuple(name for name, _ in items)
    return StageTrait(columns=names or (ONE,), stays=True, native=True)


def query_names(query: exp.Expr, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Name the columns of a query uniquely; `columns` where a star prevents that."""
    first = query
    while not isinstance(first, exp.Select):
        first = first.this
    if any(item.find(exp.Star) and not item.find(exp.AggFunc) for item in first.expressions):
        return columns
    return own_names(first.expressions)


def name_value(value: exp.Expr, items: list[Item]) -> str:
    """Name the column of a value, a new one where no column has that value."""
    for name, item in items:
        if is_same(item, value):
            return name
    wanted = value.name if isinstance(value, exp.Column) else "__value"
    items.append((unique_name(wanted, [name for name, _ in items]), value))
    return items[-1][0]


def over_rows(
    items: Sequence[Item],
    source: StageSource | Streamed,
    window: OverWindow,
    calls: Sequence[exp.Window],
) -> StageTrait | Refusal:
    """Return the values of a SELECT list with OVER clauses, all of one window."""
    for call in calls:
        read = read_call(call.this, call)
        if isinstance(read, Refusal):
            return read
    stays = isinstance(source, Streamed) or source.stays
    if isinstance(source, StageSource):
        order = [] if window.time is None else [window.time]
        refusal = source.refuse(read_values([*window.partition, *order], items, None))
        if refusal is not None:
            return refusal
    refusal = refuse_changes(window, inserts=stays)
    if refusal is not None:
        return refusal
    plain = [(name, exp.null() if value.find(exp.Window) else value) for name, value in items]
    rows = StageSource(columns={}, stays=True) if isinstance(source, Streamed) else source
    given = rows.listed(plain)
    spelled = tuple(to_text(part) for part in window.partition)
    mechanism = mechanism_at(OperatorKind.OVER, spelled, "the rows before", window.first)
    return replace(given, mechanism=mechanism, origin=window.first)


def read_values(
    keys: Sequence[exp.Expr], items: Sequence[Item], having: exp.Expr | None
) -> Iterator[exp.Expr]:
    """Iterate over the values that an operator reads: its keys whole, and other columns."""
    yield from keys
    for value in [*(value for _, value in items), *([] if having is None else [having.this])]:
        for node in value.walk(prune=lambda n: any(is_same(n, key) for key in keys)):
            if not isinstance(node, exp.Column) or any(is_same(node, key) for key in keys):
                continue
            if not isinstance(node.this, exp.Star):
                yield node


def needed_names(select: exp.Select) -> frozenset[str] | None:
    """Return the names that a SELECT may need of its relations; None where a star needs all."""
    if any(item.find(exp.Star) and not item.find(exp.Count) for item in select.expressions):
        return None

    def is_relation(node: exp.Expr) -> bool:
        return isinstance(node, exp.Subquery) and isinstance(node.parent, exp.From | exp.Join)

    found = set[str]()
    for node in select.walk(prune=lambda n: is_relation(n) and n.parent_select is select):
        if isinstance(node, exp.Identifier):
            found.add(node.name)
        elif is_relation(node) and node.parent_select is select and node.args.get("alias"):
            found |= {name.name for name in node.args["alias"].find_all(exp.Identifier)}
    return frozenset(found)
