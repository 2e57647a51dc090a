"""The tasks of a batch, run from the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.connector.spark.sink.task_files import run_tasks

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("streamed", [True, False])
def test_tasks_run_once_and_what_they_give_is_dropped(
    spark: SparkSession, tmp_path: Path, *, streamed: bool
) -> None:
    """One of a stream, and any other frame."""
    spark.range(100).write.parquet(str(tmp_path / "in"))
    seen = spark.sparkContext.accumulator(0)

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    reader = spark.readStream if streamed else spark.read
    frame = reader.schema("id BIGINT").parquet(str(tmp_path / "in")).mapInArrow(count, "id BIGINT")
    if streamed:
        writer = frame.writeStream.foreachBatch(lambda rows, _: run_tasks(rows))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
    else:
        run_tasks(frame)

    assert seen.value == 100
