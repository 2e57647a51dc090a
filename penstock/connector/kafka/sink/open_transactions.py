"""List and abort what pipelines left in a broker: slots by their markers, and partitions with an open transaction.

The client library cannot list transactions. A slot's marker group has the name of its transactional id, so the
groups of a prefix are the ids that ever committed; a partition whose last stable offset is before its end has
an open one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.connector.kafka.client.connection import Connection, TopicPartition
from penstock.connector.kafka.sink.client import RecordProducer, SinkAdmin, transactional
from penstock.connector.kafka.sink.protocol import Marker

ABORT_TIMEOUT_MS = 60_000
"""Of the transaction that is started to end another; nothing is written in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A transactional id and the marker it committed last; None where that is gone."""

    transactional_id: str
    marker: Marker | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedPartition:
    """A partition whose last stable offset is `stable`, while its records continue to `end`."""

    partition: TopicPartition
    stable: int
    end: int


def slots(admin: SinkAdmin, prefix: str, topics: Collection[str]) -> tuple[Slot, ...]:
    """List the slots whose ids begin with `prefix`; markers are looked for under `topics`."""
    partitions = [TopicPartition(topic, 0) for topic in topics]
    found = []
    for name in admin.group_names():
        if name.startswith(prefix) and name.rpartition("-")[2].isdigit():
            commits = admin.group_commits(name, partitions) if partitions else {}
            markers = [Marker.parse(*commit) for commit in commits.values()]
            found.append(Slot(transactional_id=name, marker=markers[0] if markers else None))
    return tuple(found)


def blocked_partitions(admin: SinkAdmin, topics: Collection[str]) -> tuple[BlockedPartition, ...]:
    """List the partitions in which a transaction is open."""
    described = admin.topics(sorted(topics))
    partitions = [
        TopicPartition(name, p) for name, info in described.items() for p in info.partitions
    ]
    stable = admin.bounds(partitions, committed=True)
    ends = admin.bounds(partitions, committed=False)
    return tuple(
        BlockedPartition(partition=partition, stable=stable[partition].end, end=ends[partition].end)
        for partition in partitions
        if partition in stable and partition in ends and stable[partition].end < ends[partition].end
    )


def abort(connection: Connection, transactional_id: str) -> None:
    """End any open transaction of the id, and fence its producer. Raises SinkError, BrokerUnavailableError."""
    producer = RecordProducer(
        transactional(connection, transactional_id, ABORT_TIMEOUT_MS), who=f"'{transactional_id}'"
    )
    try:
        producer.fence()
    finally:
        producer.drop()
