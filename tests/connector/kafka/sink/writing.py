"""Kafka sinks that tests call as Spark would, and what a reader of committed records then sees."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Message, TopicPartition

from penstock.catalog.model.table import MetadataColumn
from penstock.connector.contract import MicroBatch
from penstock.connector.kafka.connector import describe, describe_upserts
from penstock.connector.kafka.sink import kafka_sink
from penstock.connector.kafka.sink.sink import KafkaSink
from tests.connector.kafka.tables import kafka_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.kafka_server import KafkaServer

DEADLINE_S = 30
KEYED = {"key.format": "json", "key.fields": "id"}
ONCE = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "tests"}


def made_sink(
    options: Mapping[str, str | None],
    *,
    columns: Mapping[str, str] | None = None,
    metadata: Mapping[str, tuple[str, str]] | None = None,
    key: tuple[str, ...] = (),
    upsert: bool = False,
) -> KafkaSink:
    """A sink of a table as `kafka_table` makes it, whose metadata columns are written."""
    table = kafka_table(options, columns=columns, metadata=metadata, key=key)
    written = tuple(
        replace(c, virtual=False) if isinstance(c, MetadataColumn) else c
        for c in table.schema.columns
    )
    table = replace(table, schema=replace(table.schema, columns=written))
    sink = kafka_sink(table, describe_upserts(table) if upsert else describe(table))
    assert isinstance(sink, KafkaSink)
    return sink


def sink_into(
    kafka: KafkaServer, topic: str, options: Mapping[str, str | None] | None = None, **more: Any
) -> KafkaSink:
    """A sink into a topic of the test's broker."""
    place = {"properties.bootstrap.servers": kafka.bootstrap, "topic": topic}
    return made_sink({**place, **(options or {})}, **more)


def batch_of(
    spark: SparkSession, checkpoint: Path, batch_id: int, *, query: str = "q", offsets: str = ""
) -> MicroBatch:
    """A micro-batch of a query, with the offsets that Spark would have logged (its number unless given)."""
    folder = checkpoint / "offsets"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(batch_id)).write_text(offsets or f"end of {batch_id}")
    return MicroBatch(spark=spark, checkpoint=str(checkpoint), query_id=query, batch_id=batch_id)


def committed(kafka: KafkaServer, topic: str, partitions: int = 1) -> list[Message]:
    """Every committed record of a topic, up to the end that it has now."""
    settings = kafka.client_settings(group_id="readers", isolation_level="read_committed")
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    found: list[Message] = []
    ended, deadline = 0, time.monotonic() + DEADLINE_S
    try:
        while ended < partitions:
            assert time.monotonic() < deadline, "the topic does not end: a transaction is open"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is None:
                found.append(message)
            else:
                ended += 1
    finally:
        consumer.close()
    return found


def values(kafka: KafkaServer, topic: str, partitions: int = 1) -> list[str]:
    """The values of the committed records, sorted."""
    found = [message.value() for message in committed(kafka, topic, partitions)]
    return sorted("" if value is None else bytes(value).decode() for value in found)
