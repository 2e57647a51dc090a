"""The connector `spark`: a table of Spark's catalog that Spark itself reads, and appends to once.

Definitions with it come from `catalog.py`. Delta tables are not among them: those have a connector of ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.errors import StateMismatchError, UnsupportedError
from penstock.catalog.model.identifier import quote
from penstock.catalog.model.table import Schema, Table
from penstock.catalog.options.option import STRING, Option, resolve
from penstock.connector.capabilities import ConnectivityCheck
from penstock.connector.changelog import ChangelogMode
from penstock.connector.checks import check_nothing
from penstock.connector.contract import (
    Connector,
    EngineSource,
    Guarantee,
    Sink,
    SinkCapabilities,
    SinkSettings,
    SnapshotSource,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from penstock.connector.contract import MicroBatch


TABLE_NAME = Option(
    key="table-name",
    type=STRING,
    default="",
    doc="the table's whole name in Spark, quoted as Spark wants it",
    required=True,
)
OPTIONS = (
    Option(key="connector", type=STRING, default="", doc="'spark'", required=True),
    TABLE_NAME,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTableConnector(Connector):
    """Tables of Spark's catalog (`Connector`). `project` is not used."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "spark"

    def check(self, table: Table) -> None:
        """Check the options. Raises OptionError."""
        _name(table)

    def connectivity_check(self, table: Table) -> ConnectivityCheck:  # noqa: ARG002  of the contract
        """There is nothing to ask."""
        return check_nothing

    def source(self, table: Table) -> EngineSource:
        """Describe reading what the table holds."""
        return SparkTableSource(name=_name(table), schema=table.schema)

    def sink(self, table: Table) -> Sink:
        """Describe appending to the table."""
        return SparkTableSink(name=_name(table), schema=table.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTableSource(SnapshotSource):
    """The rows that a table, or view, of Spark's holds when it is read (`EngineSource`)."""

    name: str
    schema: Schema

    def frame(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        """Return the columns. Raises UnsupportedError for a stream."""
        if streaming:
            raise UnsupportedError(
                f"Spark's table {self.name} is read once, not followed as a stream",
                hint="INSERT it into a Delta table, and read that",
            )
        return spark.table(self.name).select(*(quote(name) for name in self.schema.names))


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTableSink(Sink):
    """Appends the rows of a query that ends, by Spark's own writer. It remembers no batches, so takes no streams."""

    name: str
    schema: Schema

    @property
    def capabilities(self) -> SinkCapabilities:
        """Rows of a statement that is run again are there twice, so it is written by queries that end."""
        return SinkCapabilities(
            guarantee=Guarantee.AT_LEAST_ONCE,
            accepts=ChangelogMode.INSERT_ONLY,
            bounded_only=True,
        )

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Check that the table is there, and has the query's columns. Raises StateMismatchError."""
        if not spark.catalog.tableExists(self.name):
            raise StateMismatchError(
                f"there is no table {self.name} in Spark any more", hint="create it with spark.sql"
            )
        there = {name.lower() for name in spark.table(self.name).columns}
        lost = [name for name in schema.names if name.lower() not in there]
        if lost:
            raise StateMismatchError(
                f"Spark's table {self.name} has no column {', '.join(map(quote, lost))} any more"
            )

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:  # noqa: ARG002  of the contract
        """Refuse. Raises UnsupportedError."""
        raise self._no_stream()

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:  # noqa: ARG002  of the contract
        """Refuse. Raises UnsupportedError."""
        raise self._no_stream()

    def write(self, frame: DataFrame) -> None:
        """Append the rows of a batch frame."""
        from penstock.connector.spark.sink.target_rows import target_rows

        target_rows(frame, self.schema).write.insertInto(self.name)

    def _no_stream(self) -> UnsupportedError:
        return UnsupportedError(
            f"Spark's table {self.name} takes no streams: a batch that is written again would be there twice",
            hint="make it a Delta table: those remember their batches",
        )


def _name(table: Table) -> str:
    options = resolve(table.option_map, OPTIONS, owner=f"table {table.identifier}")
    return options.get(TABLE_NAME)
