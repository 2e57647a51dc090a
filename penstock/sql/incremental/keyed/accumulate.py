# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The keyed operator of aggregations of inserts: accumulators of each group, and the values that DISTINCT has seen.

A batch costs what comes in it, not what is stored: DuckDB groups its rows by the number of their group, makes each
value of a COUNT(DISTINCT) one row with a bit for each FILTER that it passes, and looks these up. A bit that is not
stored counts, and is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as at
from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.spark.source.buckets import combined
from penstock.sql.dialect import to_text
from penstock.sql.dialect.spark.types import INTEGERS, number_kind
from penstock.sql.incremental.keyed.aggregates import sum_type, unknown
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedLayout, KeyedState
from penstock.sql.incremental.keyed.statement import (
    Statement,
    TableColumns,
    result_columns,
    translate_over,
)
from penstock.sql.incremental.keyed.tables import (
    BucketTables,
    UntranslatableError,
    cast_text,
    check_stored,
    is_nested,
    listed,
    typed,
)
from penstock.sql.incremental.keyed.values import MOST_DIGITS, SqlValue, translate
from penstock.sql.incremental.stages import COUNT, RecomputeOperator

_SEEN = "__seen"
"""The bits of the FILTERs that a value has passed: each is written once, and only inserts are written."""

_GROUP = "g"
"""The number of a row's group in a batch: groups are in the order of their keys."""

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
    """The arguments of COUNT(DISTINCT): SQL over the rows of the batch, and types.

    `filters` are the conditions of those that count them, each once; None: all rows.
    """

    values: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    filters: tuple[str | None, ...]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulateInserts:
    """Aggregates the inserts of the relation `name`; the result are upserts, as of Spark's update mode.

    `width` is the number of columns of the relation, `key` those that are grouped by, `positions` where they are.
    Accumulators are, in this order, `added`, the numbers of distinct values by argument and FILTER, and `extremes`.
    `result` are the columns of the result; `inner` is the SQL of their values over key and accumulators, c0, c1, ...,
    and `shown` they in the types of the result.
    """

    name: str
    width: int
    key: tuple[pa.Field, ...]
    positions: tuple[int, ...]
    added: tuple[Added, ...]
    distinct: tuple[DistinctValues, ...]
    extremes: tuple[Extreme, ...]
    result: tuple[pa.Field, ...]
    inner: str
    shown: tuple[str, ...]

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The accumulators of each group, and by argument the values of each group."""
        key, count = tuple(of.name for of in self.key), pa.field(COUNT, pa.int64())
        sums = [pa.field(f"__sum{n}", kind) for n, kind in enumerate(self._sum_types)]
        extremes = [pa.field(f"__extreme{n}", one.type) for n, one in enumerate(self.extremes)]
        found = {
            self.name: KeyedLayout(dims=(*self.key, *extremes), values=(*sums, count), key=key)
        }
        for n, one in enumerate(self.distinct):
            values = [pa.field(f"__value{i}", kind) for i, kind in enumerate(one.types)]
            found[self._values_of(n)] = KeyedLayout(
                dims=(*self.key, *values, pa.field(_SEEN, pa.int64())),
                values=(count,),
                key=(*key, *(of.name for of in values)),
            )
        return found

    @property
    def ordered(self) -> frozenset[str]:
        """No input: accumulators are those of rows in any order."""
        return frozenset()

    def run(
        self,
        changes: Mapping[str, pa.Table],
        states: Mapping[str, KeyedState],
        batch: KeyedBatch,
    ) -> pa.Table:
        """Return the new row of each group that has rows in the batch, and write what they add."""
        inserts = changes.get(self.name)
        if inserts is None or not inserts.num_rows:
            return self._schema.empty_table()
        with BucketTables() as tables:
            keys, numbers = numbered_groups([inserts.column(n) for n in self.positions])
            rows = inserts.select(range(self.width))
            tables.give("given", rows.append_column(_GROUP, pa.array(numbers)))
            columns = listed(f"c{n}" for n in range(self.width))
            tables.name("numbered", f"SELECT {columns}, c{self.width} AS {_GROUP} FROM given")
            groups = pa.Table.from_arrays(keys, schema=pa.schema(self.key))
            named = groups.append_column(_GROUP, _numbers_to(groups.num_rows))
            tables.give("named", named)
            for n, one in enumerate(self.distinct):
                self._count_values(tables, n, one, groups, states[self._values_of(n)], batch)
            self._add_up(tables, groups, states[self.name])
            self._write(tables, groups, states[self.name], batch)
            kind = (
                f"CASE WHEN known THEN {int(RowKind.UPDATE_AFTER)} ELSE {int(RowKind.INSERT)} END"
            )
            found = tables.rows(
                f"SELECT {listed([*self.shown, f'{kind}::TINYINT'])} FROM "
                f"(SELECT {self.inner}, known, {_GROUP} FROM totals) ORDER BY {_GROUP}"
            )
        return typed(found, self._schema)

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([*self.result, pa.field(ROW_KIND, pa.int8())])

    @property
    def _sum_types(self) -> list[pa.DataType]:
        counts = [pa.int64() for one in self.distinct for _ in one.filters]
        return [*(one.type for one in self.added), *counts]

    def _values_of(self, n: int) -> str:
        """Name the state of the values of an argument."""
        return f"{self.name}_distinct_{n}"

    # --- distinct values ---

    def _count_values(
        self,
        tables: BucketTables,
        n: int,
        one: DistinctValues,
        groups: pa.Table,
        state: KeyedState,
        batch: KeyedBatch,
    ) -> None:
        """Name `counts` of an argument: by group the number of values that are new for each FILTER."""
        columns = listed(one.columns)
        values = listed(f"{value} AS v{i}" for i, value in enumerate(one.values))
        there = " AND ".join(f"{value} IS NOT NULL" for value in one.values)
        rows = f"SELECT {_GROUP}, {values}, {one.bits} AS bits FROM numbered WHERE {there}"
        came = tables.rows(
            f"SELECT {_GROUP}, {columns}, bit_or(bits) AS bits FROM ({rows}) WHERE bits <> 0 "
            f"GROUP BY {_GROUP}, {columns}"
        )
        tables.give(f"came{n}", came)
        layout = self.layouts[self._values_of(n)]
        keys = groups.take(came.column(0)).columns
        asked = pa.Table.from_arrays([*keys, *came.columns[1:-1]], names=list(layout.key))
        stored = state.rows_of(typed(asked, layout.key_schema))
        if stored.num_rows:
            tables.give(f"stored{n}", stored)
        new = tables.rows(self._unseen(n, one, has_stored=stored.num_rows > 0))
        if new.num_rows:
            state.write(_rows_of(layout, groups, new, ones=True, batch=batch))
        tables.give(f"new{n}", new)
        bits = f"c{1 + len(one.values)}"
        counts = listed(
            f"COUNT(*) FILTER (WHERE {bits} & {1 << i} <> 0) AS d{n}_{i}"
            for i in range(len(one.filters))
        )
        tables.name(f"counts{n}", f"SELECT c0 AS {_GROUP}, {counts} FROM new{n} GROUP BY c0")

    def _unseen(self, n: int, one: DistinctValues, *, has_stored: bool) -> str:
        """Write the query of the values that came, in their order, with the bits that are not stored."""
        number, bits = len(self.key), 1 + len(one.values)
        columns = [f"c{i}" for i in range(bits)]
        if not has_stored:
            return f"SELECT * FROM came{n} ORDER BY {listed(columns)}"
        values = [f"s.c{number + i} AS c{1 + i}" for i in range(len(one.values))]
        known = (
            f"SELECT {listed(columns)}, bit_or(bits) AS bits FROM (SELECT named.c{number} AS c0, {listed(values)}, "
            f"s.c{number + len(one.values)} AS bits FROM stored{n} AS s JOIN named ON {self._same('s')}) "
            f"GROUP BY {listed(columns)}"
        )
        same = " AND ".join(f"came.{name} = known.{name}" for name in columns)
        left = f"came.c{bits} & ~coalesce(known.bits, 0)"
        return (
            f"SELECT {listed(f'came.{name}' for name in columns)}, {left} AS bits FROM came{n} AS came "
            f"LEFT JOIN ({known}) AS known ON {same} WHERE {left} <> 0 "
            f"ORDER BY {listed(f'came.{name}' for name in columns)}"
        )

    def _same(self, table: str) -> str:
        """Write that a stored row is of a group."""
        return " AND ".join(
            f"{table}.c{n} IS NOT DISTINCT FROM named.c{n}" for n in range(len(self.key))
        )

    # --- accumulators ---

    def _add_up(self, tables: BucketTables, groups: pa.Table, state: KeyedState) -> None:
        """Make the table `totals`: of each group key and accumulators, c0, c1, ..., those of before, and what is added.

        `known`: the group was there; s0, ... are its sums before and d0, ... what the batch adds, the number of rows
        last; x0, ... are its extremes before.
        """
        added = [f"{one.sql} AS a{n}" for n, one in enumerate(self.added)]
        extremes = [f"{one.sql} AS m{n}" for n, one in enumerate(self.extremes)]
        came = listed((_GROUP, *added, *extremes, "COUNT(*) AS n"))
        tables.name("added", f"SELECT {came} FROM numbered GROUP BY {_GROUP}")
        layout = self.layouts[self.name]
        stored = state.rows_of(typed(groups, layout.key_schema))
        sums = range(len(layout.values))
        more = [f"x{n}" for n in range(len(self.extremes))]
        if stored.num_rows:
            tables.give("stored", stored)
            width, first = len(self.key), len(layout.dims)
            dims = [f"s.c{width + n} AS x{n}" for n in range(len(self.extremes))]
            totals = [f"SUM(s.c{first + n}) AS s{n}" for n in sums]
            tables.name(
                "before",
                f"SELECT named.c{width} AS {_GROUP}, {listed([*dims, *totals])} FROM stored AS s "
                f"JOIN named ON {self._same('s')} GROUP BY {listed([_GROUP, *more])} "
                f"HAVING SUM(s.c{first + len(sums) - 1}) > 0",
            )
        tables.create("totals", self._totals(layout, has_before=stored.num_rows > 0))

    def _totals(self, layout: KeyedLayout, *, has_before: bool) -> str:
        width, count = len(self.key), len(layout.values) - 1
        of_added = [f"added.a{n}" for n in range(len(self.added))]
        of_distinct = [
            f"coalesce(counts{n}.d{n}_{i}, 0)"
            for n, one in enumerate(self.distinct)
            for i in range(len(one.filters))
        ]
        changed = [*of_added, *of_distinct, "added.n"]
        kinds = [of.type for of in layout.values]
        columns = [f"named.c{n} AS c{n}" for n in range(width)]
        for n, (text, kind) in enumerate(zip(changed, kinds, strict=True)):
            known = f"coalesce(before.s{n}, 0)" if has_before else "0"
            columns.append(f"{cast_text(f'coalesce({text}, 0)', kind)} AS d{n}")
            columns.append(f"{cast_text(known, kind)} AS s{n}")
            if n < count:
                columns.append(
                    f"{cast_text(f'coalesce({text}, 0) + {known}', kind)} AS c{width + n}"
                )
        for n, one in enumerate(self.extremes):
            value = f"{one.better}(before.x{n}, added.m{n})" if has_before else f"added.m{n}"
            columns.append(f"{value} AS c{width + count + n}")
            columns.append(f"{f'before.x{n}' if has_before else 'NULL'} AS x{n}")
        columns.append(f"{f'before.s{count} IS NOT NULL' if has_before else 'FALSE'} AS known")
        joins = [
            f"LEFT JOIN counts{n} ON counts{n}.{_GROUP} = added.{_GROUP}"
            for n in range(len(self.distinct))
        ]
        if has_before:
            joins.append(f"LEFT JOIN before ON before.{_GROUP} = added.{_GROUP}")
        return (
            f"SELECT added.{_GROUP}, {listed(columns)} FROM added "
            f"JOIN named ON named.c{width} = added.{_GROUP} {' '.join(joins)}"
        )

    def _write(
        self, tables: BucketTables, groups: pa.Table, state: KeyedState, batch: KeyedBatch
    ) -> None:
        """Write what is added; where an extreme is another one, all goes over to the row of that."""
        layout = self.layouts[self.name]
        sums, first = range(len(layout.values)), len(self.key) + len(layout.values) - 1
        new = [f"c{first + n}" for n in range(len(self.extremes))]
        old = [f"x{n}" for n in range(len(self.extremes))]
        moved = " OR ".join(
            [
                "FALSE",
                *(f"{one} IS DISTINCT FROM {other}" for one, other in zip(new, old, strict=True)),
            ]
        )
        moved = f"known AND ({moved})"
        added = [f"CASE WHEN {moved} THEN s{n} + d{n} ELSE d{n} END" for n in sums]
        text = f"SELECT {listed([_GROUP, '1 AS side', *new, *added])} FROM totals"
        if self.extremes:
            text += (
                f" UNION ALL SELECT {listed([_GROUP, '0 AS side', *old, *(f'-s{n}' for n in sums)])} "
                f"FROM totals WHERE {moved}"
            )
        rows = tables.rows(f"SELECT * EXCLUDE (side) FROM ({text}) ORDER BY {_GROUP}, side")
        state.write(_rows_of(layout, groups, rows, ones=False, batch=batch))


def _rows_of(
    layout: KeyedLayout, groups: pa.Table, rows: pa.Table, *, ones: bool, batch: KeyedBatch
) -> pa.Table:
    """Return rows to write: the number of their group is the first column of `rows`. `ones`: each counts as one."""
    columns = [*groups.take(rows.column(0)).columns, *rows.columns[1:]]
    if ones:
        columns.append(pa.array(np.ones(rows.num_rows, dtype=np.int64)))
    columns.append(pa.repeat(pa.scalar(batch.now_ms, pa.int64()), rows.num_rows))
    found = pa.Table.from_arrays(columns, names=[f"c{n}" for n in range(len(columns))])
    return typed(found, layout.schema)


def _numbers_to(count: int) -> pa.Array:
    return pa.array(np.arange(count, dtype=np.int32))


# --- groups ---


def numbered_groups(
    columns: Sequence[pa.ChunkedArray],
) -> tuple[list[pa.Array], npt.NDArray[np.int32]]:
    """Return the distinct keys of rows in the order of their values, and of each row the number of its key."""
    arrays = [combined(column) for column in columns]
    numbers = np.zeros(len(arrays[0]), dtype=np.int64)
    for array in arrays:
        values = array.dictionary_encode(null_encoding="encode")
        codes = numbers * len(values.dictionary) + values.indices.to_numpy()
        numbers = pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
    # of positions that are given one number the last one stays: the first row of each key
    first = np.empty(int(numbers.max()) + 1, dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    keys = pa.Table.from_arrays(
        [array.take(pa.array(first)) for array in arrays],
        names=[str(n) for n in range(len(arrays))],
    )
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.schema.names])
    ranks = np.empty(len(order), dtype=np.int32)
    ranks[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
    return [combined(column) for column in keys.take(order).columns], ranks[numbers]


# --- the operator of a stage ---


def accumulating_operator(
    stage: RecomputeOperator, schemas: Mapping[str, pa.Schema], time_to_live_ms: int
) -> AccumulateInserts:
    """Return the operator of an aggregation that keeps accumulators. Raises UntranslatableError."""
    (one,), query = stage.inputs, stage.query
    schema, result = schemas[one.name], schemas[stage.name]
    if time_to_live_ms or one.time_to_live_ms or not stage.upserts:
        raise UntranslatableError("accumulators with a time to live, or rows before an update")
    if not isinstance(query, exp.Select) or set(_filled(query)) != {
        "expressions",
        "from_",
        "group",
    }:
        raise UntranslatableError(to_text(query))
    check_stored(schema)
    key = tuple(schema.field(name) for name in one.key)
    for of in key:
        _check_compared(of.type, of.name)
    parts = _Accumulators(TableColumns(sql="rows", columns=tuple(schema)), one.key)
    items = [(item.alias_or_name, parts.value(item.unalias())) for item in query.expressions]
    columns = result_columns(
        Statement(sql="", columns=tuple((name, value.type) for name, value in items)), result, {}
    )
    inner = listed(f"{parts.placed(value.sql)} AS c{n}" for n, (_, value) in enumerate(items))
    return AccumulateInserts(
        name=one.name,
        width=len(schema),
        key=key,
        positions=tuple(schema.names.index(name) for name in one.key),
        added=tuple(parts.added),
        distinct=tuple(parts.distinct_values),
        extremes=tuple(parts.extremes),
        result=tuple(result),
        inner=inner,
        shown=tuple(text for _, text in columns),
    )


def _filled(query: exp.Select) -> list[str]:
    return [name for name, part in query.args.items() if part]


def _check_compared(kind: pa.DataType, what: str) -> None:
    """Raise UntranslatableError for values that have several forms of one, or that do not compare."""
    if at.is_floating(kind) or is_nested(kind):
        raise UntranslatableError(f"accumulators by {what}, {kind}")


class _Accumulators:
    """Collects the accumulators of the aggregates of a SELECT list, each once.

    Values over them name accumulators as `{added0}`, `{distinct0_0}`, `{extreme0}`, until all are known.
    """

    def __init__(self, rows: TableColumns, keys: Sequence[str]) -> None:
        self._rows = rows
        self._keys = tuple(keys)
        self.added: list[Added] = []
        self.extremes: list[Extreme] = []
        self._distinct: dict[tuple[tuple[str, ...], tuple[pa.DataType, ...]], list[str | None]] = {}

    @property
    def distinct_values(self) -> Iterator[DistinctValues]:
        """The arguments of COUNT(DISTINCT), each with its conditions."""
        for (values, types), filters in self._distinct.items():
            yield DistinctValues(values=values, types=types, filters=tuple(filters))

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
            kind = self._rows.columns[
                [of.name for of in self._rows.columns].index(column.name)
            ].type
            return SqlValue(f"c{self._keys.index(column.name)}", kind)

        return translate(tree, find)

    def placed(self, sql: str) -> str:
        """Write the columns of totals in the place of the accumulators of a value."""
        names = [f"added{n}" for n in range(len(self.added))]
        for n, filters in enumerate(self._distinct.values()):
            names += [f"distinct{n}_{i}" for i in range(len(filters))]
        names += [f"extreme{n}" for n in range(len(self.extremes))]
        for n, name in enumerate(names):
            sql = sql.replace(f"<{name}>", f"c{len(self._keys) + n}")
        return sql

    def _call(self, node: exp.Expr) -> SqlValue:
        whole, condition = node, None
        if isinstance(node, exp.Filter):
            condition, node = self._truth(node.expression.this), node.this
        distinct = isinstance(node.this, exp.Distinct)
        arguments = [*(node.this.expressions if distinct else [node.this]), *node.expressions]
        if isinstance(node, exp.Count) and not distinct:
            return self._count(whole, arguments, condition)
        values = [translate_over(argument, self._rows) for argument in arguments]
        if any(value.type is None for value in values):
            raise unknown(whole)
        if isinstance(node, exp.Count):
            return self._distinct_count(whole, values, condition)
        if len(values) != 1:
            raise unknown(whole)
        (value,) = values
        assert value.type is not None, "checked"
        if isinstance(node, exp.Min | exp.Max):
            _check_compared(value.type, to_text(whole))
            word, better = ("MIN", "LEAST") if isinstance(node, exp.Min) else ("MAX", "GREATEST")
            extreme = Extreme(
                sql=f"{word}({value.sql}){_filter(condition)}", better=better, type=value.type
            )
            return SqlValue(f"<extreme{_index(self.extremes, extreme)}>", value.type)
        if distinct or not isinstance(node, exp.Sum | exp.Avg):
            raise unknown(whole)
        count = self._added(f"COUNT({value.sql}){_filter(condition)}", pa.int64())
        if isinstance(node, exp.Avg):
            return self._average(whole, value, arguments[0], condition, count)
        kind = sum_type(value.type)
        total = self._added(f"SUM({value.sql}){_filter(condition)}", kind)
        return SqlValue(f"CASE WHEN {count} > 0 THEN {total} END", kind)

    def _average(
        self, node: exp.Expr, value: SqlValue, argument: exp.Expr, condition: str | None, count: str
    ) -> SqlValue:
        assert value.type is not None, "checked"
        if not at.is_integer(value.type) or number_kind(argument) not in INTEGERS:
            raise unknown(node)
        there, kind = f"nullif({count}, 0)", pa.decimal128(MOST_DIGITS, 0)
        wide = f"SUM(CAST({value.sql} AS DECIMAL({MOST_DIGITS}, 0))){_filter(condition)}"
        total = f"CAST({self._added(wide, kind)} AS HUGEINT)"
        if at.is_int64(value.type):
            return SqlValue(f"CAST({total} // {there} AS BIGINT)", value.type)
        return SqlValue(
            cast_text(f"trunc(CAST({total} AS DOUBLE) / {there})", value.type), value.type
        )

    def _count(
        self, node: exp.Expr, arguments: Sequence[exp.Expr], condition: str | None
    ) -> SqlValue:
        if len(arguments) != 1:
            raise unknown(node)
        argument = arguments[0]
        if isinstance(argument, exp.Star | exp.Literal):
            text = "*"
        else:
            value = translate_over(argument, self._rows)
            if value.type is None:
                raise unknown(node)
            text = value.sql
        return SqlValue(self._added(f"COUNT({text}){_filter(condition)}", pa.int64()), pa.int64())

    def _distinct_count(
        self, node: exp.Expr, values: Sequence[SqlValue], condition: str | None
    ) -> SqlValue:
        types = tuple(value.type for value in values if value.type is not None)
        for kind in types:
            _check_compared(kind, to_text(node))
        argument = (tuple(value.sql for value in values), types)
        filters = self._distinct.setdefault(argument, [])
        n = list(self._distinct).index(argument)
        index = _index(filters, condition)
        if index >= MOST_FILTERS:
            raise unknown(node)
        return SqlValue(f"<distinct{n}_{index}>", pa.int64())

    def _added(self, sql: str, kind: pa.DataType) -> str:
        return f"<added{_index(self.added, Added(sql=sql, type=kind))}>"

    def _truth(self, node: exp.Expr) -> str:
        value = translate_over(node, self._rows)
        if value.type is not None and not at.is_boolean(value.type):
            raise unknown(node)
        return value.sql


_Item = TypeVar("_Item")


def _index(items: list[_Item], item: _Item) -> int:
    """Return the position of an item, which is added where it is new."""
    if item not in items:
        items.append(item)
    return items.index(item)


def _filter(condition: str | None) -> str:
    return "" if condition is None else f" FILTER (WHERE {condition})"
