"""What is asked of the broker before a write: topics, rights, how long a transaction may last."""

from __future__ import annotations

from penstock.catalog.errors import OptionError, SinkError, UnknownObjectError
from penstock.connector.kafka.client.connection import Connection
from penstock.connector.kafka.client.errors import missing_topics
from penstock.connector.kafka.client.split import TopicPartition
from penstock.connector.kafka.sink.client import (
    DEFAULT_TRANSACTION_TIMEOUT_MS,
    RecordProducer,
    SinkAdmin,
    transactional,
)
from penstock.connector.kafka.table.subscription import Subscription, TopicList

__all__ = ["check_topics", "check_transactions", "marker_partition", "transaction_timeout_ms"]

CAP = "transaction.max.timeout.ms"
DEFAULT_CAP_MS = 900_000
"""Kafka's own, assumed where the broker's settings may not be seen."""


def check_topics(admin: SinkAdmin, topics: Subscription) -> None:
    """Check that the topics of a list exist: a sink creates none. Raises UnknownObjectError."""
    if isinstance(topics, TopicList):
        found = admin.topics(topics.topics)
        missing = [topic for topic in topics.topics if topic not in found]
        if missing:
            raise missing_topics(missing, admin.topic_names(), admin.connection.address)


def transaction_timeout_ms(admin: SinkAdmin, asked_ms: int | None, *, owner: str) -> int:
    """Return the time for a transaction: as the table says, else ours or the broker's limit. Raises OptionError."""
    cap_ms = int(admin.broker_setting(CAP) or DEFAULT_CAP_MS)
    if asked_ms is None:
        return min(DEFAULT_TRANSACTION_TIMEOUT_MS, cap_ms)
    if asked_ms > cap_ms:
        raise OptionError(
            f"{owner}: 'properties.transaction.timeout.ms' = '{asked_ms}' is more than the broker allows: its "
            f"{CAP} is {cap_ms}",
            hint=f"lower it to {cap_ms} at most, or raise {CAP} of the brokers",
        )
    return asked_ms


def check_transactions(
    connection: Connection, admin: SinkAdmin, prefix: str, timeout_ms: int, topic: str
) -> None:
    """Start a transaction of the prefix and ask for a marker, under `topic` as tasks will: what is not allowed shows.

    Raises OptionError, which names the right that is missing, SinkError, and BrokerUnavailableError.
    """
    name = f"{prefix}-check"
    producer = RecordProducer(transactional(connection, name, timeout_ms), who=f"'{name}'")
    try:
        producer.fence()
    except (OptionError, SinkError) as error:
        raise type(error)(
            f"transactions with ids that begin with '{prefix}' do not start: {error.message}",
            hint=error.hint,
        ) from error
    finally:
        producer.drop()
    admin.group_commits(name, [TopicPartition(topic, 0)])


def marker_partition(admin: SinkAdmin, topics: Subscription) -> str:
    """Choose the topic under whose name markers are kept, when a sink begins. Raises UnknownObjectError."""
    if isinstance(topics, TopicList):
        return topics.topics[0]
    existing = topics.select(admin.topic_names())
    if not existing:
        raise UnknownObjectError(
            f"no topic matches {topics} yet, and one is needed to keep markers under its name",
            hint="make the first of them",
        )
    return existing[0]
