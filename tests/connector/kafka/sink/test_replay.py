"""Records that are given back to their topic, on a real broker: what a replay that fails leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.connector.kafka.client.connection import Connection
from penstock.connector.kafka.sink.client import SinkAdmin
from penstock.connector.kafka.sink.open_transactions import blocked_partitions
from penstock.connector.kafka.sink.replay import RECORDS_A_CALL, ClusterReplay, replay_records
from penstock.connector.source.records import RawRecord
from tests.connector.kafka.sink.writing import sink_into, values
from tests.integration.pipeline import wait_until

if TYPE_CHECKING:
    from tests.kafka_server import KafkaServer


def record(topic: str, position: int) -> RawRecord:
    """A record of partition 0."""
    text = str(position).encode()
    return RawRecord(
        position=position, key=None, value=text, where="here", topic=topic, partition=0
    )


def test_a_replay_that_fails_leaves_no_transaction_open(
    kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """Readers of committed records would wait for its timeout; the next attempt sends all."""
    name = topic()
    sink = sink_into(kafka, name)
    given = ClusterReplay(
        client=sink.table.settings.client,
        sink=sink.settings,
        name=f"replay-of-{name}",
        target=None,
        marked=name,
    )
    admin = SinkAdmin(Connection.of({"bootstrap.servers": kafka.bootstrap}))

    def fails() -> Iterator[RawRecord]:
        yield from (record(name, position) for position in range(RECORDS_A_CALL))
        # so that the broker has some of them, in an open transaction
        wait_until(
            lambda: bool(blocked_partitions(admin, [name])), seconds=60, what="a transaction"
        )
        raise ValueError("some of its letters are gone")

    with pytest.raises(ValueError, match="letters are gone"):
        replay_records(given, fails())

    # the broker ends a transaction behind its answer
    wait_until(lambda: not blocked_partitions(admin, [name]), seconds=60, what="its end")
    assert values(kafka, name) == []
    assert replay_records(given, [record(name, 1), record(name, 2)]) == 2
    assert values(kafka, name) == ["1", "2"]
