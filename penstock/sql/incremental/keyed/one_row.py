# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The keyed operators that keep one row of each key: ChangelogNormalize the last change, Top-1 of inserts the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.keyed.files.spooled_rows import taken
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedLayout, KeyedState
from penstock.sql.incremental.keyed.tables import (
    BucketTables,
    difference,
    folded,
    listed,
    normalized,
    positions_of,
    typed,
    with_one_zero,
)
from penstock.sql.incremental.stages import COUNT, TIME, first_ingestion_number

# --- the last change ---

_DELETES = f"IN ({int(RowKind.DELETE)}, {int(RowKind.UPDATE_BEFORE)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizeUpserts:
    """Upserts and deletes of the relation `name` become changes with the row before (Flink's ChangelogNormalize).

    `layout` has all columns as `dims`, and no values but COUNT.
    """

    name: str
    layout: KeyedLayout

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The last rows."""
        return {self.name: self.layout}

    @property
    def ordered(self) -> frozenset[str]:
        """The last change counts."""
        return frozenset({self.name})

    def run(
        self,
        changes: Mapping[str, pa.Table],
        states: Mapping[str, KeyedState],
        batch: KeyedBatch,
    ) -> pa.Table:
        """Return the changes with the row before, and write the last rows."""
        upserts, layout = changes.get(self.name), self.layout
        if upserts is None or not upserts.num_rows:
            return pa.schema([*layout.dims, pa.field(ROW_KIND, pa.int8())]).empty_table()
        dims = [f"c{n}" for n in range(len(layout.dims))]
        positions = [layout.names.index(name) for name in layout.key]
        with BucketTables() as tables:
            position = positions_of(upserts)
            tables.give("given0", upserts.append_column("position", position))
            columns = listed(
                f"{normalized(f'c{n}', of.type)} AS c{n}" for n, of in enumerate(layout.dims)
            )
            kind, order = f"c{len(dims)}", f"c{len(dims) + 1}"
            tables.create(
                "upserts",
                f"SELECT {columns}, {kind} {_DELETES} AS gone, {order} AS position FROM given0",
            )
            key = listed(dims[n] for n in positions)
            tables.create(
                "newest",
                f"SELECT * FROM upserts QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY position DESC) = 1",
            )
            keys = typed(tables.rows(f"SELECT {key} FROM newest"), layout.key_schema)
            tables.give("stored0", states[self.name].rows_of(keys))
            tables.create("folded0", folded("stored0", layout, batch))
            rows = listed(dims)
            new = f"SELECT {rows}, 1 AS sign, 1 AS n FROM newest WHERE NOT gone"
            old = (
                f"SELECT {rows}, CASE WHEN alive THEN -1 ELSE 0 END AS sign, -s0 AS n FROM folded0"
            )
            tables.create("known", f"{new} UNION ALL {old}")
            # with a time to live also keys that got the same row again
            again = " OR MAX(sign) > 0" if layout.time_to_live_ms else ""
            written = tables.rows(
                f"SELECT {rows}, SUM(n)::BIGINT, {batch.now_ms}::BIGINT FROM known GROUP BY {rows} "
                f"HAVING SUM(n) <> 0{again} ORDER BY {rows}"
            )
            states[self.name].write(typed(written, layout.schema))
            tables.create("results", f"SELECT {rows}, sign FROM known WHERE sign <> 0")
            return difference(
                tables,
                layout.dims,
                positions,
                inserts_only=False,
                unchanged=layout.time_to_live_ms > 0,
            )


# --- the best row ---


@dataclass(frozen=True, slots=True, kw_only=True)
class BestRow:
    """Keeps one row of each key of the relation `name`, the first by `order` (Flink's Deduplicate).

    Rows are compared by the columns of their key and their order alone: what is written, and what is returned, is taken
    from the rows that came or are stored, by their positions.

    `layout` has the columns of the relation and, last, the number of a row's arrival, which no two rows have; rows do
    not expire. `order` is SQL over the columns of the layout at the positions `compared`, as c0, c1, ...; of rows that
    it leaves open the first that came is taken, or the last where `latest`. `result` are the columns of the result, and
    `taken` the positions of their values in the layout; None is the number of the row, which is 1. `upserts`: the row
    before is not returned, as nothing reads it.
    """

    name: str
    layout: KeyedLayout
    compared: tuple[int, ...]
    order: tuple[str, ...]
    latest: bool
    result: tuple[pa.Field, ...]
    taken: tuple[int | None, ...]
    upserts: bool = False

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The rows that are the first."""
        return {self.name: self.layout}

    @property
    def ordered(self) -> frozenset[str]:
        """Rows are numbered as they come."""
        return frozenset({self.name})

    def run(
        self,
        changes: Mapping[str, pa.Table],
        states: Mapping[str, KeyedState],
        batch: KeyedBatch,
    ) -> pa.Table:
        """Return the rows that are the first now, behind those that were, and write both."""
        inserts, state = changes.get(self.name), states[self.name]
        if inserts is None or not inserts.num_rows:
            return self._schema.empty_table()
        came = self._numbered(inserts, batch)
        with BucketTables() as tables:
            tables.give("came", came.select(self._narrow))
            best = self._best(tables, came.schema)
            stored = state.rows_of(self._keys_of(best))
            positions, before = self._compared(tables, best, stored)
        positions = pc.subtract(positions, first_ingestion_number(batch.batch_id))
        new = taken(came, positions)
        old = taken(stored.select(range(len(self.layout.dims))), before.drop_null())
        if new.num_rows:
            state.write(self._net(old, new, batch))
        return self._changes(old, new, before.is_valid())

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([*self.result, pa.field(ROW_KIND, pa.int8())])

    @property
    def _key(self) -> tuple[int, ...]:
        """The positions of the key in the layout."""
        return tuple(self.layout.names.index(name) for name in self.layout.key)

    @property
    def _narrow(self) -> list[int]:
        """The positions of all columns that rows are compared by: of the order first, the number of arrival last."""
        return [*dict.fromkeys((*self.compared, *self._key)), len(self.layout.dims) - 1]

    @property
    def _columns(self) -> list[str]:
        """The columns of the tables of narrow rows."""
        return [f"c{n}" for n in range(len(self._narrow))]

    def _column(self, position: int) -> str:
        """Name a column of the layout in these tables."""
        return f"c{self._narrow.index(position)}"

    @property
    def _order(self) -> list[str]:
        """The whole order of narrow rows."""
        return [*self.order, f"{self._columns[-1]} {'DESC' if self.latest else 'ASC'}"]

    def _numbered(self, inserts: pa.Table, batch: KeyedBatch) -> pa.Table:
        """Return the rows of a batch in the columns of the layout: with one zero, and the number of their arrival."""
        first = first_ingestion_number(batch.batch_id)
        numbers = pa.array(np.arange(first, first + inserts.num_rows, dtype=np.int64))
        columns = [with_one_zero(column) for column in inserts.columns[: len(self.layout.dims) - 1]]
        return pa.Table.from_arrays([*columns, numbers], schema=pa.schema(self.layout.dims))

    def _best(self, tables: BucketTables, schema: pa.Schema) -> pa.Table:
        """Return the best rows of a batch, in the order in which they came."""
        columns, order = self._columns, listed(self._order)
        key = listed(map(self._column, self._key))
        best = (
            f"SELECT DISTINCT ON ({key}) {listed(columns)} FROM came ORDER BY {order}"
            if key
            else f"SELECT {listed(columns)} FROM came ORDER BY {order} LIMIT 1"
        )
        narrow = pa.schema([schema.field(n) for n in self._narrow])
        return typed(tables.rows(f"FROM ({best}) ORDER BY {columns[-1]}"), narrow)

    def _keys_of(self, best: pa.Table) -> pa.Table:
        keys = [best.column(self._narrow.index(position)) for position in self._key]
        schema = self.layout.key_schema
        return typed(pa.Table.from_arrays(keys, names=schema.names), schema)

    def _compared(
        self, tables: BucketTables, best: pa.Table, stored: pa.Table
    ) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """Return the numbers of the best rows of a batch better than stored ones, and the positions of these."""
        if not stored.num_rows:
            return best.column(len(self._narrow) - 1), pa.chunked_array(
                [pa.nulls(best.num_rows, pa.int64())]
            )
        tables.give("best", best)
        known = stored.select([*self._narrow, len(self.layout.dims)])
        tables.give("stored", known.append_column("position", positions_of(stored)))
        found = tables.rows(self._comparison())
        return found.column(0), found.column(1)

    def _comparison(self) -> str:
        """Write the query of the numbers of the best rows that replace a stored one, or none, and of its position."""
        columns = self._columns
        count, position = f"c{len(columns)}", f"c{len(columns) + 1}"
        # a row that was written and subtracted again is there twice
        there = (
            f"SELECT {listed(columns)}, MIN({position}) AS position FROM stored GROUP BY {listed(columns)} "
            f"HAVING SUM({count}) > 0"
        )
        rows = (
            f"SELECT {listed(columns)}, NULL AS position, TRUE AS came FROM best "
            f"UNION ALL SELECT {listed(columns)}, position, FALSE AS came FROM ({there})"
        )
        key = listed(map(self._column, self._key))
        over = f"({f'PARTITION BY {key} ' if key else ''}ORDER BY {listed(self._order)}{{}})"
        whole = over.format(" ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING")
        return (
            f"SELECT {columns[-1]}, before FROM (SELECT {columns[-1]}, came, MAX(position) OVER {whole} AS before, "
            f"row_number() OVER {over.format('')} AS number FROM ({rows})) "
            f"WHERE number = 1 AND came ORDER BY {columns[-1]}"
        )

    def _net(self, old: pa.Table, new: pa.Table, batch: KeyedBatch) -> pa.Table:
        """Return what is added to the state."""
        rows = pa.concat_tables([old, new.cast(old.schema)])
        counts = np.ones(rows.num_rows, dtype=np.int64)
        counts[: old.num_rows] = -1
        times = pa.repeat(pa.scalar(batch.now_ms, pa.int64()), rows.num_rows)
        more = {COUNT: pa.array(counts), TIME: times}
        arrays = [*rows.columns, *(more[name] for name in self.layout.schema.names[-2:])]
        return pa.Table.from_arrays(arrays, schema=self.layout.schema)

    def _changes(self, old: pa.Table, new: pa.Table, is_update: pa.ChunkedArray) -> pa.Table:
        """Return the changes in the order of the new rows, -U in front of its +U."""
        updates = is_update.to_numpy()
        after = np.where(updates, int(RowKind.UPDATE_AFTER), int(RowKind.INSERT)).astype(np.int8)
        if self.upserts or not old.num_rows:
            return self._results(new, after)
        rows = pa.concat_tables([new, old.cast(new.schema)])
        kinds = np.concatenate([after, np.full(old.num_rows, int(RowKind.UPDATE_BEFORE), np.int8)])
        # twice the position of the new row, one less for the row before it
        positions = np.arange(new.num_rows) * 2 + 1
        order = np.argsort(np.concatenate([positions, positions[updates] - 1]))
        return self._results(taken(rows, pa.array(order)), kinds[order])

    def _results(self, rows: pa.Table, kinds: np.ndarray) -> pa.Table:
        arrays = [
            pa.repeat(pa.scalar(1, of.type), rows.num_rows)
            if position is None
            else rows.column(position).cast(of.type)
            for position, of in zip(self.taken, self.result, strict=True)
        ]
        return pa.Table.from_arrays([*arrays, pa.array(kinds)], schema=self._schema)
