"""GROUPING SETS, ROLLUP and CUBE of a real topic, by both mechanisms: equal to what DuckDB says of all rows at once.

Rows have NULL in the columns that are grouped by, which is not the NULL of a set that leaves the column out. Each query
runs in several micro-batches and in two runs; the last batch of the first run is written again.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

import penstock
from tests.delta_tables import read_delta
from tests.integration.test_updating_queries import EVENTS, forget_last_batch, run
from tests.kafka_server import KafkaServer

# in Spark's update mode: the key of a row is what is grouped by, and the set
CUBE = (
    "SELECT k, x, GROUPING_ID(k, x) AS g, COUNT(*) AS n, SUM(x) AS total, COUNT(DISTINCT k) AS names, "
    "COUNT(DISTINCT x) FILTER (WHERE y < 0.9) AS few, MAX(y) AS top FROM events GROUP BY CUBE (k, x) "
    "HAVING COUNT(*) < 30 OR GROUPING(k) + GROUPING(x) = 2"
)
TWICE = "SELECT k, {id} AS g, COUNT(*) AS n, SUM(x) AS total FROM events WHERE k IS NOT NULL GROUP BY {sets}"
# maintained: the labels are no columns that are grouped by
LABELS = (
    "SELECT CASE WHEN GROUPING(k) = 1 THEN 'all' ELSE COALESCE(k, 'none') END AS k, COALESCE(x, -1) AS x, "
    "GROUPING_ID(k, x) AS g, COUNT(*) AS n, SUM(x) AS total, MIN(k) AS least FROM events "
    "GROUP BY ROLLUP (k, x) HAVING COUNT(*) > 1"
)
DEFINITIONS = """
CREATE TEMPORARY TABLE cubes (k STRING, x INT, g BIGINT, n BIGINT, total BIGINT, names BIGINT, few BIGINT, top DOUBLE,
  PRIMARY KEY (k, x, g) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '{cubes}', 'key.format' = 'json', 'value.format' = 'json',
      'properties.bootstrap.servers' = '{bootstrap}');
CREATE TEMPORARY TABLE twice (k STRING, g BIGINT, n BIGINT, total BIGINT, PRIMARY KEY (k, g) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'twice');
CREATE TEMPORARY TABLE labels (k STRING, x INT, g BIGINT, n BIGINT, total BIGINT, least STRING,
  PRIMARY KEY (k, x, g) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'labels')
"""


def draw_events(count: int) -> list[dict[str, Any]]:
    """Draw events of five keys and four numbers, some of them NULL."""
    draw = random.Random(7)
    return [
        {
            "id": i,
            "k": draw.choice(["a", "b", "c", "all", None]),
            "x": draw.choice([1, 2, 3, None]),
            "y": draw.randrange(1000) / 1000,
            "ts": datetime(2024, 3, 1) + timedelta(seconds=i),
        }
        for i in range(count)
    ]


def produce(kafka: KafkaServer, topic: str, events: Sequence[Mapping[str, Any]]) -> None:
    """Write events to two partitions."""
    for partition in range(2):
        rows = [dict(e) | {"ts": str(e["ts"])} for e in events if e["id"] % 2 == partition]
        kafka.produce_json(topic, rows, partition=partition)


def newest(kafka: KafkaServer, topic: str) -> list[tuple[Any, ...]]:
    """Give the last value of each key of a topic with one partition, those without one left out."""
    settings = {"group.id": topic, "auto.offset.reset": "earliest", "enable.partition.eof": True}
    consumer = Consumer(kafka.client_settings(**settings))
    consumer.subscribe([topic])
    found: dict[bytes, bytes] = {}
    try:
        while not ((message := consumer.poll(30)) is not None and message.error()):
            assert message is not None, "the topic ends"
            found.pop(message.key(), None)
            if message.value() is not None:
                found[message.key()] = message.value()
    finally:
        consumer.close()
    return [tuple(json.loads(value).values()) for value in found.values()]


def in_delta(path: Path) -> list[tuple[Any, ...]]:
    """Give the rows of a Delta table."""
    return [tuple(row.values()) for row in read_delta(path).to_pylist()]


def answer(query: str, events: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Give what a query means over all events."""
    connection = duckdb.connect()
    connection.register("events", pa.Table.from_pylist(list(events)))
    return connection.sql(query).fetchall()


def in_order(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sort rows with NULLs."""
    return sorted(rows, key=lambda row: [(value is None, value) for value in row])


def answers(events: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    """Give what the tables hold once all events are read."""
    once = answer(TWICE.format(id="0", sets="k"), events)
    again = [(k, 1, *rest) for k, _, *rest in once]
    return {
        "cubes": answer(CUBE, events),
        "twice": [*once, *again],
        "labels": answer(LABELS, events),
    }


@pytest.mark.parametrize(
    "names",
    [("cubes",), pytest.param(("twice", "labels"), marks=pytest.mark.nightly)],
    ids=" ".join,
)
def test_results_are_kept_up_to_date_for_every_set(
    spark: SparkSession, kafka: KafkaServer, project: Path, names: Sequence[str]
) -> None:
    """Also for a set that stands twice, whose rows GROUP_ID tells apart."""
    topic, cubes, events = kafka.create_topic(partitions=2), kafka.create_topic(), draw_events(200)
    queries = {
        "cubes": CUBE,
        "twice": TWICE.format(id="GROUP_ID()", sets="GROUPING SETS ((k), k)"),
        "labels": LABELS,
    }
    script = project / "sets.sql"
    inserts = [f"INSERT INTO {name} {queries[name]}" for name in names]
    script.write_text(";\n".join(inserts), encoding="utf-8")
    with penstock.connect(spark) as session:
        session.sql(EVENTS.format(topic=topic, bootstrap=kafka.bootstrap))
        for statement in DEFINITIONS.format(cubes=cubes, bootstrap=kafka.bootstrap).split(";"):
            session.sql(statement)
        produce(kafka, topic, events[:130])
        run(session, script)
        for name in names:
            forget_last_batch(project / ".penstock" / "checkpoints" / "sets" / name)
        produce(kafka, topic, events[130:])
        run(session, script)

    for name in names:
        found = newest(kafka, cubes) if name == "cubes" else in_delta(project / name)
        assert in_order(found) == in_order(answers(events)[name]), name
