"""Delta tables as a catalog defines them, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.catalog.model.table import PhysicalColumn, PrimaryKey, Schema, Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.contract import AvailableNow, SinkSettings
from penstock.connector.spark.internals import java_class, java_session
from tests.catalog.examples import columns, identifier


def delta_table(path: str | Path = "orders", *, name: str = "orders", **given: Any) -> Table:
    """A Delta table: `columns` by name and type, `options`, `partition_keys`, `comment`, `key`, `schema`."""
    types = given.pop(
        "columns", {"id": "BIGINT NOT NULL", "amount": "DECIMAL(10, 2)", "day": "DATE"}
    )
    key = given.pop("key", ())
    schema = given.pop("schema", None) or Schema(
        columns=columns(**types), primary_key=PrimaryKey(columns=key) if key else None
    )
    options = {"connector": "delta", "path": str(path), **given.pop("options", {})}
    return Table(
        identifier=identifier(name), schema=schema, options=tuple(options.items()), **given
    )


def commented(name: str, kind: str, comment: str) -> PhysicalColumn:
    """A physical column with a comment."""
    return PhysicalColumn(name=name, type=parse_type(kind), comment=comment)


def run_to_end(checkpoint: Path, name: str = "test") -> SinkSettings:
    """Settings of a query that ends when it has read what is there."""
    return SinkSettings(checkpoint=str(checkpoint), query_name=name, trigger=AvailableNow())


def rows(spark: SparkSession, path: Path) -> list[tuple[Any, ...]]:
    """All rows of a Delta table, sorted."""
    return sorted(tuple(row) for row in spark.read.format("delta").load(str(path)).collect())


def forget(spark: SparkSession, path: Path) -> None:
    """Have Delta read a table again from its log."""
    java_class(spark, "org.apache.spark.sql.delta.DeltaLog").invalidateCache(
        java_session(spark), java_class(spark, "org.apache.hadoop.fs.Path")(str(path))
    )
