"""A Penstock table as Spark's batch source: the rows that the table has when the query starts, read once."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType

from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import SplitSource
from penstock.connector.scan import Scan
from penstock.connector.source.state import SourceState
from penstock.connector.spark.errors import spark_readable
from penstock.connector.spark.source.offsets import TaskPartition, plan_partitions
from penstock.connector.spark.source.planning import PlanningExecutor
from penstock.connector.spark.source.task import read_partition

__all__ = ["SnapshotReader", "SplitBatchReader", "plan_read"]


class SplitBatchReader(DataSourceReader):
    """Reads a scan once: to its stops where it is bounded, else to the ends seen at planning."""

    def __init__(self, scan: Scan, source: SplitSource, schema: StructType) -> None:
        self._scan = scan
        self._source = source
        self._schema = schema

    @spark_readable
    def partitions(self) -> Sequence[InputPartition]:
        """Plan the whole read."""
        tasks = plan_read(self._scan, self._source, tasks=self._source.parallelism)
        # Spark reads an empty list as one partition of nothing in particular
        return tasks or [TaskPartition(splits=(), watermarks=None, heartbeat=False)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's ranges, in a worker process."""
        assert isinstance(partition, TaskPartition), "Spark hands back what `partitions` planned"
        return read_partition(partition, self._scan, self._source, self._schema)


def plan_read(scan: Scan, source: SplitSource, *, tasks: int | None) -> Sequence[TaskPartition]:
    """Plan the read of a scan to its stops, else to the present ends; `tasks` None is one a split."""
    executor = PlanningExecutor(scan, source)
    try:
        planned = executor.plan(SourceState(), None) or SourceState()
        return plan_partitions(planned, executor.planner, tasks=tasks, tracks_event_time=False)
    finally:
        executor.close()


_PLANNED = "planned"

_TASKS = StructType([StructField(_PLANNED, BinaryType())])
"""As a value: Spark would parse the text of a schema for each of a catalog's thousands of tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReader:
    """Reads a scan; `schema` has hidden columns included."""

    scan: Scan
    schema: StructType

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the scan as a frame; it reads nothing before it runs, and everything again each time."""
        planned = spark.range(0, 1, 1, 1).mapInArrow(self._plan, _TASKS)
        tasks = spark.sparkContext.defaultParallelism
        return planned.repartition(tasks).mapInArrow(self._read, self.schema)

    def _plan(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            continue  # the range only makes the task
        values = [pickle.dumps(task) for task in spark_readable(self._tasks)()]
        yield pa.RecordBatch.from_pydict({_PLANNED: pa.array(values, pa.binary())})

    def _tasks(self) -> list[object]:
        source = self.scan.open_source()
        # changes of a key keep their order within one task alone
        whole = source.changes is not ChangelogMode.INSERT_ONLY
        return list(plan_read(self.scan, source, tasks=None if whole else source.parallelism))

    def _read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source = self.scan.open_source()
        for batch in batches:
            for value in batch.column(0).to_pylist():
                # written by the stage before, by this class
                task = pickle.loads(value)  # noqa: S301
                yield from read_partition(task, self.scan, source, self.schema)
