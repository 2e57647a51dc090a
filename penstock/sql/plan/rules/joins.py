"""Classify joins: interval joins, which Spark's append mode runs, regular joins, temporal joins in event time.

Also refuses early what Spark refuses only when a stream starts: joins without an equality, windows of processing time.
Lookup joins, whose time is a processing time, are removed before; `incremental/planning/join.py` plans
temporal joins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.sql.dialect import WindowKind, window_tables
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.plan.logical.nodes import Block, JoinBound
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.lookup_join import is_lookup
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import conjuncts, find_nodes, from_items, is_table

_RANGES = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)

_TIMES = (exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMP)


def is_regular(select: exp.Select) -> bool:
    """Return whether a SELECT joins relations without a bound in time (an interval or windows), or has a query in
    WHERE.

    Over streams each of their rows may match one that arrives at any time.
    """
    return (bool(_tables(select)) and bound_of(select) is JoinBound.NONE) or has_inner_query(select)


def is_regular_block(block: Block) -> bool:
    """Return whether a SELECT of the plan joins relations without a bound in time, or has a query in WHERE."""
    return (bool(_tables(block.select)) and not block.bounded) or block.has_query


def updates(block: Block) -> exp.Expr | None:
    """Return the first regular join of a SELECT whose rows do not stay: an outer one, or a query in WHERE."""
    outer = next((join for join in _tables(block.select) if join.side), None)
    if outer is not None and not block.bounded:
        return outer
    return block.select.args["where"] if block.has_query else None


def _tables(select: exp.Select) -> list[exp.Join]:
    joins: Sequence[exp.Expr] = select.args.get("joins") or []
    return [
        join
        for join in joins
        if isinstance(join, exp.Join) and is_table(join.this) and not is_lookup(join)
    ]


def has_inner_query(select: exp.Select) -> bool:
    """Return whether the WHERE of a SELECT has a query: Spark streams none in an expression, whatever it compares."""
    where = select.args.get("where")
    return where is not None and where.find(exp.Query) is not None


def bound_of(select: exp.Select) -> JoinBound:
    """Return which bound a SELECT compares somewhere, of which its joins may end: a window, or an interval."""
    tests = [c for test in _tests(select) for c in find_nodes(test, *_RANGES, exp.EQ)]
    if any(map(compares_windows, tests)):
        return JoinBound.WINDOW
    return JoinBound.INTERVAL if any(map(_is_range_of_time, tests)) else JoinBound.NONE


def _tests(select: exp.Select) -> list[exp.Expr]:
    """Return the ON of each join, and the WHERE."""
    tests = [join.args.get("on") for join in select.args.get("joins") or []]
    where = select.args.get("where")
    tests.append(where.this if where is not None else None)
    return [test for test in tests if test is not None]


def _is_range_of_time(test: exp.Expr) -> bool:
    if not isinstance(test, _RANGES):
        return False
    times = {(c.table, c.name) for c in find_nodes(test, exp.Column) if is_time(c)}
    tables = {table for table, _ in times}
    # a bare name may be of any table
    return len(times) > 1 and (len(tables) > 1 or "" in tables)


def is_time(column: exp.Column) -> bool:
    """Return whether a column is a time."""
    kind = column.type
    return kind is not None and kind.this in _TIMES


def compares_windows(test: exp.Expr) -> bool:
    """Return whether a condition compares windows for equality: those of both sides end at the same time."""
    if not isinstance(test, exp.EQ):
        return False
    sides = (test.this.unnest(), test.expression.unnest())
    return all(isinstance(side, exp.Column) and side.name in WINDOW_COLUMNS for side in sides)


def is_filled_later(join: exp.Join) -> bool:
    """Return whether a RIGHT or FULL JOIN behind a join fills the rows of that with NULLs."""
    select = join.parent
    joins: Sequence[exp.Expr] = (select.args.get("joins") or []) if select is not None else []
    index = next((index for index, other in enumerate(joins) if other is join), len(joins))
    return any(map(_fills_left, joins[index + 1 :]))


def is_null_filled(relation: exp.Expr) -> bool:
    """Return whether an outer join fills the columns of a relation in FROM with NULLs."""
    join = relation.parent
    if isinstance(join, exp.Join):
        return join.side in ("LEFT", "FULL") or is_filled_later(join)
    select = None if join is None else join.parent
    return select is not None and any(map(_fills_left, select.args.get("joins") or []))


def _fills_left(join: exp.Expr) -> bool:
    return isinstance(join, exp.Join) and join.side in ("RIGHT", "FULL")


_HINT = "FROM stream AS s JOIN t FOR SYSTEM_TIME AS OF s.ts AS t ON s.id = t.id"


def has_temporal(query: exp.Expr) -> bool:
    """Return whether a query has a temporal join in event time.

    Raises UnsupportedError for FOR SYSTEM_TIME AS OF outside a join, or of no column.
    """
    found = [node for node in find_nodes(query, exp.Table, exp.Subquery) if is_temporal(node)]
    for node in found:
        version = node.args["version"]
        if not isinstance(node.parent, exp.Join):
            raise UnsupportedError(
                "FOR SYSTEM_TIME AS OF stands in a join, behind the table on its right side",
                hint=_HINT,
                span=span_of(version),
            )
        if not isinstance(version.expression, exp.Column):
            raise UnsupportedError(
                "a temporal join in event time takes a column of its left side, its rowtime: the versions of a table "
                "at a fixed time are not kept",
                hint=f"{_HINT}; or FOR SYSTEM_TIME AS OF PROCTIME() for the rows of now",
                span=span_of(version.expression) or span_of(version),
            )
    return bool(found)


def is_temporal(node: exp.Expr) -> bool:
    """Return whether a relation in FROM is joined as of an event time."""
    return node.args.get("version") is not None


def check_temporal(node: exp.Expr) -> Refusal | None:
    """Refuse a relation that is joined as of an event time: Spark does not stream that."""
    if is_temporal(node):
        return Refusal(
            message="a temporal join in event time keeps versions, which Spark does not by itself",
            hint="write its rows into a table with a WATERMARK, and window those",
            span=span_of(node.args["version"]),
        )
    return None


# --- joins and windows that no stream has ---


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalJoins:
    """Why joins of streams cannot run: the first in SELECTs with a bound in time, which Spark runs even where stages
    run the query, and the first in others.
    """

    bounded: Refusal | None = None
    regular: Refusal | None = None


def unequal_joins(query: exp.Expr, followed: frozenset[int]) -> UnequalJoins:
    """Refuse joins of two streams that compare no columns for equality: Spark starts none.

    `followed` are the scans that Spark reads as streams.
    """
    found = UnequalJoins()
    if not followed:
        return found
    for select in find_nodes(query, exp.Select):
        if select.args.get("joins") and (refusal := _unequal_join(select, followed)) is not None:
            if is_regular(select):
                found = replace(found, regular=found.regular or refusal)
            else:
                found = replace(found, bounded=found.bounded or refusal)
    return found


def _unequal_join(select: exp.Select, followed: frozenset[int]) -> Refusal | None:
    streams = {id(node) for node in from_items(select) if _leaves(node) & followed}
    if len(streams) < 2:
        return None
    tests = [part for test in _tests(select) for part in conjuncts(test)]
    for join in select.args["joins"]:
        apart = id(join.this) in streams and not (join.args.get("using") or join.method)
        if apart and not is_lookup(join) and not _is_compared(join.this.alias_or_name, tests):
            return Refusal(
                message="a join of streams without an equality between their columns is not supported",
                hint="join ON a.x = b.x, with the other conditions behind AND",
                span=span_of(join) or span_of(select),
            )
    return None


def in_processing_time(query: exp.Expr, tables: Sequence[ScanFlow]) -> Refusal | None:
    """Refuse SESSION windows, and outer joins with an interval, of processing time."""
    if not any(table.proctimes for table in tables):
        return None
    for window in window_tables(query):
        if window.kind is WindowKind.SESSION and window.time_column in _proctimes(
            [window.input], tables
        ):
            return Refusal(
                message=f"SESSION windows of processing time are not supported, and '{window.time_column}' is "
                "PROCTIME()",
                hint="use a column with a WATERMARK; TUMBLE, HOP and CUMULATE take PROCTIME(), too",
                span=window.span,
            )
    for select in query.find_all(exp.Select):
        for join in select.args.get("joins") or []:
            if join.side and not is_lookup(join) and _is_timed(join, select, tables):
                return Refusal(
                    message=f"a {join.side} JOIN with an interval of processing time is not supported",
                    hint="compare columns with a WATERMARK; or leave the interval out, and bound what is kept with "
                    "SET 'table.exec.state.ttl' = '4 h'",
                    span=span_of(join.args["on"]) or span_of(join) or span_of(select),
                )
    return None


# --- relations ---


def _leaves(node: exp.Expr) -> set[int]:
    return {table.scan for table in find_nodes(node, ScanTable)}


def _proctimes(nodes: Sequence[exp.Expr], tables: Sequence[ScanFlow]) -> frozenset[str]:
    """Return the processing-time columns of relations, by their names in the tables."""
    found = (tables[leaf].proctimes for node in nodes for leaf in _leaves(node))
    return frozenset[str]().union(*found)


# --- conditions ---


def _is_compared(alias: str, tests: Sequence[exp.Expr]) -> bool:
    """Return whether a condition compares a value of one relation with a value of others for equality."""
    for test in tests:
        inner = test.unnest()
        if not isinstance(inner, exp.EQ | exp.NullSafeEQ):
            continue
        left, right = (
            {c.table for c in find_nodes(s, exp.Column)} for s in (inner.this, inner.expression)
        )
        if not (left and right):
            continue
        if "" in left | right:  # a bare name may be of any relation
            return True
        if (left == {alias} and alias not in right) or (right == {alias} and alias not in left):
            return True
    return False


def _is_timed(join: exp.Join, select: exp.Select, tables: Sequence[ScanFlow]) -> bool:
    """Return whether ON compares processing times of both sides."""
    named = {node.alias_or_name: _proctimes([node], tables) for node in from_items(select)}
    every = frozenset[str]().union(*named.values())
    for test in find_nodes(join.args["on"], *_RANGES) if join.args.get("on") else ():
        times = {
            c.table for c in find_nodes(test, exp.Column) if c.name in named.get(c.table, every)
        }
        if len(times) > 1:
            return True
    return False
