"""Draining beside the consumer's own queue: records that come there are not passed over."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message

from penstock.catalog.errors import BrokerUnavailableError
from penstock.connector.contract import ReadRequest
from penstock.connector.kafka.client.connection import (
    Connection,
    EndOfPartition,
    Event,
    Fetched,
    KafkaSplit,
    Start,
    TopicPartition,
)
from penstock.connector.kafka.client.consumer import CONSUMERS
from penstock.connector.kafka.client.draining import DrainingConsumer
from penstock.connector.kafka.source import reader as reader_module
from tests.connector.kafka.tables import kafka_source

PLACE = TopicPartition("orders", 0)
COUNT = 10


@dataclass
class Queue:
    """The package's queue: records of a partition from `first` on, up to the number that is asked for."""

    first: int

    def drain(self, ranges: Any, *, records: int, **_: Any) -> Any:
        """Drain what the ranges have not had."""
        begin = max(self.first, ranges[0].begin)
        offsets = range(begin, min(begin + records, COUNT))
        values = [b'{"id": %d}\n' % offset for offset in offsets]
        part = SimpleNamespace(
            values=pa.array(values, pa.binary()),
            offsets=pa.array(offsets, pa.int64()),
            last_offset=max(offsets, default=None),
            last_leader_epoch=None,
        )
        return SimpleNamespace(parts=(part,), events=())

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class Consumer(DrainingConsumer):
    """A consumer whose own queue has records and events once, of the first offsets."""

    connection: Connection
    _queue: Queue
    displaced: list[Message] = field(default_factory=list)
    events: tuple[Event, ...] = ()
    closed: bool = False
    _package: Any = field(default_factory=lambda: SimpleNamespace(Range=SimpleNamespace))

    def assign(self, starts: Any) -> None:
        """All is there already."""
        self.starts: list[Start] = list(starts)

    def consume(self, limit: int, timeout_s: float) -> Fetched:
        """Give what the own queue has."""
        del limit, timeout_s
        found = Fetched(messages=self.displaced, events=self.events)
        self.displaced, self.events = [], ()
        return found

    def positions(self, partitions: Any) -> dict[TopicPartition, int]:
        """None has begun."""
        del partitions
        return {}

    def remove(self, partitions: Any) -> None:
        """Read what is left."""

    def unassign(self) -> None:
        """Read nothing."""

    def close(self) -> None:
        """End, once: confluent-kafka refuses a second time."""
        assert not self.closed, "closed again"
        self.closed = True


def message(offset: int) -> Message:
    """A record as the consumer gives it."""
    return Message(topic=PLACE.topic, partition=0, offset=offset, value=b'{"id": %d}' % offset)


@pytest.mark.parametrize("client_id", ["", "${env:CLIENT}", "${env:CLIENT}-reader"])
def test_a_client_id_may_be_a_reference(monkeypatch: pytest.MonkeyPatch, client_id: str) -> None:
    """The package knows a consumer by the name that it has."""
    package = pytest.importorskip("penstock_native", reason="built by `make native`")
    monkeypatch.setenv("CLIENT", "pod-7")
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "client.id": client_id}

    DrainingConsumer(Connection.of(settings), package).close()


@pytest.mark.parametrize(
    ("first", "displaced", "events"),
    [
        (5, [message(offset) for offset in range(5)], ()),
        (0, [], (EndOfPartition(partition=PLACE, offset=COUNT),)),
    ],
    ids=["records before those that were drained", "an end behind records that were not drained"],
)
def test_records_before_those_that_were_drained_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
    first: int,
    displaced: list[Message],
    events: tuple[Event, ...],
) -> None:
    """The redirection was taken back for a moment; another consumer reads from where the range stands."""
    made: list[Consumer] = []

    def make(connection: Connection) -> Consumer:
        queue = Queue(first=0 if made else first)
        consumer = Consumer(connection, queue, [] if made else displaced, () if made else events)
        made.append(consumer)
        return consumer

    monkeypatch.setattr(reader_module, "open_consumer", make)
    monkeypatch.setattr(reader_module, "RECORDS_A_FETCH", 3)
    reader = kafka_source().open_reader(ReadRequest(columns=("id",)))
    reader.add_splits(
        [KafkaSplit(split_id=PLACE.split_id, start=0, stop=COUNT, topic=PLACE.topic, partition=0)]
    )
    found: list[int] = []
    finished = False
    while not finished:
        records = reader.fetch()
        finished = bool(records.finished)
        found += [row for _, batch in records.batches for row in batch.column("id").to_pylist()]
    reader.close()
    CONSUMERS.clear()

    assert found == list(range(COUNT))
    assert [start.offset for start in made[1].starts] == [0]


def test_a_consumer_in_whose_place_none_comes_is_closed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The read fails with the reason why there is none."""
    first = Consumer(Connection.of({}), Queue(first=0), [message(0)])
    made = iter([first])

    def make(_: Connection) -> Consumer:
        try:
            return next(made)
        except StopIteration:
            raise BrokerUnavailableError("no memory for another") from None

    CONSUMERS.clear()
    monkeypatch.setattr(reader_module, "open_consumer", make)
    reader = kafka_source().open_reader(ReadRequest(columns=("id",)))
    reader.add_splits(
        [KafkaSplit(split_id=PLACE.split_id, start=0, stop=COUNT, topic=PLACE.topic, partition=0)]
    )
    with pytest.raises(BrokerUnavailableError, match="no memory for another"):
        reader.fetch()
    reader.close()

    assert first.closed
