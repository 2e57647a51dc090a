# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The keyed operator of aggregations of inserts: accumulators of each group, and the values that DISTINCT has seen.

A batch costs what comes in it, not what is stored: DuckDB groups its rows by the number of their group, makes each
value of an aggregate with DISTINCT one row with a bit for each FILTER that it passes, and looks these up. A bit that is
not stored counts, and is stored.

With a time to live all rows of a group have the time at which it began as a part of their key: a group that did not
change for that long begins at another time, and nothing of before is found. Its values expire with it, so that a batch
without a new one writes a row that is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
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
from penstock.sql.incremental.keyed.files.spooled_rows import BATCH_ROWS, spooled
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedLayout, KeyedState
from penstock.sql.incremental.keyed.statement import (
    Statement,
    TableColumns,
    result_columns,
    translate_over,
)
from penstock.sql.incremental.keyed.tables import (
    MANY_ROWS,
    BucketTables,
    UntranslatableError,
    cast_text,
    check_stored,
    difference,
    keys_of,
    listed,
    numbered_groups,
    numbers_to,
    typed,
)
from penstock.sql.incremental.stages import COUNT, InputState, RecomputeOperator

ACCUMULATED = (InputState.ACCUMULATORS, InputState.EXPIRING)
"""What this operator keeps of an input."""

_SEEN = "__seen"
"""The bits of the FILTERs that a value has passed: each is written once, and only inserts are written."""

_BEGAN = pa.field("__began", pa.int64())
"""When a group began, in ms since the epoch: the time of a batch."""

_GROUP = "g"
"""The number of a row's group in a batch: groups are in the order of their keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulateInserts:
    """Aggregates the inserts of the relation `name`.

    `width` is the number of columns of the relation, `key` those that are grouped by, `positions` where they are.
    Accumulators are, in this order, `added`, the numbers of distinct values by argument and FILTER, the sums of such
    values, and `extremes`. `result` are the columns of the result, `result_key` the positions of those that identify a
    row of it; `inner` is the SQL of their values over key and accumulators, c0, c1, ..., `having` the condition over
    these, and `shown` the values in the types of the result. `upserts`: no row before an update is given, and without
    `having` a row for each group that has rows in the batch, as of Spark's update mode. `expires`: groups may have a
    time to live, `time_to_live_ms` (0: none), and are then given where they stay the same, too.
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
    having: str | None = None
    result_key: tuple[int, ...] | None = None
    upserts: bool = True
    expires: bool = False
    time_to_live_ms: int = 0

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The accumulators of each group, and by argument the values of each group."""
        group, count = tuple(of.name for of in self._group), pa.field(COUNT, pa.int64())
        sums = [pa.field(f"__sum{n}", kind) for n, kind in enumerate(self._sum_types)]
        extremes = [pa.field(f"__extreme{n}", one.type) for n, one in enumerate(self.extremes)]
        by = group if self.expires else ()
        found = {
            self.name: KeyedLayout(
                dims=(*self._group, *extremes),
                values=(*sums, count),
                key=group[: len(self.key)],
                time_to_live_ms=self.time_to_live_ms,
                expiry_key=by,
            )
        }
        for n, one in enumerate(self.distinct):
            values = [pa.field(f"__value{i}", kind) for i, kind in enumerate(one.types)]
            found[self._values_of(n)] = KeyedLayout(
                dims=(*self._group, *values, pa.field(_SEEN, pa.int64())),
                values=(count,),
                key=(*group, *(of.name for of in values)),
                time_to_live_ms=self.time_to_live_ms,
                expiry_key=by,
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
        """Return the changes of the groups that have rows in the batch, and write what they add."""
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
            state = states[self.name]
            has_before = self._find_before(tables, groups, state, batch)
            groups = self._with_begin(tables, groups, batch, has_before=has_before)
            if has_before and not self.expires:
                tables.name("named", "SELECT * FROM keyed")  # without a begin they are the same
            else:
                tables.give("named", _with_numbers(groups))
            for n, one in enumerate(self.distinct):
                self._count_values(tables, n, one, groups, states[self._values_of(n)], batch)
            self._add_up(tables, has_before=has_before)
            self._write(tables, groups, state, batch)
            if self.upserts and self.having is None:
                return self._new_rows(tables)
            return self._changes(tables, has_before=has_before)

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([*self.result, pa.field(ROW_KIND, pa.int8())])

    @property
    def _group(self) -> tuple[pa.Field, ...]:
        """The columns by which rows of a group are found: its key, and when it began where groups expire."""
        return (*self.key, _BEGAN) if self.expires else self.key

    @property
    def _sum_types(self) -> list[pa.DataType]:
        counts = [pa.int64() for one in self.distinct for _ in one.filters]
        sums = [kind for one in self.distinct for _, kind in one.sums]
        return [*(one.type for one in self.added), *counts, *sums]

    def _values_of(self, n: int) -> str:
        """Name the state of the values of an argument."""
        return f"{self.name}_distinct_{n}"

    # --- the result ---

    def _new_rows(self, tables: BucketTables) -> pa.Table:
        """Return the new row of each group."""
        kind = f"CASE WHEN known THEN {int(RowKind.UPDATE_AFTER)} ELSE {int(RowKind.INSERT)} END"
        found = tables.rows(
            f"SELECT {listed([*self.shown, f'{kind}::TINYINT'])} FROM "
            f"(SELECT {self.inner}, known, {_GROUP} FROM totals) ORDER BY {_GROUP}"
        )
        return typed(found, self._schema)

    def _changes(self, tables: BucketTables, *, has_before: bool) -> pa.Table:
        """Return the changes from the row of each group before the batch, where HAVING holds of it, to that after."""
        width, sums = len(self.key), len(self._sum_types)
        before = [f"c{n}" for n in range(width)]
        before += [f"s{n} AS c{width + n}" for n in range(sums)]
        before += [f"x{n} AS c{width + sums + n}" for n in range(len(self.extremes))]
        sides = [("totals", 1)]
        if has_before:
            sides.append((f"(SELECT {listed(before)} FROM totals WHERE known)", -1))
        where = "" if self.having is None else f" WHERE {self.having}"
        shown = listed(f"{text} AS c{n}" for n, text in enumerate(self.shown))
        texts = (
            f"SELECT {shown}, {sign} AS sign FROM "
            f"(SELECT {self.inner} FROM (SELECT * FROM {rows}{where}))"
            for rows, sign in sides
        )
        tables.create("results", " UNION ALL ".join(texts))
        found = difference(
            tables,
            self.result,
            self.result_key,
            inserts_only=not has_before,
            unchanged=self.time_to_live_ms > 0 and self.result_key is not None,
        )
        if not self.upserts:
            return found
        kinds = found.column(len(self.result))
        return found.filter(pc.not_equal(kinds, int(RowKind.UPDATE_BEFORE)))

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
        values = came.select(range(came.num_columns - 1))
        stored = state.rows_of(with_keys(groups, values, self._group, layout.key_schema))
        if stored.num_rows:
            tables.give(f"stored{n}", stored)
        new = tables.rows(self._unseen(n, one, has_stored=stored.num_rows > 0))
        written = _with_marks(new, groups.num_rows) if self.expires else new
        if written.num_rows:
            state.write(with_keys(groups, written, self._group, layout.schema, (1, batch.now_ms)))
        tables.give(f"new{n}", new)
        bits = f"c{1 + len(one.values)}"
        passes = [f"FILTER (WHERE {bits} & {1 << i} <> 0)" for i in range(len(one.filters))]
        counts = [f"COUNT(*) {passed} AS d{n}_{i}" for i, passed in enumerate(passes)]
        sums = [
            f"SUM({cast_text('c1', kind)}) {passes[i]} AS t{n}_{j}"
            for j, (i, kind) in enumerate(one.sums)
        ]
        values = listed([f"c0 AS {_GROUP}", *counts, *sums])
        tables.name(f"counts{n}", f"SELECT {values} FROM new{n} GROUP BY c0")

    def _unseen(self, n: int, one: DistinctValues, *, has_stored: bool) -> str:
        """Write the query of the values that came, in their order, with the bits that are not stored."""
        number, bits = len(self._group), 1 + len(one.values)
        columns = [f"c{i}" for i in range(bits)]
        if not has_stored:
            return f"SELECT * FROM came{n} ORDER BY {listed(columns)}"
        values = [f"s.c{number + i} AS c{1 + i}" for i in range(len(one.values))]
        known = (
            f"SELECT {listed(columns)}, bit_or(bits) AS bits FROM (SELECT named.c{number} AS c0, {listed(values)}, "
            f"s.c{number + len(one.values)} AS bits FROM stored{n} AS s JOIN named ON {_same('s', 'named', number)}) "
            f"GROUP BY {listed(columns)}"
        )
        same = " AND ".join(f"came.{name} = known.{name}" for name in columns)
        left = f"came.c{bits} & ~coalesce(known.bits, 0)"
        return (
            f"SELECT {listed(f'came.{name}' for name in columns)}, {left} AS bits FROM came{n} AS came "
            f"LEFT JOIN ({known}) AS known ON {same} WHERE {left} <> 0 "
            f"ORDER BY {listed(f'came.{name}' for name in columns)}"
        )

    # --- accumulators ---

    def _find_before(
        self, tables: BucketTables, groups: pa.Table, state: KeyedState, batch: KeyedBatch
    ) -> bool:
        """Make `before`: of each group that is there its sums s0, ..., extremes x0, ... and when it began.

        Returns whether there may be one. The living row of a group is the one that its last batch has written.
        """
        layout, width = self.layouts[self.name], len(self.key)
        keys = keys_of(groups, numbers_to(groups.num_rows), self.key)
        stored = state.rows_of(typed(keys, layout.key_schema))
        if not stored.num_rows:
            return False
        tables.give("stored", stored)
        tables.give("keyed", _with_numbers(groups))
        first, time = len(layout.dims), len(layout.schema) - 1
        names = ["began"] if self.expires else []
        names += [f"x{n}" for n in range(len(self.extremes))]
        dims = [f"s.c{width + n} AS {name}" for n, name in enumerate(names)]
        totals = [f"SUM(s.c{first + n}) AS s{n}" for n in range(len(layout.values))]
        living = f"SUM(s.c{time - 1}) > 0"
        if self.time_to_live_ms:
            living += f" AND MAX(s.c{time}) > {batch.now_ms - self.time_to_live_ms}"
        rows = (
            f"SELECT {listed([f'keyed.c{width} AS {_GROUP}', *dims, *totals])} FROM stored AS s "
            f"JOIN keyed ON {_same('s', 'keyed', width)} GROUP BY ALL HAVING {living}"
        )
        if self.expires:  # by a clock set back, or no time to live any more, others live again
            newest = f"began = MAX(began) OVER (PARTITION BY {_GROUP})"
            rows = f"SELECT * FROM ({rows}) QUALIFY {newest}"
        # where groups have a begin it is read twice
        (tables.create if self.expires else tables.name)("before", rows)
        return True

    def _with_begin(
        self, tables: BucketTables, groups: pa.Table, batch: KeyedBatch, *, has_before: bool
    ) -> pa.Table:
        """Return groups with the time at which each began where that counts: this batch's, unless it is there."""
        if not self.expires:
            return groups
        began = pa.repeat(pa.scalar(batch.now_ms, _BEGAN.type), groups.num_rows)
        if has_before:
            number = f"keyed.c{len(self.key)}"
            began = tables.rows(
                f"SELECT coalesce(before.began, {batch.now_ms}::BIGINT) FROM keyed "
                f"LEFT JOIN before ON before.{_GROUP} = {number} ORDER BY {number}"
            ).column(0)
        return groups.append_column(_BEGAN, began)

    def _add_up(self, tables: BucketTables, *, has_before: bool) -> None:
        """Make the table `totals`: of each group key and accumulators, c0, c1, ..., those of before, and what is added.

        `known`: the group was there; s0, ... are its sums before and d0, ... what the batch adds, the number of rows
        last; x0, ... are its extremes before.
        """
        added = [f"{one.sql} AS a{n}" for n, one in enumerate(self.added)]
        extremes = [f"{one.sql} AS m{n}" for n, one in enumerate(self.extremes)]
        came = listed((_GROUP, *added, *extremes, "COUNT(*) AS n"))
        tables.name("added", f"SELECT {came} FROM numbered GROUP BY {_GROUP}")
        tables.create("totals", self._totals(self.layouts[self.name], has_before=has_before))

    def _totals(self, layout: KeyedLayout, *, has_before: bool) -> str:
        width, count = len(self.key), len(layout.values) - 1
        of_added = [f"added.a{n}" for n in range(len(self.added))]
        distinct = list(enumerate(self.distinct))
        counts = [f"counts{n}.d{n}_{i}" for n, one in distinct for i in range(len(one.filters))]
        totals = [f"counts{n}.t{n}_{j}" for n, one in distinct for j in range(len(one.sums))]
        changed = [*of_added, *counts, *totals, "added.n"]
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
            f"JOIN named ON named.c{len(self._group)} = added.{_GROUP} {' '.join(joins)}"
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
        state.write(with_keys(groups, rows, self._group, layout.schema, (batch.now_ms,)))


def _with_numbers(groups: pa.Table) -> pa.Table:
    return groups.append_column(_GROUP, numbers_to(groups.num_rows))


def _same(one: str, other: str, width: int) -> str:
    """Write that rows of two tables are of one group, by their first columns."""
    return " AND ".join(f"{one}.c{n} IS NOT DISTINCT FROM {other}.c{n}" for n in range(width))


def _with_marks(new: pa.Table, groups: int) -> pa.Table:
    """Return new values, with a row of no value and no bit for each group that has none: it does not expire."""
    there = new.column(0).to_numpy()
    others = pa.array(np.setdiff1d(np.arange(groups, dtype=np.int32), there))
    first, *values, bits = new.schema.types
    columns = [others.cast(first), *(pa.nulls(len(others), kind) for kind in values)]
    columns.append(pa.array(np.zeros(len(others), dtype=np.int64)).cast(bits))
    return pa.concat_tables([new, pa.Table.from_arrays(columns, schema=new.schema)])


def with_keys(
    groups: pa.Table,
    rows: pa.Table,
    key: Sequence[pa.Field],
    schema: pa.Schema,
    behind: Sequence[int] = (),
) -> pa.Table:
    """Return rows with the key of their group in place of its number, their first column, in the columns of `schema`.

    `behind` are the values of BIGINT columns behind theirs. Of many rows, as a key may have values, some are in memory.
    """

    def some(part: pa.Table) -> pa.Table:
        more = [pa.repeat(pa.scalar(of, pa.int64()), part.num_rows) for of in behind]
        columns = [*keys_of(groups, part.column(0), key).columns, *part.columns[1:], *more]
        found = pa.Table.from_arrays(columns, names=[f"c{n}" for n in range(len(columns))])
        return typed(found, schema)

    if rows.num_rows <= MANY_ROWS:
        return some(rows)
    parts = (some(rows.slice(n, BATCH_ROWS)) for n in range(0, rows.num_rows, BATCH_ROWS))
    return spooled(schema, (batch for part in parts for batch in part.to_batches()))


# --- the operator of a stage ---


def accumulating_operator(
    stage: RecomputeOperator, schemas: Mapping[str, pa.Schema], time_to_live_ms: int
) -> AccumulateInserts:
    """Return the operator of an aggregation that keeps accumulators. Raises UntranslatableError."""
    (one,), query = stage.inputs, stage.query
    schema, result = schemas[one.name], schemas[stage.name]
    ttl_ms = time_to_live_ms if one.time_to_live_ms is None else one.time_to_live_ms
    expires = one.keeps is InputState.EXPIRING
    if ttl_ms and not expires:
        raise UntranslatableError("accumulators with a time to live")
    if not isinstance(query, exp.Select) or _filled(query) - {"having"} != _CLAUSES:
        raise UntranslatableError(to_text(query))
    check_stored(schema)
    key = tuple(schema.field(name) for name in one.key)
    for of in key:
        check_accumulated(of.type, of.name)
    rows = TableColumns(sql="rows", columns=tuple(schema))
    parts = Accumulators(lambda value: translate_over(value, rows), key)
    items = [(item.alias_or_name, parts.value(item.unalias())) for item in query.expressions]
    having = query.args.get("having")
    condition = None if having is None else parts.condition(having.this)
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
        having=None if condition is None else parts.placed(condition),
        result_key=None if stage.key is None else tuple(map(result.names.index, stage.key)),
        upserts=stage.upserts,
        expires=expires,
        time_to_live_ms=ttl_ms,
    )


_CLAUSES = {"expressions", "from_", "group"}


def _filled(query: exp.Select) -> set[str]:
    return {name for name, part in query.args.items() if part}
