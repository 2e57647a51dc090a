# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""The keyed operators of an OverAggregate: over the rows of the frame, or over accumulators of each key.

Both compute the rows that the watermark releases, each once: what a batch returns are inserts. Sums of DOUBLE are not
DuckDB's, whose order of addition is open: each is the sum of its frame's values from 0 on, one after the other by their
time and arrival, as Spark adds them. A frame that moves is added anew for each row, and an accumulator goes on where
the batch before ended: which batch a row came in changes no digit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as at

from penstock.sql.incremental.keyed.event_time import WaitingRows, with_kind
from penstock.sql.incremental.keyed.files.spooled_rows import spooled
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
"""The table that the stage's query reads: the columns of `due`, and sums of DOUBLE or accumulators."""


# --- sums of DOUBLE ---

Doubles = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]

_CELLS = 1 << 18
"""Values that are added in one call: two megabytes of them."""

_ROWS = 1 << 18
"""Rows whose sums are in memory at once."""


def frame_sums(values: Doubles, first: Positions, last: Positions) -> Doubles:
    """Return the sums of `values[first]` to `values[last]`, each from 0 on, one value after the other.

    Frames that begin together are added once. Others are rows of a matrix, those of similar lengths together.
    """
    begins, frame = np.unique(first, return_inverse=True)
    lengths = np.zeros(len(begins), np.int64)
    np.maximum.at(lengths, frame, last - first + 1)
    by_length = np.argsort(lengths, kind="stable")
    begins, lengths = begins[by_length], lengths[by_length]
    position = np.empty_like(by_length)
    position[by_length] = np.arange(len(by_length))
    frame = position[frame]
    rows = np.argsort(frame, kind="stable")
    found = np.empty(len(first), np.float64)
    start = 0
    while start < len(begins):
        sizes = lengths[start:] * np.arange(1, len(begins) - start + 1)
        end = start + max(1, int(np.searchsorted(sizes, _CELLS, side="right")))
        cells = begins[start:end, None] + np.arange(lengths[end - 1])
        # 0 first: a sum of nothing but negative zeros is 0
        added = values[np.minimum(cells, len(values) - 1)] + 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            np.add.accumulate(added, axis=1, out=added)
        own = rows[slice(*np.searchsorted(frame[rows], (start, end)))]
        found[own] = added[frame[own] - start, last[own] - first[own]]
        start = end
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastFrame:
    """The first and last position of a frame, its sum and the number of its values that are not NULL."""

    first: int
    last: int
    total: float
    count: int


def _frame_totals(
    values: pa.ChunkedArray, first: Positions, last: Positions, before: _LastFrame | None
) -> tuple[Doubles, Positions]:
    """Return the sums of frames, whose `first` and `last` ascend, and the number of values that are not NULL in each.

    `before` is the frame before them: those that begin with it go on from its sum.
    """
    goes_on = 0 if before is None else int(np.searchsorted(first, before.first, side="right"))
    parts = []
    if before is not None and goes_on:
        ends = last[:goes_on] - before.last
        more = values.slice(before.last + 1, int(ends[-1]))
        added = np.concatenate([[before.total], np.asarray(more.fill_null(0.0))])
        there = np.concatenate([[before.count], np.asarray(more.is_valid())])
        parts.append((frame_sums(added, np.zeros_like(ends), ends), np.cumsum(there)[ends]))
    if goes_on < len(first):
        low = int(first[goes_on])
        begins, ends = first[goes_on:] - low, last[goes_on:] - low
        own = values.slice(low, int(ends[-1]) + 1)
        there = np.concatenate([[0], np.cumsum(np.asarray(own.is_valid()))])
        sums = frame_sums(np.asarray(own.fill_null(0.0)), begins, ends)
        parts.append((sums, there[ends + 1] - there[begins]))
    totals, counts = zip(*parts, strict=True)
    return np.concatenate(totals), np.concatenate(counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSum:
    """A sum of DOUBLE over the frame of each row, or their average: its column, and its value in DuckDB's SQL."""

    field: pa.Field
    value: str
    averages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSums:
    """Sums of DOUBLE in one `window`, as DuckDB's SQL behind a function."""

    window: str
    sums: tuple[FrameSum, ...]

    @property
    def names(self) -> list[str]:
        """The columns of the sums in `joined`."""
        return [f"d{n}" for n in range(len(self.sums))]

    def joined(self, tables: BucketTables, rows: WaitingRows, table: str, asked: str) -> str:
        """Write the rows of a table with their sums, d0, d1, ...: of those for which `asked` holds, else NULL."""
        order = listed(f"{column} ASC NULLS FIRST" for column in (*rows.key_columns, *rows.order))
        values = listed(f"{one.value} AS x{n}" for n, one in enumerate(self.sums))
        found = tables.rows(
            f"SELECT {rows.arrival} AS number, {asked} AS asked, MIN(position){self.window} AS first, "
            f"MAX(position){self.window} AS last, {listed(f'x{n}' for n in range(len(self.sums)))} FROM "
            f"(SELECT *, {values}, row_number() OVER (ORDER BY {order}) - 1 AS position FROM {table}) ORDER BY position"
        )
        schema = pa.schema([("number", pa.int64()), *((d, pa.float64()) for d in self.names)])
        tables.give(table + "_sums", spooled(schema, self._added(found, schema)))
        named = listed(["c0 AS number", *(f"c{n + 1} AS {d}" for n, d in enumerate(self.names))])
        return (
            f"{table} LEFT JOIN (SELECT {named} FROM {table}_sums) AS sums "
            f"ON sums.number = {table}.{rows.arrival}"
        )

    def _added(self, found: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the sums: NULL where all values of a frame are NULL, which add nothing to others."""
        before: list[_LastFrame | None] = [None] * len(self.sums)
        for start in range(0, found.num_rows, _ROWS):
            rows = found.slice(start, _ROWS)
            asked = np.asarray(rows.column(1))
            if not asked.any():
                continue
            number, first, last = (np.asarray(rows.column(n))[asked] for n in (0, 2, 3))
            columns = [pa.array(number)]
            for n, one in enumerate(self.sums):
                totals, counts = _frame_totals(found.column(4 + n), first, last, before[n])
                before[n] = _LastFrame(
                    first=int(first[-1]),
                    last=int(last[-1]),
                    total=float(totals[-1]),
                    count=int(counts[-1]),
                )
                result = totals / np.maximum(counts, 1) if one.averages else totals
                columns.append(pa.array(result, pa.float64(), mask=counts == 0))
            yield pa.record_batch(columns, schema=schema)


# --- rows of the frame ---


@dataclass(frozen=True, slots=True, kw_only=True)
class OverFrames:
    """Computes rows over those of the frame, which are kept: `query` reads the due rows and them, with `sums`.

    `result` are the columns of the result. `time_to_live_ms`: of keys without a new row, where rows do not wait.
    """

    rows: WaitingRows
    frame: RangeState | RowsState | UnboundedState
    query: SideQuery
    result: tuple[pa.Field, ...]
    sums: FrameSums | None = None
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

    def late_rows(self, changes: Mapping[str, pa.Table], batch: KeyedBatch) -> Mapping[str, int]:
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
        if not any_due:
            return
        columns, width = self._columns, len(self.rows.numbered)
        needed = f"SELECT {columns} FROM stored WHERE alive UNION ALL SELECT {columns} FROM due"
        if self.sums is None:
            tables.create(NEEDED, needed)
            return
        tables.create("framed", needed)
        asked = f"{self.rows.arrival} IN (SELECT {self.rows.arrival} FROM due)"
        joined = self.sums.joined(tables, self.rows, "framed", asked)
        more = (f"{name} AS c{width + n}" for n, name in enumerate(self.sums.names))
        tables.create(NEEDED, f"SELECT {listed(['framed.*', *more])} FROM {joined}")

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

    @property
    def adds_doubles(self) -> bool:
        """Whether it is a sum of DOUBLE."""
        return self.total is AccumulatorFunction.SUM and bool(at.is_float64(self.field.type))


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

    def late_rows(self, changes: Mapping[str, pa.Table], batch: KeyedBatch) -> Mapping[str, int]:
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
        table, texts = "values_of_rows", {}
        doubles = [n for n, one in enumerate(self.totals) if one.adds_doubles]
        if doubles:
            (window,) = {self._window(self.totals[n]) for n in doubles}
            sums = (FrameSum(field=self.totals[n].field, value=f"v{n}") for n in doubles)
            frames = FrameSums(window=f" OVER {window}", sums=tuple(sums))
            texts = dict(zip(doubles, frames.names, strict=True))
            table = frames.joined(tables, rows, table, f"{rows.arrival} >= 0")
        running = listed(
            f"{cast_text(texts.get(n) or self._running(n, one), one.field.type)} AS c{width + n}"
            for n, one in enumerate(self.totals)
        )
        columns = listed(f"c{n}" for n in range(width))
        tables.create(
            NEEDED,
            f"SELECT * FROM (SELECT {columns}, {running} FROM {table}) WHERE {rows.arrival} >= 0",
        )

    def _window(self, one: RunningTotal) -> str:
        """Write the rows up to each one, all of its time unless it is by row."""
        order = [f"{column} ASC NULLS FIRST" for column in self.rows.order]
        by, kind = (order, "ROWS") if one.by_row else (order[:1], "RANGE")
        keys = self.rows.key_columns
        partition = f"PARTITION BY {listed(keys)} " if keys else ""
        return (
            f"({partition}ORDER BY {listed(by)} {kind} BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        )

    def _running(self, n: int, one: RunningTotal) -> str:
        """Write a total up to each row."""
        order = [f"{column} ASC NULLS FIRST" for column in self.rows.order]
        match one.total:
            case AccumulatorFunction.FIRST | AccumulatorFunction.LAST:
                call = f"{one.total}_value(v{n} ORDER BY {listed(order)} IGNORE NULLS)"
            case _:
                call = f"{one.total}(v{n})"
        return f"{call} OVER {self._window(one)}"

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
