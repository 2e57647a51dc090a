"""The same file runs on a standalone cluster with --master."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.pipeline import Pipeline, delta_rows
from tests.kafka_server import KafkaServer
from tests.spark_cluster import Cluster

SCRIPT = """
CREATE TABLE orders (id BIGINT, amount DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
      'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json');
CREATE TABLE per_minute (window_start TIMESTAMP(3), n BIGINT) WITH ('connector' = 'delta', 'path' = 'per_minute');
CREATE TABLE copied (id BIGINT) WITH ('connector' = 'delta', 'path' = 'copied');
INSERT INTO per_minute SELECT window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
INSERT INTO copied SELECT id FROM orders;
"""


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_file_runs_on_a_cluster(kafka: KafkaServer, cluster: Cluster, project: Path) -> None:
    """Windows and a plain copy, read and written by executors of two workers."""
    topic = kafka.create_topic(partitions=2)
    for partition in range(2):
        rows = [
            {
                "id": partition * 600 + i,
                "amount": 1.0,
                "ts": f"2024-01-01 0{partition * 5}:{i // 60:02}:{i % 60:02}",
            }
            for i in range(600)
        ]
        kafka.produce_json(topic, rows, partition=partition)
    script = project / "quickstart.sql"
    script.write_text(SCRIPT.format(topic=topic, bootstrap=kafka.bootstrap), encoding="utf-8")
    pipeline = Pipeline(project, script, ("--master", cluster.url))
    pipeline.start()
    summary = pipeline.finish(600)

    windows, copy = [s for s in summary["statements"] if s["kind"] == "INSERT"]
    assert (windows["rows_in"], windows["rows_out"], windows["rows_dropped"]) == (1200, 20, 0)
    assert copy["rows_out"] == 1200
    assert delta_rows(project / "per_minute", "SELECT count(*), sum(n) FROM {table}") == [
        (20, 1200)
    ]
    assert delta_rows(project / "copied", "SELECT count(DISTINCT id) FROM {table}") == [(1200,)]
