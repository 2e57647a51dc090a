"""OVER aggregates of real topics into Delta tables: by the watermark, over a replay, and to the end of a table."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from tests.delta_tables import read_delta
from tests.integration.test_updating_queries import forget_last_batch
from tests.kafka_server import KafkaServer

KAFKA = """'connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset',
      'properties.bootstrap.servers' = '{bootstrap}'"""
COLUMNS = "id INT, auction STRING, price INT, ts TIMESTAMP_LTZ(3)"
TOTALS = f"""
CREATE TEMPORARY TABLE bids ({COLUMNS}, WATERMARK FOR ts AS ts)
WITH ({KAFKA}, 'scan.max-records-per-batch' = '2');
CREATE TEMPORARY TABLE recent (id INT, total BIGINT) WITH ('connector' = 'delta', 'path' = 'recent');
CREATE TEMPORARY VIEW totals AS SELECT id, SUM(price) OVER w AS total FROM bids
  WINDOW w AS (PARTITION BY auction ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW);
INSERT INTO recent SELECT id, total FROM totals WHERE total > 1
"""
ENDS = f"""
CREATE TEMPORARY TABLE bids ({COLUMNS}, WATERMARK FOR ts AS ts - INTERVAL '1' HOUR)
WITH ({KAFKA}, 'scan.bounded.mode' = 'latest-offset');
CREATE TEMPORARY TABLE whole (id INT, total BIGINT) WITH ('connector' = 'delta', 'path' = 'whole');
INSERT INTO whole SELECT id, SUM(price) OVER (PARTITION BY auction ORDER BY ts) FROM bids
"""


def give(kafka: KafkaServer, topic: str, bids: dict[int, tuple[int, int]]) -> None:
    """Write bids by their number: a price, and a time in seconds."""
    rows = [
        {"id": number, "auction": "a", "price": price, "ts": f"2026-01-31 10:00:{seconds:02}Z"}
        for number, (price, seconds) in bids.items()
    ]
    kafka.produce_json(topic, rows)


def rows_of(table: Path) -> list[tuple[int, ...]]:
    """The rows of a Delta table, in order."""
    found = read_delta(table).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def test_each_bid_comes_once_with_the_total_of_ten_seconds(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """A batch between state and sink is run again; late bids are counted; at its end a table gives all that wait."""
    topic, dropped = kafka.create_topic(), []
    for name, text in (("totals", TOTALS), ("ends", ENDS)):
        script = text.format(topic=topic, bootstrap=kafka.bootstrap)
        (project / f"{name}.sql").write_text(script, encoding="utf-8")

    def run(name: str) -> None:
        with penstock.connect(spark) as session:
            (job,) = session.run_file(project / f"{name}.sql", available_now=True)
        assert job.exception is None
        dropped.append(job.progress.rows_dropped)

    give(kafka, topic, {1: (1, 0), 2: (2, 5), 3: (4, 3), 4: (8, 20)})
    run("totals")
    first = rows_of(project / "recent")
    forget_last_batch(project / ".penstock" / "checkpoints" / "totals" / "recent")
    give(kafka, topic, {5: (16, 25), 6: (32, 19), 7: (64, 41), 8: (128, 30)})
    run("totals")
    second = rows_of(project / "recent")
    run("ends")

    assert first == [(2, 3), (4, 8)]
    assert second == [*first, (5, 24), (7, 64), (8, 152)]  # the watermark is the largest time read
    assert dropped == [1, 2, 0]
    assert rows_of(project / "whole") == [
        (1, 1), (2, 7), (3, 5), (4, 47), (5, 63), (6, 39), (7, 255), (8, 191),
    ]  # fmt: skip
