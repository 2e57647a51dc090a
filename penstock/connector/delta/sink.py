"""Writing into a Delta table, as far as it is known without Spark: options and guarantees."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import Guarantee, Sink, SinkCapabilities, SinkSettings
from penstock.connector.delta.options import DeltaTarget, FileMaintenance

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from penstock.connector.contract import MicroBatch
    from penstock.connector.delta.writer import DeltaWriter

__all__ = ["DeltaSink"]


@dataclass(frozen=True, kw_only=True)
class DeltaSink(Sink):
    """Appends to a Delta table, or merges into it by its PRIMARY KEY (`Sink`); a `DeltaWriter` does it.

    `adds_columns`: declared columns that the table lacks are added when a run is prepared.
    """

    target: DeltaTarget
    adds_columns: bool = False
    upkeep: FileMaintenance = field(default_factory=FileMaintenance)

    @property
    def capabilities(self) -> SinkCapabilities:
        """A batch that is run again changes nothing; rows that stay, with a PRIMARY KEY every change."""
        keyed = self.target.table.schema.primary_key is not None
        return SinkCapabilities(
            guarantee=Guarantee.EXACTLY_ONCE,
            accepts=ChangelogMode.ALL if keyed else ChangelogMode.INSERT_ONLY,
            resumable=True,
        )

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Create the table, or check that the existing one accepts rows of `schema`. Raises InputError, SinkError."""
        self._writer.prepare(spark, schema)

    def check_resumes(
        self, spark: SparkSession, checkpoint: str, sink: str, *, notes: bool = True
    ) -> None:
        """Check that the table is the one that the checkpoint was written with."""
        self._writer.check_resumes(spark, checkpoint, sink, notes=notes)

    def check_resumes_here(self, checkpoint: Path, query: str | None, sink: str) -> None:
        """Check the same of folders of this machine, without Spark."""
        from penstock.connector.delta.checkpoint_check import check_resumes_here

        appends = self.target.table.schema.primary_key is None
        check_resumes_here(self.target, checkpoint, query, sink, commits_empty=appends)

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start writing. Raises StateMismatchError for a table that does not go with the checkpoint."""
        return self._writer.start(frame, settings)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Write the rows of a micro-batch in one commit, unless the table has it already.

        Raises StateMismatchError for a batch that the table has with another content.
        """
        self._writer.write_batch(frame, batch)

    def write(self, frame: DataFrame) -> None:
        """Write a batch frame, in one transaction."""
        self._writer.write(frame)

    @cached_property
    def _writer(self) -> DeltaWriter:
        from penstock.connector.delta.writer import DeltaWriter  # Spark, only where it is used

        return DeltaWriter(target=self.target, adds_columns=self.adds_columns, upkeep=self.upkeep)
