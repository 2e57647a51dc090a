"""First and end offsets of partitions that exist, with patience for a broker that knows less for a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping

from penstock.connector.kafka.admin import KafkaAdmin
from penstock.connector.kafka.connection import LogBounds
from penstock.connector.kafka.failures import topic_changed
from penstock.connector.kafka.split import TopicPartition

__all__ = ["PATIENCE_S", "existing_bounds"]

PATIENCE_S = 3.0
"""A broker that restarts, or has not heard of a new topic yet, denies topics that exist: ask again for so long."""

PAUSE_S = 0.1


def existing_bounds(
    admin: KafkaAdmin,
    partitions: Collection[TopicPartition],
    *,
    committed: bool,
    topic_ids: Mapping[str, str] | None = None,
) -> dict[TopicPartition, LogBounds]:
    """Look up bounds; `committed` ends at the last stable offset. Raises TopicChangedError for what stays missing.

    `topic_ids` are those known, for the error.
    """
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        found = admin.bounds(partitions, committed=committed)
        missing = [partition for partition in partitions if partition not in found]
        if not missing:
            return found
        if time.monotonic() >= give_up_s:
            topic = missing[0].topic
            raise topic_changed(topic, (topic_ids or {}).get(topic), None)
        threading.Event().wait(PAUSE_S)
