"""A Penstock table as Spark's batch source: what the table holds at the start of the query, read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.connector.contract import SplitSource
from penstock.connector.scan import Scan
from penstock.connector.source.state import SourceState
from penstock.connector.spark.executor import PlanningExecutor
from penstock.connector.spark.failure import spark_readable
from penstock.connector.spark.offsets import TaskPartition, plan_partitions
from penstock.connector.spark.task import read_partition

__all__ = ["SplitBatchReader", "plan_read"]


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
    """Plan the read of a scan to its stops, else to the ends that are there now; `tasks` None is one a split."""
    executor = PlanningExecutor(scan, source)
    try:
        planned = executor.plan(SourceState(), None) or SourceState()
        return plan_partitions(planned, executor.planner, tasks=tasks, tracks_event_time=False)
    finally:
        executor.close()
