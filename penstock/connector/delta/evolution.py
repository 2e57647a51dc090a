"""`sink.schema-evolution` = 'add-columns': columns that were added to the declaration are added to the Delta table."""

from __future__ import annotations

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from penstock.catalog.identifier import quote
from penstock.connector.delta.failure import explained
from penstock.connector.delta.table import stored_schema
from penstock.connector.delta.target import Target

__all__ = ["add_missing_columns", "missing_columns"]


def missing_columns(target: Target, found: StructType) -> StructType:
    """Give the declared columns that a table with the columns `found` lacks.

    Raises StateMismatchError for one that cannot come later: the rows that are there have no value for it, or lie
    where another value would put them.
    """
    there = {name.lower() for name in found.names}
    missing = [f for f in stored_schema(target.table).fields if f.name.lower() not in there]
    for field in missing:
        fixed = field.name in (*target.table.partition_keys, *target.clustering)
        if fixed or _is_not_null(field):
            role = "the table is laid out by" if fixed else "is NOT NULL"
            raise target.mismatch(
                f"it has no column {quote(field.name)}, which {role} and cannot be added to rows that are there",
                hint="give another 'path'" if fixed else "declare the column without NOT NULL",
            )
    return StructType(missing)


def _is_not_null(field: StructField) -> bool:
    """Whether it, or a field of a row in it, is NOT NULL: Delta adds neither."""
    inside = field.dataType.fields if isinstance(field.dataType, StructType) else []
    return not field.nullable or any(_is_not_null(part) for part in inside)


def add_missing_columns(spark: SparkSession, target: Target) -> None:
    """Add the declared columns that the table lacks; NULL in the rows that are there. Raises InputError, SinkError."""
    with explained(target.shown):
        found = DeltaTable.forPath(spark, target.location).toDF().schema
        missing = missing_columns(target, found)
        if missing.fields:
            name = f"delta.{quote(target.location)}"
            spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({missing.toDDL()})")
