"""Relations in FROM that read no query: tables, windowing functions, functions of users, VALUES, UNNEST."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.dialect.windows.window_tables import WindowTable
from penstock.sql.plan.builder.names import ScopedRelation, shown_columns
from penstock.sql.plan.logical.block import Block
from penstock.sql.plan.logical.column import Facts
from penstock.sql.plan.logical.derive import (
    facts_of_alias,
    facts_of_scan,
    facts_of_unnest,
    facts_of_windows,
)
from penstock.sql.plan.logical.nodes import (
    Node,
    Opaque,
    Scan,
    SubqueryAlias,
    TableFunction,
    Unnest,
    Values,
    WindowAssign,
)
from penstock.sql.plan.logical.scan_traits import Arrival
from penstock.sql.plan.rules.flow import ScanFlow

__all__ = [
    "alias_names",
    "aliased",
    "function_node",
    "is_table",
    "named_relation",
    "scan_node",
    "unnest_node",
    "window_node",
]


def is_table(node: exp.Expr) -> bool:
    """Return whether an item of FROM is a table or a query, rather than a function that unfolds each row."""
    return isinstance(node, exp.Table | exp.Subquery)


def alias_names(node: exp.Expr) -> tuple[str, ...]:
    """Return the names that a relation in FROM gives its columns; none where it gives no names."""
    alias = node.args.get("alias")
    if not isinstance(alias, exp.TableAlias):
        return ()
    return tuple(column.name for column in alias.columns)


def scan_node(index: int, table: ScanFlow, place: exp.Expr | None = None) -> Scan:
    """Return the operator that reads table number `index`."""
    by_record = table.arrival is Arrival.RECORD
    return Scan(
        facts=facts_of_scan(index, table.columns, table.rowtime, arrival=by_record),
        place=place,
        syntax=place,
        index=index,
        table=table.name,
        changes=table.changes,
        key=table.key,
        static=table.static,
        proctimes=table.proctimes,
        rowtime=table.rowtime,
        arrival=table.arrival,
    )


def window_node(window: WindowTable, given: Node) -> WindowAssign:
    """Return the operator of a windowing function over what it reads."""
    return WindowAssign(
        facts=facts_of_windows(given.facts, window.time_column),
        place=window.node.this,
        syntax=window.node,
        input=given,
        kind=window.kind,
        time_column=window.time_column,
        size_ms=window.size_ms,
        slide_ms=window.slide_ms,
        step_ms=window.step_ms,
        gap_ms=window.gap_ms,
        offset_ms=window.offset_ms,
        partition_by=window.partition_by,
    )


def function_node(node: exp.Expr) -> Values | TableFunction | Opaque:
    """Return a relation of which Spark alone knows the columns."""
    facts = Facts(columns=None)
    match node:
        case exp.Values():
            return Values(facts=facts, place=node, syntax=node)
        case exp.Unnest():
            return TableFunction(facts=facts, place=node, syntax=node, call=node)
        case exp.Table() if isinstance(node.this, exp.Anonymous):
            return TableFunction(facts=facts, place=node, syntax=node, call=node.this)
        case _:
            return Opaque(facts=facts, place=node, syntax=node)


def aliased(given: Node, node: exp.Expr, *, keeps_rowtimes: bool = False) -> SubqueryAlias:
    """Return a relation under its name in FROM; `keeps_rowtimes`: rowtimes stay ones under other names."""
    names = alias_names(node)
    facts = facts_of_alias(given.facts, names, keeps_rowtimes=keeps_rowtimes)
    if isinstance(given, Values | TableFunction | Opaque) and not isinstance(node, exp.Subquery):
        facts = Facts(columns=None)  # a key is not sought among columns that only the text tells
    return SubqueryAlias(
        facts=facts, place=node, syntax=node, input=given, alias=node.alias_or_name, names=names
    )


def unnest_node(given: Node, join: exp.Expr, block: Block) -> Unnest:
    """Return the operator of a function that unfolds each row of `given`."""
    call = join.this if isinstance(join, exp.Join) else join
    names = alias_names(call)
    return Unnest(
        facts=facts_of_unnest(given.facts, names),
        place=join,
        input=given,
        call=call,
        alias=call.alias_or_name,
        names=names,
        outer=isinstance(join, exp.Join) and bool(join.side),
        lateral=isinstance(call, exp.Lateral),
        block=block,
    )


def named_relation(node: SubqueryAlias | Unnest) -> ScopedRelation:
    """Return a relation as expressions name it."""
    if isinstance(node, Unnest):
        return ScopedRelation(alias=node.alias, columns=None, shown=node.names or None)
    return ScopedRelation(alias=node.alias, columns=node.facts.columns, shown=shown_columns(node))
