"""Writing into a Delta table: made or checked first, then appended to exactly once.

Spark's Delta sink commits each micro-batch with a `txn` action (application id: the query's id in the checkpoint,
version: the batch id); a batch that is replayed finds its own id there and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructField, StructType

from penstock.catalog.errors import StateMismatchError
from penstock.catalog.identifier import quote
from penstock.catalog.schema import PhysicalColumn
from penstock.catalog.table import Table
from penstock.connector.contract import AvailableNow, Continuous, SinkSettings
from penstock.connector.spark.types import spark_schema

__all__ = ["DeltaSink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSink:
    """Appends to the Delta table at `location`. `properties` are Delta's, for a table that is made here."""

    table: Table
    location: str
    properties: Mapping[str, str]

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Make the table, or check that what is there is this table.

        `schema` is the query's, its columns a subset of the table's. Raises StateMismatchError.
        """
        if DeltaTable.isDeltaTable(spark, self.location):
            self._check(DeltaTable.forPath(spark, self.location), schema)
        else:
            self._create(spark)

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start appending."""
        writer = (
            frame.writeStream.format("delta")
            .outputMode("append")
            .queryName(settings.query_name)
            .option("checkpointLocation", settings.checkpoint)
        )
        match settings.trigger:
            case AvailableNow():
                writer = writer.trigger(availableNow=True)
            case Continuous():
                writer = writer.trigger(
                    processingTime=f"{settings.trigger.interval_ms} milliseconds"
                )
            case _:
                assert_never(settings.trigger)
        return writer.start(self.location)

    def write(self, frame: DataFrame) -> None:
        """Append a batch frame, in one transaction."""
        frame.write.format("delta").mode("append").save(self.location)

    @property
    def _columns(self) -> tuple[PhysicalColumn, ...]:
        return self.table.schema.physical

    def _create(self, spark: SparkSession) -> None:
        builder = DeltaTable.createIfNotExists(spark).location(self.location)
        builder = builder.addColumns(spark_schema(self._columns))
        if self.table.partition_keys:
            builder = builder.partitionedBy(*self.table.partition_keys)
        if self.table.comment is not None:
            builder = builder.comment(self.table.comment)
        for key, value in self.properties.items():
            builder = builder.property(key, value)
        builder.execute()

    def _check(self, found: DeltaTable, query: StructType) -> None:
        there = {field.name.lower(): field for field in found.toDF().schema.fields}
        for field in spark_schema(self._columns).fields:
            self._check_column(field, there.pop(field.name.lower(), None))
        written = {field.name.lower() for field in query.fields}
        for field in there.values():
            if not field.nullable and field.name.lower() not in written:
                raise self._mismatch(
                    f"it has a column {quote(field.name)} that is NOT NULL and not declared"
                )
        detail = found.detail().select("partitionColumns").first()
        partitions = tuple(detail[0]) if detail is not None else ()
        if partitions != self.table.partition_keys:
            raise self._mismatch(
                f"it is partitioned by ({', '.join(partitions)}), declared is "
                f"({', '.join(self.table.partition_keys)})"
            )

    def _check_column(self, declared: StructField, there: StructField | None) -> None:
        if there is None:
            raise self._mismatch(f"it has no column {quote(declared.name)}")
        if there.dataType.simpleString() != declared.dataType.simpleString():
            raise self._mismatch(
                f"its column {quote(there.name)} is {there.dataType.simpleString()}, declared is "
                f"{declared.dataType.simpleString()}"
            )

    def _mismatch(self, what: str) -> StateMismatchError:
        return StateMismatchError(
            f"the Delta table at {self.location} is not the declared table {self.table.identifier}: {what}",
            hint="declare the table as it is, change it with Spark's ALTER TABLE, or give another path",
        )
