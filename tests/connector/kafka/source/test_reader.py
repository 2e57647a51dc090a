"""Reading ranges from a real broker: every record once, whatever lies between the records."""

from __future__ import annotations

import base64
import gc
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from penstock.catalog.errors import (
    BadRecordError,
    BrokerUnavailableError,
    DataLossError,
    TopicChangedError,
)
from penstock.connector.contract import ReadRequest
from penstock.connector.kafka.client import admin
from penstock.connector.kafka.client.connection import KafkaSplit
from penstock.connector.kafka.client.consumer import CONSUMERS, KafkaConsumer
from penstock.connector.kafka.source import reader as reader_module
from penstock.connector.kafka.source.decode import DecodedRecords, KafkaRecordDecoder
from penstock.connector.source.reader.reader import NothingAvailable, SourceReader
from penstock.connector.source.records import RawRecord, RecordsWithSplitIds
from tests.connector.kafka.reading import (
    open_transaction,
    planned,
    planning,
    read,
    topic_source,
    wait_for_stable_end,
)

if TYPE_CHECKING:
    from penstock.connector.kafka.source.reader import KafkaSplitReader
    from penstock.connector.kafka.source.records import FetchedRecords
    from tests.kafka_server import KafkaServer

NOON_MS = 1_700_000_000_000
BOUNDED = {"scan.bounded.mode": "latest-offset"}


@dataclass
class Fetches:
    """What fetches of a split reader gave: ids and positions by split, and splits that finished."""

    ids: dict[str, list[int]] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Rows with ids in order."""
    return [{"id": number, "name": f"n{number}"} for number in range(first, first + count)]


def encoded(count: int, first: int = 0) -> list[bytes]:
    """The same rows as records."""
    return [
        b'{"id": %d, "name": "n%d"}' % (number, number) for number in range(first, first + count)
    ]


def test_a_topic_is_read_whole_and_in_order(kafka: KafkaServer) -> None:
    """More records than one fetch holds, in several partitions of one reader."""
    topic = kafka.create_topic(partitions=3)
    for partition, count in enumerate((45_000, 10, 0)):
        kafka.produce(
            topic,
            encoded(count, first=partition * 100_000),
            partition=partition,
            enable_idempotence=True,
        )

    result = read(topic_source(kafka, topic), ["id", "name"])

    assert [row["id"] for row in result.rows[f"{topic}-0"]] == list(range(45_000))
    assert result.rows[f"{topic}-1"] == rows(10, first=100_000)
    assert result.finished == {f"{topic}-{partition}" for partition in range(3)}
    assert result.skipped == 0


def test_a_range_holds_what_it_says_and_no_more(kafka: KafkaServer) -> None:
    """Start inclusive, stop exclusive; tasks cut a partition anywhere."""
    topic = kafka.create_topic()
    kafka.produce(topic, encoded(1000), enable_idempotence=True)
    split = f"{topic}-0"
    source = topic_source(kafka, topic)

    assert read(source, ["id"], {split: (0, 333)}).column("id") == list(range(333))
    assert read(source, ["id"], {split: (333, 334)}).column("id") == [333]
    assert read(source, ["id"], {split: (334, 1000)}).column("id") == list(range(334, 1000))
    assert read(source, ["id"], {split: (500, 500)}).all == []


def test_partitions_of_several_topics_share_a_reader(kafka: KafkaServer) -> None:
    """With the same partition numbers."""
    one, two = kafka.create_topic(), kafka.create_topic()
    kafka.produce(one, encoded(100))
    kafka.produce(two, encoded(100, first=100))

    result = read(topic_source(kafka, f"{one};{two}"), ["id"])

    assert [row["id"] for row in result.rows[f"{one}-0"]] == list(range(100))
    assert [row["id"] for row in result.rows[f"{two}-0"]] == list(range(100, 200))


def test_a_count_reads_no_column(kafka: KafkaServer) -> None:
    """Rows without columns are still rows; a tombstone is none."""
    topic = kafka.create_topic()
    kafka.produce(topic, [*encoded(10), None, b"no json at all"])

    result = read(topic_source(kafka, topic), [])

    assert len(result.all) == 11


def test_aborted_transactions_and_markers_are_passed(kafka: KafkaServer) -> None:
    """A bounded read ends though the tail holds only control records and aborted ones (FLINK-34470)."""
    topic = kafka.create_topic()
    kafka.transaction(topic, encoded(5))
    kafka.transaction(topic, encoded(5, first=100), commit=False)
    kafka.transaction(topic, encoded(5, first=5))
    kafka.transaction(topic, encoded(500, first=1000), commit=False)
    wait_for_stable_end(kafka, topic, 5 + 5 + 5 + 500 + 4)

    began = time.monotonic()
    result = read(topic_source(kafka, topic, BOUNDED), ["id"])
    took = time.monotonic() - began

    assert result.column("id") == list(range(10))
    assert took < reader_module.STALLED_AFTER_S / 2


@pytest.mark.parametrize("stop", range(1, 15))
def test_a_stop_may_lie_anywhere_between_gaps(kafka: KafkaServer, stop: int) -> None:
    """On a marker, after it, inside an aborted transaction: offsets 0-2, marker 3, aborted 4-6, 7, 8-10, 11, ..."""
    topic = "gaps"
    if topic not in kafka.admin.list_topics(timeout=10).topics:
        kafka.create_topic(topic)
        for first, commit in ((0, True), (4, False), (8, True), (12, False)):
            kafka.transaction(topic, encoded(3, first=first), commit=commit)

    result = read(topic_source(kafka, topic), ["id"], {f"{topic}-0": (0, stop)})

    assert result.column("id") == [i for i in (0, 1, 2, 8, 9, 10) if i < stop]


def test_uncommitted_records_come_when_asked_for(kafka: KafkaServer) -> None:
    """`properties.isolation.level` is the table's choice."""
    topic = kafka.create_topic()
    kafka.transaction(topic, encoded(3), commit=False)
    kafka.produce(topic, encoded(2, first=10))
    wait_for_stable_end(kafka, topic, 6)

    dirty = {"properties.isolation.level": "read_uncommitted"}

    assert read(topic_source(kafka, topic, BOUNDED), ["id"]).column("id") == [10, 11]
    assert read(topic_source(kafka, topic, {**BOUNDED, **dirty}), ["id"]).column("id") == [
        0,
        1,
        2,
        10,
        11,
    ]


def test_a_compacted_topic_ends_too(kafka: KafkaServer) -> None:
    """Offsets are missing at the start, in the middle and before the stop."""
    topic = kafka.create_topic(
        **{
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.001",
            "delete.retention.ms": "0",
        }
    )
    keys = [b"a", b"b", b"c", b"a", b"b", b"b", b"b"]
    kafka.produce(topic, encoded(7), keys=keys)
    source = topic_source(kafka, topic, BOUNDED)

    def ids() -> list[int]:
        # a new segment makes the old ones cleanable
        kafka.produce(topic, encoded(1, first=99), keys=[b"z"])
        return [i for i in read(source, ["id"]).column("id") if i != 99]

    deadline = time.monotonic() + 60
    while ids() != [2, 3, 6]:
        assert time.monotonic() < deadline, "the broker did not compact the topic"
    split = f"{topic}-0"

    assert read(source, ["id"], {split: (0, 2)}).column("id") == []
    assert read(source, ["id"], {split: (0, 6)}).column("id") == [2, 3]
    assert read(source, ["id"], {split: (4, 6)}).column("id") == []


def test_every_metadata_column(kafka: KafkaServer) -> None:
    """Under names of the table's choice, beside a physical column."""
    topic = kafka.create_topic(partitions=2)
    headers = {"trace": b"\x00\xff", "kind": b"x"}
    for partition in (0, 1):
        kafka.produce(
            topic,
            encoded(2, first=partition * 10),
            partition=partition,
            timestamps_ms=[NOON_MS, NOON_MS + 1],
            headers=headers,
        )
    metadata = {
        "t": ("topic", "STRING NOT NULL"),
        "p": ("partition", "INT NOT NULL"),
        "o": ("offset", "BIGINT NOT NULL"),
        "at": ("timestamp", "TIMESTAMP_LTZ(3) NOT NULL"),
        "kind": ("timestamp-type", "STRING NOT NULL"),
        "epoch": ("leader-epoch", "INT"),
        "h": ("headers", "MAP<STRING NOT NULL, BYTES> NOT NULL"),
        "hl": ("header-list", "ARRAY<ROW<k STRING, v BYTES>> NOT NULL"),
    }

    result = read(topic_source(kafka, topic, metadata=metadata), ["id", *metadata])

    noon = datetime.fromtimestamp(NOON_MS // 1000, UTC)
    assert result.all == [
        {
            "id": partition * 10 + offset,
            "t": topic,
            "p": partition,
            "o": offset,
            "at": noon + timedelta(milliseconds=offset),
            "kind": "CreateTime",
            "epoch": 0,
            "h": [("trace", b"\x00\xff"), ("kind", b"x")],
            "hl": [{"k": "trace", "v": b"\x00\xff"}, {"k": "kind", "v": b"x"}],
        }
        for partition in (0, 1)
        for offset in (0, 1)
    ]


def test_headers_keep_nulls_and_order_and_the_map_the_last_of_a_name(kafka: KafkaServer) -> None:
    """As in Flink."""
    topic = kafka.create_topic()
    producer = Producer(kafka.client_settings())
    headers = [("a", b"1"), ("b", None), ("a", b"2")]
    producer.produce(topic, b"{}", headers=headers)
    assert producer.flush(10) == 0
    metadata = {
        "h": ("headers", "MAP<STRING, BYTES>"),
        "hl": ("header-list", "ARRAY<ROW<key STRING, v BYTES>>"),
    }

    (row,) = read(topic_source(kafka, topic, metadata=metadata), ["h", "hl"]).all

    assert row["hl"] == [{"key": name, "v": value} for name, value in headers]
    assert dict(row["h"]) == {"a": b"2", "b": None}


def test_an_array_of_objects_gives_several_rows_of_one_record(kafka: KafkaServer) -> None:
    """Each with the record's key and metadata (Flink's JSON format explodes arrays)."""
    topic = kafka.create_topic()
    kafka.produce(
        topic,
        [b'[{"id": 1}, {"id": 2}]', b'{"id": 3}', b"[]", b'{"id": 4}'],
        keys=[b'{"id": 10}', b'{"id": 11}', b'{"id": 12}', b'{"id": 13}'],
    )
    source = topic_source(
        kafka,
        topic,
        EXCEPT_KEY,
        columns={"k_id": "BIGINT", "id": "BIGINT"},
        metadata={"o": ("offset", "BIGINT")},
    )

    rows_ = read(source, ["o", "k_id", "id"]).all

    assert [tuple(row.values()) for row in rows_] == [
        (0, 10, 1),
        (0, 10, 2),
        (1, 11, 3),
        (3, 13, 4),
    ]


def test_metadata_alone_decodes_nothing(kafka: KafkaServer) -> None:
    """Offsets of records that are no JSON."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b"x", b"y"])

    source = topic_source(
        kafka, topic, metadata={"o": ("offset", "BIGINT"), "h": ("headers", "MAP<STRING, BYTES>")}
    )

    assert read(source, ["o", "h"]).all == [{"o": 0, "h": []}, {"o": 1, "h": []}]


KEY = {"key.format": "json", "key.fields": "k_id"}
EXCEPT_KEY = {**KEY, "key.fields-prefix": "k_", "value.fields-include": "EXCEPT_KEY"}


def test_key_columns_come_from_the_key(kafka: KafkaServer) -> None:
    """With a prefix that only the table has; the order is the table's."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b'{"id": 1, "name": "x"}'], keys=[b'{"id": 7}'])
    columns = {"name": "STRING", "k_id": "BIGINT", "id": "BIGINT"}

    source = topic_source(kafka, topic, EXCEPT_KEY, columns=columns)

    assert read(source, ["name", "k_id", "id"]).all == [{"name": "x", "k_id": 7, "id": 1}]
    assert read(source, ["k_id"]).all == [{"k_id": 7}]
    assert read(source, ["id"]).all == [{"id": 1}]


def test_a_column_of_key_and_value_comes_from_the_value(kafka: KafkaServer) -> None:
    """value.fields-include = ALL, Flink's default."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b'{"k_id": 1}'], keys=[b'{"k_id": 7}'])

    source = topic_source(kafka, topic, KEY, columns={"k_id": "BIGINT"})

    assert read(source, ["k_id"]).all == [{"k_id": 1}]


def test_records_without_key_or_value_give_no_row_where_the_format_needs_one(
    kafka: KafkaServer,
) -> None:
    """As in Flink; rows and metadata of the others stay together."""
    topic = kafka.create_topic()
    keys = [b'{"id": 0}', None, b'{"id": 2}', b'{"id": 3}']
    kafka.produce(topic, [b'{"id": 10}', b'{"id": 11}', None, b'{"id": 13}'], keys=keys)
    source = topic_source(
        kafka,
        topic,
        EXCEPT_KEY,
        columns={"k_id": "BIGINT", "id": "BIGINT"},
        metadata={"o": ("offset", "BIGINT")},
    )

    result = read(source, ["k_id", "id", "o"])

    assert result.all == [{"k_id": 0, "id": 10, "o": 0}, {"k_id": 3, "id": 13, "o": 3}]


def test_raw_keys_and_values(kafka: KafkaServer) -> None:
    """The format raw gives NULL for what is missing."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b"x", b"y"], keys=[b"k", None])
    options = {
        "format": None,
        "value.format": "raw",
        "key.format": "raw",
        "key.fields": "k",
        "value.fields-include": "EXCEPT_KEY",
    }

    source = topic_source(kafka, topic, options, columns={"k": "STRING", "v": "BYTES"})

    assert read(source, ["k", "v"]).all == [{"k": "k", "v": b"x"}, {"k": None, "v": b"y"}]


def test_a_bad_record_is_named_and_fails(kafka: KafkaServer) -> None:
    """Topic, partition and offset."""
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, encoded(10), partition=0)
    kafka.produce(topic, [*encoded(3), b"oops", *encoded(3)], partition=1)

    with pytest.raises(BadRecordError) as caught:
        read(topic_source(kafka, topic), ["id"])

    assert f"topic {topic}, partition 1, offset 3" in caught.value.message


def test_bad_records_are_left_out_and_counted_when_told_so(kafka: KafkaServer) -> None:
    """They never cost a good one, and rows keep their own metadata."""
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, [b"oops", *encoded(2, first=1), b"[1,", b'{"id": 4}'], partition=0)
    kafka.produce(topic, [b'{"id": 0}', b"nope"], partition=1)
    source = topic_source(
        kafka, topic, {"json.ignore-parse-errors": "true"}, metadata={"o": ("offset", "BIGINT")}
    )

    result = read(source, ["id", "o"])

    assert source.skips_bad_records
    assert result.all == [{"id": i, "o": i} for i in (1, 2, 4, 0)]
    assert result.skipped == 3


def test_deleted_records_fail_a_read(kafka: KafkaServer) -> None:
    """Between planning and reading retention may strike; both offsets are named."""
    topic = kafka.create_topic()
    kafka.produce(topic, encoded(100))
    ranges = {f"{topic}-0": (10, 100)}
    kafka.delete_records(topic, {0: 60})

    with pytest.raises(
        DataLossError, match=r"offset 10, but the log starts at offset 60: 50 offsets"
    ):
        read(topic_source(kafka, topic), ["id"], ranges)


def test_deleted_records_are_passed_when_told_so(
    kafka: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning that counts them; a range that is gone altogether ends."""
    topic = kafka.create_topic()
    kafka.produce(topic, encoded(100))
    kafka.delete_records(topic, {0: 60})
    source = topic_source(kafka, topic, {"scan.on-data-loss": "continue"})

    found = read(source, ["id"], {f"{topic}-0": (10, 100)})
    gone = read(source, ["id"], {f"{topic}-0": (10, 50)})

    assert (found.column("id"), found.lost) == (list(range(60, 100)), 50)
    assert (gone.all, gone.lost) == ([], 40)  # what is behind the range is not lost by it
    assert "50 offsets from 10 were deleted before they were read" in caplog.text


def test_a_range_that_is_gone_ends_beside_one_that_is_read(kafka: KafkaServer) -> None:
    """It is taken off the consumer, which reads on."""
    topic = kafka.create_topic(partitions=2)
    for partition in (0, 1):
        kafka.produce(topic, encoded(30_000), partition=partition, enable_idempotence=True)
    kafka.delete_records(topic, {0: 60})
    source = topic_source(kafka, topic, {"scan.on-data-loss": "continue"})

    found = read(source, ["id"], {f"{topic}-0": (10, 50), f"{topic}-1": (0, 30_000)})

    assert found.column("id") == list(range(30_000))


def test_a_log_that_is_shorter_than_planned_fails_a_read(kafka: KafkaServer) -> None:
    """A truncated log, or another topic of that name with fewer records."""
    topic = kafka.create_topic()
    kafka.produce(topic, encoded(10))

    with pytest.raises(DataLossError, match=r"offset 50 was there .* now ends at offset 10"):
        read(topic_source(kafka, topic), ["id"], {f"{topic}-0": (50, 60)})


def test_a_log_that_ends_inside_a_range_fails_a_read(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a wait: the broker may only be late. Where loss is tolerated the range ends there."""
    topic = kafka.create_topic()
    kafka.produce(topic, encoded(10))
    monkeypatch.setattr(reader_module, "STALLED_AFTER_S", 0.3)
    ranges = {f"{topic}-0": (0, 60)}

    with pytest.raises(DataLossError, match=r"offset 59 was there .* now ends at offset 10"):
        read(topic_source(kafka, topic), ["id"], ranges)
    tolerant = topic_source(kafka, topic, {"scan.on-data-loss": "continue"})
    assert read(tolerant, ["id"], ranges).column("id") == list(range(10))
    assert read(tolerant, ["id"], ranges).lost == 50
    assert "the log ends at 10, before offset 59" in caplog.text


def test_a_read_that_waits_for_an_open_transaction_names_it(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no end of the range: waiting may help, so the error may pass."""
    topic = kafka.create_topic()
    kafka.produce(topic, encoded(3))
    monkeypatch.setattr(reader_module, "STALLED_AFTER_S", 0.3)

    with (
        open_transaction(kafka, topic, [b"{}"] * 2),
        pytest.raises(BrokerUnavailableError) as caught,
    ):
        read(topic_source(kafka, topic), ["id"], {f"{topic}-0": (0, 5)})

    assert (
        "reading waits at offset 3 for offset 5, but the last stable offset is 3"
        in caught.value.message
    )
    assert not caught.value.permanent


def test_a_topic_deleted_under_a_read_is_named(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a wait without end."""
    topic = kafka.create_topic()
    kafka.produce(topic, encoded(3))
    kafka.delete_topic(topic)
    monkeypatch.setattr(reader_module, "STALLED_AFTER_S", 0.3)

    with pytest.raises(TopicChangedError, match=f"topic '{topic}' was deleted while it was read"):
        read(topic_source(kafka, topic), ["id"], {f"{topic}-0": (0, 3)})


def test_consumers_are_kept_for_the_next_reader(kafka: KafkaServer) -> None:
    """Whatever that one reads; a failed one is not kept."""
    one, two = kafka.create_topic(), kafka.create_topic()
    kafka.produce(one, encoded(50_000), enable_idempotence=True)
    kafka.produce(two, [*encoded(10), b"oops"])
    CONSUMERS.clear()

    assert read(topic_source(kafka, one), ["id"], {f"{one}-0": (0, 100)}).column("id") == list(
        range(100)
    )
    (kept,) = CONSUMERS._resting
    assert read(topic_source(kafka, two), ["id"], {f"{two}-0": (0, 10)}).column("id") == list(
        range(10)
    )
    assert [r.consumer for r in CONSUMERS._resting] == [kept.consumer]
    with pytest.raises(BadRecordError):
        read(topic_source(kafka, two), ["id"])
    assert CONSUMERS._resting == []


@pytest.mark.parametrize(("length", "few"), [(3, True), (reader_module.FEW_RECORDS + 1, False)])
def test_ranges_of_few_records_are_read_by_a_client_that_fetches_little_ahead(
    kafka: KafkaServer, length: int, few: bool
) -> None:
    """What it fetches behind a range is thrown away; a table's own settings stay in both."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b'{"id": 1}'])
    source = topic_source(kafka, topic, {"properties.max.partition.fetch.bytes": "1000000"})
    CONSUMERS.clear()
    reader = source.open_reader(ReadRequest(columns=("id",)))
    with planning(source) as planner:
        reader.add_splits([planner.split(f"{topic}-0", 0, length)])
    reader.fetch()
    reader.close()

    (rested,) = CONSUMERS._resting
    settings = dict(rested.consumer.connection.settings)
    assert (settings["queued.min.messages"] == "1000") == few
    assert settings["max.partition.fetch.bytes"] == "1000000"


def test_nothing_is_fetched_while_the_last_records_are_decoded(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range that is at its end is no longer assigned, be it the last one."""
    topic = kafka.create_topic(partitions=2)
    for partition in (0, 1):
        kafka.produce(topic, [b'{"id": 1}', b'{"id": 2}'], partition=partition)
    source = topic_source(kafka, topic)
    reader = source.open_reader(ReadRequest(columns=("id",)))
    decode = reader._decoder.decode
    assigned: list[int] = []

    def look_and_decode(records: FetchedRecords) -> DecodedRecords:
        assert reader._consumer is not None
        assigned.append(len(reader._consumer._consumer.assignment()))
        return decode(records)

    monkeypatch.setattr(reader._decoder, "decode", look_and_decode)
    with planning(source) as planner:
        reader.add_splits([planner.split(f"{topic}-{n}", 0, 1) for n in (0, 1)])
    finished: set[str] = set()
    deadline = time.monotonic() + 30
    while len(finished) < 2:
        assert time.monotonic() < deadline, f"only {finished}"
        finished |= reader.fetch().finished
    reader.close()

    assert assigned[-1] == 0


def test_a_consumer_that_failed_to_pause_is_not_kept(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows what it reads now; the error comes as it is."""
    topic = kafka.create_topic()
    CONSUMERS.clear()
    reader = opened(kafka, topic)
    reader.add_splits([endless(topic)])

    def refuse(*_: object) -> None:
        raise BrokerUnavailableError("no")

    monkeypatch.setattr(KafkaConsumer, "remove", refuse)
    with pytest.raises(BrokerUnavailableError, match="no"):
        reader.pause_or_resume([f"{topic}-0"], [])
    reader.close()

    assert CONSUMERS._resting == []


def test_a_fetch_that_waits_is_woken(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another thread, which is how a task ends early."""
    topic = kafka.create_topic()
    reader = topic_source(kafka, topic).open_reader(ReadRequest(columns=("id",)))
    reader.add_splits([KafkaSplit(split_id=f"{topic}-0", start=0, topic=topic, partition=0)])
    reader.fetch()

    monkeypatch.setattr(reader_module, "FETCH_S", 60.0)
    began = time.monotonic()
    timer = threading.Timer(0.1, reader.wake_up)
    timer.start()
    records = reader.fetch()
    took = time.monotonic() - began
    timer.join()
    reader.close()

    assert records.batches == ()
    assert took < reader_module.FETCH_S / 2


def test_the_garbage_collector_stands_still_while_records_are_decoded(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would look at the messages of a fetch again and again."""
    topic = kafka.create_topic()
    kafka.produce(topic, encoded(10))
    seen = []

    def look(decoder: KafkaRecordDecoder, records: FetchedRecords) -> DecodedRecords:
        seen.append(gc.isenabled())
        return decode(decoder, records)

    decode = KafkaRecordDecoder.decode
    monkeypatch.setattr(KafkaRecordDecoder, "decode", look)
    was_on = gc.isenabled()
    gc.enable()
    try:
        found = read(topic_source(kafka, topic), ["id"]).column("id")
        after = gc.isenabled()
    finally:
        if not was_on:
            gc.disable()

    assert found == list(range(10))
    assert seen
    assert not any(seen)
    assert after


def test_a_paused_split_stands_still_and_goes_on_where_it_was(kafka: KafkaServer) -> None:
    """FLIP-217; ids that are not read are ignored."""
    topic = kafka.create_topic(partitions=2)
    for partition in (0, 1):
        kafka.produce(topic, encoded(10, first=partition * 100), partition=partition)
    reader = topic_source(kafka, topic).open_reader(ReadRequest(columns=("id",)))
    splits = [
        KafkaSplit(split_id=f"{topic}-{p}", start=0, stop=20, topic=topic, partition=p)
        for p in (0, 1)
    ]
    got: dict[str, list[int]] = {split.split_id: [] for split in splits}

    def fetch_until(split_id: str, count: int) -> None:
        deadline = time.monotonic() + 20
        while len(got[split_id]) < count:
            assert time.monotonic() < deadline
            for found, batch in reader.fetch().batches:
                got[found] += batch.column("id").to_pylist()

    reader.add_splits(splits)
    reader.pause_or_resume([f"{topic}-1", "unknown-7"], [])
    fetch_until(f"{topic}-0", 10)
    assert got[f"{topic}-1"] == []
    reader.pause_or_resume([f"{topic}-0"], [f"{topic}-1"])
    kafka.produce(topic, encoded(10, first=10), partition=0)
    fetch_until(f"{topic}-1", 10)
    assert len(got[f"{topic}-0"]) == 10
    reader.pause_or_resume([], [f"{topic}-0"])
    fetch_until(f"{topic}-0", 20)
    reader.close()

    assert got == {f"{topic}-0": list(range(20)), f"{topic}-1": list(range(100, 110))}


def endless(topic: str, partition: int = 0, *, start: int = 0) -> KafkaSplit:
    """A partition from an offset on, without an end."""
    return KafkaSplit(
        split_id=f"{topic}-{partition}", start=start, topic=topic, partition=partition
    )


def opened(kafka: KafkaServer, topic: str) -> KafkaSplitReader:
    """A split reader of the column `id`."""
    return topic_source(kafka, topic).open_reader(ReadRequest(columns=("id",)))


def fetched_until(
    reader: KafkaSplitReader, reached: Callable[[Fetches], bool], got: Fetches | None = None
) -> Fetches:
    """Fetch until a condition holds, and close the reader if it does not in time."""
    got = got or Fetches()
    deadline = time.monotonic() + 20
    while not reached(got):
        assert time.monotonic() < deadline, f"only {got}"
        records = reader.fetch()
        got.positions |= records.positions
        got.finished |= records.finished
        for split_id, batch in records.batches:
            got.ids.setdefault(split_id, []).extend(batch.column("id").to_pylist())
    return got


def test_a_fetch_says_how_far_each_split_was_read(kafka: KafkaServer) -> None:
    """The next offset; a stop is never passed, though records behind it were fetched."""
    topic = kafka.create_topic(partitions=2)
    for partition in (0, 1):
        kafka.produce(topic, encoded(10), partition=partition)
    reader = opened(kafka, topic)
    bounded = KafkaSplit(split_id=f"{topic}-1", start=2, stop=5, topic=topic, partition=1)

    reader.add_splits([endless(topic), bounded])
    got = fetched_until(reader, lambda got: got.positions == {f"{topic}-0": 10, f"{topic}-1": 5})
    reader.close()

    assert got.ids == {f"{topic}-0": list(range(10)), f"{topic}-1": [2, 3, 4]}
    assert got.finished == {f"{topic}-1"}


def test_positions_pass_control_records(kafka: KafkaServer) -> None:
    """A reader that has everything stands at the end of the log: no false lag (FLINK-33484)."""
    topic = kafka.create_topic()
    kafka.transaction(topic, encoded(3))
    kafka.transaction(topic, encoded(3, first=100), commit=False)
    wait_for_stable_end(kafka, topic, 8)
    reader = opened(kafka, topic)

    reader.add_splits([endless(topic)])
    got = fetched_until(reader, lambda got: got.positions.get(f"{topic}-0") == 8)
    reader.close()

    assert got.ids == {f"{topic}-0": [0, 1, 2]}


def test_splits_come_in_steps_and_the_others_stay_where_they_are(kafka: KafkaServer) -> None:
    """A running reader takes on more, also a partition again that it has read to a stop."""
    topic = kafka.create_topic(partitions=3)
    for partition in range(3):
        kafka.produce(topic, encoded(10, first=partition * 100), partition=partition)
    first = KafkaSplit(split_id=f"{topic}-0", start=0, stop=4, topic=topic, partition=0)
    reader = opened(kafka, topic)

    reader.add_splits([first])
    got = fetched_until(reader, lambda got: got.finished == {f"{topic}-0"})
    reader.add_splits([endless(topic, 0, start=4)])
    fetched_until(reader, lambda got: len(got.ids[f"{topic}-0"]) == 10, got)
    reader.add_splits([endless(topic, 1), endless(topic, 2)])
    kafka.produce(topic, encoded(5, first=10), partition=0)
    counts = {f"{topic}-0": 15, f"{topic}-1": 10, f"{topic}-2": 10}
    fetched_until(reader, lambda got: {i: len(ids) for i, ids in got.ids.items()} == counts, got)
    reader.close()

    assert got.ids[f"{topic}-0"] == list(range(15))
    assert got.ids[f"{topic}-2"] == list(range(200, 210))


def test_a_split_added_after_a_wake_up_is_read(kafka: KafkaServer) -> None:
    """A wake-up that no fetch took yet only shortens the next one."""
    topic = kafka.create_topic()
    kafka.produce(topic, encoded(10))
    reader = opened(kafka, topic)

    reader.wake_up()
    woken = reader.fetch()
    reader.wake_up()
    reader.add_splits([endless(topic)])
    got = fetched_until(reader, lambda got: len(got.ids.get(f"{topic}-0", ())) == 10)
    reader.close()

    assert woken.batches == ()
    assert got.ids == {f"{topic}-0": list(range(10))}


def test_pausing_a_partition_that_is_gone_is_harmless(kafka: KafkaServer) -> None:
    """Finished, unknown, paused twice or resumed twice (FLINK-39728)."""
    topic = kafka.create_topic(partitions=2)
    for partition in (0, 1):
        kafka.produce(topic, encoded(10), partition=partition)
    ended = KafkaSplit(split_id=f"{topic}-0", start=0, stop=5, topic=topic, partition=0)
    reader = opened(kafka, topic)

    reader.add_splits([ended, endless(topic, 1)])
    got = fetched_until(reader, lambda got: got.finished == {f"{topic}-0"})
    for pause, resume in (([ended.split_id], []), ([], [ended.split_id]), (["x-1"], ["x-1"])):
        reader.pause_or_resume(pause, resume)
    for pause, resume in 2 * [([f"{topic}-1"], [])] + 2 * [([], [f"{topic}-1"])]:
        reader.pause_or_resume(pause, resume)
    fetched_until(reader, lambda got: len(got.ids.get(f"{topic}-1", ())) == 10, got)
    reader.close()

    assert got.ids == {f"{topic}-0": list(range(5)), f"{topic}-1": list(range(10))}


def test_a_quiet_split_without_an_end_is_not_stalled(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long nothing comes, empty topic included; then the next record does."""
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, encoded(3))
    monkeypatch.setattr(reader_module, "STALLED_AFTER_S", 0.1)
    reader = opened(kafka, topic)

    reader.add_splits([endless(topic, 0), endless(topic, 1)])
    got = fetched_until(reader, lambda got: got.positions == {f"{topic}-0": 3})
    quiet = [reader.fetch() for _ in range(2)]
    kafka.produce(topic, encoded(1, first=3))
    fetched_until(reader, lambda got: len(got.ids[f"{topic}-0"]) == 4, got)
    reader.close()

    assert [records.positions for records in quiet] == [{}, {}]


def test_a_log_that_lost_what_an_endless_split_has_read_fails_unless_told_otherwise(
    kafka: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Where loss is tolerated it goes on at the end of the log, and takes what comes there."""
    topic = kafka.create_topic()
    kafka.produce(topic, encoded(10))
    strict = opened(kafka, topic)
    strict.add_splits([endless(topic, start=50)])
    with pytest.raises(DataLossError, match="now ends at offset 10"):
        fetched_until(strict, lambda _: False)
    tolerant = topic_source(kafka, topic, {"scan.on-data-loss": "continue"})
    reader = tolerant.open_reader(ReadRequest(columns=("id",)))

    reader.add_splits([endless(topic, start=50)])
    got = fetched_until(reader, lambda got: got.positions == {f"{topic}-0": 10})
    kafka.produce(topic, encoded(2, first=10))
    fetched_until(reader, lambda got: got.positions == {f"{topic}-0": 12}, got)
    reader.close()

    assert got.ids == {f"{topic}-0": [10, 11]}
    assert "the log ends at 10, before offset 50" in caplog.text


def test_the_runtime_reads_on_as_records_and_splits_come(kafka: KafkaServer) -> None:
    """Continuously: a later partition joins, one is paused, and the snapshot says where each goes on."""
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, encoded(10), partition=0)
    ids: dict[str, list[int]] = {f"{topic}-0": [], f"{topic}-1": []}
    deadline = time.monotonic() + 30

    def read_until(reader: SourceReader, split_id: str, count: int) -> None:
        while len(ids[split_id]) < count:
            assert time.monotonic() < deadline, f"only {ids}"
            polled = reader.poll_next()
            if isinstance(polled, NothingAvailable):
                reader.wait_available(1)
                continue
            assert isinstance(polled, RecordsWithSplitIds)
            for found, batch in polled.batches:
                ids[found] += batch.column("id").to_pylist()

    with SourceReader(lambda: opened(kafka, topic)) as reader:
        reader.add_splits([endless(topic, 0)])
        read_until(reader, f"{topic}-0", 10)
        kafka.produce(topic, encoded(5), partition=1)
        reader.add_splits([endless(topic, 1)])
        read_until(reader, f"{topic}-1", 5)
        reader.pause_or_resume_splits([f"{topic}-0"], [])
        kafka.produce(topic, encoded(5, first=10), partition=0)
        kafka.produce(topic, encoded(5, first=5), partition=1)
        read_until(reader, f"{topic}-1", 10)
        left = reader.snapshot_state(1)
        reader.pause_or_resume_splits([], [f"{topic}-0"])
        read_until(reader, f"{topic}-0", 15)

    assert left == (endless(topic, 0, start=10), endless(topic, 1, start=10))
    assert ids == {f"{topic}-0": list(range(15)), f"{topic}-1": list(range(10))}


@pytest.mark.slow
def test_a_broker_that_is_killed_and_comes_back_costs_a_read_only_time(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client reconnects by itself; planning waits for the broker as well."""
    # on a busy machine a broker takes longer to come back than planning waits
    monkeypatch.setattr(admin, "GIVE_UP_AFTER_S", 120.0)
    topic = kafka.create_topic()
    kafka.produce(topic, encoded(100))
    source = topic_source(kafka, topic)
    split = KafkaSplit(split_id=f"{topic}-0", start=0, stop=200, topic=topic, partition=0)
    ids: list[int] = []
    reader = source.open_reader(ReadRequest(columns=("id",)))
    reader.add_splits([split])
    with planning(source) as planner:
        while len(ids) < 100:
            ids += [
                i for _, batch in reader.fetch().batches for i in batch.column("id").to_pylist()
            ]
        kafka.broker.kill()
        threading.Timer(1.0, kafka.broker.start).start()
        assert reader.fetch().batches == ()
        assert planner.extents([split.split_id])[split.split_id].end == 100
        kafka.produce(topic, encoded(100, first=100))
        while len(ids) < 200:
            ids += [
                i for _, batch in reader.fetch().batches for i in batch.column("id").to_pylist()
            ]
    reader.close()

    assert ids == list(range(200))


def test_the_runtime_reads_a_table_to_its_end(kafka: KafkaServer) -> None:
    """Through the source reader and its fetcher thread, as a task does."""
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, encoded(30_000), partition=0)
    source = topic_source(kafka, topic, BOUNDED)
    with planning(source) as planner:
        splits = [planner.split(i, *offsets) for i, offsets in sorted(planned(planner).items())]
    request = ReadRequest(columns=("id",))
    ids: list[int] = []

    with SourceReader(lambda: source.open_reader(request)) as reader:
        reader.add_splits(splits)
        reader.notify_no_more_splits()
        for records in reader.read_to_end():
            for _, batch in records.batches:
                ids += batch.column("id").to_pylist()

    assert ids == list(range(30_000))


def test_rows_have_exactly_the_types_of_the_table(kafka: KafkaServer) -> None:
    """Spark checks only the first batch of a task and trusts the others."""
    topic = kafka.create_topic()
    value = base64.b64encode(b"xyz").decode()
    kafka.produce_json(topic, [{"b": value, "d": "1.50", "n": {"x": [1, 2]}}])
    columns = {"b": "BYTES NOT NULL", "d": "DECIMAL(10, 2)", "n": "ROW<x ARRAY<INT>>"}
    source = topic_source(kafka, topic, columns=columns)
    with planning(source) as planner:
        (split,) = (planner.split(i, *o) for i, o in planned(planner).items())
    reader = source.open_reader(ReadRequest(columns=("d", "b", "n")))
    reader.add_splits([split])
    batches = [batch for _ in range(3) for _, batch in reader.fetch().batches]
    reader.close()

    (batch,) = batches
    assert batch.schema.names == ["d", "b", "n"]
    assert [str(field.type) for field in batch.schema] == [
        "decimal128(10, 2)",
        "binary",
        "struct<x: list<element: int32>>",
    ]
    assert not batch.schema.field("b").nullable


@pytest.mark.parametrize("count", [1, 2], ids=["one partition", "several"])
def test_rows_lead_back_to_their_records(kafka: KafkaServer, count: int) -> None:
    """Where the request asks for it: offset, key and value, with bad records and arrays among them."""
    topic = kafka.create_topic(partitions=count)
    values = [b'{"id": 1}', b"bad", b'[{"id": 2}, {"id": 3}]', b'{"id": 4}']
    for partition in range(count):
        kafka.produce(topic, values, partition=partition, keys=[b"a", None, b"c", None])
    source = topic_source(kafka, topic, {"json.ignore-parse-errors": "true"})
    with planning(source) as planner:
        splits = [planner.split(f"{topic}-{p}", 0, 4) for p in range(count)]
    found: dict[tuple[str, int], RawRecord] = {}
    with closing(source.open_reader(ReadRequest(columns=("id",), origins=True))) as reader:
        reader.add_splits(splits)
        finished: set[str] = set()
        while len(finished) < count:
            records = reader.fetch()
            finished |= records.finished
            for split_id, batch in records.batches:
                raw = records.origins[split_id].of(range(batch.num_rows))
                numbers = batch["id"].to_pylist()
                found |= {(split_id, n): r for n, r in zip(numbers, raw, strict=True)}

    last = f"{topic}-{count - 1}"
    assert len(found) == 4 * count
    assert {n: (r.position, r.key, r.value) for (i, n), r in found.items() if i == last} == {
        1: (0, b"a", values[0]),
        2: (2, b"c", values[2]),
        3: (2, b"c", values[2]),
        4: (3, None, values[3]),
    }
    assert found[last, 4].where == f"topic {topic}, partition {count - 1}, offset 3"


def test_raw_records_are_kept_only_where_they_are_asked_for(kafka: KafkaServer) -> None:
    """They would cost memory."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b'{"id": 1}'])
    source = topic_source(kafka, topic)
    with planning(source) as planner:
        split = planner.split(f"{topic}-0", 0, 1)
    with closing(source.open_reader(ReadRequest(columns=("id",)))) as reader:
        reader.add_splits([split])
        fetches = [reader.fetch()]
        while not fetches[-1].batches:
            fetches.append(reader.fetch())

    assert fetches[-1].origins == {}
