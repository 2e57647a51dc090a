"""What the client's answers are worth: an offset that is not there is no offset, and asked for again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError

from penstock.connector.kafka.client.admin import KafkaAdmin
from penstock.connector.kafka.client.connection import Connection, TopicPartition

PARTITION = TopicPartition("orders", 0)


@dataclass
class Broker:
    """Answers with the given offsets, one after the other; then with the last of them."""

    answers: Iterator[Any]
    asked: int = 0
    last: Any = None

    def next(self) -> Future[Any]:
        self.asked += 1
        self.last = next(self.answers, self.last)
        future: Future[Any] = Future()
        future.set_result(self.last)
        return future

    def list_offsets(self, wanted: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        return {partition: self.next() for partition in wanted}

    def committed(self, _: Any, **__: Any) -> Any:
        return self.next().result()

    def close(self) -> None:
        pass

    def poll(self, _: float) -> int:
        return 0


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[KafkaAdmin, Broker]]:
    """An admin client whose broker gives the answers it is made with."""

    def make(*answers: Any) -> tuple[KafkaAdmin, Broker]:
        made = KafkaAdmin(Connection.of({"bootstrap.servers": "127.0.0.1:1"}))
        broker = Broker(iter(answers))
        monkeypatch.setattr(made, "admin", broker)
        monkeypatch.setattr("penstock.connector.kafka.client.admin.Consumer", lambda _: broker)
        return made, broker

    return make


def offset(value: int) -> SimpleNamespace:
    return SimpleNamespace(offset=value, leader_epoch=None)


def group(value: int, error: KafkaError | None = None) -> list[SimpleNamespace]:
    return [SimpleNamespace(topic="orders", partition=0, offset=value, metadata="", error=error)]


def test_bounds_that_were_not_answered_are_asked_again(admin: Callable[..., Any]) -> None:
    """A connection that broke leaves an invalid offset, without an error."""
    client, broker = admin(offset(3), offset(OFFSET_INVALID), offset(3), offset(9))

    found = client.bounds([PARTITION], committed=True)

    assert (found[PARTITION].first, found[PARTITION].end) == (3, 9)
    assert broker.asked == 4


def test_a_time_that_was_not_answered_is_asked_again(admin: Callable[..., Any]) -> None:
    """Taken for a partition that has no such record, it would be read from its end: rows would be lost."""
    client, broker = admin(offset(OFFSET_INVALID), offset(7))

    assert client.at_time([PARTITION], 0, committed=True) == {PARTITION: 7}
    assert broker.asked == 2


def test_a_partition_without_a_record_of_that_time_is_absent(admin: Callable[..., Any]) -> None:
    """Kafka answers -1, which is an answer."""
    client, broker = admin(offset(-1))

    assert client.at_time([PARTITION], 0, committed=True) == {}
    assert broker.asked == 1


def test_the_error_of_one_partition_of_a_group_is_no_missing_commit(
    admin: Callable[..., Any],
) -> None:
    """Taken for one, the group would start over."""
    client, broker = admin(
        group(OFFSET_INVALID, KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)), group(5)
    )

    assert client.group_offsets("group", [PARTITION]) == {PARTITION: 5}
    assert broker.asked == 2


def test_a_group_that_never_committed_is_absent(admin: Callable[..., Any]) -> None:
    """The client's invalid offset without an error means just that here."""
    client, _ = admin(group(OFFSET_INVALID))

    assert client.group_offsets("group", [PARTITION]) == {}
