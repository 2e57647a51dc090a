# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The keyed operators of a WindowAggregate: what is of windows is kept until the watermark closes them.

Rows are counted, so that a deletion takes away the row that came before it. A batch looks up the rows of the windows
that it closes, by their time, subtracts them, and aggregates what is left. Groups of panes are kept until all of their
windows are closed: a batch puts those of the windows that it closes together, and subtracts those of which no window is
left. So a pane is stored once, however many windows it is in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.connector.changelog import RowKind
from penstock.sql.checkpoint.watermarks import EventTimeSpan
from penstock.sql.dialect.windows.window_tables import WindowKind
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
from penstock.sql.incremental.stages import COUNT, Panes

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

    def late_rows(self, changes: Mapping[str, pa.Table], batch: KeyedBatch) -> Mapping[str, int]:
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


# --- panes ---

_MICROS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatePanes:
    """Aggregates the groups of panes when the watermark has passed their windows: what it returns are inserts.

    `columns` are those of the groups but the last one, the number of rows, by which late ones are counted; `pane` is
    the one that is the start of the pane, and `key` are those whose groups go to one bucket. `query` reads the table
    `due`, which has behind these columns the start, the end and the time of a window. `result` are the columns of the
    result.
    """

    name: str
    columns: tuple[pa.Field, ...]
    key: tuple[str, ...]
    pane: str
    panes: Panes
    waits_for: tuple[int, ...]
    query: SideQuery
    result: tuple[pa.Field, ...]

    @property
    def layouts(self) -> Mapping[str, KeyedLayout]:
        """The groups of panes with open windows; no time to live applies to them."""
        layout = KeyedLayout(
            dims=self.columns,
            values=(pa.field(COUNT, pa.int64()),),
            key=self.key,
            rowtime=self.pane,
        )
        return {self.name: layout}

    @property
    def ordered(self) -> frozenset[str]:
        """No input: groups add up in any order."""
        return frozenset()

    def late_rows(self, changes: Mapping[str, pa.Table], batch: KeyedBatch) -> Mapping[str, int]:
        """Return the number of rows of which all windows are closed, and of those without a time: they are dropped."""
        groups = changes.get(self.name)
        if groups is None or not groups.num_rows:
            return {}
        rows = np.asarray(groups.column(len(self.columns)))
        panes = groups.column(self._pane)
        late = np.asarray(panes.is_null())
        closed = _closed_us(self._span(batch).before_ms)
        if closed is not None:
            starts = np.asarray(panes.cast(pa.timestamp("us")).cast(pa.int64()).fill_null(0))
            late |= _last_ends(starts, self.panes) <= closed
        return {self.name: int(rows[late].sum())}

    def run(
        self,
        changes: Mapping[str, pa.Table],
        states: Mapping[str, KeyedState],
        batch: KeyedBatch,
    ) -> pa.Table:
        """Return the aggregates of the windows that the batch closes, and write the panes of those that are open."""
        span, state = self._span(batch), states[self.name]
        before, now = _closed_us(span.before_ms), _closed_us(span.now_ms)
        coming = changes.get(self.name)
        dims = listed(f"c{n}" for n in range(len(self.columns)))
        found, written = [], []
        with BucketTables() as tables:
            if coming is not None and coming.num_rows:
                self._arrive(tables, coming, before)
                found.append(f"SELECT {dims}, 1::BIGINT AS n, last_end FROM arrived")
                is_open = "TRUE" if now is None else f"last_end > {now}"
                written.append(f"SELECT {dims}, 1::BIGINT AS n FROM arrived WHERE {is_open}")
            if now is not None and now != before:
                self._look_up(tables, state, before, now)
                found.append(f"SELECT {dims}, n, last_end FROM open")
                written.append(f"SELECT {dims}, -n AS n FROM open WHERE last_end <= {now}")
            if not written:
                return with_kind(self.result).empty_table()
            rows = tables.rows(
                f"SELECT *, {batch.now_ms}::BIGINT FROM ({' UNION ALL '.join(written)}) ORDER BY ALL"
            )
            state.write(typed(rows, self.layouts[self.name].schema))
            if now is None:
                return with_kind(self.result).empty_table()
            tables.create("due", self._windows(" UNION ALL ".join(found), before, now))
            kind = f"{int(RowKind.INSERT)}::TINYINT"
            output = f"SELECT {listed([*self.query.columns, kind])} FROM ({self.query.sql})"
            return typed(tables.rows(f"{output} ORDER BY ALL"), with_kind(self.result))

    def _span(self, batch: KeyedBatch) -> EventTimeSpan:
        return batch.span(self.waits_for)

    @property
    def _pane(self) -> int:
        return [of.name for of in self.columns].index(self.pane)

    def _arrive(self, tables: BucketTables, coming: pa.Table, before: int | None) -> None:
        """Make the table `arrived`: the groups of the batch that are not late."""
        tables.give("given", coming.select(range(len(self.columns))))
        named = (f"{normalized(f'c{n}', of.type)} AS c{n}" for n, of in enumerate(self.columns))
        rows = f"SELECT {listed(named)}, {self._last_end} AS last_end FROM given"
        in_time = f"last_end > {before}" if before is not None else "last_end IS NOT NULL"
        tables.create("arrived", f"SELECT * FROM ({rows}) WHERE {in_time}")

    def _look_up(
        self, tables: BucketTables, state: KeyedState, before: int | None, now: int
    ) -> None:
        """Make the table `open`: the stored groups of the windows that the batch closes."""
        size, length = self.panes.size_ms * _MICROS, self.panes.pane_ms * _MICROS
        after = None if before is None else before - size
        tables.give("stored", state.rows_between(after, now - length))
        dims = listed(f"c{n}" for n in range(len(self.columns)))
        count = f"c{len(self.columns)}"
        net = f"SELECT {dims}, SUM({count})::BIGINT AS n FROM stored GROUP BY {dims}"
        tables.create("open", f"SELECT *, {self._last_end} AS last_end FROM ({net}) WHERE n > 0")

    def _windows(self, rows: str, before: int | None, now: int) -> str:
        """Write the groups of `rows` under each of their windows that the batch closes, as often as they are there."""
        start, end, number = self._bounds
        dims = listed(f"c{n}" for n in range(len(self.columns)))
        within = f"window_end <= {now}"
        if before is not None:
            within += f" AND window_end > {before}"
        first = len(self.columns)
        bounds = listed(
            f"make_timestamp({value}) AS c{first + n}"
            for n, value in enumerate(("window_start", "window_end", f"window_end - {_MICROS}"))
        )
        numbered = f"SELECT *, unnest(range({number})) AS i FROM ({rows})"
        expanded = f"SELECT *, {start} AS window_start, {end} AS window_end FROM ({numbered})"
        closing = f"SELECT {dims}, {bounds}, n FROM ({expanded}) WHERE {within}"
        return (
            f"SELECT * EXCLUDE (n, copy) FROM (SELECT *, unnest(range(n)) AS copy FROM ({closing}))"
        )

    @property
    def _start(self) -> str:
        """The start of a pane in microseconds since the epoch."""
        return f"epoch_us(c{self._pane})"

    @property
    def _first(self) -> str:
        """The start of the windows of a pane, of CUMULATE, in microseconds since the epoch."""
        size, offset = self.panes.size_ms * _MICROS, self.panes.offset_ms * _MICROS
        return f"({self._start} - ((({self._start} - {offset}) % {size}) + {size}) % {size})"

    @property
    def _last_end(self) -> str:
        """The end of the last window of a pane."""
        first = self._first if self.panes.kind is WindowKind.CUMULATE else self._start
        return f"{first} + {self.panes.size_ms * _MICROS}"

    @property
    def _bounds(self) -> tuple[str, str, int]:
        """The start and the end of the window with the number `i` of a pane, and how many there are at most."""
        size, length = self.panes.size_ms * _MICROS, self.panes.pane_ms * _MICROS
        number = size // length
        if self.panes.kind is WindowKind.CUMULATE:
            end = f"{self._first} + (i + 1) * {length}"
            return self._first, f"CASE WHEN {end} > {self._start} THEN {end} END", number
        start = f"{self._start} - i * {length}"
        return start, f"{start} + {size}", number


def _closed_us(watermark_ms: int | None) -> int | None:
    """Return up to which end windows are closed by a watermark, in microseconds; None where none is."""
    return None if watermark_ms is None else (watermark_ms + 1) * _MICROS


def _last_ends(starts: np.ndarray, panes: Panes) -> np.ndarray:
    """Return the ends of the last windows of panes, in microseconds."""
    size, offset = panes.size_ms * _MICROS, panes.offset_ms * _MICROS
    if panes.kind is WindowKind.CUMULATE:
        starts = starts - (starts - offset) % size
    return starts + size
