"""A streaming query whose micro-batches a function writes (Spark's foreachBatch), and how a stop interrupts a
batch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, assert_never

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.connector.contract import AvailableNow, Continuous, MicroBatch, SinkSettings, Trigger
from penstock.connector.failpoints import reach
from penstock.connector.spark.callback_server import start_callback_server
from penstock.connector.spark.errors import readable_by_spark
from penstock.connector.spark.hadoop_files import read_text
from penstock.connector.spark.internals import file_system, without_call_sites
from penstock.connector.spark.session import configured
from penstock.connector.spark.sink.determinism import nondeterminism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


_INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
    "SPARK_JOB_CANCELLED",
)
"""What Spark throws in a batch whose query is stopped (StreamExecution.isInterruptionException)."""

DEEPEST_CAUSE = 20
"""Bound of a chain of causes; a longer one is a cycle."""

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
BY_FILE_SYSTEM = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


class BatchInterruptedError(RuntimeError):
    """A batch was interrupted, as `kind` says; in the words that Spark searches for."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"the batch was interrupted by {kind} (py4j.protocol.Py4JJavaError: An error occurred while calling: "
            f"{_INTERRUPTIONS[0]})"
        )


@contextmanager
def translate_interruptions() -> Iterator[None]:
    """Raise BatchInterruptedError instead of an interruption, without its causes; other errors pass."""
    try:
        yield
    except Exception as error:
        kind = _interruption(error)
        if kind is None:
            raise
        raise BatchInterruptedError(kind) from None


def _interruption(error: Exception) -> str | None:
    """Return the word by which an error, or one that led to it, says that its batch was interrupted."""
    layer: BaseException | None = error
    for _ in range(DEEPEST_CAUSE):
        if isinstance(layer, Py4JJavaError):
            text = str(layer)
            return next((name for name in _INTERRUPTIONS if name in text), None)
        if layer is None:
            break
        layer = layer.__cause__ or layer.__context__
    return None


WriteBatch = Callable[["DataFrame", MicroBatch], None]


def micro_batch_query(
    frame: DataFrame, settings: SinkSettings, write: WriteBatch
) -> StreamingQuery:
    """Start a streaming query that calls `write` for each micro-batch, and `settings.after_batch` after it.

    `write` runs on the driver, one batch at a time, again for a batch that was not completed. The frame that it gets
    reads the sources each time it is evaluated: persist it before a second evaluation.
    """

    @cache
    def differing() -> tuple[str, ...]:
        return nondeterminism(frame)

    def call(rows: DataFrame, batch_id: int) -> None:
        batch = MicroBatch(
            spark=rows.sparkSession,
            checkpoint=settings.checkpoint,
            query_id=_query_id(rows.sparkSession),
            batch_id=batch_id,
            plan=settings.plan,
            ends=isinstance(settings.trigger, AvailableNow),
            differences=differing,
            lost_lease=settings.lost_lease,
            commits=settings.commits,
        )
        with readable_by_spark(), translate_interruptions(), without_call_sites():
            write(rows, batch)
            reach("written")
            if settings.after_batch is not None:
                settings.after_batch(batch)
            reach("committed")

    start_callback_server(frame.sparkSession)
    return start_query(frame.writeStream.foreachBatch(call), frame.sparkSession, settings)


def saved_query_id(spark: SparkSession, checkpoint: str) -> str | None:
    """Read the id of the query that a checkpoint is of (`MicroBatch.query_id`); None before it ever ran."""
    text = read_text(spark, f"{checkpoint}/metadata")
    return None if text is None else str(json.loads(text)["id"])


def batch_digest(batch: MicroBatch) -> str:
    """Return a digest of a batch's content in 16 hex digits: the end of every source, and the plan.

    Spark writes the offsets before the batch and never changes them, so that a replay has the same digest. Reads a
    small file of the checkpoint.
    """
    offsets = read_text(batch.spark, f"{batch.checkpoint}/offsets/{batch.batch_id}") or ""
    return hashlib.sha256(f"{offsets}\n{batch.plan}".encode()).hexdigest()[:16]


def discard_batch(frame: DataFrame) -> None:
    """Compute the rows of a batch that the sink has already, and drop them.

    The operators of the query that keep state write their next version while rows are computed; a batch in which
    they did not is refused by Spark (STATE_STORE_COMMIT_VALIDATION_FAILED).
    """
    frame.write.format("noop").mode("overwrite").save()


def start_query(
    writer: DataStreamWriter, spark: SparkSession, settings: SinkSettings
) -> StreamingQuery:
    """Start a query with its name, checkpoint, output mode and trigger."""
    named = (
        writer.queryName(settings.query_name)
        .outputMode(settings.output.value)
        .option("checkpointLocation", settings.checkpoint)
    )
    with configured(spark, _file_settings(spark, settings.checkpoint)):
        return _triggered(named, settings.trigger).start()


def _file_settings(spark: SparkSession, checkpoint: str) -> dict[str, str]:
    """Return how Spark writes the files of a checkpoint: on a local disk by Hadoop's FileSystem, if nobody says else.

    Both ways of Spark's write a file under another name and rename it. For a local rename its default, Hadoop's
    FileContext, starts eight processes (`readlink`), 30 ms for each file of offsets, commits, state.
    """
    system, _ = file_system(spark, checkpoint)
    if system.getUri().getScheme() != "file" or spark.conf.get(FILE_MANAGER, None) is not None:
        return {}
    return {FILE_MANAGER: BY_FILE_SYSTEM}


def _triggered(writer: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    match trigger:
        case AvailableNow():
            return writer.trigger(availableNow=True)
        case Continuous():
            return writer.trigger(processingTime=f"{trigger.interval_ms} milliseconds")
        case _:
            assert_never(trigger)


def _query_id(spark: SparkSession) -> str:
    # set by Spark on the thread that runs the batch, which is the one that calls us
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query_id is not None, "a batch runs in a streaming query"
    return query_id
