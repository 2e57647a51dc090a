"""The sink of a double: rows are captured, and forwarded to the table's own sink where statements read them there."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.catalog.errors import SinkError
from penstock.connector.contract import MicroBatch
from penstock.connector.memory.sink import MemorySink
from penstock.connector.memory.tables import clear_tables, memory_table
from penstock.connector.testing.captured import captured, forget
from penstock.connector.testing.sink import CaptureSink
from tests.catalog.examples import table
from tests.connector.spark.micro_batches import micro_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class FailingOnce(MemorySink):
    """A sink whose target does not answer the first time."""

    failures: list[SinkError] = field(default_factory=lambda: [SinkError("not reached")])

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Fail, and then write."""
        if self.failures:
            raise self.failures.pop()
        super().write_batch(frame, batch)


def test_a_batch_that_the_own_sink_failed_is_forwarded_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It is captured once, and not taken for one that is there."""
    target = table(connector="memory")
    own = FailingOnce(table=target, location="forwarded")
    sink = CaptureSink(table=target, location="captured", own=own, writes=True)
    batch, frame = micro_batch(spark, tmp_path, 0), spark.range(2, numPartitions=1)
    try:
        with pytest.raises(SinkError, match="not reached"):
            sink.write_batch(frame, batch)
        for _ in range(2):
            sink.write_batch(frame, batch)
        rows, forwarded = captured("captured").rows, memory_table("forwarded").rows
    finally:
        forget("captured")
        clear_tables()

    assert [row for _, row in rows] == [{"id": 0}, {"id": 1}]
    assert forwarded is not None
    assert forwarded.to_pylist() == [{"id": 0}, {"id": 1}]
