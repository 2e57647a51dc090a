"""Reading a Delta table: Spark does it, once or as a stream of what is appended."""

from __future__ import annotations

from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.errors import UnknownObjectError
from penstock.catalog.options import Resolved
from penstock.catalog.table import Table
from penstock.connector.delta.options import MAX_FILES, STARTING_TIMESTAMP, STARTING_VERSION
from penstock.connector.spark.types import spark_schema

__all__ = ["DeltaSource"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSource:
    """A Delta table as a source (`EngineSource`).

    A query over Delta tables alone is bounded: it reads the version that is there. An INSERT reads a table as a
    stream from its checkpoint, so that the next run takes only what was appended since.
    """

    table: Table
    location: str
    options: Resolved

    @property
    def bounded(self) -> bool:
        """Whether the scan has an end: what is there at the start."""
        return True

    def frame(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        """Give the declared columns; none of the rows where nothing was written yet.

        Raises UnknownObjectError for a stream of a table that is not there: it would have no version to start at.
        """
        schema = spark_schema(self.table.schema.physical)
        if not DeltaTable.isDeltaTable(spark, self.location):
            if not streaming:
                return spark.createDataFrame([], schema)
            raise UnknownObjectError(
                f"there is no Delta table at {self.location} yet (table {self.table.identifier})",
                hint="the first INSERT into it makes it",
            )
        reader = spark.readStream if streaming else spark.read
        reader = reader.format("delta")
        if streaming:
            given = {
                "startingVersion": self.options.get(STARTING_VERSION),
                "startingTimestamp": self.options.get(STARTING_TIMESTAMP),
                "maxFilesPerTrigger": self.options.get(MAX_FILES),
            }
            for key, value in given.items():
                if value is not None:
                    reader = reader.option(key, str(value))
        return reader.load(self.location).select(*(f"`{name}`" for name in schema.fieldNames()))
