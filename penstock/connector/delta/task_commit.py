"""Commit the files of reading tasks to a Delta table: one transaction of Delta's own with `txn`, files and note.

The argument, beside that of `writer.py`: files have names that no other attempt has, so until a commit names them they
are no part of the table. The transaction takes `txn`, metadata and protocol of one snapshot, and Delta commits it only
if none of these changed since. A table that is no longer what the tasks wrote for gets the rows of their files by
Spark's writer, which does what the table asks for now.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from penstock.catalog.errors import SinkError, StateMismatchError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quoted
from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.contract import MicroBatch
from penstock.connector.delta.log import LogForm
from penstock.connector.delta.options import DeltaTarget
from penstock.connector.delta.table import translate_errors
from penstock.connector.delta.task_output import task_output
from penstock.connector.delta.transaction import BehindCommits, CommittedBatches
from penstock.connector.file_output import FileOutput, WrittenByEngine, WrittenFile
from penstock.connector.spark.internals import jvm_of
from penstock.connector.spark.sink import task_files
from penstock.connector.spark.source.columns import FILE
from penstock.connector.spark.types import spark_schema

log = logging.getLogger(__name__)

_PATTERN = re.compile(r"[][{}*?\\]")
"""Characters by which Spark takes a path for a pattern."""
_PLAIN = re.compile(r"[\w./=-]*", re.ASCII)
"""Paths that are the same in a URL."""
_OPTIMIZED = "spark.databricks.delta.optimizeWrite.enabled"
_UTC_PARTITIONS = "spark.databricks.delta.write.utcTimestampPartitionValues"


def for_session(
    spark: SparkSession, target: DeltaTarget, output: FileOutput
) -> FileOutput | WrittenByEngine:
    """Return the output with what the settings of a session say; or why Spark has to write because of them."""
    if (spark.conf.get(_OPTIMIZED, None) or "").lower() == "true":
        return WrittenByEngine(reason=f"{_OPTIMIZED} gathers small files")
    if _by_instants(output) and (spark.conf.get(_UTC_PARTITIONS, None) or "true") != "true":
        return WrittenByEngine(reason=f"{_UTC_PARTITIONS} = false")
    return task_files.for_session(spark, target.location, output)


def _by_instants(output: FileOutput) -> bool:
    return any(
        isinstance(column.type, t.TimestampLtzType)
        for column in output.columns
        if column.name in output.partitions
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UncommittedFiles:
    """The files of a batch, which tasks wrote by `output`."""

    files: Sequence[WrittenFile]
    output: FileOutput


def commit_files(
    committed: CommittedBatches,
    written: UncommittedFiles,
    batch: MicroBatch,
    behind: BehindCommits,
) -> bool:
    """Commit files and `txn`; nothing where the table has the batch. False: the files are not what the table asks for.

    Raises SinkError, StateMismatchError as `CommittedBatches`, and Delta's errors for commits of others that conflict.
    """
    target, files, output = committed.target, written.files, written.output
    with translate_errors(target.shown):
        try:
            transaction = committed.begin(batch)
        except StateMismatchError:
            remove_files(written)
            raise
        if transaction is None:
            remove_files(written)
            return True
        form = LogForm(metadata=transaction.metadata, protocol=transaction.protocol)
        check_there(target, written)
        if differ(task_output(target, form, output.filled), output):
            return False
        if files:
            transaction.compact_in_commit(True)
        behind.prepare(transaction)
        actions = transaction.parsed(add_actions(written, batch.spark))
        version = transaction.commit(actions, _counts(files))
    behind.done(transaction, version, len(files))
    return True


def check_there(target: DeltaTarget, written: UncommittedFiles) -> None:
    """Check that the files are as their tasks left them: nothing protects them before a commit names them."""
    for file in written.files:
        try:
            size = (Path(written.output.folder) / file.path).stat().st_size
        except FileNotFoundError:
            size = None
        if size != file.size_bytes:
            how = "removed" if size is None else "changed"
            raise SinkError(
                f"the file {file.path} of the Delta table at {target.shown} was {how} before it was committed",
                hint="VACUUM removes what no commit names: it has to retain such files for longer than a batch takes",
            )


def read_files(written: UncommittedFiles, batch: MicroBatch) -> DataFrame:
    """Read the rows of files that were not committed, as the query gave them."""
    files, output = written.files, written.output
    filled = [column for column in output.columns if column.source is not None]
    schema = spark_schema(PhysicalColumn(name=c.name, type=c.type) for c in filled)
    if not files:
        return batch.spark.createDataFrame([], schema)
    # as Hadoop takes a path: nothing in it is quoted but what would be a pattern
    paths = [_PATTERN.sub(r"\\\g<0>", f"file:{output.folder}/{file.path}") for file in files]
    if not output.partitions:
        return batch.spark.read.schema(schema).parquet(*paths)
    inside = spark_schema(PhysicalColumn(name=c.name, type=c.type) for c in output.in_files)
    # values of partitions are those that the commit would have had, not what names of folders say
    reader = batch.spark.read.schema(inside).option("recursiveFileLookup", "true")
    return _with_partitions(reader.parquet(*paths), written).select(
        *(F.col(quoted(field.name)).cast(field.dataType).alias(field.name) for field in schema)
    )


def _with_partitions(frame: DataFrame, written: UncommittedFiles) -> DataFrame:
    """Add the values of partitions, as texts, to the rows of files, by the files' names."""
    fields = [StructField(name, StringType()) for name in (FILE, *written.output.partitions)]
    partitions = frame.sparkSession.createDataFrame(
        [(file.path.rpartition("/")[2], *file.partition) for file in written.files],
        StructType(fields),
    )
    named = frame.withColumn(FILE, F.col("_metadata.file_name"))
    return named.join(F.broadcast(partitions), FILE)


def remove_files(written: UncommittedFiles) -> None:
    """Remove files that no commit names and none will."""
    for file in written.files:
        try:
            (Path(written.output.folder) / file.path).unlink(missing_ok=True)
        except OSError as error:
            log.warning("the file %s is left for VACUUM: %s", file.path, error)


def differ(found: FileOutput | WrittenByEngine, output: FileOutput) -> bool:
    """Tell whether files that are written by `output` are not what a table asks for."""
    if isinstance(found, WrittenByEngine):
        return True
    found = replace(found, compression=output.compression, shown=output.shown)
    return replace(found, max_rows_per_file=output.max_rows_per_file) != output


def add_actions(written: UncommittedFiles, spark: SparkSession) -> Iterator[dict[str, Any]]:
    """Return the actions of the log by which the files are of the table."""
    now_ms = time.time_ns() // 1_000_000
    for file in written.files:
        yield {
            "add": {
                "path": _encoded(file.path, spark),
                "partitionValues": dict(
                    zip(written.output.partitions, file.partition, strict=True)
                ),
                "size": file.size_bytes,
                "modificationTime": now_ms,
                "dataChange": True,
                "stats": file.statistics,
            }
        }


def _encoded(path: str, spark: SparkSession) -> str:
    """Return a path as a URL has it, in Hadoop's form: Delta compares paths by their texts, as VACUUM does."""
    if _PLAIN.fullmatch(path):
        return path
    return str(jvm_of(spark).org.apache.hadoop.fs.Path(path).toUri().toString())


def _counts(files: Sequence[WrittenFile]) -> dict[str, int]:
    """Count what the history of the table shows of the commit."""
    return {
        "numAddedFiles": len(files),
        "numRemovedFiles": 0,
        "numOutputRows": sum(file.rows for file in files),
        "numOutputBytes": sum(file.size_bytes for file in files),
    }
