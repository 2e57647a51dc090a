"""Takes the newest records of a topic to look at: some of each partition, in order. Joins no consumer group."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.catalog.errors import DefinitionError, OptionError, PenstockError
from penstock.connector.inferring.sample import Sample, SampledSplit
from penstock.connector.kafka.admin import KafkaAdmin
from penstock.connector.kafka.client import Message
from penstock.connector.kafka.connection import (
    Denied,
    EndOfPartition,
    LogBounds,
    OffsetUnavailable,
    Start,
    TopicUnknown,
)
from penstock.connector.kafka.consumer import KafkaConsumer
from penstock.connector.kafka.failures import missing_topics
from penstock.connector.kafka.records import as_bytes
from penstock.connector.kafka.security import client_configuration
from penstock.connector.kafka.split import TopicPartition
from penstock.connector.kafka.subscriber import is_topic_name
from penstock.connector.kafka.tuning import admin_connection, read_connection

__all__ = ["sample_topic", "spread"]

MOST_ROUNDS = 5
WIDER = 8
"""Offsets may hold no record (transactions, compaction): what brought too few is read again from further back."""

POLL_S = 0.05
GIVE_UP_AFTER_S = 20.0
"""Without a record or an end of a partition."""

BATCH = 10_000


def sample_topic(properties: Mapping[str, str], topic: str, wanted: int) -> Sample:
    """Read about `wanted` records from the ends of a topic's partitions; may block up to 30 s where a broker is away.

    Raises OptionError for a wrong name or property, UnknownObjectError for a topic that is not there, DefinitionError
    for an empty one, BrokerUnavailableError.
    """
    if not is_topic_name(topic):
        raise OptionError(
            f"'{topic}' cannot be the name of a Kafka topic",
            hint="names have letters, digits, '.', '_' and '-', at most 249",
        )
    client = client_configuration(properties, owner="discovery")
    admin = KafkaAdmin(admin_connection(client))
    address = admin.connection.address
    found = admin.topics([topic]).get(topic)
    if found is None:
        raise missing_topics([topic], admin.topic_names(), address)
    partitions = [TopicPartition(topic, number) for number in found.partitions]
    bounds = admin.bounds(partitions, committed=True)
    if not any(each.end > each.first for each in bounds.values()):
        raise DefinitionError(
            f"topic '{topic}' at {address} is empty: there is nothing to infer columns from",
            hint="write some records first, or take the columns from a schema registry's subject",
        )
    tails = _read_tails(client, bounds, wanted)
    return Sample(
        origin=f"topic '{topic}' at {address}",
        splits=tuple(_split(partition, tails.get(partition, [])) for partition in partitions),
    )


def spread(wanted: int, held: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Share a number of records out evenly; what a short partition does not have goes to the others."""
    shares: dict[TopicPartition, int] = {}
    left = wanted
    for number, (partition, count) in enumerate(sorted(held.items(), key=lambda item: item[1])):
        shares[partition] = min(count, -(-left // (len(held) - number)))
        left -= shares[partition]
    return shares


@dataclass(slots=True)
class _Tail:
    """The end of a partition: records of offsets from `start` (inclusive) to `end` (exclusive)."""

    first: int
    end: int
    start: int
    share: int
    messages: list[Message] = field(default_factory=list)
    done: bool = False

    @property
    def enough(self) -> bool:
        return len(self.messages) >= self.share or self.start <= self.first

    def meet(self, message: Message) -> None:
        offset = message.offset() or 0
        if not self.done and offset < self.end:
            self.messages.append(message)
        self.done |= offset >= self.end - 1

    def widen(self) -> None:
        self.start = max(self.first, self.end - (self.end - self.start) * WIDER)
        self.messages.clear()
        self.done = False


def _read_tails(
    client: Mapping[str, str], bounds: Mapping[TopicPartition, LogBounds], wanted: int
) -> dict[TopicPartition, list[Message]]:
    shares = spread(wanted, {p: each.end - each.first for p, each in bounds.items()})
    tails = {
        partition: _Tail(
            first=each.first,
            end=each.end,
            start=each.end - shares[partition],
            share=shares[partition],
        )
        for partition, each in bounds.items()
        if shares[partition]
    }
    consumer = KafkaConsumer(read_connection(client))
    try:
        todo = tails
        for _ in range(MOST_ROUNDS):
            _run_round(consumer, todo)
            todo = {place: tail for place, tail in todo.items() if not tail.enough}
            if not todo:
                break
            for tail in todo.values():
                tail.widen()
        else:
            _run_round(consumer, todo)
    finally:
        consumer.close()
    return {place: tail.messages[-tail.share :] for place, tail in tails.items()}


def _run_round(consumer: KafkaConsumer, tails: Mapping[TopicPartition, _Tail]) -> None:
    """Read each tail from its start to its end."""
    consumer.assign([Start(partition=place, offset=tail.start) for place, tail in tails.items()])
    moved_s = time.monotonic()
    while not all(tail.done for tail in tails.values()):
        fetched = consumer.consume(BATCH, POLL_S)
        for message in fetched.messages:
            tails[TopicPartition(message.topic() or "", message.partition() or 0)].meet(message)
        for event in fetched.events:
            match event:
                case EndOfPartition() | OffsetUnavailable():
                    # the log was cut while it was looked at: what is there has been read
                    tails[event.partition].done = True
                case TopicUnknown():
                    raise missing_topics([event.partition.topic], (), consumer.connection.address)
                case Denied():
                    raise consumer.denied(event.reason)
        if fetched.messages or fetched.events or _positions_end(consumer, tails):
            moved_s = time.monotonic()
        elif (waited_s := time.monotonic() - moved_s) > GIVE_UP_AFTER_S:
            raise _stalled(consumer, waited_s)


def _positions_end(consumer: KafkaConsumer, tails: Mapping[TopicPartition, _Tail]) -> bool:
    """Take tails for read whose end holds no record: the position passes it."""
    places = [place for place, tail in tails.items() if not tail.done]
    passed = [
        place
        for place, position in consumer.positions(places).items()
        if position >= tails[place].end
    ]
    for place in passed:
        tails[place].done = True
    return bool(passed)


def _stalled(consumer: KafkaConsumer, waited_s: float) -> PenstockError:
    return consumer.unavailable("records of a sample", waited_s)


def _split(partition: TopicPartition, messages: list[Message]) -> SampledSplit:
    return SampledSplit(
        name=f"partition {partition.partition}",
        unit="offset",
        positions=tuple(message.offset() or 0 for message in messages),
        values=tuple(as_bytes(message.value()) for message in messages),
        keys=tuple(as_bytes(message.key()) for message in messages),
        times_ms=tuple(_time_ms(message) for message in messages),
    )


def _time_ms(message: Message) -> int | None:
    kind, timestamp_ms = message.timestamp()
    return timestamp_ms if kind else None
