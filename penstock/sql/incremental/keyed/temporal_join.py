# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The keyed operator of a TemporalJoin: rows that the watermark releases get the version of their key at their time.

Versions are kept by key and time. A batch looks up the keys of the rows that it releases, of the versions that it
brings, and of those that its watermark passes: a version that ended behind the watermark is subtracted then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.keyed.event_time import WaitingRows, with_kind
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedLayout, KeyedState
from penstock.sql.incremental.keyed.recompute import SideQuery
from penstock.sql.incremental.keyed.tables import (
    BucketTables,
    folded,
    listed,
    normalized,
    positions_of,
    timestamp_text,
    typed,
)
from penstock.sql.incremental.stages import (
    COUNT,
    INGESTION_ORDER,
    VALID_FROM,
    VALID_TO,
    first_ingestion_number,
)

VALID = "valid"
"""The table of versions that the stage's query reads: their columns, VALID_FROM and VALID_TO; deletes are left out."""

_ADDS = f"IN ({int(RowKind.INSERT)}, {int(RowKind.UPDATE_AFTER)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedTable:
    """The versions of a relation with the columns `columns`, by `key`: each is valid from its `time` on.

    A delete is a version without a row. One without a time of its own has that of the newest version that came before
    it. Of versions at one time the last one that came counts. `time_to_live_ms`: of keys without a new version.
    """

    name: str
    columns: tuple[pa.Field, ...]
    key: tuple[str, ...]
    time: str
    time_to_live_ms: int = 0

    @property
    def layout(self) -> KeyedLayout:
        """The versions, deletes too, with the number of their arrival."""
        return KeyedLayout(
            dims=(
                *self.columns,
                pa.field(ROW_KIND, pa.int8()),
                pa.field(INGESTION_ORDER, pa.int64()),
            ),
            values=(pa.field(COUNT, pa.int64()),),
            key=self.key,
            time_to_live_ms=self.time_to_live_ms,
            rowtime=self.time,
        )

    @property
    def read(self) -> tuple[pa.Field, ...]:
        """The columns of VALID."""
        kind = self.columns[self._names.index(self.time)].type
        return (*self.columns, pa.field(VALID_FROM, kind), pa.field(VALID_TO, kind))

    def take(self, tables: BucketTables, changes: pa.Table | None, batch: KeyedBatch) -> bool:
        """Make the table `arrived_versions` of the changes that are versions; returns whether there are changes.

        The row before an update is none, as the row after it ends the previous version, nor is a row without a time.
        """
        width, time = len(self.columns), self._time
        if changes is None:
            changes = with_kind(self.columns).empty_table()
        position = positions_of(changes)
        tables.give("given_versions", changes.append_column("position", position))
        columns = [f"{normalized(f'c{n}', of.type)} AS c{n}" for n, of in enumerate(self.columns)]
        number = f"{first_ingestion_number(batch.batch_id)} + c{width + 1} AS c{width + 1}"
        tables.create(
            "arrived_versions",
            f"SELECT {listed([*columns, f'c{width}', number])} FROM given_versions "
            f"WHERE (c{width} {_ADDS} AND {time} IS NOT NULL) OR c{width} = {int(RowKind.DELETE)}",
        )
        return bool(changes.num_rows)

    def rank(self, tables: BucketTables, stored: pa.Table, batch: KeyedBatch) -> None:
        """Make the table `versions` of some keys: those that are stored, and those of the batch, with their `ends`.

        Those whose key has expired are in `expired`.
        """
        dims, keys = self._dims, listed(self._keys)
        arrival = dims[-1]
        tables.give("stored_versions", stored)
        tables.create("folded_versions", folded("stored_versions", self.layout, batch))
        known = (
            f"SELECT {listed(dims)}, s0, time FROM folded_versions WHERE alive UNION ALL "
            f"SELECT {listed(dims)}, 0 AS s0, {batch.now_ms}::BIGINT AS time FROM arrived_versions"
        )
        # the newest of those that came before it
        before = (
            f"MAX({self._time}) OVER (PARTITION BY {keys} ORDER BY {arrival} "
            "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        )
        timed = (
            f"SELECT * REPLACE (coalesce({self._time}, {before}) AS {self._time}) FROM ({known})"
        )
        order = f"PARTITION BY {keys} ORDER BY {self._time}, {arrival}"
        tables.create(
            "versions",
            f"SELECT *, lead({self._time}) OVER ({order}) AS ends FROM ({timed}) WHERE {self._time} IS NOT NULL",
        )
        columns = [f"c{n}" for n in range(len(self.columns))]
        shown = [
            *columns,
            f"{self._time} AS c{len(columns)}",
            f"ends AS c{len(columns) + 1}",
        ]
        tables.create(
            VALID,
            f"SELECT {listed(shown)} FROM versions "
            f"WHERE c{len(columns)} {_ADDS} AND (ends IS NULL OR ends > {self._time})",
        )

    def keep(self, tables: BucketTables, state: KeyedState, now_ms: int | None) -> None:
        """Write which versions a row later than the watermark `now_ms` can need: those that end later."""
        ends = f"ends > {self._time}"
        if now_ms is not None:
            ends += f" AND ends > {timestamp_text(now_ms * 1000)}"
        needed, dims = f"(ends IS NULL OR ({ends}))", listed(self._dims)
        # what is taken away has the time that its key has: that must not make the key younger
        found = tables.rows(
            f"SELECT {dims}, n, time FROM ("
            f"SELECT {dims}, -s0 AS n, time FROM folded_versions WHERE s0 <> 0 AND NOT alive UNION ALL "
            f"SELECT {dims}, CASE WHEN {needed} THEN 1 ELSE 0 END - s0 AS n, time FROM versions"
            f") WHERE n <> 0 ORDER BY {self._dims[-1]}"
        )
        state.write(typed(found, self.layout.schema))

    def keys_of(self, table: str) -> str:
        """Write a query for the keys of the rows of a table."""
        return f"SELECT {listed(f'{column} AS k{n}' for n, column in enumerate(self._keys))} FROM {table}"

    @property
    def _names(self) -> list[str]:
        return [of.name for of in self.columns]

    @property
    def _dims(self) -> tuple[str, ...]:
        return tuple(f"c{n}" for n in range(len(self.columns) + 2))

    @property
    def _keys(self) -> tuple[str, ...]:
        return tuple(f"c{self._names.index(name)}" for name in self.key)

    @property
    def _time(self) -> str:
        return f"c{self._names.index(self.time)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinVersions:
    """Joins the rows that a batch releases with the versions that were valid at their times.

    `query` reads the tables `due` and VALID; its last column is the arrival of the row. `result` are the columns of the
    result, whose rows are inserts.
    """

    rows: WaitingRows
    versions: VersionedTable
    query: SideQuery
    result: tuple[pa.Field, ...]

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The rows that wait, and the versions."""
        return {self.rows.name: self.rows.layout, self.versions.name: self.versions.layout}

    @property
    def ordered(self) -> frozenset[str]:
        """Of versions at one time the last one that came counts; rows come out in order of arrival."""
        return frozenset(self.layouts)

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The sources whose lowest watermark releases rows."""
        return self.rows.waits_for

    def late_rows(self, changes: Mapping[str, pa.Table], batch: KeyedBatch) -> Mapping[str, int]:
        """Return the number of rows that are dropped. A version is never late."""
        return self.rows.late_rows(changes, batch)

    def run(
        self,
        changes: Mapping[str, pa.Table],
        states: Mapping[str, KeyedState],
        batch: KeyedBatch,
    ) -> pa.Table:
        """Return the rows that are due with their versions, and write the states."""
        versions, span = self.versions, self.rows.span(batch)
        state = states[versions.name]
        moves = span.now_ms is not None and span.now_ms != span.before_ms
        with BucketTables() as tables:
            due = self.rows.release(tables, changes, states[self.rows.name], batch)
            came = versions.take(tables, changes.get(versions.name), batch)
            if not (due or came or moves):
                return with_kind(self.result).empty_table()
            keys = [versions.keys_of("arrived_versions")]
            if due:
                named = (f"{column} AS k{n}" for n, column in enumerate(self.rows.key_columns))
                keys.append(f"SELECT {listed(named)} FROM due")
            if moves and span.now_ms is not None:
                after = None if span.before_ms is None else span.before_ms * 1000
                tables.give("passed_versions", state.rows_between(after, span.now_ms * 1000))
                keys.append(versions.keys_of("passed_versions"))
            found = tables.rows(" UNION ".join(keys) if len(keys) > 1 else _distinct(keys[0]))
            layout = versions.layout
            asked = typed(found, layout.key_schema)
            versions.rank(tables, state.rows_of(asked), batch)
            versions.keep(tables, state, span.now_ms)
            if not due:
                return with_kind(self.result).empty_table()
            return self.rows.result(tables, self.query, self.result)


def _distinct(query: str) -> str:
    return f"SELECT DISTINCT * FROM ({query})"
