# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""Rows that wait for the watermark, in one bucket: which of them a batch releases, which it keeps, and which are late.

Rows are kept by their time: a batch looks up those between the watermark before it and its own, and subtracts them.
Also the result of a query over the rows that are released, which are inserts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.checkpoint.watermarks import ALL_READ, EventTimeSpan
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedLayout, KeyedState
from penstock.sql.incremental.keyed.recompute import SideQuery
from penstock.sql.incremental.keyed.tables import (
    BucketTables,
    listed,
    normalized,
    positions_of,
    timestamp_text,
    typed,
)
from penstock.sql.incremental.stages import COUNT, INGESTION_ORDER, first_ingestion_number


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRows:
    """The rows of a relation of inserts until the watermark of the sources `waits_for` has passed their `time`.

    Without sources a row is released by the batch in which it arrives. The table `due` has the columns of the relation
    and the number of arrival. `key` are columns whose rows go to one bucket.
    """

    name: str
    columns: tuple[pa.Field, ...]
    key: tuple[str, ...]
    time: str | None
    waits_for: tuple[int, ...]

    @property
    def layout(self) -> KeyedLayout:
        """The rows that wait, with the number of their arrival; no time to live applies to them."""
        return KeyedLayout(
            dims=self.numbered,
            values=(pa.field(COUNT, pa.int64()),),
            key=self.key,
            rowtime=self.time if self.waits_for else None,
        )

    @property
    def numbered(self) -> tuple[pa.Field, ...]:
        """The columns of `due`."""
        return (*self.columns, pa.field(INGESTION_ORDER, pa.int64()))

    @property
    def arrival(self) -> str:
        """The column of `due` that numbers its rows in order of arrival."""
        return f"c{len(self.columns)}"

    @property
    def rowtime(self) -> str | None:
        """The column of `due` that is the time of its rows."""
        return None if self.time is None else f"c{self._time}"

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of `due` that are the key."""
        names = [of.name for of in self.columns]
        return tuple(f"c{names.index(name)}" for name in self.key)

    def span(self, batch: KeyedBatch) -> EventTimeSpan:
        """Return the event time that a batch passes: all of it, where rows do not wait."""
        return batch.span(self.waits_for) if self.waits_for else ALL_READ

    def late_rows(self, changes: Mapping[str, pa.Table], batch: KeyedBatch) -> Mapping[str, int]:
        """Return, by its name, the number of rows without a time, or of one that the watermark before has passed."""
        rows = changes.get(self.name)
        if rows is None or not rows.num_rows or not self.waits_for:
            return {}
        times, before_ms = rows.column(self._time), self.span(batch).before_ms
        late: int = times.null_count
        if before_ms is not None:
            bound = pa.scalar(before_ms * 1000, pa.int64()).cast(times.type)
            late += pc.sum(pc.less_equal(times, bound)).as_py() or 0
        return {self.name: late}

    def release(
        self,
        tables: BucketTables,
        changes: Mapping[str, pa.Table],
        state: KeyedState,
        batch: KeyedBatch,
    ) -> int:
        """Make the table `due` of the rows that the batch releases, and write those that wait; returns its rows."""
        span = self.span(batch)
        rows = changes.get(self.name)
        columns = listed(f"c{n}" for n in range(len(self.numbered)))
        parts: list[str] = []
        written: list[str] = []
        if rows is not None and rows.num_rows:
            self._arrive(tables, rows, batch, span)
            now = self.until(span.now_ms)
            parts.append(f"SELECT {columns} FROM arrived WHERE {now}")
            if self.waits_for:
                written.append(f"SELECT {columns}, 1::BIGINT AS n FROM arrived WHERE NOT ({now})")
        if self.waits_for and span.now_ms is not None and span.now_ms != span.before_ms:
            after = None if span.before_ms is None else span.before_ms * 1000
            tables.give("waiting", state.rows_between(after, span.now_ms * 1000))
            count = f"c{len(self.numbered)}"
            tables.create(
                "released",
                f"SELECT {columns} FROM waiting GROUP BY ALL HAVING SUM({count}) > 0",
            )
            parts.append(f"SELECT {columns} FROM released")
            written.append(f"SELECT {columns}, -1::BIGINT AS n FROM released")
        if written:
            found = tables.rows(
                f"SELECT {columns}, n, {batch.now_ms}::BIGINT FROM ({' UNION ALL '.join(written)}) "
                f"ORDER BY {self.arrival}"
            )
            state.write(typed(found, self.layout.schema))
        if not parts:
            return 0
        tables.create("due", " UNION ALL ".join(parts))
        return tables.value("SELECT COUNT(*) FROM due") or 0

    def keys_of_due(self, tables: BucketTables) -> pa.Table:
        """Return the distinct keys of the rows that are due."""
        if not self.key:
            return pa.table({})
        keys = tables.rows(f"SELECT DISTINCT {listed(self.key_columns)} FROM due")
        return typed(keys, self.layout.key_schema)

    def until(self, until_ms: int | None) -> str:
        """Write a test of the time of rows that are not late."""
        if not self.waits_for:
            return "TRUE"
        if until_ms is None:
            return "FALSE"
        return f"{self.rowtime} <= {timestamp_text(until_ms * 1000)}"

    @property
    def order(self) -> tuple[str, ...]:
        """The columns of `due` by which the rows of a key are in order."""
        return (self.arrival,) if self.rowtime is None else (self.rowtime, self.arrival)

    def result(
        self, tables: BucketTables, query: SideQuery, result: Sequence[pa.Field]
    ) -> pa.Table:
        """Return what a query gives of the due rows, by their time and arrival. Its last column is the arrival."""
        *columns, arrival = query.columns
        named = listed(
            [*(f"{text} AS r{n}" for n, text in enumerate(columns)), f"{arrival} AS number"]
        )
        order = listed(f"due.{column}" for column in self.order)
        found = tables.rows(
            f"SELECT {listed([*(f'r{n}' for n in range(len(columns))), f'{int(RowKind.INSERT)}::TINYINT'])} "
            f"FROM (SELECT {named} FROM ({query.sql})) AS computed JOIN due ON computed.number = due.{self.arrival} "
            f"ORDER BY {order}"
        )
        return typed(found, with_kind(result))

    @property
    def _time(self) -> int:
        assert self.time is not None, "rows that wait have a time"
        return [of.name for of in self.columns].index(self.time)

    def _arrive(
        self, tables: BucketTables, rows: pa.Table, batch: KeyedBatch, span: EventTimeSpan
    ) -> None:
        """Make the table `arrived`: the rows of the batch that are not late, numbered."""
        position = positions_of(rows)
        tables.give("given", rows.append_column("position", position))
        named = [f"{normalized(f'c{n}', of.type)} AS c{n}" for n, of in enumerate(self.columns)]
        number = f"{first_ingestion_number(batch.batch_id)} + c{len(self.columns) + 1}"
        in_time = "TRUE"
        if self.waits_for:
            in_time = f"{self.rowtime} IS NOT NULL"
            if span.before_ms is not None:
                in_time += f" AND {self.rowtime} > {timestamp_text(span.before_ms * 1000)}"
        tables.create(
            "arrived",
            f"SELECT {listed([*named, f'{number} AS {self.arrival}'])} FROM given WHERE {in_time}",
        )


def with_kind(result: Sequence[pa.Field]) -> pa.Schema:
    """Return the columns of a result, ROW_KIND last."""
    return pa.schema([*result, pa.field(ROW_KIND, pa.int8())])
