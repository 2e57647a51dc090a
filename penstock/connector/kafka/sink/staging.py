"""Batches kept before they are published: a replay then reads the same rows, whatever the query would give now.

A batch is written as Parquet into the checkpoint under another name and renamed when it is whole (Flink's
GenericWriteAheadSink); what is published comes from there alone. Older batches are removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.catalog.errors import SinkError
from penstock.connector.spark.hadoop_files import delete, list_names, rename

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["evaluate", "staged"]


def staged(spark: SparkSession, records: DataFrame, folder: str, batch_id: int) -> DataFrame:
    """Keep the records of a batch, unless they are kept already, and give them. Raises SinkError."""
    target, writing = f"{folder}/{batch_id}", f"{folder}/{batch_id}.writing"
    names = list_names(spark, folder)
    if str(batch_id) not in names:
        records.write.mode("overwrite").parquet(writing)
        if not rename(spark, writing, target):
            raise SinkError(
                f"the staged rows of batch {batch_id} cannot be given their name {target}",
                hint="does the checkpoint's file system rename directories, and is there one runner only?",
            )
    else:
        evaluate(records)
    for name in names:
        if name != str(batch_id):
            delete(spark, f"{folder}/{name}")
    return spark.read.parquet(target)


def evaluate(frame: DataFrame) -> None:
    """Compute a batch without keeping its rows: a query's state moves on with its batch, written before or not."""
    frame.write.format("noop").mode("overwrite").save()
