"""Consuming from a real broker: what is assigned while other partitions are read."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

from penstock.connector.kafka.client.connection import Connection, Start, TopicPartition
from penstock.connector.kafka.client.consumer import KafkaConsumer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from tests.kafka_server import KafkaServer

COUNT = 1_000
DEADLINE_S = 30


def test_a_partition_that_still_ends_costs_no_record_of_another(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is added again while its last assignment ends; the other partition has records in the client's queue."""
    topic = kafka.create_topic(partitions=2)
    for partition in range(2):
        kafka.produce(
            topic,
            [b"%d" % number for number in range(COUNT)],
            partition=partition,
            enable_idempotence=True,
        )
    one, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    connection = Connection.of(
        {"bootstrap.servers": kafka.bootstrap, "group.id": topic, "enable.auto.commit": False}
    )
    with closing(KafkaConsumer(connection)) as consumer:
        consumer.assign([Start(partition=one, offset=0, leader_epoch=None)])
        found = [m.offset() for m in consumer.consume(1, DEADLINE_S).messages]
        real, looks = consumer.positions, iter(range(20))

        def positions(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
            return {other: 5} if next(looks, None) is not None else real(partitions)

        monkeypatch.setattr(consumer, "positions", positions)
        consumer.add([Start(partition=other, offset=0, leader_epoch=None)])
        deadline = time.monotonic() + DEADLINE_S
        while len(found) < COUNT and time.monotonic() < deadline:
            messages = consumer.consume(COUNT, 1).messages
            found += [m.offset() for m in messages if m.partition() == one.partition]

    assert found == list(range(COUNT))


def test_consumers_that_rest_are_closed_as_the_interpreter_ends() -> None:
    """Before it frees them in whichever order: one whose queue is freed later than itself waits for it without end."""
    program = """
from types import SimpleNamespace
from penstock.connector.kafka.client.consumer import CONSUMERS
CONSUMERS.give_back(SimpleNamespace(unassign=lambda: None, close=lambda: print("closed")))
print("ends")
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout.split() == ["ends", "closed"]
