"""Infer a Kafka table from a sample of its topic: the newest records of each partition, read without a group."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.catalog.errors import DefinitionError, OptionError, PenstockError
from penstock.catalog.options.redaction import redact
from penstock.connector.changelog import ChangelogMode
from penstock.connector.formats import find_format
from penstock.connector.inference.event_time import EventTime, propose_event_time
from penstock.connector.inference.inferred_table import PROPOSAL, InferredTable
from penstock.connector.inference.keys import infer_key
from penstock.connector.inference.records import InferredRecords, infer_records
from penstock.connector.inference.sample import Sample, SampledSplit
from penstock.connector.kafka.client.admin import KafkaAdmin
from penstock.connector.kafka.client.client import Message
from penstock.connector.kafka.client.connection import (
    Denied,
    EndOfPartition,
    LogBounds,
    OffsetUnavailable,
    Start,
    TopicPartition,
    TopicUnknown,
    admin_connection,
    read_connection,
)
from penstock.connector.kafka.client.consumer import KafkaConsumer
from penstock.connector.kafka.client.errors import missing_topics
from penstock.connector.kafka.client.properties import client_configuration
from penstock.connector.kafka.source.records import as_bytes
from penstock.connector.kafka.table.settings import is_topic_name

MOST_ROUNDS = 5

WIDER = 8
"""Offsets may hold no record (transactions, compaction): what brought too few is read again from further back."""

POLL_S = 0.05

GIVE_UP_AFTER_S = 20.0
"""Without a record or an end of a partition."""

BATCH = 10_000


def sample_topic(properties: Mapping[str, str], topic: str, wanted: int) -> Sample:
    """Read about `wanted` records from the ends of a topic's partitions; may block up to 30 s where a broker is
    unavailable.

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
            todo = {partition: tail for partition, tail in todo.items() if not tail.enough}
            if not todo:
                break
            for tail in todo.values():
                tail.widen()
        else:
            _run_round(consumer, todo)
    finally:
        consumer.close()
    return {partition: tail.messages[-tail.share :] for partition, tail in tails.items()}


def _run_round(consumer: KafkaConsumer, tails: Mapping[TopicPartition, _Tail]) -> None:
    """Read each tail from its start to its end."""
    consumer.assign(
        [Start(partition=partition, offset=tail.start) for partition, tail in tails.items()]
    )
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
    """Treat tails without a record as read: the position passes them."""
    partitions = [partition for partition, tail in tails.items() if not tail.done]
    passed = [
        partition
        for partition, position in consumer.positions(partitions).items()
        if position >= tails[partition].end
    ]
    for partition in passed:
        tails[partition].done = True
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


def infer_topic_table(
    sample: Sample, *, name: str, topic: str, properties: Mapping[str, str], asked: str | None
) -> InferredTable:
    """Infer a table of a topic. `properties` are those of the client, `asked` a format or None.

    Raises DefinitionError where nothing can be inferred.
    """
    if not sample.values:
        raise DefinitionError(
            f"{sample.origin} holds no record with a value to infer columns from",
            hint="write some records first, or take the columns from a schema registry's subject",
        )
    value = infer_records(sample, asked)
    key = infer_key(sample, value)
    timed = _event_time(replace(value, columns=key.columns), sample)
    shown = redact({f"properties.{k}": v for k, v in properties.items()})
    hidden = [k for k, v in properties.items() if shown[f"properties.{k}"] != v]
    secrets = [f"Left out: the value of {', '.join(hidden)}, which is a secret."] if hidden else []
    named = [each.name for each in sample.splits if len(each.values)]
    return InferredTable(
        name=name,
        columns=timed.columns,
        options=(
            ("connector", "kafka"),
            ("topic", topic),
            *shown.items(),
            ("scan.startup.mode", "earliest-offset"),
            *_format_options(value, keyed=bool(key.options)),
            *key.options,
            *value.bad_record_options,
        ),
        watermark=timed.watermark,
        watermark_remark=timed.watermark_remark,
        primary_key=key.primary_key,
        remarks=(
            f"Inferred from {sample.origin}: {sample.size:,} records, the newest of {_partitions(len(named))}.",
            PROPOSAL,
            *value.remarks,
            *key.remarks,
            *secrets,
            *timed.remarks,
        ),
    )


def _event_time(value: InferredRecords, sample: Sample) -> EventTime:
    if find_format(value.format).changes is not ChangelogMode.INSERT_ONLY:
        return EventTime(columns=value.columns)
    return propose_event_time(value.columns, value.candidates, sample)


def _format_options(value: InferredRecords, *, keyed: bool) -> list[tuple[str, str]]:
    """Name the format `value.format` beside a key's, so that it is plain which is which."""
    if not keyed:
        return list(value.options)
    return [(f"value.{key}", text) for key, text in value.options]


def _partitions(count: int) -> str:
    return f"{count:,} partition{'' if count == 1 else 's'}"
