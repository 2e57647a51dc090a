"""Runs a keyed operator in a task of Spark, over the changes of one bucket (`mapInArrow`), and reports its files.

A row of a task has the bucket of its key, its place in the order of the batch, and a STRUCT for each input of the
stage, NULL but for its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.accumulators import Accumulator

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.failpoints import reach
from penstock.sql.incremental.keyed.bucket_state import BucketLocation, BucketState
from penstock.sql.incremental.keyed.manifest import BucketFiles, BucketId, StateFile
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedOperator
from penstock.sql.incremental.keyed.state_files import StateFiles
from penstock.sql.incremental.keyed.tables import local_folder

BUCKET, ORDER = "__bucket", "__order"
"""Columns of a task's rows: INT and BIGINT."""

CACHES = "penstock-keyed-state"
"""Folder of the caches, in the first of Spark's local folders of an executor."""


def rows_column(index: int) -> str:
    """Name the STRUCT column of an input of the stage."""
    return f"__rows{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What the task of a partition did: the files of its states by bucket. A task that is run again reports again."""

    batch_id: int
    stage: str
    partition: int
    files: Mapping[BucketId, StateFile] = field(default_factory=dict)


Reports = tuple[TaskReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInput:
    """An input of a stage: the columns of its relation; `inserts`: its rows have no ROW_KIND."""

    name: str
    schema: pa.Schema
    inserts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTask:
    """A stage in a batch, for `mapInArrow`. `result` are the columns of the result, ROW_KIND last.

    `states` are the files of its buckets as of the batch before. `writes`: another batch follows, for which state is
    written.
    """

    stage: str
    operator: KeyedOperator
    inputs: tuple[TaskInput, ...]
    result: pa.Schema
    batch: KeyedBatch
    files: StateFiles
    state_id: str
    states: Mapping[BucketId, BucketFiles]
    reports: Accumulator[Reports]
    writes: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the changes of the result of one bucket."""
        received = [batch for batch in batches if batch.num_rows]
        files: Mapping[BucketId, StateFile] = {}
        if received:
            rows = pa.Table.from_batches(received)
            bounds = pc.min_max(rows.column(BUCKET)).as_py()
            assert bounds["min"] == bounds["max"], "a task has the rows of one bucket"
            result, files = self._run(bounds["min"], rows)
            reach("state-written")
            yield from _in_columns(result, self.result).to_batches()
        context = TaskContext.get()
        assert context is not None, "in a task"
        report = TaskReport(
            batch_id=self.batch.batch_id,
            stage=self.stage,
            partition=context.partitionId(),
            files=files,
        )
        self.reports.add((report,))

    def _run(self, bucket: int, rows: pa.Table) -> tuple[pa.Table, dict[BucketId, StateFile]]:
        states = {
            name: BucketState(
                self._location(name, bucket), layout, self.batch.batch_id, writes=self.writes
            )
            for name, layout in self.operator.layouts.items()
        }
        try:
            changes = {one.name: self._changes(rows, one, n) for n, one in enumerate(self.inputs)}
            result = self.operator.run(changes, states, self.batch)
        finally:
            for state in states.values():
                state.close()
        files = {
            self._bucket(name, bucket): state.written
            for name, state in states.items()
            if state.written is not None
        }
        return result, files

    def _bucket(self, name: str, bucket: int) -> BucketId:
        return BucketId(stage=self.stage, input=name, bucket=bucket)

    def _location(self, name: str, bucket: int) -> BucketLocation:
        identity = self._bucket(name, bucket)
        return BucketLocation(
            files=self.files,
            state_id=self.state_id,
            bucket=identity,
            stored=self.states.get(identity, BucketFiles()),
            caches=local_folder() / CACHES,
        )

    def _changes(self, rows: pa.Table, one: TaskInput, index: int) -> pa.Table:
        """Return the changes of an input, in the order of the batch where that matters."""
        name = rows_column(index)
        if len(self.inputs) > 1:
            rows = rows.filter(pc.is_valid(rows.column(name)))
        if one.name in self.operator.ordered:
            rows = rows.take(pc.sort_indices(rows.column(ORDER)))
        kinds = [] if one.inserts else [pa.field(ROW_KIND, pa.int8())]
        schema = pa.schema([*one.schema, *kinds])
        struct = rows.column(name)
        fields = [pc.struct_field(struct, [n]) for n in range(len(schema))]
        changes = _in_columns(pa.table(fields, names=schema.names), schema)
        if one.inserts:
            kind = pa.repeat(pa.scalar(int(RowKind.INSERT), pa.int8()), changes.num_rows)
            changes = changes.append_column(ROW_KIND, kind)
        return changes


def _in_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in the types of `schema`, by position: names may be doubled or differ in case alone."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema).combine_chunks()
