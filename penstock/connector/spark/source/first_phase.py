"""Group the rows that a task reads, and compute partial results of each group on Arrow batches.

Called in reading tasks. What Arrow would not compute as Spark does, a sum beyond 64 bits and the least of numbers with
NaN among them, is left to Spark, which gets each row of those as a group of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import types as t
from penstock.connector.arrow import arrow_type
from penstock.connector.expression import (
    COUNTED,
    ROWS,
    PartialAggregate,
    PartialFunction,
    PartialResult,
)
from penstock.connector.fragments import evaluate
from penstock.connector.spark.source.unnesting import RowUnnester

ROWS_AT_ONCE = 65_536
"""Rows that are grouped together: as many as a processor's cache holds of some columns."""
_INT64_END = 2**63


class FirstPhase:
    """The first phase of an aggregation in one task. `merged` counts the rows that others stand for.

    Where most rows are groups of their own, grouping costs more than it saves: the rest of the task's rows are not.
    """

    def __init__(self, aggregate: PartialAggregate) -> None:
        self.merged = 0
        self._aggregate = aggregate
        self._groups = True
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._unnester = None
        if aggregate.unnesting is not None:
            self._unnester = RowUnnester(aggregate.unnesting, [*aggregate.expressions()])

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows; yields groups when there are enough rows for them."""
        self.merged += batch.num_rows
        for rows in self._inputs(batch) if batch.num_rows else ():
            self._waiting.append(rows)
            self._rows += rows.num_rows
            if self._rows >= ROWS_AT_ONCE:
                yield from self.finish()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the groups of the rows that wait."""
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting)
        self._waiting, self._rows = [], 0
        found = self._grouped(table) if self._groups and self._is_exact(table) else None
        if found is None:
            found = self._each(table)
        elif found.num_rows * 2 > table.num_rows:
            self._groups = False
        self.merged -= found.num_rows
        yield from found.combine_chunks().to_batches()

    # --- what is grouped ---

    def _inputs(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self._unnester is None:
            yield from self._checked(batch, others=True)
            return
        yield self._left_out(batch)
        for rows in self._unnester.rows(batch):
            yield from self._checked(rows, others=False)

    def _checked(self, batch: pa.RecordBatch, *, others: bool) -> Iterator[pa.RecordBatch]:
        """Yield rows for which the condition holds, and the `others` where they are asked for."""
        condition = self._aggregate.condition
        if condition is None:
            yield self._columns(batch)
            return
        holds = pc.fill_null(evaluate(condition, batch), fill_value=False)
        passed = batch.filter(holds)
        if passed.num_rows:
            yield self._columns(passed)
        if others and passed.num_rows < batch.num_rows:
            yield self._left_out(batch.filter(pc.invert(holds)))

    def _columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return pane, keys and arguments of rows."""
        aggregate = self._aggregate
        columns = self._panes(batch)
        columns |= {key.name: evaluate(key.value, batch) for key in aggregate.keys}
        for result in aggregate.results:
            if not _counts_rows(result):
                columns[result.name] = _argument(result, batch)
        if aggregate.counts_others:
            columns[COUNTED] = pa.repeat(pa.scalar(True), batch.num_rows)
        return pa.RecordBatch.from_pydict(columns)

    def _left_out(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the panes of rows that are no part of a result."""
        none = batch.slice(0, 0)
        like = self._columns(none if self._unnester is None else self._unnester.empty(none)).schema
        columns = {field.name: pa.nulls(batch.num_rows, field.type) for field in like}
        columns |= self._panes(batch)
        columns[COUNTED] = pa.repeat(pa.scalar(False), batch.num_rows)
        return pa.RecordBatch.from_pydict(columns, schema=like)

    def _panes(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the column with the starts of panes, of an aggregation by windows."""
        aggregate = self._aggregate
        if aggregate.time is None:
            return {}
        times = evaluate(aggregate.time.value, batch)
        return {aggregate.time.name: pane_starts(times, aggregate.pane_ms, aggregate.offset_ms)}

    # --- groups ---

    def _keys(self) -> list[str]:
        aggregate = self._aggregate
        keys = [key.name for key in aggregate.grouped_by]
        return [*keys, COUNTED] if aggregate.counts_others else keys

    def _is_exact(self, table: pa.Table) -> bool:
        """Return whether Arrow's results are Spark's for these rows."""
        for result in self._aggregate.results:
            argument = result.argument
            if argument is None or result.function is PartialFunction.COUNT:
                continue
            column = table.column(result.name)
            if result.function is PartialFunction.SUM:
                if isinstance(argument.type, t.BigIntType) and not _sum_fits(column):
                    return False
            elif pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                return False
        return True

    def _grouped(self, table: pa.Table) -> pa.Table:
        functions: list[tuple[str | list[str], str]] = [([], "count_all")]
        functions += [
            (result.name, result.function.value)
            for result in self._aggregate.results
            if not _counts_rows(result)
        ]
        groups = table.group_by(self._keys(), use_threads=False).aggregate(functions)
        columns = {name: groups.column(name) for name in self._keys()}
        rows = groups.column("count_all")
        for result in self._aggregate.results:
            name = f"{result.name}_{result.function.value}"
            found = rows if _counts_rows(result) else groups.column(name)
            columns[result.name] = found.cast(arrow_type(result.type))
        return pa.table({**columns, ROWS: self._read(columns, rows)})

    def _each(self, table: pa.Table) -> pa.Table:
        """Return each row as a group of its own."""
        ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
        columns = {name: table.column(name) for name in self._keys()}
        for result in self._aggregate.results:
            if _counts_rows(result):
                columns[result.name] = ones
                continue
            value = table.column(result.name)
            if result.function is PartialFunction.COUNT:
                value = pc.is_valid(value)
            columns[result.name] = value.cast(arrow_type(result.type))
        return pa.table({**columns, ROWS: self._read(columns, ones)})

    def _read(
        self, columns: Mapping[str, pa.ChunkedArray], rows: pa.ChunkedArray
    ) -> pa.ChunkedArray:
        """Return how many rows that were read groups stand for: rows of arrays are none of these."""
        return rows if self._unnester is None else pc.if_else(columns[COUNTED], 0, rows)


def _counts_rows(result: PartialResult) -> bool:
    """Return whether a result is the number of rows."""
    return result.argument is None and result.condition is None


def _argument(result: PartialResult, batch: pa.RecordBatch) -> pa.Array:
    """Return the values that count, NULL in the place of the others."""
    if result.argument is None:
        value = pa.repeat(pa.scalar(True), batch.num_rows)
    else:
        value = evaluate(result.argument, batch)
    if result.condition is None:
        return value
    holds = pc.fill_null(evaluate(result.condition, batch), fill_value=False)
    return pc.if_else(holds, value, pa.scalar(None, value.type))


def _sum_fits(column: pa.ChunkedArray) -> bool:
    """Return whether no sum of these whole numbers has more than 64 bits."""
    bounds = pc.min_max(column).as_py()
    least, most = bounds["min"] or 0, bounds["max"] or 0
    return max(-least, most) * len(column) < _INT64_END


def pane_starts(times: pa.Array, pane_ms: int, offset_ms: int) -> pa.Array:
    """Return the start of the pane of each time, which ends where the next one starts."""
    size, offset = pane_ms * 1000, offset_ms * 1000
    moved = pc.subtract(times.cast(pa.int64()), offset)
    starts = pc.multiply(pc.divide(moved, size), size)
    if (pc.min(moved).as_py() or 0) < 0:
        # a quotient is cut towards 1970
        earlier = pc.subtract(starts, size)
        starts = pc.if_else(pc.less(moved, starts), earlier, starts)
    return pc.add(starts, offset).cast(times.type)
