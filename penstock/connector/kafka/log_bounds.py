"""First and end offsets of partitions that exist, with patience for a broker that knows less for a moment.

Kafka takes no partition away from a topic: one that is not answered for is gone with its topic, or not there yet.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping

from penstock.catalog.errors import PenstockError
from penstock.connector.kafka.admin import KafkaAdmin
from penstock.connector.kafka.connection import LogBounds
from penstock.connector.kafka.failures import partition_unknown, topic_changed
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
    """Look up bounds; `committed` ends at the last stable offset. `topic_ids` are those known, by topic.

    Raises for what stays missing: TopicChangedError where its topic is gone or another one, BrokerUnavailableError
    where the topic is there, as a broker may come to know of new partitions late.
    """
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        found = admin.bounds(partitions, committed=committed)
        missing = [partition for partition in partitions if partition not in found]
        if not missing:
            return found
        if time.monotonic() >= give_up_s:
            raise _why_missing(admin, missing[0], (topic_ids or {}).get(missing[0].topic))
        threading.Event().wait(PAUSE_S)


def _why_missing(admin: KafkaAdmin, partition: TopicPartition, known: str | None) -> PenstockError:
    topic = admin.topics([partition.topic]).get(partition.topic)
    if topic is None:
        return topic_changed(partition.topic, known, None)
    if known is not None and known != topic.topic_id:
        return topic_changed(partition.topic, known, topic.topic_id)
    return partition_unknown(admin.connection.address, partition, PATIENCE_S)
