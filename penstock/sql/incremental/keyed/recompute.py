# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The keyed operators of a RecomputeOperator: the stage's query over the rows of the changed keys, before and after.

DuckDB runs the SQL over the rows of one bucket in the process of the task. Tables have the columns c0, c1, ... by
position; what is kept of an input is counted, as in `state/changed_keys.py`, whose rules these are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedLayout, KeyedState
from penstock.sql.incremental.keyed.tables import (
    BucketTables,
    cast_text,
    difference,
    folded,
    listed,
    normalized,
    positions_of,
    total,
    typed,
)
from penstock.sql.incremental.stages import InputState, first_ingestion_number

_ADDS = f"IN ({int(RowKind.INSERT)}, {int(RowKind.UPDATE_AFTER)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedInput:
    """An input of the stage: the columns of its relation, the layout of what is kept of it.

    `measures` are the addends of the measures in DuckDB's SQL over the changes. `arrival`: the last of the layout's
    `dims` (`by_change`: the first of its `values`) numbers rows in order of arrival. `renewed` as in a StageInput.
    """

    name: str
    columns: tuple[pa.Field, ...]
    layout: KeyedLayout
    measures: tuple[str, ...] = ()
    keeps: InputState = InputState.ROWS
    arrival: bool = False
    by_batch: bool = False
    by_change: bool = False
    renewed: bool = False

    @property
    def dims(self) -> tuple[str, ...]:
        """The columns of the tables that identify a row."""
        return tuple(f"c{n}" for n in range(len(self.layout.dims)))

    @property
    def change_key(self) -> tuple[str, ...]:
        """The columns of the changes that are the key."""
        names = [of.name for of in self.columns]
        return tuple(f"c{names.index(name)}" for name in self.layout.key)

    @property
    def count(self) -> int:
        """The place of the number of rows among the values."""
        return len(self.layout.values) - 1

    @property
    def seen(self) -> tuple[pa.Field, ...]:
        """The columns of the table that the stage's query reads."""
        values = self.layout.values if self.measures else self.layout.values[:-1]
        return (*self.layout.dims, *values)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideQuery:
    """The stage's query over the tables of one side: the names of its columns, and they in the types of the result."""

    sql: str
    names: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputeKeys:
    """Recomputes the results of the changed keys of a bucket.

    `before` and `after` read the tables `before0`, `before1`, ... of the inputs, and `after0`, ... . `result` are
    the columns of the result, `key` the positions of those that identify a row of it, None where it has no known key.
    Where an input keeps rows of the RESULT, `result_dims` are the columns of the query that are its `dims`.
    `unchanged`: rows of the result are also emitted where they stay the same, so that they do not expire behind the
    stage. `refreshed`: nor in the state, where it has rows of the RESULT.
    """

    inputs: tuple[KeyedInput, ...]
    before: SideQuery
    after: SideQuery
    result: tuple[pa.Field, ...]
    key: tuple[int, ...] | None
    result_dims: tuple[str, ...] = ()
    unchanged: bool = False
    refreshed: bool = False

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The layouts of the state, by the names of the inputs."""
        return {one.name: one.layout for one in self.inputs}

    @property
    def ordered(self) -> frozenset[str]:
        """The inputs whose rows are numbered as they arrive."""
        return frozenset(
            one.name for one in self.inputs if one.arrival and not (one.by_batch or one.by_change)
        )

    def run(
        self,
        changes: Mapping[str, pa.Table],
        states: Mapping[str, KeyedState],
        batch: KeyedBatch,
    ) -> pa.Table:
        """Return the changes of the result, and write the states that change."""
        if not any(table.num_rows for table in changes.values()):
            return self._nothing()
        with BucketTables() as tables:
            for n, one in enumerate(self.inputs):
                _take_changes(tables, n, one, changes.get(one.name), batch)
            keys = self._changed_keys(tables)
            sides = []
            for n, one in enumerate(self.inputs):
                stored = states[one.name].rows_of(keys.rename_columns(list(one.layout.key)))
                sides.append(_changed_rows(tables, n, one, stored, batch))
            there = [any(rows[side] for rows in sides) for side in (0, 1)]
            self._compute(tables, there)
            for n, one in enumerate(self.inputs):
                self._write(tables, n, one, states[one.name], batch)
            unchanged = self.unchanged and self.key is not None
            return difference(
                tables, self.result, self.key, inserts_only=not there[0], unchanged=unchanged
            )

    def _nothing(self) -> pa.Table:
        kind = pa.field(ROW_KIND, pa.int8())
        return pa.schema([*self.result, kind]).empty_table()

    def _changed_keys(self, tables: BucketTables) -> pa.Table:
        """Return the distinct keys of all changes, under the names that the first input has for them."""
        first = self.inputs[0].layout
        if not first.key:
            return pa.table({})
        columns = [
            f"SELECT DISTINCT {listed(f'{c} AS k{i}' for i, c in enumerate(one.change_key))} FROM signed{n}"
            for n, one in enumerate(self.inputs)
        ]
        keys = tables.rows(" UNION ".join(columns))
        return typed(keys, first.key_schema)

    def _compute(self, tables: BucketTables, there: Sequence[bool]) -> None:
        """Fill the table `results`: rows of the result with their sign, -1 before and 1 after the batch."""
        names = listed(f"c{n}" for n in range(len(self.before.columns)))
        kinds = listed(f"{text} AS c{n}" for n, text in enumerate(self.before.columns))
        sides = [
            f"SELECT {kinds}, {sign} AS sign FROM ({side.sql})"
            for side, sign, is_there in zip((self.before, self.after), (-1, 1), there, strict=True)
            if is_there
        ]
        if not sides:
            # no input has a row on either side: of types that nothing reads
            sides = [f"SELECT {kinds}, 1 AS sign FROM ({self.after.sql}) WHERE FALSE"]
        tables.create("results", f"SELECT {names}, sign FROM ({' UNION ALL '.join(sides)})")

    def _write(
        self,
        tables: BucketTables,
        n: int,
        one: KeyedInput,
        state: KeyedState,
        batch: KeyedBatch,
    ) -> None:
        dims = listed(one.dims)
        if one.keeps is InputState.RESULT:
            stored_columns = listed(
                f"{column} AS {name}"
                for column, name in zip(self.result_dims, one.dims, strict=True)
            )
            again = " OR MAX(n) > 0" if self.refreshed and one.layout.time_to_live_ms else ""
            rows = (
                f"SELECT {dims}, SUM(n)::BIGINT AS n FROM (SELECT {dims}, -s{one.count} AS n FROM changed{n} "
                f"UNION ALL SELECT {stored_columns}, 1 AS n FROM results WHERE sign > 0) "
                f"GROUP BY ALL HAVING SUM(n) <> 0{again}"
            )
        else:
            values = [f"a{i} - s{i}" for i in range(len(one.layout.values))]
            differs = " OR ".join(f"{value} <> 0" for value in values)
            if one.layout.time_to_live_ms:
                # all rows here are of keys that change
                came = "" if one.renewed else "changed AND "
                differs += f" OR ({came}a{one.count} > 0)"
            cast = [
                cast_text(value, of.type)
                for value, of in zip(values, one.layout.values, strict=True)
            ]
            rows = f"SELECT {listed([*one.dims, *cast])} FROM changed{n} WHERE {differs}"
        order = f" ORDER BY {dims}" if one.dims else ""
        found = tables.rows(f"SELECT *, {batch.now_ms}::BIGINT FROM ({rows}){order}")
        state.write(typed(found, one.layout.schema))


# --- rows of the changed keys ---


def _take_changes(
    tables: BucketTables, n: int, one: KeyedInput, changes: pa.Table | None, batch: KeyedBatch
) -> None:
    """Name as `signed` the changes of an input with their sign, and the number of their arrival."""
    if changes is None:
        changes = pa.schema([*one.columns, pa.field(ROW_KIND, pa.int8())]).empty_table()
    columns = [normalized(f"c{i}", of.type) for i, of in enumerate(one.columns)]
    if one.arrival and not one.by_change:
        number = first_ingestion_number(batch.batch_id)
        columns.append(f"{number}::BIGINT" if one.by_batch else f"{number} + c{len(columns) + 1}")
        positions = positions_of(changes)
        changes = changes.append_column("place", positions)
    tables.give(f"given{n}", changes)
    kind = f"c{len(one.columns)}"
    named = [f"{text} AS c{i}" for i, text in enumerate(columns)]
    sign = f"CASE WHEN {kind} {_ADDS} THEN 1 ELSE -1 END::BIGINT AS sign"
    tables.name(f"signed{n}", f"SELECT {listed([*named, sign])} FROM given{n}")


def _changed_rows(
    tables: BucketTables, n: int, one: KeyedInput, stored: pa.Table, batch: KeyedBatch
) -> tuple[bool, bool]:
    """Make the table `changed`, and name `before` and `after`. Returns whether there is a row before, and after.

    `changed` has for each row what is stored of it, s0, s1, ...; the same, b0, ..., unless it has expired; and what
    there is after the batch, a0, ... . The deletion of an absent row is ignored.
    """
    layout = one.layout
    numbers = range(len(layout.values))
    tables.give(f"stored{n}", stored)
    groups = f"GROUP BY {listed(one.dims)}" if one.dims else ""
    tables.name(f"folded{n}", folded(f"stored{n}", layout, batch))
    tables.name(f"increments{n}", _increments(n, one))
    zeros = [f"{cast_text('0', of.type)} AS {{}}{i}" for i, of in enumerate(layout.values)]
    both = (
        f"SELECT {listed([*one.dims, *(f's{i}' for i in numbers), *(z.format('d') for z in zeros)])}, alive, "
        f"FALSE AS changed FROM folded{n} UNION ALL BY NAME "
        f"SELECT {listed([*one.dims, *(f'd{i}' for i in numbers), *(z.format('s') for z in zeros)])}, FALSE AS alive, "
        f"TRUE AS changed FROM increments{n}"
    )
    added = [
        total(f"{side}{i}", of.type, f"{side}{i}")
        for side in "sd"
        for i, of in enumerate(layout.values)
    ]
    flags = ["bool_or(alive) AS alive", "bool_or(changed) AS changed"]
    rows = f"SELECT {listed([*one.dims, *added, *flags])} FROM ({both}) {groups}"
    before = [f"CASE WHEN alive THEN s{i} ELSE 0 END AS b{i}" for i in numbers]
    rows = f"SELECT *, {listed(before)} FROM ({rows})"
    left = f"b{one.count} + d{one.count} > 0"
    after = [
        f"{cast_text(f'CASE WHEN {left} THEN b{i} + d{i} ELSE 0 END', of.type)} AS a{i}"
        for i, of in enumerate(layout.values)
    ]
    rows = f"SELECT *, {listed(after)} FROM ({rows})"
    if one.by_change:
        number, count = first_ingestion_number(batch.batch_id), one.count
        rows = (
            f"SELECT * REPLACE (CASE WHEN a{count} <= 0 THEN 0 WHEN a{count} > b{count} THEN {number} "
            f"ELSE b0 END::BIGINT AS a0) FROM ({rows})"
        )
    tables.create(f"changed{n}", rows)
    found = [
        _side(tables, n, one, letter, name) for letter, name in (("b", "before"), ("a", "after"))
    ]
    return found[0], found[1]


def _increments(n: int, one: KeyedInput) -> str:
    """Write the changes in the columns of what is kept: its `dims`, and d0, d1, ... to be added."""
    if not one.measures:
        added = ["0::BIGINT AS d0", "sign AS d1"] if one.by_change else ["sign AS d0"]
        return f"SELECT {listed([*one.dims, *added])} FROM signed{n}"
    source = f"signed{n}"
    if one.layout.time_to_live_ms:
        # the rows that deletions of expired keys would be subtracted from are gone
        columns = listed(f"c{i}" for i in range(len(one.columns)))
        grouped = [columns] if columns else []
        same = " AND ".join(
            f"living.{dim} IS NOT DISTINCT FROM net.{column}"
            for dim, column in zip(one.dims, one.change_key, strict=True)
        )
        there = f"EXISTS (SELECT 1 FROM folded{n} AS living WHERE alive{' AND ' + same if same else ''})"
        source = (
            f"(SELECT {listed([*grouped, 'sign(total)::BIGINT AS sign', 'unnest(range(abs(total))) AS copy'])} FROM "
            f"(SELECT {listed([*grouped, 'SUM(sign)::BIGINT AS total'])} FROM signed{n} GROUP BY ALL) AS net "
            f"WHERE total > 0 OR (total < 0 AND {there}))"
        )
    sums = [
        f"{cast_text(_signed_sum(value), of.type)} AS d{i}"
        for i, (value, of) in enumerate(zip(one.measures, one.layout.values, strict=False))
    ]
    keys = [f"{column} AS {dim}" for column, dim in zip(one.change_key, one.dims, strict=True)]
    count = f"coalesce(SUM(sign), 0)::BIGINT AS d{one.count}"
    groups = f"GROUP BY {listed(one.change_key)}" if one.change_key else ""
    return f"SELECT {listed([*keys, *sums, count])} FROM {source} {groups}"


def _signed_sum(value: str) -> str:
    """Write two sums and no minus: the least TINYINT has none."""
    came, went = (f"coalesce(SUM({value}) FILTER (WHERE sign {than} 0), 0)" for than in "><")
    return f"{came} - {went}"


def _side(tables: BucketTables, n: int, one: KeyedInput, letter: str, name: str) -> bool:
    """Name what the stage's query reads of an input, a row as often as it is there."""
    count = f"{letter}{one.count}"
    columns = [*one.dims, *(f"{letter}{i}" for i in range(len(one.seen) - len(one.dims)))]
    named = [f"{column} AS c{i}" for i, column in enumerate(columns)] or ["1 AS one"]
    there = f"FROM changed{n} WHERE {count} > 0"
    most = tables.value(f"SELECT MAX({count}) {there}") or 0
    if most > 1 and not one.measures:
        there = f"FROM (SELECT *, unnest(range({count})) {there})"
    tables.name(f"{name}{n}", f"SELECT {listed(named)} {there}")
    return most > 0
