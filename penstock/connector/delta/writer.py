"""Writing into a Delta table: made or checked first, then written to exactly once.

Each micro-batch is one commit with a `txn` action (application id: the query's id in the checkpoint, version: the
batch id), as Spark's own Delta sink makes it; a batch that is replayed finds its own id there and writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from penstock.connector.contract import SinkSettings
from penstock.connector.delta.evolution import add_missing_columns
from penstock.connector.delta.failure import explained
from penstock.connector.delta.merge import Merge
from penstock.connector.delta.optimizing import Optimizer
from penstock.connector.delta.resumed import gone
from penstock.connector.delta.resuming import check_resumes
from penstock.connector.delta.table import check_writable, create, exists
from penstock.connector.delta.target import Target
from penstock.connector.delta.transaction import transaction_settings
from penstock.connector.delta.upkeep import Upkeep
from penstock.connector.delta.written import WrittenBatches, note_of
from penstock.connector.spark.configured import configured
from penstock.connector.spark.micro_batch import (
    MicroBatch,
    micro_batch_query,
    pass_over,
    with_settings,
)

__all__ = ["DeltaWriter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaWriter:
    """Appends to a Delta table, or merges into it by its PRIMARY KEY.

    Columns are matched by name, NOT NULL is checked by Delta for every row. `adds_columns`: declared columns that the
    table lacks are added when a run is prepared.
    """

    target: Target
    adds_columns: bool = False
    upkeep: Upkeep = field(default_factory=Upkeep)
    _optimizer: Optimizer = field(default_factory=Optimizer, compare=False, repr=False)
    _written: WrittenBatches = field(default_factory=WrittenBatches, compare=False, repr=False)

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Create the table, or check that what is there takes rows of `schema`. Raises InputError, SinkError."""
        if not exists(self.target, spark):
            create(self.target, spark)
        elif self.adds_columns:
            add_missing_columns(spark, self.target)
        # a new one too: another process may have been first
        check_writable(self.target, spark, schema)

    def check_resumes(
        self, spark: SparkSession, checkpoint: str, sink: str, *, notes: bool = True
    ) -> None:
        """Check that the table is the one that the checkpoint was written with (`Resumable`)."""
        if not exists(self.target, spark):
            raise gone(self.target)
        check_resumes(
            spark,
            self.target,
            checkpoint,
            sink,
            commits_empty=self._merge is None,
            notes=notes,
        )

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start writing. Raises StateMismatchError for a table that does not go with the checkpoint."""
        self.check_resumes(frame.sparkSession, settings.checkpoint, "")
        by_batches = self._merge is not None or self.upkeep.needs_batches
        if by_batches or settings.after_batch is not None:
            return micro_batch_query(frame, settings, self.write_batch)
        writer = with_settings(frame.writeStream.format("delta"), settings)
        with configured(frame.sparkSession, self.upkeep.stream_settings):
            return writer.start(self.target.location)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Write the rows of a micro-batch in one commit, unless the table has it already.

        Raises StateMismatchError for a batch that the table has with another content.
        """
        with (
            self._written.writing(self.target, batch) as digest,
            configured(batch.spark, self.upkeep.stream_settings),
        ):
            if digest is not None:
                self._write_batch(frame, batch, note_of(batch, digest))
            else:
                pass_over(frame)
            self._optimizer.run_if_due(batch.spark, self.target, self.upkeep.optimize_interval_ms)

    def write(self, frame: DataFrame) -> None:
        """Write a batch frame, in one transaction."""
        with configured(frame.sparkSession, self.upkeep.settings):
            if self._merge is None:
                frame.write.format("delta").mode("append").save(self.target.location)
            else:
                self._merge.run(frame.sparkSession, frame, {})

    def _write_batch(self, frame: DataFrame, batch: MicroBatch, note: str) -> None:
        if self._merge is None:
            self._append(frame, batch, note)
        else:
            settings = transaction_settings(batch.application_id, batch.batch_id, note)
            self._merge.run(batch.spark, frame, settings)

    @property
    def _merge(self) -> Merge | None:
        key = self.target.table.schema.primary_key
        return None if key is None else Merge(target=self.target, keys=key.columns)

    def _append(self, frame: DataFrame, batch: MicroBatch, note: str) -> None:
        writer = frame.write.format("delta").mode("append").option("userMetadata", note)
        writer = writer.option("txnAppId", batch.application_id).option(
            "txnVersion", batch.batch_id
        )
        with explained(self.target.shown):
            writer.save(self.target.location)
