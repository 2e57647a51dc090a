"""Queries whose results change, from a real topic into Delta tables with a PRIMARY KEY: equal to the batch answer.

Each runs in several micro-batches and in two runs; the last batch of the first run is written again, as after a
crash between the sink and the checkpoint.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.sql.session.session import Session
from tests.delta_tables import read_delta
from tests.kafka_server import KafkaServer

EVENTS = """
CREATE TEMPORARY TABLE events (id BIGINT, k STRING, x INT, y DOUBLE, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset',
      'properties.bootstrap.servers' = '{bootstrap}', 'scan.max-records-per-batch' = '120',
      'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 day')
"""
RANKED = (
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS rn FROM events WHERE x > 2)"
)
# the columns of a sink, its key, and the query, which means the same in Flink SQL and to DuckDB
CASES: Mapping[str, tuple[str, str, str]] = {
    "totals": (
        "k STRING, n BIGINT, total BIGINT, few BIGINT, kinds BIGINT, pairs BIGINT, top INT, mean DOUBLE",
        "k",
        "SELECT k, COUNT(*), SUM(x), COUNT(*) FILTER (WHERE x > 5), COUNT(DISTINCT x), "
        "COUNT(DISTINCT x) FILTER (WHERE y > 0.5), MAX(x), AVG(y) FROM events GROUP BY k",
    ),
    "rising": (
        "k STRING, x INT, n BIGINT",
        "k, x",
        "SELECT k, x, COUNT(*) FROM events GROUP BY k, x HAVING COUNT(*) < 12",
    ),
    "whole": ("name STRING, n BIGINT", "name", "SELECT 'all' AS name, COUNT(*) AS n FROM events"),
    # the table is aligned by its event time, yet no row of an updating query is late
    "times": ("ts TIMESTAMP(3), n BIGINT", "ts", "SELECT ts, COUNT(*) FROM events GROUP BY ts"),
    "newest": (
        "k STRING, id BIGINT, x INT",
        "k",
        f"SELECT k, id, x FROM {RANKED.format(order='ts DESC')} AS r WHERE rn = 1 AND x < 9",
    ),
    "oldest": (
        "k STRING, id BIGINT",
        "k",
        f"SELECT k, id FROM {RANKED.format(order='ts')} AS r WHERE rn = 1",
    ),
    "best": (
        "k STRING, rn BIGINT, id BIGINT, x INT",
        "k, rn",
        f"SELECT k, rn, id, x FROM {RANKED.format(order='x DESC, ts')} AS r WHERE rn <= 3",
    ),
}


def draw_events(count: int) -> list[dict[str, Any]]:
    """Draw events of twelve keys, no two of the same time, out of order by up to a minute."""
    draw = random.Random(5)
    return [
        {
            "id": i,
            "k": f"k{draw.randrange(12)}",
            "x": draw.randrange(10),
            "y": draw.randrange(1000) / 1000,
            "ts": datetime(2024, 3, 1) + timedelta(seconds=i - draw.randrange(60), milliseconds=i),
        }
        for i in range(count)
    ]


def produce(kafka: KafkaServer, topic: str, events: Sequence[Mapping[str, Any]]) -> None:
    """Write events, those of a key in one partition."""
    for partition in range(2):
        rows = [e for e in events if int(e["k"][1:]) % 2 == partition]
        texts = [dict(e) | {"ts": e["ts"].isoformat(" ", "milliseconds")} for e in rows]
        kafka.produce_json(topic, texts, partition=partition)


def forget_last_batch(checkpoint: Path) -> None:
    """Leave a checkpoint as a crash does that comes behind the sink's commit."""
    last = max(int(f.name) for f in (checkpoint / "commits").glob("[0-9]*"))
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)


def run(session: Session, script: Path) -> None:
    """Run a script over what is there, to its end."""
    for job in session.run_file(script, available_now=True):
        assert job.exception is None


def nearly(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Round what was added up in another order."""
    return tuple(round(value, 9) if isinstance(value, float) else value for value in row)


def batch_answer(query: str, events: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Give what the query means over all events at once."""
    connection = duckdb.connect()
    connection.register("events", pa.Table.from_pylist(list(events)))
    return sorted(connection.sql(query).fetchall())


@pytest.mark.parametrize(
    "names",
    [
        ("totals",),
        pytest.param(("newest", "rising", "best"), marks=pytest.mark.nightly),
        pytest.param(("whole", "times", "oldest"), marks=pytest.mark.nightly),
    ],
    ids=" ".join,
)
def test_the_result_is_the_batch_answer_after_a_restart_and_a_replay(
    spark: SparkSession, kafka: KafkaServer, project: Path, names: Sequence[str]
) -> None:
    """No row of a result is lost, left over or out of date."""
    topic, events = kafka.create_topic(partitions=2), draw_events(300)
    script = project / "updating.sql"
    inserts = [f"INSERT INTO {name} {CASES[name][2]}" for name in names]
    script.write_text(";\n".join(inserts), encoding="utf-8")
    with penstock.connect(spark) as session:
        session.sql(EVENTS.format(topic=topic, bootstrap=kafka.bootstrap))
        for name in names:
            columns, key, _ = CASES[name]
            session.sql(
                f"CREATE TEMPORARY TABLE {name} ({columns}, PRIMARY KEY ({key}) NOT ENFORCED) "
                f"WITH ('connector' = 'delta', 'path' = '{name}')"
            )
        produce(kafka, topic, events[:180])
        run(session, script)
        for name in names:
            forget_last_batch(project / ".penstock" / "checkpoints" / "updating" / name)
        produce(kafka, topic, events[180:])
        run(session, script)

    for name in names:
        found = read_delta(project / name).to_pylist()
        rows = [nearly(tuple(row.values())) for row in found]
        answer = map(nearly, batch_answer(CASES[name][2], events))
        assert sorted(rows) == sorted(answer), name
