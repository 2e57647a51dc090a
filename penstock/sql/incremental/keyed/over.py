# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The keyed operators of an OverAggregate: over the rows of the frame, or over accumulators of each key.

Both compute the rows that the watermark releases, each once: what a batch returns are inserts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.sql.incremental.keyed.event_time import WaitingRows, with_kind
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedLayout, KeyedState
from penstock.sql.incremental.keyed.recompute import SideQuery
from penstock.sql.incremental.keyed.tables import (
    BucketTables,
    cast_text,
    folded,
    listed,
    typed,
)
from penstock.sql.incremental.stages import (
    COUNT,
    AccumulatorFunction,
    RangeState,
    RowsState,
    UnboundedState,
)

FRAME, TOTALS = "frame", "totals"
"""The states beside that of the rows that wait: rows of the frame, accumulators of keys."""

NEEDED = "needed"
"""The table that the stage's query reads: the columns of `due`, and accumulators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverFrames:
    """Computes rows over those of the frame, which are kept: `query` reads the due rows and them.

    `result` are the columns of the result. `time_to_live_ms`: of keys without a new row, where rows do not wait.
    """

    rows: WaitingRows
    frame: RangeState | RowsState | UnboundedState
    query: SideQuery
    result: tuple[pa.Field, ...]
    time_to_live_ms: int = 0

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The rows that wait, and those that later rows need."""
        by_time = isinstance(self.frame, RangeState)
        frame = KeyedLayout(
            dims=self.rows.numbered,
            values=(pa.field(COUNT, pa.int64()),),
            key=self.rows.key,
            time_to_live_ms=self.time_to_live_ms,
            rowtime=self.rows.time if by_time else None,
        )
        return {self.rows.name: self.rows.layout, FRAME: frame}

    @property
    def ordered(self) -> frozenset[str]:
        """Rows of one time are in the order of their arrival."""
        return frozenset({self.rows.name})

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The sources whose lowest watermark releases rows."""
        return self.rows.waits_for

    def late_rows(self, changes: Mapping[str, pa.Table], batch: KeyedBatch) -> int:
        """Return the number of rows that are dropped."""
        return self.rows.late_rows(changes, batch)

    def run(
        self,
        changes: Mapping[str, pa.Table],
        states: Mapping[str, KeyedState],
        batch: KeyedBatch,
    ) -> pa.Table:
        """Return the rows that are due with their aggregates, and write the states."""
        with BucketTables() as tables:
            due = self.rows.release(tables, changes, states[self.rows.name], batch)
            if not due and not isinstance(self.frame, RangeState):
                return with_kind(self.result).empty_table()
            self._take_frames(tables, states[FRAME], batch, any_due=due > 0)
            found = self.rows.result(tables, self.query, self.result) if due else None
            self._keep(tables, states[FRAME], batch, any_due=due > 0)
            return with_kind(self.result).empty_table() if found is None else found

    def _take_frames(
        self, tables: BucketTables, state: KeyedState, batch: KeyedBatch, *, any_due: bool
    ) -> None:
        """Make the tables `stored` of the rows that are kept of due keys, and NEEDED of them and the due rows."""
        layout = self.layouts[FRAME]
        if any_due:
            tables.give("kept", state.rows_of(self.rows.keys_of_due(tables)))
        else:
            tables.give("kept", layout.schema.empty_table())
        tables.create("stored", folded("kept", layout, batch))
        if any_due:
            columns = self._columns
            tables.create(
                NEEDED,
                f"SELECT {columns} FROM stored WHERE alive UNION ALL SELECT {columns} FROM due",
            )

    def _keep(
        self, tables: BucketTables, state: KeyedState, batch: KeyedBatch, *, any_due: bool
    ) -> None:
        """Write which rows are kept from now on, those of all keys that time has ended among them."""
        columns, layout = self._columns, self.layouts[FRAME]
        parts = [f"SELECT {columns}, -s0 AS n FROM stored"]
        if any_due:
            parts.append(f"SELECT {columns}, 1 AS n FROM {NEEDED} {self._still_needed(batch)}")
        if isinstance(self.frame, RangeState):
            span = self.rows.span(batch)
            if span.now_ms is not None and span.now_ms != span.before_ms:
                before = None if span.before_ms is None else self._first_needed(span.before_ms)
                tables.give("ending", state.rows_between(before, self._first_needed(span.now_ms)))
                tables.create("ended", folded("ending", layout, batch))
                parts.append(
                    f"SELECT {columns}, -s0 AS n FROM ended WHERE {self.rows.arrival} NOT IN "
                    f"(SELECT {self.rows.arrival} FROM stored)"
                )
        found = tables.rows(
            f"SELECT {columns}, SUM(n)::BIGINT, {batch.now_ms}::BIGINT FROM ({' UNION ALL '.join(parts)}) "
            f"GROUP BY ALL HAVING SUM(n) <> 0 ORDER BY {self.rows.arrival}"
        )
        state.write(typed(found, layout.schema))

    def _still_needed(self, batch: KeyedBatch) -> str:
        """Write which rows of NEEDED a later row needs."""
        match self.frame:
            case UnboundedState():
                return ""
            case RowsState(count=count):
                by = self.rows.key_columns
                keys = f"PARTITION BY {listed(by)} " if by else ""
                newest = listed(f"{column} DESC" for column in self.rows.order)
                return f"QUALIFY row_number() OVER ({keys}ORDER BY {newest}) <= {count}"
            case RangeState():
                now_ms = self.rows.span(batch).now_ms
                assert now_ms is not None, "it has released rows"
                bound = self._first_needed(now_ms)
                return f"WHERE {self.rows.rowtime} > make_timestamp({bound})"

    def _first_needed(self, watermark_ms: int) -> int:
        """Return the time, in microseconds, up to which no row is needed by one later than a watermark."""
        assert isinstance(self.frame, RangeState), "other frames do not end by time"
        return watermark_ms * 1000 - self.frame.micros

    @property
    def _columns(self) -> str:
        return listed(f"c{n}" for n in range(len(self.rows.numbered)))


# --- accumulators ---


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTotal:
    """An accumulator: its column in the state, its value in DuckDB's SQL over the columns of `due`."""

    field: pa.Field
    total: AccumulatorFunction
    value: str
    by_row: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTotals:
    """Computes rows over accumulators of the rows of their key up to them; those of the last row are kept.

    `query` reads the due rows with their accumulators. `result` are the columns of the result.
    """

    rows: WaitingRows
    totals: tuple[RunningTotal, ...]
    query: SideQuery
    result: tuple[pa.Field, ...]
    time_to_live_ms: int = 0

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The rows that wait, and the accumulators of keys."""
        names = [of.name for of in self.rows.columns]
        keys = (self.rows.columns[names.index(name)] for name in self.rows.key)
        totals = KeyedLayout(
            dims=(*keys, *(one.field for one in self.totals)),
            values=(pa.field(COUNT, pa.int64()),),
            key=self.rows.key,
            time_to_live_ms=self.time_to_live_ms,
        )
        return {self.rows.name: self.rows.layout, TOTALS: totals}

    @property
    def ordered(self) -> frozenset[str]:
        """Rows of one time are in the order of their arrival."""
        return frozenset({self.rows.name})

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The sources whose lowest watermark releases rows."""
        return self.rows.waits_for

    def late_rows(self, changes: Mapping[str, pa.Table], batch: KeyedBatch) -> int:
        """Return the number of rows that are dropped."""
        return self.rows.late_rows(changes, batch)

    def run(
        self,
        changes: Mapping[str, pa.Table],
        states: Mapping[str, KeyedState],
        batch: KeyedBatch,
    ) -> pa.Table:
        """Return the rows that are due with their aggregates, and write the states."""
        layout = self.layouts[TOTALS]
        with BucketTables() as tables:
            if not self.rows.release(tables, changes, states[self.rows.name], batch):
                return with_kind(self.result).empty_table()
            tables.give("kept", states[TOTALS].rows_of(self.rows.keys_of_due(tables)))
            tables.create("stored", folded("kept", layout, batch))
            self._accumulate(tables)
            found = self.rows.result(tables, self.query, self.result)
            columns = listed(f"c{n}" for n in range(len(layout.dims)))
            # with a time to live also keys whose accumulators stay the same
            again = " OR MAX(n) > 0" if self.time_to_live_ms else ""
            written = tables.rows(
                f"SELECT {columns}, SUM(n)::BIGINT, {batch.now_ms}::BIGINT FROM "
                f"(SELECT {columns}, -s0 AS n FROM stored UNION ALL {self._newest()}) "
                f"GROUP BY ALL HAVING SUM(n) <> 0{again} ORDER BY ALL"
            )
            states[TOTALS].write(typed(written, layout.schema))
            return found

    def _accumulate(self, tables: BucketTables) -> None:
        """Make the table NEEDED: the due rows and their accumulators."""
        rows = self.rows
        width = len(rows.numbered)
        values = listed(
            f"{cast_text(one.value, one.field.type)} AS v{n}" for n, one in enumerate(self.totals)
        )
        # what came before has no time, and a number that is less than any
        keys = [f"c{n} AS {name}" for n, name in enumerate(rows.key_columns)]
        before = listed(
            [
                *keys,
                f"-1::BIGINT AS {rows.arrival}",
                *(f"c{len(keys) + n} AS v{n}" for n in range(len(self.totals))),
            ]
        )
        tables.create(
            "values_of_rows",
            f"SELECT due.*, {values} FROM due UNION ALL BY NAME SELECT {before} FROM stored WHERE alive",
        )
        running = listed(
            f"{cast_text(self._running(n, one), one.field.type)} AS c{width + n}"
            for n, one in enumerate(self.totals)
        )
        columns = listed(f"c{n}" for n in range(width))
        tables.create(
            NEEDED,
            f"SELECT * FROM (SELECT {columns}, {running} FROM values_of_rows) WHERE {rows.arrival} >= 0",
        )

    def _running(self, n: int, one: RunningTotal) -> str:
        """Write a total up to each row, of all of its time unless it is by row."""
        order = [f"{column} ASC NULLS FIRST" for column in self.rows.order]
        by, kind = (order, "ROWS") if one.by_row else (order[:1], "RANGE")
        keys = self.rows.key_columns
        partition = f"PARTITION BY {listed(keys)} " if keys else ""
        window = (
            f"({partition}ORDER BY {listed(by)} {kind} BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        )
        match one.total:
            case AccumulatorFunction.FIRST | AccumulatorFunction.LAST:
                call = f"{one.total}_value(v{n} ORDER BY {listed(order)} IGNORE NULLS)"
            case _:
                call = f"{one.total}(v{n})"
        return f"{call} OVER {window}"

    def _newest(self) -> str:
        """Write the accumulators of each key's last row."""
        rows, width = self.rows, len(self.rows.numbered)
        keys = f"PARTITION BY {listed(rows.key_columns)} " if rows.key else ""
        newest = listed(f"{column} DESC" for column in rows.order)
        columns: Sequence[str] = [
            *rows.key_columns,
            *(f"c{width + n}" for n in range(len(self.totals))),
        ]
        named = listed(f"{column} AS c{n}" for n, column in enumerate(columns))
        last = f"QUALIFY row_number() OVER ({keys}ORDER BY {newest}) = 1"
        return f"SELECT {named}, 1 AS n FROM (SELECT * FROM {NEEDED} {last})"
