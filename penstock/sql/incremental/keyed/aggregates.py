"""Aggregates for DuckDB: those whose result is Spark's to the bit, sums of DOUBLE in one order of rows; frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as at
from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.dialect.spark.types import INTEGERS, number_kind
from penstock.sql.incremental.keyed.tables import (
    UntranslatableError,
    cast_text,
    is_nested,
    normalized,
    text_literal,
    type_name,
)
from penstock.sql.incremental.keyed.values import MOST_DIGITS, SqlValue
from penstock.sql.syntax.intervals import interval_value


def unknown(node: exp.Expr) -> UntranslatableError:
    """Say that an expression is outside the set."""
    return UntranslatableError(to_text(node))


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """An aggregate of one value; `order`: the columns by which all rows are in order, empty where none are.

    `condition` is what follows an aggregate: its FILTER, or its window.
    """

    node: exp.Expr
    argument: exp.Expr
    value: SqlValue
    word: str
    condition: str
    order: str

    @property
    def kind(self) -> pa.DataType:
        """The type of the argument."""
        assert self.value.type is not None, "checked"
        return self.value.type


_ADDED_DIGITS = 10
"""Digits that Spark's SUM of a DECIMAL has more than its values."""


def sum_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a sum of whole numbers or decimals that cannot leave 38 digits unseen.

    Raises UntranslatableError.
    """
    if at.is_integer(kind):
        return pa.int64()
    if at.is_decimal128(kind) and kind.precision + _ADDED_DIGITS <= MOST_DIGITS:
        return pa.decimal128(kind.precision + _ADDED_DIGITS, kind.scale)
    raise UntranslatableError(f"a sum of values of the type {kind}", _sum_hint(kind))


def _sum_hint(kind: pa.DataType) -> str | None:
    if at.is_floating(kind):
        return (
            "CAST the summed value to a DECIMAL"
            if at.is_float64(kind)
            else "CAST the summed value to DOUBLE"
        )
    if at.is_decimal128(kind):
        most = MOST_DIGITS - _ADDED_DIGITS
        return f"CAST the summed value to a DECIMAL of {most} digits, as DECIMAL({most}, {min(kind.scale, most)})"
    return None


def _sum(call: AggregateCall) -> SqlValue:
    if at.is_float64(call.kind):
        return SqlValue(_sum_of_doubles(call), call.kind)
    kind = sum_type(call.kind)
    return SqlValue(cast_text(f"SUM({call.word}{call.value.sql}){call.condition}", kind), kind)


def _sum_of_doubles(call: AggregateCall) -> str:
    """One row after the other in one order, from 0 on, whatever batches and vectors they come in."""
    if call.word:
        order = call.value.sql
    elif call.order:
        order = call.order
    else:
        # their order decides on the last digit
        hint = "CAST the value to a DECIMAL" if isinstance(call.node, exp.Sum) else None
        raise UntranslatableError(to_text(call.node), hint)
    value = normalized(call.value.sql, call.kind) if call.word else call.value.sql
    listed = f"list({call.word}{value} ORDER BY {order if not call.word else value})"
    there = f"FILTER (WHERE {call.value.sql} IS NOT NULL)"
    if call.condition:
        there = call.condition[:-1] + f" AND {call.value.sql} IS NOT NULL)"
    return f"list_reduce({listed} {there}, lambda a, b: a + b, CAST(0 AS DOUBLE))"


def sum_of_distinct(value: str, of: pa.DataType, window: str, kind: pa.DataType) -> SqlValue:
    """Write a sum of the type `kind` of the distinct values of a window. Raises UntranslatableError.

    Those of DOUBLE are added from 0 on, the least one first, as in groups: no other order is the same whatever batches
    they came in.
    """
    if at.is_float64(of):
        there = f"FILTER (WHERE {value} IS NOT NULL){window}"
        distinct = f"list_sort(list(DISTINCT {normalized(value, of)}) {there})"
        return SqlValue(f"list_reduce({distinct}, lambda a, b: a + b, CAST(0 AS DOUBLE))", of)
    if at.is_floating(kind):
        what = f"a sum of DISTINCT values of the type {of}"
        raise UntranslatableError(what, "CAST the summed value to DOUBLE")
    sum_type(of)
    return SqlValue(cast_text(f"SUM(DISTINCT {value}){window}", kind), kind)


def _average(call: AggregateCall) -> SqlValue:
    if at.is_float64(call.kind):
        count = f"COUNT({call.word}{call.value.sql}){call.condition}"
        return SqlValue(f"({_sum_of_doubles(call)} / nullif({count}, 0))", call.kind)
    if not at.is_integer(call.kind) or number_kind(call.argument) not in INTEGERS:
        hint = None if "OVER" in call.condition else "CAST the value to DOUBLE"
        raise UntranslatableError(to_text(call.node), hint)
    total = f"SUM({call.word}CAST({call.value.sql} AS DECIMAL(38, 0))){call.condition}"
    count = f"nullif(COUNT({call.word}{call.value.sql}){call.condition}, 0)"
    if at.is_int64(call.kind):
        return SqlValue(f"CAST(CAST({total} AS HUGEINT) // {count} AS BIGINT)", call.kind)
    quotient = f"trunc(CAST(CAST({total} AS HUGEINT) AS DOUBLE) / {count})"
    return SqlValue(cast_text(quotient, call.kind), call.kind)


def _extreme(call: AggregateCall) -> SqlValue:
    if is_nested(call.kind):
        raise unknown(call.node)
    name = "MIN" if isinstance(call.node, exp.Min) else "MAX"
    type_name(call.kind)
    return SqlValue(f"{name}({call.value.sql}){call.condition}", call.kind)


AGGREGATES: dict[type[exp.Expr], Callable[[AggregateCall], SqlValue]] = {
    exp.Sum: _sum,
    exp.Avg: _average,
    exp.Min: _extreme,
    exp.Max: _extreme,
}
"""Each writes a call of one argument."""


def separator_text(call: exp.GroupConcat) -> str:
    """Write what LISTAGG puts between texts."""
    separator = call.args.get("separator")
    if separator is not None and not separator.is_string:
        raise unknown(call)
    return text_literal("," if separator is None else separator.name)


_OF_DISTINCT = ("size", "aggregate")


def is_of_distinct(node: exp.Expr) -> bool:
    """Return whether a stage's query computes it of the distinct values of a window, which it gathers in a set."""
    if not isinstance(node, exp.Anonymous) or node.name not in _OF_DISTINCT or not node.expressions:
        return False
    gathered = node.expressions[0]
    return isinstance(gathered, exp.Window) and gathered.this.name == "collect_set"


# --- windows ---


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOrder:
    """The rows of a window: what it is partitioned by, and what `by` orders them."""

    partition: tuple[str, ...]
    by: tuple[str, ...]

    def over(self, frame: str = "") -> str:
        """Write the window of a function, with a frame."""
        keys = f"PARTITION BY {', '.join(self.partition)} " if self.partition else ""
        return f" OVER ({keys}ORDER BY {', '.join(self.by)}{frame and ' ' + frame})"


def window_order(node: exp.Window, plain: Callable[[exp.Expr], SqlValue]) -> WindowOrder:
    """Return the partition and the order of a window; `plain` writes an expression without aggregates."""
    order = node.args.get("order")
    assert order is not None, "it is checked"
    return WindowOrder(
        partition=tuple(plain(part).sql for part in node.args.get("partition_by") or ()),
        by=tuple(_ordered(part, plain) for part in order.expressions),
    )


def _ordered(part: exp.Ordered, plain: Callable[[exp.Expr], SqlValue]) -> str:
    value = plain(part.this)
    if value.type is None or part.args.get("with_fill"):
        raise unknown(part)
    desc = bool(part.args.get("desc"))
    direction = "DESC" if desc else "ASC"
    nulls = "FIRST" if part.args.get("nulls_first") else "LAST"
    if not is_nested(value.type):
        return f"{value.sql} {direction} NULLS {nulls}"
    if not at.is_struct(value.type) or any(is_nested(of.type) for of in value.type):
        # of ties all columns of a relation decide
        hint = "leave out the columns that are not needed, or read their parts as columns below"
        raise UntranslatableError(f"the order of {to_text(part.this)}, {value.type}", hint)
    # Spark orders rows by their fields, of which NULL is the least
    fields = [
        f"struct_extract({value.sql}, {text_literal(of.name)}) {direction} NULLS {'LAST' if desc else 'FIRST'}"
        for of in value.type
    ]
    whole = f"({value.sql} IS NULL) {'DESC' if nulls == 'FIRST' else 'ASC'}"
    return ", ".join([whole, *fields])


def frame_text(spec: exp.WindowSpec, node: exp.Window) -> str:
    """Write a frame that ends with the current row."""
    start, kind = spec.args.get("start"), spec.text("kind").upper()
    if spec.text("end").upper() != "CURRENT ROW" or spec.text("start_side").upper() != "PRECEDING":
        raise unknown(node)
    if isinstance(start, exp.Literal) and start.is_int and kind == "ROWS":
        first = start.name
    elif isinstance(start, exp.Interval) and kind == "RANGE":
        interval = interval_value(start)
        if interval.year_month:
            raise unknown(node)
        first = f"to_microseconds({interval.micros})"
    elif str(start).upper() == "UNBOUNDED" and kind in ("ROWS", "RANGE"):
        first = "UNBOUNDED"
    else:
        raise unknown(node)
    return f"{kind} BETWEEN {first} PRECEDING AND CURRENT ROW"
