"""Reading a table in memory: the rows that are there now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.catalog.errors import StateMismatchError, UnsupportedError
from penstock.catalog.table import Table
from penstock.connector.memory.rows import held
from penstock.connector.read_once import ReadOnce
from penstock.connector.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["MemorySource"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySource(ReadOnce):
    """The rows under `place` as a source (`EngineSource`)."""

    table: Table
    place: str

    def frame(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        """Give the physical columns. Raises UnsupportedError for a stream, StateMismatchError for other columns."""
        if streaming:
            raise UnsupportedError(
                f"table {self.table.identifier}: a table in memory is read by SELECT, not followed as a stream",
                hint="write into a Delta table and INSERT from that",
            )
        schema = spark_schema(self.table.schema.physical)
        rows = held(self.place).rows
        if rows is None:
            return spark.createDataFrame([], schema)
        if rows.column_names != schema.names:
            raise StateMismatchError(
                f"the rows in memory under '{self.place}' have the columns {', '.join(rows.column_names)}; "
                f"{self.table.identifier} declares {', '.join(schema.names)}",
                hint="give one of the tables another 'name'",
            )
        return spark.createDataFrame(rows, schema)
