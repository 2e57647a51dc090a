"""Batches of a sink that is not called for every batch, such as that of dead letters: how long its marker is
valid.

Spark starts a batch after the previous one is done, so each batch of such a sink follows all its earlier ones,
whatever lies between, and the marker answers one question: is this batch written already? But brokers forget
markers (offsets.retention.minutes after the last commit), and a sink without rows for a week has none. So the
first attempt at a batch is noted in the checkpoint before anything of it is sent. Without a marker, an attempt
younger than the broker's retention proves that the batch is not written; an older one proves nothing, and the
batch is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.catalog.errors import StateMismatchError
from penstock.connector.kafka.sink.client import SinkAdmin
from penstock.connector.kafka.sink.marker import Marker
from penstock.connector.spark.hadoop_files import delete, list_names, read_text, write_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_remembered", "first_attempt_ms", "marker_lasts_ms"]

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
