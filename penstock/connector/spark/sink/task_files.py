"""The files that the tasks of a batch write, on the driver: what a session's settings say of them, and which they are.

Called by sinks that commit such files. The tasks' side is `connector/spark/files`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.catalog.model import types as t
from penstock.connector.file_output import FileOutput, WrittenByEngine, WrittenFile
from penstock.connector.spark.files.parquet_file import SUFFIXES
from penstock.connector.spark.internals import analyzed_plan, file_system, java_frame
from penstock.connector.spark.session import job_property
from penstock.connector.spark.source.columns import (
    FILE,
    FILE_PARTITION,
    FILE_ROWS,
    FILE_SIZE,
    FILE_STATISTICS,
)
from penstock.connector.spark.source.task import BATCH_OF_SINK, PASSED_OVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CODEC = "spark.sql.parquet.compression.codec"
_MOST_RECORDS = "spark.sql.files.maxRecordsPerFile"
_INSTANTS = "spark.sql.parquet.outputTimestampType"
_RELATION_OVER_RDD = "org.apache.spark.sql.execution.LogicalRDD"
_LEGACY = "spark.sql.parquet.writeLegacyFormat"


def for_session(
    spark: SparkSession, location: str, output: FileOutput, *, codec: str | None = None
) -> FileOutput | WrittenByEngine:
    """Return the output with what the settings of a session say; or why Spark has to write because of them.

    `codec` is the compression that the table asks for, in Spark's words.
    """
    system, _ = file_system(spark, location)
    scheme = system.getUri().getScheme()
    if scheme != "file":
        return WrittenByEngine(reason=f"the path is one of {scheme}, not of this machine")
    if (spark.conf.get(_LEGACY, None) or "").lower() == "true":
        return WrittenByEngine(reason=f"{_LEGACY} = true")
    instants = spark.conf.get(_INSTANTS, None) or "TIMESTAMP_MICROS"
    if instants.upper() != "TIMESTAMP_MICROS" and _has_instants(output):
        return WrittenByEngine(reason=f"{_INSTANTS} = {instants}")
    most = int(spark.conf.get(_MOST_RECORDS, None) or "0")
    if most > 0 and output.max_rows_per_file is None:
        output = replace(output, max_rows_per_file=most)
    return compressed(output, codec, spark.conf.get(_CODEC, None), key=_CODEC)


def compressed(
    output: FileOutput, codec: str | None, default: str | None = None, *, key: str
) -> FileOutput | WrittenByEngine:
    """Return the output with a compression in Spark's words, else with the `default` that `key` says, else its own."""
    found = (codec or default or output.compression).lower()
    found = "none" if found == "uncompressed" else found
    if found not in SUFFIXES:
        return WrittenByEngine(reason=f"{key} = {found}")
    return replace(output, compression=found)


def _has_instants(output: FileOutput) -> bool:
    return any(
        isinstance(part, t.TimestampLtzType)
        for column in output.in_files
        for part in t.parts_of(column.type)
    )


def collect_files(frame: DataFrame, below: str = "") -> list[WrittenFile]:
    """Run the tasks of a batch, and return the files that they wrote; into the folder `below` the output's own."""
    with job_property(frame.sparkSession, BATCH_OF_SINK, below):
        rows = frame.select(FILE, FILE_SIZE, FILE_ROWS, FILE_STATISTICS, FILE_PARTITION).collect()
    return [
        WrittenFile(
            path=path,
            size_bytes=size,
            rows=count,
            statistics=statistics,
            partition=tuple(partition),
        )
        for path, size, count, statistics, partition in rows
        if path is not None
    ]


def run_tasks(frame: DataFrame) -> None:
    """Run the tasks of a batch, and drop what they report: one job, without a plan of its own.

    Spark gives `foreachBatch` a relation over the RDD of the batch. An action of a DataFrame analyses it, makes a plan
    of it, and describes that to Spark's listeners.
    """
    plan = analyzed_plan(frame)
    if plan.getClass().getName() == _RELATION_OVER_RDD:
        plan.rdd().count()
    else:
        java_frame(frame).queryExecution().toRdd().count()


def count_rows(frame: DataFrame) -> None:
    """Run the tasks of a batch that the table has already: rows are read and counted, and no file is written."""
    with job_property(frame.sparkSession, PASSED_OVER, "true"):
        run_tasks(frame)
