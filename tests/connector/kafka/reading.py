"""Reads a Kafka table as a task does: planned ranges through a split reader, rows as plain dictionaries."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from penstock.connector.contract import ReadRequest
from penstock.connector.kafka.source.metadata_client import KafkaMetadataClient
from penstock.connector.kafka.source.source import KafkaSource
from tests.connector.kafka.tables import kafka_source

if TYPE_CHECKING:
    from tests.kafka_server import KafkaServer

DEADLINE_S = 30.0


@dataclass
class Rows:
    """What a reader delivered: rows by split id, in order."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    skipped: int = 0
    lost: int = 0
    finished: set[str] = field(default_factory=set)
    batches: int = 0

    @property
    def all(self) -> list[dict[str, Any]]:
        """All rows, split by split."""
        return [row for _, rows in sorted(self.rows.items()) for row in rows]

    def column(self, name: str) -> list[Any]:
        """One column of all rows."""
        return [row[name] for row in self.all]


def topic_source(
    kafka: KafkaServer,
    topic: str | None,
    options: Mapping[str, str | None] | None = None,
    **more: Any,
) -> KafkaSource:
    """The source of a table over a topic of the test's broker."""
    given = {"properties.bootstrap.servers": kafka.bootstrap, "topic": topic, **(options or {})}
    return kafka_source(given, **more)


@contextmanager
def open_transaction(kafka: KafkaServer, topic: str, values: Sequence[bytes]) -> Iterator[Producer]:
    """A transaction that has written records and is neither committed nor, before the end, aborted."""
    producer = Producer(kafka.client_settings(transactional_id=f"open-{topic}", linger_ms=1))
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(DEADLINE_S) == 0, "the broker did not take every record"
    yield producer
    producer.abort_transaction(DEADLINE_S)


def wait_for_stable_end(kafka: KafkaServer, topic: str, end: int) -> None:
    """Wait until the last stable offset is `end`: the marker of a decided transaction may still be on its way."""
    deadline = time.monotonic() + DEADLINE_S
    while (found := kafka.watermarks(topic)[1]) != end:
        assert time.monotonic() < deadline, f"the topic is stable up to {found}, not {end}"


@contextmanager
def planning(source: KafkaSource, *columns: str) -> Iterator[KafkaMetadataClient]:
    """A planner that is closed afterwards; `columns` are those of peeks."""
    planner = source.open_planner(ReadRequest(columns=columns))
    try:
        yield planner
    finally:
        planner.close()


def planned(planner: KafkaMetadataClient) -> dict[str, tuple[int, int]]:
    """First planning: ranges from the resolved starts to the stops, or to what is there now."""
    split_ids = sorted(planner.list_splits().owners)
    starts = planner.start_positions(split_ids, first_listing=True)
    stops = planner.stop_positions(split_ids)
    extents = planner.extents(split_ids)
    return {i: (starts[i], stops.get(i, extents[i].end)) for i in split_ids}


def read(
    source: KafkaSource,
    columns: Sequence[str],
    ranges: Mapping[str, tuple[int, int]] | None = None,
    *,
    seconds: float = DEADLINE_S,
) -> Rows:
    """Plan unless ranges are given, and read all of them with one reader."""
    with planning(source) as planner:
        ranges = planned(planner) if ranges is None else ranges
        splits = [planner.split(i, start, stop) for i, (start, stop) in sorted(ranges.items())]
    reader = source.open_reader(ReadRequest(columns=tuple(columns)))
    result = Rows()
    deadline = time.monotonic() + seconds
    try:
        reader.add_splits(splits)
        while result.finished < set(ranges):
            assert time.monotonic() < deadline, f"read only {result} of {ranges}"
            records = reader.fetch()
            result.finished |= records.finished
            result.skipped += records.skipped
            result.lost += records.lost
            for split_id, batch in records.batches:
                result.batches += 1
                rows = batch.to_pylist() if batch.num_columns else [{}] * batch.num_rows
                result.rows.setdefault(split_id, []).extend(rows)
    finally:
        reader.close()
    return result
