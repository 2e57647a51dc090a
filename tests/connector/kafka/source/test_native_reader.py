"""A read by `penstock-native` gives what a read in Python gives: rows, places, and records as they were."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import confluent_kafka.cimpl
import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.catalog.errors import BadRecordError
from penstock.connector.contract import ReadRequest
from penstock.connector.kafka.client import draining, native
from penstock.connector.kafka.client.consumer import CONSUMERS
from penstock.connector.kafka.client.draining import DrainingConsumer
from penstock.connector.kafka.source import reader as reader_module
from penstock.connector.source.records import BadRecord
from tests.connector.kafka.reading import open_transaction, planning, read, topic_source

if TYPE_CHECKING:
    from penstock.connector.kafka.source.source import KafkaSource
    from tests.kafka_server import KafkaServer

pytest.importorskip("penstock_native", reason="built by `make native`, where cargo is")

DEADLINE_S = 60.0
METADATA = {
    "t": ("topic", "STRING"),
    "p": ("partition", "INT"),
    "o": ("offset", "BIGINT"),
    "ts": ("timestamp", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    "tt": ("timestamp-type", "STRING"),
    "e": ("leader-epoch", "INT"),
    "h": ("headers", "MAP<STRING, BYTES>"),
    "hl": ("header-list", "ARRAY<ROW<key STRING, v BYTES>>"),
}
JSON = {"format": None, "value.format": "json", "bad-records": "skip"}
KEYED = {
    **JSON,
    "key.format": "raw",
    "key.fields": "k",
    "value.fields-include": "EXCEPT_KEY",
}
TABLES: Mapping[str, tuple[Mapping[str, str | None], Mapping[str, str], Sequence[str]]] = {
    "json": (JSON, {"id": "BIGINT", "name": "STRING"}, ["id", "name", *METADATA]),
    "rows": (JSON, {"r": "ROW<id BIGINT, name STRING>"}, ["r", "o"]),
    "keys": (KEYED, {"k": "BYTES", "id": "BIGINT"}, ["k", "id", "o", "hl"]),
    "raw": ({"format": "raw"}, {"v": "BYTES"}, ["v", "o", "h"]),
    "a count": ({"format": "json"}, {"id": "BIGINT"}, []),
}


@dataclass
class Found:
    """All that the fetches of a reader gave."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    bad: dict[str, list[BadRecord]] = field(default_factory=dict)
    origins: dict[str, list[Any]] = field(default_factory=dict)
    skipped: int = 0


@contextmanager
def reading(*, natively: bool) -> Iterator[None]:
    """Readers of one kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(native.SWITCH, "1" if natively else "0")
        CONSUMERS.clear()
        yield
        CONSUMERS.clear()


def read_all(
    source: KafkaSource,
    columns: Sequence[str],
    ranges: Mapping[str, tuple[int, int]],
    *,
    natively: bool,
    origins: bool,
) -> Found:
    """Read ranges with one reader."""
    found = Found()
    with reading(natively=natively):
        with planning(source) as planner:
            splits = [planner.split(i, *ends) for i, ends in sorted(ranges.items())]
        reader = source.open_reader(ReadRequest(columns=tuple(columns), origins=origins))
        reader.add_splits(splits)
        finished: set[str] = set()
        deadline = time.monotonic() + DEADLINE_S
        while finished < set(ranges):
            assert time.monotonic() < deadline, f"only {finished} of {ranges}"
            records = reader.fetch()
            assert natively == isinstance(reader._consumer, DrainingConsumer | None)
            finished |= records.finished
            found.positions |= records.positions
            found.skipped += records.skipped
            for split, count in records.read.items():
                found.counts[split] = found.counts.get(split, 0) + count
            for split, batch in records.batches:
                batch.validate(full=True)
                rows = batch.to_pylist() if batch.num_columns else [{}] * batch.num_rows
                found.rows.setdefault(split, []).extend(rows)
                if origins:
                    records_of = records.origins[split].of(range(batch.num_rows))
                    found.origins.setdefault(split, []).extend(records_of)
            for split, bad in records.bad.items():
                found.bad.setdefault(split, []).extend(bad)
        reader.close()
    return found


some_bytes = st.none() | st.binary(max_size=9)
values = st.one_of(
    st.builds(lambda n: b'{"id": %d, "name": "n%d\\n"}' % (n, n), st.integers(-9, 9)),
    st.builds(
        lambda n: b'{"r": {"name": "n%d", "x": [{}], "id": %d}}' % (n, n), st.integers(-9, 9)
    ),
    st.sampled_from((b'{"r": null}', b'{"r": {"id": "x"}}', b'{"r": {"id": 1, "id": 2}}')),
    st.sampled_from((None, b"", b"{", b"[1]", b'{"id": "x"}', b"\n", b'{"id":\n1}', b"{}\n{}")),
    st.binary(max_size=9),
)
headers = st.lists(st.tuples(st.sampled_from(("a", "b", "ß")), some_bytes), max_size=3)
batches = st.lists(
    st.tuples(
        st.sampled_from((None, True, False)),
        st.lists(
            st.tuples(st.integers(0, 1), some_bytes, values, headers), min_size=1, max_size=12
        ),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=batches,
    table=st.sampled_from(sorted(TABLES)),
    origins=st.booleans(),
    cut=st.integers(0, 3),
)
def test_rows_and_places_are_the_same(
    kafka: KafkaServer, batches: Sequence[Any], table: str, cut: int, *, origins: bool
) -> None:
    """NULLs, tombstones, bad records, headers of one name, aborted transactions, ranges that begin in between."""
    topic = "native-reader"
    if topic not in kafka.admin.list_topics(timeout=DEADLINE_S).topics:
        kafka.create_topic(topic, partitions=2)
        for partition in range(2):
            kafka.produce(topic, [b"{}"], partition=partition)
    begins = [kafka.watermarks(topic, p)[1] for p in range(2)]
    write(kafka, topic, batches)
    ends = [kafka.watermarks(topic, p)[1] for p in range(2)]
    ranges = {
        f"{topic}-{p}": (begins[p] + cut, ends[p]) for p in range(2) if begins[p] + cut < ends[p]
    }
    options, columns, wanted = TABLES[table]
    source = topic_source(kafka, topic, options, columns=columns, metadata=METADATA)

    by_python = read_all(source, wanted, ranges, natively=False, origins=origins)
    by_native = read_all(source, wanted, ranges, natively=True, origins=origins)

    assert by_native == by_python


def write(kafka: KafkaServer, topic: str, batches: Sequence[Any]) -> None:
    """Write batches: without a transaction (None), or in one that is committed or aborted."""
    plain = Producer(kafka.client_settings(linger_ms=0))
    within = Producer(
        kafka.client_settings(linger_ms=0, transactional_id=f"native-{time.time_ns()}")
    )
    if any(commits is not None for commits, _ in batches):
        within.init_transactions(DEADLINE_S)
    for commits, records in batches:
        producer = plain if commits is None else within
        if commits is not None:
            producer.begin_transaction()
        for partition, key, value, pairs in records:
            producer.produce(topic, value, key, partition=partition, headers=pairs)
        assert producer.flush(DEADLINE_S) == 0
        if commits is True:
            producer.commit_transaction(DEADLINE_S)
        elif commits is False:
            producer.abort_transaction(DEADLINE_S)


def test_a_bad_record_is_named_where_it_lies(kafka: KafkaServer) -> None:
    """By the same words, in the second of two partitions."""
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, [b'{"id": 1}'] * 3, partition=0)
    kafka.produce(topic, [b'{"id": 1}', b"no JSON"], partition=1)
    source = topic_source(kafka, topic)
    said = []
    for natively in (False, True):
        with reading(natively=natively), pytest.raises(BadRecordError) as raised:
            read(source, ["id"], {f"{topic}-0": (0, 3), f"{topic}-1": (0, 2)})
        said.append(raised.value.message)

    assert said[0] == said[1]
    assert "partition 1, offset 1" in said[1]


def test_a_header_whose_name_is_no_text_stops_no_query(
    kafka: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Any producer can write one. Without the package it is refused where it is read, and named."""
    topic = kafka.create_topic()
    for value in (b'{"id": 1}', b"no JSON"):
        produce_header(kafka, topic, value, name=b"a\xffb")
    source = topic_source(
        kafka,
        topic,
        {"bad-records": "dead-letter"},
        metadata={"h": ("headers", "MAP<STRING, BYTES>")},
    )
    ranges = {f"{topic}-0": (0, 2)}

    found = read_all(source, ["id", "h"], ranges, natively=True, origins=False)
    without = read_all(source, ["id"], ranges, natively=False, origins=False)
    with pytest.raises(BadRecordError, match="offset 0: the name of a header is not UTF-8"):
        read_all(source, ["id", "h"], ranges, natively=False, origins=False)

    assert found.rows == {f"{topic}-0": [{"id": 1, "h": [("a\ufffdb", b"v")]}]}
    (bad,) = found.bad[f"{topic}-0"]
    assert bad.record.headers == (("a\ufffdb", b"v"),)
    (bad,) = without.bad[f"{topic}-0"]
    assert (bad.record.value, bad.record.headers) == (b"no JSON", ())
    assert "offset 1: the name of a header is not UTF-8" in caplog.text


def produce_header(kafka: KafkaServer, topic: str, value: bytes, *, name: bytes) -> None:
    """Write a record with a header by librdkafka: confluent-kafka takes texts as names only."""
    producer = Producer(kafka.client_settings())
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    (handle,) = struct.unpack("P", os.pread(memory, 8, id(producer) + object.__basicsize__))
    os.close(memory)
    topic_tag, partition_tag, value_tag, flags_tag, header_tag, end_tag = 1, 3, 4, 7, 9, 0
    copies = 2
    error = ctypes.CDLL(confluent_kafka.cimpl.__file__).rd_kafka_producev(
        *(ctypes.c_void_p(handle), ctypes.c_int(topic_tag), ctypes.c_char_p(topic.encode())),
        *(ctypes.c_int(partition_tag), ctypes.c_int32(0)),
        *(ctypes.c_int(flags_tag), ctypes.c_int(copies)),
        *(ctypes.c_int(value_tag), ctypes.c_char_p(value), ctypes.c_size_t(len(value))),
        *(ctypes.c_int(header_tag), ctypes.c_char_p(name), ctypes.c_char_p(b"v")),
        *(ctypes.c_ssize_t(1), ctypes.c_int(end_tag)),
    )
    assert error == 0
    assert producer.flush(DEADLINE_S) == 0


def test_records_that_come_elsewhere_are_read_again(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer whose partitions are not redirected is replaced, and no record is lost."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b'{"id": %d}' % n for n in range(100)])
    source = topic_source(kafka, topic)
    made: list[Any] = []
    make = reader_module.open_consumer

    def make_first_without_redirection(connection: Any) -> Any:
        consumer = make(connection)
        if not made:
            monkeypatch.setattr(consumer._queue, "redirect", lambda *_, **__: None)
        made.append(consumer)
        return consumer

    monkeypatch.setattr(reader_module, "open_consumer", make_first_without_redirection)
    with reading(natively=True):
        rows = read(source, ["id"], {f"{topic}-0": (0, 100)})

    assert rows.column("id") == list(range(100))
    assert len(made) == 2


def test_a_range_ends_before_an_open_transaction(kafka: KafkaServer) -> None:
    """What is not committed is not there."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b'{"id": 1}'])
    source = topic_source(kafka, topic)
    with reading(natively=True), open_transaction(kafka, topic, [b'{"id": 2}']):
        assert read(source, ["id"], {f"{topic}-0": (0, 1)}).column("id") == [1]


def test_markers_of_an_assignment_that_is_over_end_no_range(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in the queue still, and move the consumer's position."""
    topic = kafka.create_topic()
    kafka.transaction(topic, [b'{"id": 1}', b'{"id": 2}'])
    kafka.transaction(topic, [b'{"id": 3}'], commit=False)
    monkeypatch.setattr(DrainingConsumer, "positions", lambda _, places: dict.fromkeys(places, 5))
    monkeypatch.setattr(draining, "SETTLED_S", 0)
    monkeypatch.setattr(reader_module, "POLL_S", 0)
    source = topic_source(kafka, topic)
    with reading(natively=True):
        found = [
            read(source, ["id"], {f"{topic}-0": (0, stop)}).column("id") for stop in range(1, 6)
        ]

    assert found == [[1], [1, 2], [1, 2], [1, 2], [1, 2]]


def test_a_consumer_is_kept_for_ranges_that_come_later(kafka: KafkaServer) -> None:
    """Its partitions are assigned anew, which takes the redirection back for a moment."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b'{"id": %d}' % n for n in range(50)])
    source = topic_source(kafka, topic)
    with reading(natively=True):
        found = [
            read(source, ["id"], {f"{topic}-0": (begin, begin + 5)}).column("id")
            for begin in range(0, 50, 5)
        ]

        assert len(CONSUMERS._resting) == 1
    assert [i for ids in found for i in ids] == list(range(50))


def test_a_range_that_is_read_again_at_once_has_its_records(kafka: KafkaServer) -> None:
    """The place where the consumer stood before is not taken for one of the new assignment."""
    topic = kafka.create_topic()
    kafka.transaction(topic, [b'{"id": 1}', b'{"id": 2}'])
    source = topic_source(kafka, topic)
    for natively in (False, True):
        with reading(natively=natively):
            found = [read(source, ["id"], {f"{topic}-0": (0, 3)}).column("id") for _ in range(20)]

        assert found == [[1, 2]] * 20
