"""Read files of formats that this connector only writes, by Spark (`Publishable`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.identifier import quoted, spark_literal
from penstock.catalog.model.table import Table
from penstock.connector.capabilities import SparkRelation
from penstock.connector.filesystem.sink.target import FileTarget
from penstock.connector.spark import hadoop_files
from penstock.connector.spark.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """The files of `table` below `target`."""

    table: Table
    target: FileTarget

    def relation(self, spark: SparkSession) -> SparkRelation | None:
        """Return the folder as a relation; partition columns have their declared types, and NULL by its folder."""
        table, root = self.table, self.target.root
        kind = table.option_map["format"]
        if kind == "csv":
            raise UnsupportedError(
                "csv files do not tell the types of their columns, and are written only",
                hint="write 'parquet', or a table with 'connector' = 'delta'",
            )
        if not hadoop_files.exists(spark, root):
            return None
        null = spark_literal(self.target.default_partition)
        partitions = ", ".join(
            f"CAST(NULLIF(CAST({quoted(c.name)} AS STRING), {null}) AS {spark_type(c.type).simpleString()}) "
            f"AS {quoted(c.name)}"
            for c in table.schema.physical
            if c.name in table.partition_keys
        )
        text = f"{kind}.{quoted(root)}"
        if partitions:
            dropped = ", ".join(quoted(name) for name in table.partition_keys)
            text = f"(SELECT * EXCEPT ({dropped}), {partitions} FROM {text})"  # noqa: S608  quoted
        return SparkRelation(text=text, location=root)
