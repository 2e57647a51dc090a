"""Replay records into Kafka exactly once: one transaction that carries a marker of the replay.

Works as a slot of the sink does (`sink/protocol.py`), with the replay in place of the batch: `fence` ends what
an earlier attempt left open, the marker shows whether one committed, and data and marker commit together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from penstock.connector.kafka.client.connection import TopicPartition, admin_connection
from penstock.connector.kafka.sink.client import (
    DEFAULT_TRANSACTION_TIMEOUT_MS,
    RecordProducer,
    SinkAdmin,
    producer_connection,
    transactional,
)
from penstock.connector.kafka.sink.settings import KafkaSinkSettings
from penstock.connector.source.records import RawRecord

RECORDS_A_CALL = 1000
BY_KEY = -1
"""What the client takes for "choose the partition yourself"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReplay:
    """A replay for one cluster. `client` is the table's configuration; `target` None sends records to their own
    topics.

    `name` is the replay's transactional id and the group of its marker, which lies at partition 0 of `marked`.
    """

    client: Mapping[str, str] = field(repr=False)
    sink: KafkaSinkSettings
    name: str
    target: str | None
    marked: str


def replay_records(replay: ClusterReplay, records: Iterable[RawRecord]) -> int | None:
    """Write records with their keys, headers and times; returns how many, None when an earlier attempt wrote them.

    To their own topic they go to the partition they came from, to another to that of their key. Raises SinkError,
    BrokerUnavailableError; nothing of what was sent by then is ever read.
    """
    connection = producer_connection(replay.client, replay.sink)
    partition = TopicPartition(replay.marked, 0)
    producer = RecordProducer(
        transactional(connection, replay.name, DEFAULT_TRANSACTION_TIMEOUT_MS),
        who=f"replay '{replay.name}'",
    )
    try:
        producer.fence()
        admin = SinkAdmin(admin_connection(replay.client))
        if partition in admin.group_commits(replay.name, [partition]):
            return None
        producer.begin()
        try:
            count = _send(producer, records, replay.target)
            producer.flush()
        except BaseException:
            # else readers of committed records wait for its timeout
            producer.abort()
            raise
        producer.add_marker(replay.name, partition, (count, "penstock dlq replay"))
        producer.commit()
        return count
    finally:
        producer.drop()


def _send(producer: RecordProducer, records: Iterable[RawRecord], target: str | None) -> int:
    count = 0
    rest = iter(records)
    while chunk := list(islice(rest, RECORDS_A_CALL)):
        for (topic, partition), group in _by_partition(chunk, target).items():
            size = sum(len(r.key or b"") + len(r.value or b"") for r in group)
            producer.send_one_by_one(topic, [_message(r) for r in group], size, partition)
        count += len(chunk)
    return count


def _by_partition(
    records: Sequence[RawRecord], target: str | None
) -> dict[tuple[str, int], list[RawRecord]]:
    found: dict[tuple[str, int], list[RawRecord]] = {}
    for record in records:
        assert record.topic is not None, "only records of Kafka are given back"
        assert record.partition is not None, "and they have a partition"
        partition = (record.topic, record.partition) if target is None else (target, BY_KEY)
        found.setdefault(partition, []).append(record)
    return found


def _message(record: RawRecord) -> dict[str, object]:
    message: dict[str, object] = {"key": record.key, "value": record.value}
    if record.headers:
        message["headers"] = list(record.headers)
    if record.timestamp_ms is not None:
        message["timestamp"] = record.timestamp_ms
    return message
