"""A table of the split runtime as a frame that is planned anew by each query: what the table holds when that starts.

A frame of the Python data source is planned once: Spark keeps its partitions for as long as it keeps the frame, so a
view of it would never show what came later. Here planning is the first stage of the query, in one task, and reading the
second, in as many tasks as there are cores.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from penstock.connector.changelog import ChangelogMode
from penstock.connector.scan import Scan
from penstock.connector.spark.batch import plan_read
from penstock.connector.spark.failure import spark_readable
from penstock.connector.spark.task import read_partition

__all__ = ["SnapshotReader"]

_PLANNED = "planned"
_TASKS = StructType([StructField(_PLANNED, BinaryType())])
"""As a value: Spark would parse the text of a schema for each of a catalog's thousands of tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReader:
    """Reads a scan; `schema` is what it gives, hidden columns included."""

    scan: Scan
    schema: StructType

    def frame(self, spark: SparkSession) -> DataFrame:
        """Give the scan as a frame; nothing is asked before it runs, and everything anew each time."""
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
