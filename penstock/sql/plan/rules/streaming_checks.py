"""Refuse early what Spark refuses only when a stream starts: joins without an equality, windows of processing time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.sql.dialect import WindowKind, window_tables
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.joins import is_regular
from penstock.sql.plan.rules.lookup_join import is_lookup
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import find_nodes

__all__ = ["UnequalJoins", "in_processing_time", "unequal_joins"]

_RANGES = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)


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
    streams = {id(node) for node in _relations(select) if _leaves(node) & followed}
    if len(streams) < 2:
        return None
    tests = list(_conditions(select))
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


def _relations(select: exp.Select) -> list[exp.Expr]:
    source = select.args.get("from_")
    joined = [join.this for join in select.args.get("joins") or []]
    return ([source.this] if source is not None else []) + joined


def _leaves(node: exp.Expr) -> set[int]:
    return {table.scan for table in find_nodes(node, ScanTable)}


def _proctimes(nodes: Sequence[exp.Expr], tables: Sequence[ScanFlow]) -> frozenset[str]:
    """Return the processing-time columns of relations, by their names in the tables."""
    found = (tables[leaf].proctimes for node in nodes for leaf in _leaves(node))
    return frozenset[str]().union(*found)


# --- conditions ---


def _conditions(select: exp.Select) -> Iterator[exp.Expr]:
    where = select.args.get("where")
    tests = [join.args.get("on") for join in select.args.get("joins") or []]
    tests.append(where.this if where is not None else None)
    for test in tests:
        inner = None if test is None else test.unnest()
        if inner is not None:
            yield from inner.flatten() if isinstance(inner, exp.And) else (inner,)


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
    named = {node.alias_or_name: _proctimes([node], tables) for node in _relations(select)}
    every = frozenset[str]().union(*named.values())
    for test in find_nodes(join.args["on"], *_RANGES) if join.args.get("on") else ():
        times = {
            c.table for c in find_nodes(test, exp.Column) if c.name in named.get(c.table, every)
        }
        if len(times) > 1:
            return True
    return False
