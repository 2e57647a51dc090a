# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The keyed operator of a WindowAggregate: the rows of windows are kept until the watermark closes them.

Rows are counted, so that a deletion takes away the row that came before it. A batch looks up the rows of the windows
that it closes, by their time, subtracts them, and aggregates what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.connector.changelog import RowKind
from penstock.sql.checkpoint.watermarks import EventTimeSpan
from penstock.sql.incremental.keyed.event_time import WaitingRows, with_kind
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedLayout, KeyedState
from penstock.sql.incremental.keyed.recompute import SideQuery
from penstock.sql.incremental.keyed.tables import (
    BucketTables,
    listed,
    normalized,
    timestamp_text,
    typed,
)
from penstock.sql.incremental.stages import COUNT

_ADDS = f"IN ({int(RowKind.INSERT)}, {int(RowKind.UPDATE_AFTER)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateWindows:
    """Aggregates the rows of windows when the watermark has passed their last time: what it returns are inserts.

    The key of `rows` are the columns that are grouped by. `query` reads the table `due`, a row as often as it is there.
    `result` are the columns of the result. The deletion of a row that is not there takes away one that comes later.
    """

    rows: WaitingRows
    query: SideQuery
    result: tuple[pa.Field, ...]

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The rows of open windows; no time to live applies to them."""
        layout = KeyedLayout(
            dims=self.rows.columns,
            values=(pa.field(COUNT, pa.int64()),),
            key=self.rows.key,
            rowtime=self.rows.time,
        )
        return {self.rows.name: layout}

    @property
    def ordered(self) -> frozenset[str]:
        """No input: rows are counted."""
        return frozenset()

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The sources whose lowest watermark closes windows."""
        return self.rows.waits_for

    def late_rows(self, changes: Mapping[str, pa.Table], batch: KeyedBatch) -> int:
        """Return the number of changes of windows that are closed, which are dropped."""
        return self.rows.late_rows(changes, batch)

    def run(
        self,
        changes: Mapping[str, pa.Table],
        states: Mapping[str, KeyedState],
        batch: KeyedBatch,
    ) -> pa.Table:
        """Return the aggregates of the windows that the batch closes, and write the rows of those that are open."""
        span, state = self.rows.span(batch), states[self.rows.name]
        coming = changes.get(self.rows.name)
        layout = self.layouts[self.rows.name]
        columns = listed(f"c{n}" for n in range(len(self.rows.columns)))
        closing, written = [], []
        with BucketTables() as tables:
            if coming is not None and coming.num_rows:
                self._arrive(tables, coming, span)
                due = self.rows.until(span.now_ms)
                closing.append(f"SELECT {columns}, n FROM arrived WHERE {due}")
                written.append(f"SELECT {columns}, n FROM arrived WHERE NOT ({due})")
            if span.now_ms is not None and span.now_ms != span.before_ms:
                after = None if span.before_ms is None else span.before_ms * 1000
                tables.give("open", state.rows_between(after, span.now_ms * 1000))
                count = f"c{len(layout.dims)}"
                closing.append(f"SELECT {columns}, {count} AS n FROM open")
                written.append(f"SELECT {columns}, -{count} AS n FROM open")
            if not written:
                return with_kind(self.result).empty_table()
            net = "SELECT {}, SUM(n)::BIGINT AS n FROM ({}) GROUP BY ALL HAVING SUM(n) {} 0"
            found = tables.rows(
                f"SELECT *, {batch.now_ms}::BIGINT FROM "
                f"({net.format(columns, ' UNION ALL '.join(written), '<>')}) ORDER BY ALL"
            )
            state.write(typed(found, layout.schema))
            rows = net.format(columns, " UNION ALL ".join(closing), ">")
            tables.create(
                "due", f"SELECT {columns} FROM (SELECT {columns}, unnest(range(n)) FROM ({rows}))"
            )
            if not tables.value("SELECT COUNT(*) FROM due"):
                return with_kind(self.result).empty_table()
            kind = f"{int(RowKind.INSERT)}::TINYINT"
            output = f"SELECT {listed([*self.query.columns, kind])} FROM ({self.query.sql})"
            return typed(tables.rows(f"{output} ORDER BY ALL"), with_kind(self.result))

    def _arrive(self, tables: BucketTables, coming: pa.Table, span: EventTimeSpan) -> None:
        """Make the table `arrived`: the changes of the batch that are not late, with the sign `n`."""
        columns = self.rows.columns
        tables.give("given", coming)
        named = [f"{normalized(f'c{n}', of.type)} AS c{n}" for n, of in enumerate(columns)]
        sign = f"CASE WHEN c{len(columns)} {_ADDS} THEN 1 ELSE -1 END::BIGINT AS n"
        in_time = f"{self.rows.rowtime} IS NOT NULL"
        if span.before_ms is not None:
            in_time += f" AND {self.rows.rowtime} > {timestamp_text(span.before_ms * 1000)}"
        tables.create("arrived", f"SELECT {listed([*named, sign])} FROM given WHERE {in_time}")
