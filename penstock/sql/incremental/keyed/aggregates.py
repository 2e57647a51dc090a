"""Aggregates for DuckDB: those whose result is Spark's to the bit, sums of DOUBLE in one order of rows; frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

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
from penstock.sql.incremental.keyed.values import MOST_DIGITS, SqlValue, translate
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


# --- accumulators ---

MOST_FILTERS = 62
"""FILTERs of one argument: bits of a BIGINT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """An accumulator that is added up: `sql` aggregates the rows of the batch."""

    sql: str
    type: pa.DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """A MIN or MAX: `sql` aggregates the rows of the batch, `better` (LEAST, GREATEST) two of them."""

    sql: str
    better: str
    type: pa.DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctValues:
    """The arguments of aggregates with DISTINCT: SQL over the rows of the batch, and types.

    `filters` are the conditions of those that count them, each once; None: all rows. `sums` are those of a number, each
    by the place of its condition, and its type.
    """

    values: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    filters: tuple[str | None, ...]
    sums: tuple[tuple[int, pa.DataType], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the tables of values."""
        return tuple(f"v{n}" for n in range(len(self.values)))

    @property
    def bits(self) -> str:
        """The bits of the conditions that a row fulfills."""
        parts = [
            f"{1 << n}::BIGINT"
            if one is None
            else f"CASE WHEN {one} THEN {1 << n} ELSE 0 END::BIGINT"
            for n, one in enumerate(self.filters)
        ]
        return " | ".join(parts)


def check_accumulated(kind: pa.DataType, what: str) -> None:
    """Raise UntranslatableError for values that have several forms of one, or that do not compare."""
    if at.is_floating(kind) or is_nested(kind):
        raise UntranslatableError(f"accumulators by {what}, {kind}")


class Accumulators:
    """Collects the accumulators of the aggregates of a SELECT list, each once.

    `plain` writes an expression over rows without aggregates, `keys` are the columns that are grouped by. Values over
    accumulators name these `<MARK added0>`, `<MARK distinct0_0>`, `<MARK total0_0>`, `<MARK extreme0>`, until all are
    known: MARK is drawn for each query, whose texts do not have it.
    """

    def __init__(self, plain: Callable[[exp.Expr], SqlValue], keys: Sequence[pa.Field]) -> None:
        self._plain = plain
        self._mark = uuid4().hex
        self._keys = {of.name: SqlValue(f"c{n}", of.type) for n, of in enumerate(keys)}
        self.added: list[Added] = []
        self.extremes: list[Extreme] = []
        self._distinct: dict[tuple[tuple[str, ...], tuple[pa.DataType, ...]], list[str | None]] = {}
        self._totals: dict[int, list[tuple[int, pa.DataType]]] = {}

    @property
    def distinct_values(self) -> Iterator[DistinctValues]:
        """The arguments of aggregates with DISTINCT, each with its conditions."""
        for n, ((values, types), filters) in enumerate(self._distinct.items()):
            sums = tuple(self._totals.get(n, ()))
            yield DistinctValues(values=values, types=types, filters=tuple(filters), sums=sums)

    def value(self, node: exp.Expr) -> SqlValue:
        """Return a value of the SELECT list over the columns of totals."""
        calls: dict[str, SqlValue] = {}

        def named(inner: exp.Expr) -> exp.Expr:
            if not isinstance(inner, exp.Filter | exp.AggFunc):
                return inner
            name = f"__call{len(calls)}"
            calls[name] = self._call(inner)
            found = exp.column(name, quoted=True)
            found.type = inner.type
            return found

        tree = node.transform(named)

        def find(column: exp.Column) -> SqlValue:
            if column.name in calls:
                return calls[column.name]
            if column.name not in self._keys:
                raise unknown(column)
            return self._keys[column.name]

        return translate(tree, find)

    def condition(self, node: exp.Expr) -> str:
        """Return the condition of HAVING over the columns of totals."""
        value = self.value(node)
        if value.type is not None and not at.is_boolean(value.type):
            raise unknown(node)
        return value.sql

    def placed(self, sql: str) -> str:
        """Write the columns of totals in the place of the accumulators of a value."""
        names = [f"added{n}" for n in range(len(self.added))]
        for n, filters in enumerate(self._distinct.values()):
            names += [f"distinct{n}_{i}" for i in range(len(filters))]
        for n in range(len(self._distinct)):
            names += [f"total{n}_{j}" for j in range(len(self._totals.get(n, ())))]
        names += [f"extreme{n}" for n in range(len(self.extremes))]
        for n, name in enumerate(names):
            sql = sql.replace(self._marked(name), f"c{len(self._keys) + n}")
        return sql

    def _marked(self, name: str) -> str:
        return f"<{self._mark} {name}>"

    def _call(self, node: exp.Expr) -> SqlValue:
        whole, condition = node, None
        if isinstance(node, exp.Filter):
            condition, node = self._truth(node.expression.this), node.this
        distinct = isinstance(node.this, exp.Distinct)
        arguments = [*(node.this.expressions if distinct else [node.this]), *node.expressions]
        if isinstance(node, exp.Count) and not distinct:
            return self._count(whole, arguments, condition)
        values = [self._plain(argument) for argument in arguments]
        if any(value.type is None for value in values):
            raise unknown(whole)
        if isinstance(node, exp.Count):
            return self._distinct_count(whole, values, condition)
        if len(values) != 1:
            raise unknown(whole)
        (value,) = values
        assert value.type is not None, "checked"
        if isinstance(node, exp.Min | exp.Max):
            check_accumulated(value.type, to_text(whole))
            word, better = ("MIN", "LEAST") if isinstance(node, exp.Min) else ("MAX", "GREATEST")
            extreme = Extreme(
                sql=f"{word}({value.sql}){_filter(condition)}", better=better, type=value.type
            )
            name = self._marked(f"extreme{_index(self.extremes, extreme)}")
            return SqlValue(name, value.type)
        if not isinstance(node, exp.Sum | exp.Avg):
            raise unknown(whole)
        if not isinstance(node, exp.Avg):
            kind = sum_type(value.type)
        elif at.is_integer(value.type) and number_kind(arguments[0]) in INTEGERS:
            kind = pa.decimal128(MOST_DIGITS, 0)
        else:
            raise unknown(whole)
        if distinct:
            count, total = self._distinct_sum(whole, value, condition, kind)
        else:
            count = self._added(f"COUNT({value.sql}){_filter(condition)}", pa.int64())
            summed = cast_text(value.sql, kind) if isinstance(node, exp.Avg) else value.sql
            total = self._added(f"SUM({summed}){_filter(condition)}", kind)
        if isinstance(node, exp.Avg):
            return _mean(total, count, value.type)
        return SqlValue(f"CASE WHEN {count} > 0 THEN {total} END", kind)

    def _count(
        self, node: exp.Expr, arguments: Sequence[exp.Expr], condition: str | None
    ) -> SqlValue:
        if len(arguments) != 1:
            raise unknown(node)
        argument = arguments[0]
        if isinstance(argument, exp.Star | exp.Literal):
            text = "*"
        else:
            value = self._plain(argument)
            if value.type is None:
                raise unknown(node)
            text = value.sql
        return SqlValue(self._added(f"COUNT({text}){_filter(condition)}", pa.int64()), pa.int64())

    def _distinct_count(
        self, node: exp.Expr, values: Sequence[SqlValue], condition: str | None
    ) -> SqlValue:
        n, index = self._distinct_values(node, values, condition)
        return SqlValue(self._marked(f"distinct{n}_{index}"), pa.int64())

    def _distinct_sum(
        self, node: exp.Expr, value: SqlValue, condition: str | None, kind: pa.DataType
    ) -> tuple[str, str]:
        """Return the number of distinct values, and their sum."""
        n, index = self._distinct_values(node, [value], condition)
        number = _index(self._totals.setdefault(n, []), (index, kind))
        return self._marked(f"distinct{n}_{index}"), self._marked(f"total{n}_{number}")

    def _distinct_values(
        self, node: exp.Expr, values: Sequence[SqlValue], condition: str | None
    ) -> tuple[int, int]:
        """Return the number of an argument, and of a condition on it."""
        types = tuple(value.type for value in values if value.type is not None)
        for kind in types:
            check_accumulated(kind, to_text(node))
        argument = (tuple(value.sql for value in values), types)
        filters = self._distinct.setdefault(argument, [])
        n = list(self._distinct).index(argument)
        index = _index(filters, condition)
        if index >= MOST_FILTERS:
            raise unknown(node)
        return n, index

    def _added(self, sql: str, kind: pa.DataType) -> str:
        return self._marked(f"added{_index(self.added, Added(sql=sql, type=kind))}")

    def _truth(self, node: exp.Expr) -> str:
        value = self._plain(node)
        if value.type is not None and not at.is_boolean(value.type):
            raise unknown(node)
        return value.sql


_Item = TypeVar("_Item")


def _index(items: list[_Item], item: _Item) -> int:
    """Return the position of an item, which is added where it is new."""
    if item not in items:
        items.append(item)
    return items.index(item)


def _mean(total: str, count: str, kind: pa.DataType) -> SqlValue:
    """Write an average of whole numbers over a sum that is DECIMAL(38, 0)."""
    whole, there = f"CAST({total} AS HUGEINT)", f"nullif({count}, 0)"
    if at.is_int64(kind):
        return SqlValue(f"CAST({whole} // {there} AS BIGINT)", kind)
    return SqlValue(cast_text(f"trunc(CAST({whole} AS DOUBLE) / {there})", kind), kind)


def _filter(condition: str | None) -> str:
    return "" if condition is None else f" FILTER (WHERE {condition})"
