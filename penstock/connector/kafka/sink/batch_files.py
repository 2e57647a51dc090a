"""What the sink keeps of a batch in the checkpoint: when it was first written, and records that are staged.

Called by `sink.py`, on the driver.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.errors import SinkError, StateMismatchError
from penstock.connector.kafka.sink.client import SinkAdmin
from penstock.connector.kafka.sink.protocol import Marker, read_marker
from penstock.connector.kafka.sink.sink_state import FOLDER
from penstock.connector.spark.hadoop_files import delete, list_names, read_text, rename, write_text

if TYPE_CHECKING:
    from penstock.connector.contract import MicroBatch
    from penstock.connector.kafka.sink.tasks import Transactions

RETENTION = "offsets.retention.minutes"
DEFAULT_RETENTION_MIN = 10_080
"""Kafka's own, assumed where the broker's settings may not be seen."""


def first_attempt_ms(spark: SparkSession, folder: str, batch_id: int, now_ms: int) -> int:
    """Record that a batch is about to be written, and return when it first was (epoch ms). Notes of other batches are
    removed.

    Raises StateMismatchError where the note is damaged.
    """
    path = f"{folder}/{batch_id}"
    text = read_text(spark, path)
    if text is None:
        for name in list_names(spark, folder):
            delete(spark, f"{folder}/{name}")
        write_text(spark, path, str(now_ms))
        return now_ms
    if not text.isdigit():
        raise StateMismatchError(
            f"the file {path} does not say when batch {batch_id} was first written",
            hint="restore the checkpoint from a backup; or SET another 'pipeline.name' to start over",
        )
    return int(text)


def marker_lasts_ms(admin: SinkAdmin) -> int:
    """Return for how long a marker is trusted to exist: most of the time that the broker keeps it."""
    minutes = int(admin.broker_setting(RETENTION) or DEFAULT_RETENTION_MIN)
    return minutes * 60_000 * 6 // 7


def check_remembered(
    what: str, found: Marker | None, *, first_ms: int, now_ms: int, lasts_ms: int
) -> None:
    """Check that a marker that is missing never was. Raises StateMismatchError."""
    if found is not None or now_ms - first_ms <= lasts_ms:
        return
    days = (now_ms - first_ms) / 86_400_000
    raise StateMismatchError(
        f"{what}: its writing was begun {days:.1f} days ago and it is unknown whether it ended: the broker has "
        "forgotten it by now",
        hint="look for its records in the topic; then start over, with --from-scratch or another 'pipeline.name'",
    )


def check_attempt(batch: MicroBatch, shared: Transactions, slots: int, admin: SinkAdmin) -> None:
    """Check that a marker that is missing was not forgotten, where slots may have none of a batch before.

    These are the first batch of a sink and those of one that is not given every batch. Records the attempt. Raises
    StateMismatchError.
    """
    if not shared.sparse and shared.batch_id != shared.first_batch:
        return
    now_ms = time.time_ns() // 1_000_000
    folder = f"{batch.checkpoint}/{FOLDER}/{shared.names.scope}/attempts"
    first_ms = first_attempt_ms(batch.spark, folder, shared.batch_id, now_ms)
    if first_ms == now_ms:
        return
    lasts_ms = marker_lasts_ms(admin)
    for claim in map(shared.claim, range(slots)):
        check_remembered(
            f"slot '{claim.slot}', batch {claim.batch_id}",
            read_marker(admin, claim.slot, shared.partition),
            first_ms=first_ms,
            now_ms=now_ms,
            lasts_ms=lasts_ms,
        )


def stage_records(spark: SparkSession, records: DataFrame, folder: str, batch_id: int) -> DataFrame:
    """Stage the records of a batch, unless they are staged already, and return them. Raises SinkError."""
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
        evaluate_batch(records)
    for name in names:
        if name != str(batch_id):
            delete(spark, f"{folder}/{name}")
    return spark.read.parquet(target)


def is_staged(spark: SparkSession, folder: str, batch_id: int) -> bool:
    """Return whether the records of a batch are staged already, so that they stay as they are."""
    return str(batch_id) in list_names(spark, folder)


def evaluate_batch(frame: DataFrame) -> None:
    """Compute a batch without keeping its rows: a query's state moves on with its batch, written before or not."""
    frame.write.format("noop").mode("overwrite").save()
