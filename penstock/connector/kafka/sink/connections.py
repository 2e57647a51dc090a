"""How the sink's clients are set up: what the table says, what delivery forces, what makes them quick."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.connector.kafka.connection import Connection
from penstock.connector.kafka.sink.settings import Delivery, KafkaSinkSettings
from penstock.connector.kafka.tuning import admin_connection

__all__ = ["DEFAULT_TRANSACTION_TIMEOUT_MS", "producer_connection", "transactional"]

DEFAULT_TRANSACTION_TIMEOUT_MS = 300_000
"""Time for one slot's part of a batch. Flink's hour is more than brokers allow (FLINK-35870); what a dead runner
left open holds up read_committed readers no longer than this."""

_TUNED = {
    "linger.ms": "20",
    "batch.size": str(1 << 20),
    # Java's choice of partition by key, so that records of both clients lie together
    "partitioner": "murmur2_random",
}
_DURABLE = {"acks": "all", "enable.idempotence": "true"}


def producer_connection(client: Mapping[str, str], sink: KafkaSinkSettings) -> Connection:
    """Give the connection of producers without transactions; `client` is the table's own configuration."""
    base = dict(admin_connection(client).settings)
    forced = {} if sink.delivery is Delivery.NONE else _DURABLE
    chosen = {k: v for k, v in sink.producer.items() if k != "transaction.timeout.ms"}
    return Connection.of({**base, **_TUNED, **chosen, **forced})


def transactional(connection: Connection, transactional_id: str, timeout_ms: int) -> Connection:
    """Give the connection of one transaction's producer."""
    return Connection.of(
        {
            **dict(connection.settings),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": str(timeout_ms),
        }
    )
