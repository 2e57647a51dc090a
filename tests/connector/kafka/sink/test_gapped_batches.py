"""A sink that is given some batches only: what an attempt that is noted in the checkpoint says about its marker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.connector.dead_letters.backends import HEADERS, encode_dead_letters
from penstock.connector.dead_letters.table import define_dead_letter_topic
from penstock.connector.kafka.connector import describe
from penstock.connector.kafka.sink import kafka_sink
from penstock.connector.kafka.sink.protocol import Marker
from penstock.connector.kafka.sink.sink import check_remembered, first_attempt_ms
from penstock.connector.options.bad_records import KafkaTopic
from tests.connector.kafka.sink.writing import batch_of, committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
