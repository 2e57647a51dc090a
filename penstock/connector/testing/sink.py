"""Writing into a fixture: the rows of a batch come to the driver with their kinds and are kept, each batch once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.catalog.model.table import MetadataColumn, PhysicalColumn, Table
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.contract import Guarantee, MicroBatch, Sink, SinkCapabilities, SinkSettings
from penstock.connector.spark.sink.micro_batch import discard_batch, micro_batch_query
from penstock.connector.spark.sink.target_rows import check_complete, target_expressions
from penstock.connector.testing.captured import captured

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSink(Sink):
    """Keeps what is written to `table` under `location`. `own` is the sink of its connector.

    With `writes` the rows are forwarded to that one, for other statements to read; else it only defines which changes
    are accepted.
    """

    table: Table
    location: str
    own: Sink
    writes: bool

    @property
    def capabilities(self) -> SinkCapabilities:
        """It takes what the table's own takes; all is gone with the process."""
        own = self.own.capabilities
        return SinkCapabilities(
            guarantee=Guarantee.NONE,
            accepts=own.accepts,
            needs_update_before=own.needs_update_before,
        )

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Make the target that is written. Raises DefinitionError for NOT NULL columns that the INSERT leaves out."""
        check_complete(self.table.schema, schema.names, owner=str(self.table.identifier))
        if self.writes:
            self.own.prepare(spark, schema)

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start writing batch after batch."""
        return micro_batch_query(frame, settings, self.write_batch)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Keep the rows of a micro-batch, unless they are there."""
        kept, number = captured(self.location), (batch.application_id, batch.batch_id)
        if number in kept.batches:
            discard_batch(frame)
            return
        if self.writes:
            # first: it passes over what it has, when the batch is run again
            self.own.write_batch(frame, batch)
        self._keep(frame)
        kept.batches.add(number)

    def write(self, frame: DataFrame) -> None:
        """Keep the rows of a batch frame."""
        self._keep(frame)
        if self.writes:
            self.own.write(frame)

    def _keep(self, frame: DataFrame) -> None:
        given = frame.columns
        wanted = [
            PhysicalColumn(name=column.name, type=column.type)
            for column in self.table.schema.columns
            if isinstance(column, PhysicalColumn)
            or (isinstance(column, MetadataColumn) and column.name in given)
        ]
        rows = frame.selectExpr(*target_expressions(wanted, given)).toArrow().to_pylist()
        kept = captured(self.location)
        for row in rows:
            kind = row.pop(ROW_KIND, None)
            kept.rows.append((None if kind is None else RowKind(kind), row))
