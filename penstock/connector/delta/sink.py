"""Writing into a Delta table: made or checked first, then appended to exactly once.

Spark's Delta sink commits each micro-batch with a `txn` action (application id: the query's id in the checkpoint,
version: the batch id); a batch that is replayed finds its own id there and writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from penstock.catalog.errors import StateMismatchError
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import SinkSettings
from penstock.connector.delta.failure import explained
from penstock.connector.delta.table import Target
from penstock.connector.spark.micro_batch import MicroBatch, micro_batch_query, with_settings

__all__ = ["DeltaSink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSink:
    """Appends to a Delta table. Columns are matched by name, NOT NULL is checked by Delta for every row."""

    target: Target

    @property
    def accepts(self) -> ChangelogMode:
        """Rows that stay."""
        return ChangelogMode.INSERT_ONLY

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Create the table, or check that what is there takes rows of `schema`. Raises InputError, SinkError."""
        if not self.target.exists(spark):
            self.target.create(spark)
        # a new one too: another process may have been first
        self.target.check_writable(spark, schema)

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start appending. Raises StateMismatchError when the table is gone."""
        if not self.target.exists(frame.sparkSession):
            # Delta would make a new one, without NOT NULL, partitions and all rows before the checkpoint
            raise StateMismatchError(
                f"the Delta table at {self.target.shown} is gone",
                hint="restore it; or remove the checkpoint too, to begin anew",
            )
        if settings.after_batch is not None:
            return micro_batch_query(frame, settings, self.write_batch)
        writer = with_settings(frame.writeStream.format("delta"), settings)
        return writer.start(self.target.location)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Append the rows of a micro-batch, with the same `txn` action as Spark's Delta sink makes."""
        writer = frame.write.format("delta").mode("append")
        writer = writer.option("txnAppId", batch.application_id).option(
            "txnVersion", batch.batch_id
        )
        with explained(self.target.shown):
            writer.save(self.target.location)

    def write(self, frame: DataFrame) -> None:
        """Append a batch frame, in one transaction."""
        frame.write.format("delta").mode("append").save(self.target.location)
