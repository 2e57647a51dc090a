"""Reading a Delta table: Spark does it, once or as a stream of what is appended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.catalog.errors import UnknownObjectError
from penstock.catalog.model.identifier import quoted
from penstock.catalog.options.option import Resolved
from penstock.connector.capabilities import SparkRelation
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import EngineSource
from penstock.connector.delta.options import (
    MAX_FILES,
    STARTING_TIMESTAMP,
    STARTING_VERSION,
    DeltaTarget,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DeltaSource"]

_STREAM_OPTIONS = (
    ("startingVersion", STARTING_VERSION),
    ("startingTimestamp", STARTING_TIMESTAMP),
    ("maxFilesPerTrigger", MAX_FILES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSource(EngineSource):
    """A Delta table as a source (`EngineSource`).

    A query over Delta tables alone is bounded: it reads the present version. An INSERT reads a table as a stream from
    its checkpoint, so that the next run reads only what was appended since; an update or delete in between ends the
    stream with Delta's error, as appended rows cannot express it.
    """

    target: DeltaTarget
    options: Resolved

    @property
    def bounded(self) -> bool:
        """Whether the scan has an end: what is there at the start."""
        return True

    @property
    def changes(self) -> ChangelogMode:
        """Rows that were appended."""
        return ChangelogMode.INSERT_ONLY

    def frame(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        """Return the declared columns; no rows where nothing was written yet.

        Raises StateMismatchError when the table is not the declared one, and UnknownObjectError for a stream of a
        table that is not there: it would have no version to start at.
        """
        from pyspark.sql import functions as F  # noqa: N812  Spark, only where it is used

        from penstock.connector.delta.errors import translate_errors
        from penstock.connector.delta.table import check_readable, exists, stored_schema

        schema = stored_schema(self.target.table)
        if not exists(self.target, spark):
            if not streaming:
                return spark.createDataFrame([], schema)
            raise UnknownObjectError(
                f"there is no Delta table at {self.target.shown} yet (table {self.target.table.identifier})",
                hint="the first INSERT into it makes it",
            )
        with translate_errors(self.target.shown):
            frame = self._read(spark, streaming=streaming)
        check_readable(self.target, frame.schema)
        return frame.select(*(F.col(quoted(name)).alias(name) for name in schema.names))

    def relation(self, spark: SparkSession) -> SparkRelation | None:
        """Return the folder as a table of Spark (`Publishable`)."""
        from penstock.connector.delta.table import exists

        if not exists(self.target, spark):
            return None
        location = self.target.location
        return SparkRelation(text=f"delta.{quoted(location)}", location=location, provider="delta")

    def _read(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        if not streaming:
            return spark.read.format("delta").load(self.target.location)
        reader = spark.readStream.format("delta")
        for key, option in _STREAM_OPTIONS:
            value = self.options.get(option)
            if value is not None:
                reader = reader.option(key, str(value))
        return reader.load(self.target.location)
