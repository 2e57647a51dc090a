"""Printing rows: made to text in tasks, written by the driver's process, where a person looks.

A batch that is replayed is printed again (at-least-once, as in Flink). Partitions come one after the other, so the
lines of a batch are never all in memory, and changes of a key stay in order.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from penstock.catalog.errors import ConfigError
from penstock.catalog.table import Table
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.contract import Guarantee, OutputMode, SinkSettings
from penstock.connector.printing.text import row_text
from penstock.connector.spark.micro_batch import MicroBatch, micro_batch_query
from penstock.connector.spark.target_rows import check_complete, target_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

__all__ = ["PrintSink"]

LINES = 1000
"""Written together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintSink:
    """Prints each row as a line, `prefix` first, as in `orders> -D[1, a]`."""

    table: Table
    prefix: str = ""
    to_stderr: bool = False

    @property
    def accepts(self) -> ChangelogMode:
        """Every change is a line of its own."""
        return ChangelogMode.ALL

    @property
    def guarantee(self) -> Guarantee:
        """A batch that is run again is printed again."""
        return Guarantee.AT_LEAST_ONCE

    def prepare(self, spark: SparkSession, schema: StructType) -> None:  # noqa: ARG002  of the contract
        """Check that the INSERT fills the NOT NULL columns. Raises DefinitionError."""
        check_complete(self.table.schema, schema.names, owner=str(self.table.identifier))

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start printing. In update mode rows are `+U`: Spark does not tell the first one of a key."""
        updates = settings.output is OutputMode.UPDATE
        kind = RowKind.UPDATE_AFTER if updates else RowKind.INSERT

        def write(rows: DataFrame, batch: MicroBatch) -> None:  # noqa: ARG001  of the contract
            self._print(rows, kind)

        return micro_batch_query(frame, settings, write)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:  # noqa: ARG002  of the contract
        """Print the rows of a micro-batch."""
        self._print(frame, RowKind.INSERT)

    def write(self, frame: DataFrame) -> None:
        """Print the rows of a batch frame."""
        self._print(frame, RowKind.INSERT)

    def _print(self, frame: DataFrame, kind: RowKind) -> None:
        text = row_text(self.table.schema, None if ROW_KIND in frame.columns else kind)
        rows = target_rows(frame, self.table.schema).selectExpr(f"{text} AS line")
        lines = (row[0] for row in rows.toLocalIterator(prefetchPartitions=True))
        # looked up now: who wants other streams replaces them
        stream = sys.stderr if self.to_stderr else sys.stdout
        try:
            while some := list(islice(lines, LINES)):
                stream.write("".join(f"{self.prefix}{line}\n" for line in some))
                stream.flush()
        except (BrokenPipeError, UnicodeEncodeError) as error:
            raise ConfigError(
                f"table {self.table.identifier} cannot be printed: {error}",
                hint="whoever reads the output may have ended; for other characters set PYTHONIOENCODING=utf-8",
            ) from error
