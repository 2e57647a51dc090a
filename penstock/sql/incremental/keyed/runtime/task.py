# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""Runs keyed operators in a task of Spark, over the changes of one bucket or of all (`mapInArrow`), and reports files.

A row of a task has the bucket of its key, its place in the order of the batch, and a STRUCT for each input that comes
from outside of the task, NULL but for its own; or, of inputs that come by bucket, the number of the input and some rows
of it as Arrow, of which its place is that of the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.expression import BUCKET, ENCODED, INPUT
from penstock.connector.failpoints import reach
from penstock.connector.spark.source.buckets import decoded
from penstock.sql.incremental.keyed.files.manifest import BucketFiles, BucketId, StateFile
from penstock.sql.incremental.keyed.files.spooled_rows import SpooledRows, is_large, local_folder
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import (
    EventTimeOperator,
    KeyedBatch,
    KeyedOperator,
)
from penstock.sql.incremental.keyed.recompute import SideQuery
from penstock.sql.incremental.keyed.runtime.bucket_cache import BucketLocation
from penstock.sql.incremental.keyed.runtime.bucket_state import AllBuckets, BucketState
from penstock.sql.incremental.keyed.tables import (
    BucketTables,
    in_order,
    listed,
    sorted_by_all,
    typed,
)

ORDER = "__order"
"""BIGINT column of a task's rows."""

CACHES = "penstock-keyed-state"
"""Folder of the caches, in the first of Spark's local folders of an executor."""


_WRITERS = 4
"""Files of a stage that are written at once: most of the time each waits for the disk."""


def rows_column(index: int) -> str:
    """Name the STRUCT column of an input of the task."""
    return f"__rows{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What the task of a partition did for a stage: the files of its states by bucket, late rows by input.

    `returned` is the number of changes that the task returned: those of the last of its stages. A task that is run
    again reports again.
    """

    batch_id: int
    stage: str
    partition: int
    returned: int
    late: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[BucketId, StateFile] = field(default_factory=dict)


Reports = tuple[TaskReport, ...]


def late_rows(reports: Iterable[TaskReport]) -> Mapping[tuple[str, str], int]:
    """Return the late rows of a batch by stage and input."""
    # a task that is run again reports again
    tasks = {(report.stage, report.partition): report.late for report in reports}
    found = Counter[tuple[str, str]]()
    for (stage, _), late in tasks.items():
        found.update({(stage, name): rows for name, rows in late.items()})
    return found


def returned_rows(reports: Iterable[TaskReport], stage: str) -> int:
    """Return the number of changes that the tasks of a stage returned in a batch."""
    # a task that is run again reports again
    tasks = {report.partition: report.returned for report in reports if report.stage == stage}
    return sum(tasks.values())


_KIND = pa.field(ROW_KIND, pa.int8())


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInput:
    """An input of a stage: the columns of its relation; `inserts`: its rows have no ROW_KIND.

    `shuffled`: its rows come in no order, and where the order counts they are sorted by their columns. `column` is the
    number of its STRUCT among the columns of the task's rows, or the input's own where its rows come by
    bucket; None: the input is the result of an earlier stage of the task.
    """

    name: str
    schema: pa.Schema
    inserts: bool
    column: int | None
    shuffled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStage:
    """A stage of a task. `result` are the columns of its result, ROW_KIND last.

    `states` are the files of its buckets as of the batch before. `ended`: by input, up to which time rows were not
    needed behind that batch, in microseconds: this one may need rows that end in it. `buckets`: the task has the rows
    of so many buckets, which is all, and by input the columns of its layout whose hash tells the bucket; None: of one.
    """

    name: str
    operator: KeyedOperator
    inputs: tuple[TaskInput, ...]
    result: pa.Schema
    states: Mapping[BucketId, BucketFiles]
    ended: Mapping[str, int] = field(default_factory=dict)
    buckets: int | None = None
    hashed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCalc:
    """A Calc that a task computes, by DuckDB: `query` reads its inputs as `calc0`, `calc1`, ..., ROW_KIND last."""

    name: str
    inputs: tuple[TaskInput, ...]
    query: SideQuery
    result: pa.Schema

    def run(self, changes: Mapping[str, pa.Table]) -> pa.Table:
        """Return the changes of its result, in the order of those that it reads."""
        with BucketTables() as tables:
            for n, one in enumerate(self.inputs):
                tables.give(calc_table(n), changes[one.name])
            rows = tables.rows(f"SELECT {listed(self.query.columns)} FROM ({self.query.sql})")
        return typed(rows, self.result)


def calc_table(n: int) -> str:
    """Name the table of an input of a TaskCalc."""
    return f"calc{n}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTask:
    """Stages in a batch, for `mapInArrow`: the result is that of the last one, to which the others lead.

    Their keys are the same columns, so that all of them work on one bucket; or it is the only task of the batch, and
    has the rows of all buckets (`all_buckets`). `returned` are the indexes of the columns that the result has of those
    of the last one. `writes`: another batch follows, for which state is written.
    """

    stages: tuple[TaskStage | TaskCalc, ...]
    returned: tuple[int, ...]
    batch: KeyedBatch
    files: StateFiles
    state_id: str
    reports: Accumulator[Reports]
    writes: bool
    all_buckets: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the changes of the result, of the bucket whose rows came or of all."""
        files: dict[str, Mapping[BucketId, StateFile]] = {}
        late: dict[str, Mapping[str, int]] = {}
        returned = 0
        bucket, received = self._received(batches)
        if self.all_buckets or bucket is not None:
            results: dict[str, pa.Table] = {}
            readers = self._readers()
            for stage in self.stages:
                changes = {}
                for one in stage.inputs:
                    if one.column is not None:
                        changes[one.name] = received.pop((stage.name, one.name))
                        continue
                    changes[one.name] = results[one.name]
                    readers[one.name] -= 1
                    if not readers[one.name]:
                        del results[one.name]  # nothing reads them any more
                if isinstance(stage, TaskCalc):
                    result = stage.run(changes)
                else:
                    result, files[stage.name] = self._run(stage, bucket, changes)
                    if isinstance(stage.operator, EventTimeOperator):
                        late[stage.name] = stage.operator.late_rows(changes, self.batch)
                results[stage.name] = _joined(_in_columns(result, stage.result))
            reach("state-written")
            # Spark copies each row that it gets, column by column
            result = results[self.stages[-1].name].select(list(self.returned))
            returned = result.num_rows
            yield from result.to_batches()
        context = TaskContext.get()
        assert context is not None, "in a task"
        reports = (
            TaskReport(
                batch_id=self.batch.batch_id,
                stage=stage.name,
                partition=context.partitionId(),
                returned=returned,
                late=late.get(stage.name, {}),
                files=files.get(stage.name, {}),
            )
            for stage in self.stages
            if isinstance(stage, TaskStage)
        )
        self.reports.add(tuple(reports))

    def _readers(self) -> Counter[str]:
        """Count the stages that read each result of another stage of the task."""
        return Counter(
            one.name for stage in self.stages for one in stage.inputs if one.column is None
        )

    def _received(
        self, batches: Iterator[pa.RecordBatch]
    ) -> tuple[int | None, dict[tuple[str, str], pa.Table]]:
        """Return the bucket of the rows that came, None without any, and the changes that each stage has from outside.

        Of all buckets that is any of them.
        """
        inputs = {
            (stage.name, one.name): ReceivedInput(
                one, ordered=isinstance(stage, TaskStage) and one.name in stage.operator.ordered
            )
            for stage in self.stages
            for one in stage.inputs
            if one.column is not None
        }
        bucket: int | None = None
        try:
            for batch in batches:
                if batch.num_rows:
                    bounds = pc.min_max(batch.column(BUCKET)).as_py()
                    if not self.all_buckets:
                        assert bounds["min"] == bounds["max"], "a task has the rows of one bucket"
                        assert bucket in (None, bounds["min"]), "a task has the rows of one bucket"
                    bucket = bounds["min"]
                    for one in inputs.values():
                        one.add(batch)
            return bucket, {name: one.changes() for name, one in inputs.items()}
        finally:
            for one in inputs.values():
                one.discard()

    def _run(
        self, stage: TaskStage, bucket: int | None, changes: Mapping[str, pa.Table]
    ) -> tuple[pa.Table, dict[BucketId, StateFile]]:
        """Run an operator over the state of `bucket`; of all buckets where the stage has them."""
        with ThreadPoolExecutor(_WRITERS, "penstock state") as writers:
            try:
                return self._run_with(stage, bucket, changes, writers)
            except BaseException:
                # the files that wait to be written are those of no batch
                writers.shutdown(wait=False, cancel_futures=True)
                raise

    def _run_with(
        self,
        stage: TaskStage,
        bucket: int | None,
        changes: Mapping[str, pa.Table],
        writers: Executor,
    ) -> tuple[pa.Table, dict[BucketId, StateFile]]:
        numbers = range(stage.buckets) if stage.buckets is not None else _only(bucket)
        buckets = {
            name: tuple(self._state(stage, name, number, writers) for number in numbers)
            for name in stage.operator.layouts
        }
        states = {
            name: AllBuckets(of, stage.operator.layouts[name], stage.hashed[name])
            if len(of) > 1
            else of[0]
            for name, of in buckets.items()
        }
        try:
            result = stage.operator.run(changes, states, self.batch)
            files = {
                BucketId(stage=stage.name, input=name, bucket=number): file
                for name, of in buckets.items()
                for number, state in zip(numbers, of, strict=True)
                if (file := state.written) is not None
            }
        finally:
            for of in buckets.values():
                for state in of:
                    state.close()
        return result, files

    def _state(self, stage: TaskStage, name: str, bucket: int, writers: Executor) -> BucketState:
        return BucketState(
            self._location(stage, name, bucket),
            stage.operator.layouts[name],
            self.batch.batch_id,
            writes=self.writes,
            ended=stage.ended.get(name),
            writers=writers,
        )

    def _location(self, stage: TaskStage, name: str, bucket: int) -> BucketLocation:
        identity = BucketId(stage=stage.name, input=name, bucket=bucket)
        return BucketLocation(
            files=self.files,
            state_id=self.state_id,
            bucket=identity,
            stored=stage.states.get(identity, BucketFiles()),
            caches=local_folder() / CACHES,
        )


def _only(bucket: int | None) -> range:
    assert bucket is not None, "of its rows"
    return range(bucket, bucket + 1)


class ReceivedInput:
    """Collects the changes of an input from the rows of a task, in the order of the batch where that matters."""

    def __init__(self, one: TaskInput, *, ordered: bool) -> None:
        assert one.column is not None, "it comes from outside"
        self.name = one.name
        self._number, self._column = one.column, rows_column(one.column)
        self._struct = pa.schema([*one.schema, *([] if one.inserts else [_KIND])])
        self._width = len(one.schema) + 1
        self._sorted, self._ordered = ordered and one.shuffled, ordered and not one.shuffled
        order = [pa.field(ORDER, pa.int64())] if self._ordered else []
        self._rows = SpooledRows(pa.schema([*one.schema, _KIND, *order]))

    def add(self, batch: pa.RecordBatch) -> None:
        """Add those of the input of a batch."""
        by_bucket = self._column not in batch.schema.names
        found = self._pieces(batch) if by_bucket else self._structs(batch)
        for rows in found:
            for part in rows.to_batches():
                self._rows.add(part)

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        """Return the rows of the pieces that came; a row of no input, which makes the task run, has none."""
        pieces = batch.filter(pc.equal(batch.column(INPUT), self._number))
        orders = pieces.column(ORDER).to_pylist()
        for first, rows in zip(orders, decoded(pieces.column(ENCODED)), strict=True):
            order = pa.array(np.arange(first, first + rows.num_rows)) if self._ordered else None
            yield self._typed(rows.columns, rows.num_rows, order)

    def _structs(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        if batch.column(self._column).null_count:
            # a row of another input, or of none: it makes the task run
            batch = batch.filter(pc.is_valid(batch.column(self._column)))
        if not batch.num_rows:
            return
        struct = batch.column(self._column)
        columns = (pc.struct_field(struct, [n]) for n in range(len(self._struct)))
        yield self._typed(columns, batch.num_rows, batch.column(ORDER) if self._ordered else None)

    def _typed(self, of: Iterable[Any], count: int, order: pa.Array | None) -> pa.Table:
        """Return rows with their kinds and their order."""
        columns = list(of)
        if len(columns) < self._width:
            columns.append(pa.repeat(pa.scalar(int(RowKind.INSERT), _KIND.type), count))
        if order is not None:
            columns.append(order)
        names = [f"c{n}" for n in range(len(columns))]
        return _in_columns(pa.Table.from_arrays(columns, names=names), self._rows.schema)

    def changes(self) -> pa.Table:
        """Return all of them, ROW_KIND last."""
        rows = _joined(self._rows.table())
        if self._ordered:
            rows = in_order(rows, self._width).select(range(self._width))
        return sorted_by_all(rows) if self._sorted else rows

    def discard(self) -> None:
        """Forget what was not asked for."""
        self._rows.discard()


def _in_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in the types of `schema`, by position: names may be doubled or differ in case alone."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _joined(rows: pa.Table) -> pa.Table:
    """Return rows in one piece where they are in memory: what is on disk would be read into it."""
    return rows if is_large(rows) else rows.combine_chunks()


def each_bucket(rows: DataFrame, buckets: int) -> DataFrame:
    """Return a row of no input for each bucket, in the columns of a task's rows: the task then runs without changes."""
    inputs = [of for of in rows.schema.fields if of.name not in (BUCKET, ORDER)]
    return rows.sparkSession.range(0, buckets, 1, 1).select(
        F.col("id").cast("int").alias(BUCKET),
        F.lit(0).cast("bigint").alias(ORDER),
        *(F.lit(None).cast(of.dataType).alias(of.name) for of in inputs),
    )
