"""A table of `information_schema` as a source: what its session sees when the query is planned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import Table
from penstock.connector.contract import SnapshotSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class InformationSource(SnapshotSource):
    """The rows about the names of `namespace` and the checkpoints of `project` (`EngineSource`)."""

    table: Table
    namespace: Namespace
    project: Path

    def frame(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        """Return the columns. Raises UnsupportedError for a stream."""
        if streaming:
            raise UnsupportedError(
                f"{self.table.identifier} is read once, not followed as a stream"
            )
        from penstock.connector.spark.types import spark_schema
        from penstock.sql.information_schema.rows import information_rows

        rows = information_rows(self.table, self.namespace, self.project)
        # the schema is said: createDataFrame would look for one in rows that may be none
        return spark.createDataFrame(rows, spark_schema(self.table.schema.physical))
