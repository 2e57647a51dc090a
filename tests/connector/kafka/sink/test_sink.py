"""Rows into topics without transactions: keys, metadata, partitioners, upserts; what a broker refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from penstock.catalog.errors import InputError, SinkError, StateMismatchError, decode_failure
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.dead_letters.backends import HEADERS, encode_dead_letters
from penstock.connector.dead_letters.table import define_dead_letter_topic
from penstock.connector.kafka.connector import describe
from penstock.connector.kafka.sink import kafka_sink
from penstock.connector.kafka.sink import sink as sink_module
from penstock.connector.kafka.sink.batch_files import check_remembered, first_attempt_ms
from penstock.connector.kafka.sink.protocol import Marker
from penstock.connector.options.bad_records import KafkaTopic
from tests.connector.kafka.sink.test_settings import UPSERT
from tests.connector.kafka.sink.writing import (
    KEYED,
    ONCE,
    batch_of,
    committed,
    made_sink,
    sink_into,
    values,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.connector.kafka.sink.client import SinkAdmin
    from tests.kafka_server import KafkaServer

INSERT, BEFORE, AFTER, DELETE = (kind.value for kind in RowKind)


def changes(spark: SparkSession, *rows: tuple[int, str | None, int]) -> DataFrame:
    """Changes in one partition, in order: id, name, kind."""
    schema = f"id BIGINT, name STRING, {ROW_KIND} TINYINT"
    return spark.createDataFrame(list(rows), schema).coalesce(1)


def test_at_least_once_writes_all_rows(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """Of every task; the key goes into the key, and with EXCEPT_KEY not into the value."""
    name = topic(partitions=3)
    sink = sink_into(kafka, name, {**KEYED, "value.fields-include": "EXCEPT_KEY"})
    sink.write(spark.range(0, 100, 1, 4).selectExpr("id", "concat('n', id) AS name"))
    found = committed(kafka, name, 3)

    assert sorted((m.key(), m.value()) for m in found) == sorted(
        (b'{"id":%d}' % i, b'{"name":"n%d"}' % i) for i in range(100)
    )


def test_timestamp_and_headers_are_written(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """A NULL timestamp is the time of writing (FLINK-25916: it was an error in a buffered sink); NULL header values stay."""
    name = topic()
    metadata = {"at": ("timestamp", "TIMESTAMP_LTZ(3)"), "h": ("headers", "MAP<STRING, BYTES>")}
    sink = sink_into(kafka, name, {}, metadata=metadata)
    query = """SELECT 1L AS id, 'a' AS name, timestamp'2020-01-01 00:00:00.5' AS at, map('x', X'01', 'y', NULL) AS h
        UNION ALL SELECT 2L, 'b', NULL, NULL"""
    sink.write(spark.sql(query))
    first, second = sorted(committed(kafka, name), key=lambda m: m.value() or b"")
    half_past = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp() * 1000) + 500

    assert first.timestamp()[1] == half_past
    assert first.headers() == [("x", b"\x01"), ("y", None)]
    assert second.timestamp()[1] > half_past
    assert not second.headers()


def test_a_buffered_upsert_with_a_null_timestamp_is_written(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """The last change of each key alone (FK#5)."""
    name = topic()
    buffer = {"sink.buffer-flush.max-rows": "9", "sink.buffer-flush.interval": "1s"}
    sink = sink_into(
        kafka,
        name,
        {**UPSERT, **buffer},
        columns={"id": "BIGINT NOT NULL", "name": "STRING"},
        metadata={"at": ("timestamp", "TIMESTAMP_LTZ(3)")},
        key=("id",),
        upsert=True,
    )
    frame = changes(spark, (1, "a", INSERT), (1, "b", AFTER), (2, "c", INSERT), (2, None, DELETE))
    sink.write(frame.selectExpr("*", "CAST(NULL AS TIMESTAMP) AS at"))

    assert {m.key(): m.value() for m in committed(kafka, name)} == {
        b'{"id":1}': b'{"id":1,"name":"b"}',
        b'{"id":2}': None,
    }
    assert len(committed(kafka, name)) == 2


def test_upserts_write_tombstones_and_keep_the_order_of_a_key(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """A row before an update is passed over, unless the key has nothing after it."""
    name = topic()
    sink = sink_into(
        kafka,
        name,
        UPSERT,
        columns={"id": "BIGINT NOT NULL", "name": "STRING"},
        key=("id",),
        upsert=True,
    )
    sink.write(
        changes(
            spark,
            (1, "a", INSERT),
            (2, "x", INSERT),
            (1, "a", BEFORE),
            (1, "b", AFTER),
            (2, "x", BEFORE),
            (1, None, DELETE),
        )
    )
    by_key: dict[bytes, list[bytes | None]] = {}
    for message in committed(kafka, name):
        by_key.setdefault(bytes(message.key() or b""), []).append(message.value())

    assert by_key == {
        b'{"id":1}': [b'{"id":1,"name":"a"}', b'{"id":1,"name":"b"}', None],
        b'{"id":2}': [b'{"id":2,"name":"x"}', None],
    }


def test_changes_without_a_key_stay_together_in_their_order(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """Nothing else tells which of them are of one row."""
    name = topic(partitions=2)
    sink = sink_into(kafka, name, {"format": "debezium-json"})
    sink.write(
        changes(spark, (1, "a", INSERT), (1, "a", BEFORE), (1, "b", AFTER), (2, "x", DELETE))
    )
    found = committed(kafka, name, 2)

    assert {message.partition() for message in found} == {0}
    assert [bytes(message.value() or b"")[-4:] for message in found] == [
        b'"c"}',
        b'"d"}',
        b'"c"}',
        b'"d"}',
    ]


def test_a_fixed_partitioner_gives_each_task_a_partition(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """Task modulo partitions."""
    name = topic(partitions=2)
    sink = sink_into(kafka, name, {"sink.partitioner": "fixed"})
    sink.write(spark.range(0, 4, 1, 4).selectExpr("id", "'n' AS name"))
    found = {bytes(m.value() or b"")[:7]: m.partition() for m in committed(kafka, name, 2)}

    assert found == {b'{"id":%d' % i: i % 2 for i in range(4)}


def test_a_row_says_its_topic_and_only_those_of_the_table_are_taken(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """Of the list."""
    one, two = topic(), topic()
    metadata = {"place": ("topic", "STRING")}
    sink = sink_into(kafka, f"{one};{two}", {}, metadata=metadata)
    rows = spark.createDataFrame(
        [(1, "a", one), (2, "b", two)], "id BIGINT, name STRING, place STRING"
    )
    sink.prepare(spark, rows.schema)
    sink.write(rows)

    assert (len(values(kafka, one)), len(values(kafka, two))) == (1, 1)
    with pytest.raises(Exception, match=r"has to be one of .* and is elsewhere"):
        sink.write(rows.selectExpr("id", "name", "'elsewhere' AS place"))


def test_a_record_that_the_broker_refuses_fails_the_write(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """With the topic and the reason."""
    name = topic(**{"max.message.bytes": "1000"})
    sink = sink_into(kafka, name)

    with pytest.raises(Exception, match="too large") as caught:
        sink.write(spark.sql("SELECT 1L AS id, repeat('x', 5000) AS name"))
    failure = decode_failure(str(caught.value))
    assert isinstance(failure, SinkError)
    assert f"topic '{name}'" in failure.message


def test_a_topic_that_is_not_there_is_the_users_mistake(
    spark: SparkSession, kafka: KafkaServer
) -> None:
    """A sink makes no topics: a slip of the pen would become one."""
    with pytest.raises(InputError, match="has no topic 'nowhere'"):
        sink_into(kafka, "nowhere").prepare(spark, spark.sql("SELECT 1L AS id, 'a' AS name").schema)


# --- A sink that is given some batches only: what an attempt that is noted in the checkpoint ---


if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.connector.kafka.sink.client import SinkAdmin
    from tests.kafka_server import KafkaServer

WEEK_MS = 7 * 86_400_000


def test_a_marker_is_missed_only_when_the_broker_may_have_forgotten_it() -> None:
    """An attempt that is younger than the broker's memory left none because it did not end."""
    check_remembered("b", None, first_ms=0, now_ms=WEEK_MS, lasts_ms=WEEK_MS)
    check_remembered("b", Marker(next_batch=3), first_ms=0, now_ms=WEEK_MS + 1, lasts_ms=WEEK_MS)
    with pytest.raises(StateMismatchError, match=r"begun 7\.0 days ago and it is unknown"):
        check_remembered("b", None, first_ms=0, now_ms=WEEK_MS + 1, lasts_ms=WEEK_MS)


def test_the_first_attempt_at_a_batch_is_noted(spark: SparkSession, tmp_path: Path) -> None:
    """Later ones find its time; the notes of batches that are done go."""
    folder = str(tmp_path / "attempts")
    first = first_attempt_ms(spark, folder, 3, 1000)

    assert (first, first_attempt_ms(spark, folder, 3, 2000)) == (1000, 1000)
    assert first_attempt_ms(spark, folder, 9, 3000) == 3000
    assert [path.name for path in (tmp_path / "attempts").glob("[0-9]*")] == ["9"]


def letters(spark: SparkSession, value: str) -> DataFrame:
    """One letter of a record with a header of its own."""
    return spark.sql(
        f"SELECT 'c.d.t' AS `table`, 'p/s' AS pipeline, 'q' AS query_id, 3L AS batch_id, 'orders' AS topic, "
        f"1 AS `partition`, 7L AS `offset`, TIMESTAMP '2026-01-02 00:00:00Z' AS timestamp, X'ff' AS key, "
        f"CAST('{value}' AS BINARY) AS value, array(named_struct('key', 'h', 'value', X'01')) AS headers, "
        "'value' AS stage, 'it is not valid JSON' AS error"
    )


def test_letters_are_written_once_in_batches_with_gaps_between(
    spark: SparkSession, kafka: KafkaServer, tmp_path: Path
) -> None:
    """By a driver that starts over each time; each letter has its record's bytes and headers, and then its own."""
    topic = kafka.create_topic()
    cluster = (("properties.bootstrap.servers", kafka.bootstrap),)
    table = define_dead_letter_topic(KafkaTopic(topic=topic, cluster=cluster))
    for batch_id in (3, 7, 7):
        sink = kafka_sink(table, describe(table)).with_gaps()
        rows = encode_dead_letters(letters(spark, f"v{batch_id}"))
        sink.write_batch(rows, batch_of(spark, tmp_path, batch_id))
    found = committed(kafka, topic)
    headers = dict(found[0].headers() or ())

    assert [message.value() for message in found] == [b"v3", b"v7"]
    assert found[0].key() == b"\xff"
    assert list(headers) == ["h", *HEADERS]
    assert headers["__penstock.errors.timestamp"] == b"1767312000000"
    assert headers["__penstock.errors.offset"] == b"7"


def test_a_checkpoint_begins_with_the_tasks_that_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Executors that come after the tasks were counted change no slot."""
    monkeypatch.setattr(sink_module, "read_sink_state", lambda *_: None)
    monkeypatch.setattr(sink_module, "record_sink_state", lambda _, __, began: began)
    monkeypatch.setattr(sink_module, "marker_partition", lambda *_: "t")
    sink = made_sink(ONCE)
    sink._asked = cast("SinkAdmin", object())
    grown = cast(
        "SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=8))
    )

    by_tasks, by_spark = (
        sink._ledger(grown, str(tmp_path / "began"), 0, tasks) for tasks in (2, None)
    )

    assert (by_tasks.slots, by_spark.slots) == (2, 8)
