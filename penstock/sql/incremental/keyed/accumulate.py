# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The keyed operator of aggregations of inserts: accumulators of each group, and the values that DISTINCT has seen.

A batch costs what comes in it, not what is stored: DuckDB groups its rows by the number of their group, makes each
value of a COUNT(DISTINCT) one row with a bit for each FILTER that it passes, and looks these up. A bit that is not
stored counts, and is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.dialect import to_text
from penstock.sql.incremental.keyed.aggregates import (
    Accumulators,
    Added,
    DistinctValues,
    Extreme,
    check_accumulated,
)
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
    listed,
    typed,
)
from penstock.sql.incremental.stages import COUNT, RecomputeOperator

_SEEN = "__seen"
"""The bits of the FILTERs that a value has passed: each is written once, and only inserts are written."""

_GROUP = "g"
"""The number of a row's group in a batch: groups are in the order of their keys."""

_MOST_TEXT = 1 << 30
"""Bytes of the texts of an array: those of a bucket in a batch may be more than its offsets reach, which is 2 GiB."""


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
            groups, numbers = numbered_groups(
                pa.Table.from_arrays(
                    [inserts.column(n) for n in self.positions], schema=pa.schema(self.key)
                )
            )
            rows = inserts.select(range(self.width))
            tables.give("given", rows.append_column(_GROUP, pa.array(numbers)))
            columns = listed(f"c{n}" for n in range(self.width))
            tables.name("numbered", f"SELECT {columns}, c{self.width} AS {_GROUP} FROM given")
            tables.give("named", groups.append_column(_GROUP, _numbers_to(groups.num_rows)))
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
        keys = keys_of(groups, came.column(0), self.key).columns
        asked = pa.Table.from_arrays([*keys, *came.columns[1:-1]], names=list(layout.key))
        stored = state.rows_of(typed(asked, layout.key_schema))
        if stored.num_rows:
            tables.give(f"stored{n}", stored)
        new = tables.rows(self._unseen(n, one, has_stored=stored.num_rows > 0))
        if new.num_rows:
            state.write(self._rows_of(layout, groups, new, ones=True, batch=batch))
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
        keys = keys_of(groups, _numbers_to(groups.num_rows), self.key)
        stored = state.rows_of(typed(keys, layout.key_schema))
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
        state.write(self._rows_of(layout, groups, rows, ones=False, batch=batch))

    def _rows_of(
        self,
        layout: KeyedLayout,
        groups: pa.Table,
        rows: pa.Table,
        *,
        ones: bool,
        batch: KeyedBatch,
    ) -> pa.Table:
        """Return rows to write: the number of their group is the first column of `rows`. `ones`: each counts as one."""
        columns = [*keys_of(groups, rows.column(0), self.key).columns, *rows.columns[1:]]
        if ones:
            columns.append(pa.array(np.ones(rows.num_rows, dtype=np.int64)))
        columns.append(pa.repeat(pa.scalar(batch.now_ms, pa.int64()), rows.num_rows))
        found = pa.Table.from_arrays(columns, names=[f"c{n}" for n in range(len(columns))])
        return typed(found, layout.schema)


def _numbers_to(count: int) -> pa.Array:
    return pa.array(np.arange(count, dtype=np.int32))


# --- groups ---


def numbered_groups(keys: pa.Table) -> tuple[pa.Table, npt.NDArray[np.int32]]:
    """Return the distinct keys of rows in the order of their values, and of each row the number of its key.

    Texts of the keys are in one array each, whose offsets have 64 bits (`keys_of` gives others). No array has those of
    all rows: Arrow encodes them chunk by chunk.
    """
    values: list[pa.Array] = []
    codes: list[npt.NDArray[np.int32]] = []
    numbers = np.zeros(keys.num_rows, dtype=np.int64)
    for column in keys.columns:
        encoded = column.cast(_wide(column.type)).dictionary_encode(null_encoding="encode")
        values.append(encoded.chunk(0).dictionary)  # that of all chunks
        codes.append(np.concatenate([one.indices.to_numpy() for one in encoded.chunks]))
        both = numbers * len(values[-1]) + codes[-1]
        numbers = pa.array(both).dictionary_encode().indices.to_numpy().astype(np.int64)
    # of positions that are given one number the last one stays: the first row of each key
    first = np.empty(int(numbers.max()) + 1, dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    found = pa.Table.from_arrays(
        [of.take(pa.array(code[first])) for of, code in zip(values, codes, strict=True)],
        names=keys.column_names,
    )
    order = pc.sort_indices(found, sort_keys=[(name, "ascending") for name in keys.column_names])
    ranks = np.empty(len(order), dtype=np.int32)
    ranks[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
    return found.take(order), ranks[numbers]


def keys_of(
    groups: pa.Table, numbers: pa.Array | pa.ChunkedArray, key: Sequence[pa.Field]
) -> pa.Table:
    """Return the keys of groups in their types, in chunks whose texts have offsets of 32 bits."""
    texts = [of for of in groups.columns if of.type in (pa.large_string(), pa.large_binary())]
    longest = sum(pc.max(pc.binary_length(of)).as_py() or 0 for of in texts)
    rows = max(1, _MOST_TEXT // max(1, longest))
    parts = [
        typed(groups.take(numbers.slice(start, rows)), pa.schema(key))
        for start in range(0, len(numbers), rows)
    ]
    return pa.concat_tables(parts) if parts else pa.schema(key).empty_table()


def _wide(kind: pa.DataType) -> pa.DataType:
    """Return the type of texts with offsets of 64 bits, any other type as it is."""
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(kind, kind)


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
        check_accumulated(of.type, of.name)
    rows = TableColumns(sql="rows", columns=tuple(schema))
    parts = Accumulators(lambda value: translate_over(value, rows), key)
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
