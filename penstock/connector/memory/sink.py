"""Writing into memory: the rows of a batch come to the driver as Arrow, all or none, each batch once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model.table import Table
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import Guarantee, MicroBatch, Sink, SinkCapabilities, SinkSettings
from penstock.connector.memory.tables import MemoryTable, memory_table
from penstock.connector.spark.sink.micro_batch import discard_batch, micro_batch_query
from penstock.connector.spark.sink.target_rows import (
    IS_DELETE,
    check_complete,
    last_changes,
    target_rows,
)
from penstock.connector.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySink(Sink):
    """Keeps rows under `location`, by the PRIMARY KEY where the table has one. They are as many as memory holds."""

    table: Table
    location: str

    @property
    def capabilities(self) -> SinkCapabilities:
        """A batch that is run again changes nothing, yet all rows are gone with the process.

        Rows that stay; with a PRIMARY KEY every change.
        """
        return SinkCapabilities(
            guarantee=Guarantee.NONE,
            accepts=ChangelogMode.ALL if self._key else ChangelogMode.INSERT_ONLY,
        )

    def prepare(self, spark: SparkSession, schema: StructType) -> None:  # noqa: ARG002  of the contract
        """Check that the INSERT fills the NOT NULL columns. Raises DefinitionError."""
        check_complete(self.table.schema, schema.names, owner=str(self.table.identifier))

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start writing batch after batch."""
        return micro_batch_query(frame, settings, self.write_batch)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Write the rows of a micro-batch, unless they are written already."""
        target = memory_table(self.location)
        if target.has(batch.application_id, batch.batch_id):
            discard_batch(frame)
            return
        rows = self._collected(frame)
        with target.lock:
            # another runner of the pipeline may have written it meanwhile
            if not target.has(batch.application_id, batch.batch_id):
                self._add(target, rows)
                target.batches[batch.application_id] = batch.batch_id

    def write(self, frame: DataFrame) -> None:
        """Write a batch frame."""
        target, rows = memory_table(self.location), self._collected(frame)
        with target.lock:
            self._add(target, rows)

    def _collected(self, frame: DataFrame) -> pa.Table:
        """Return the rows; of a keyed table the last change of each key, with IS_DELETE."""
        rows = target_rows(frame, self.table.schema)
        if self._key:
            columns = [(f.name, f.dataType) for f in spark_schema(self.table.schema.physical)]
            rows = last_changes(rows, self._key, columns)
        return rows.toArrow()

    def _add(self, target: MemoryTable, rows: pa.Table) -> None:
        if not self._key:
            target.append(rows)
            return
        stay = rows.filter(pc.invert(rows.column(IS_DELETE)))
        target.replace(rows.select(self._key), stay.drop_columns([IS_DELETE]))

    @property
    def _key(self) -> tuple[str, ...]:
        key = self.table.schema.primary_key
        return () if key is None else key.columns
