"""Checkpoints that the version before has written: this version resumes from them, and every row is there once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from tests.delta_tables import read_delta
from tests.earlier_version import environment, install
from tests.kafka_server import KafkaServer

BEFORE = "9d6f9be"
"""The last commit before modules were moved and renamed."""

START = "from penstock.sql.cli.{module} import main; main()"
EACH = 200
"""Records of a run, a second apart, of seven keys."""

JOB = """
CREATE TABLE IF NOT EXISTS clicks (
  id BIGINT, k STRING, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'scan.max-records-per-batch' = '100', 'format' = 'json'
);
CREATE TABLE IF NOT EXISTS copies (id BIGINT) WITH ('connector' = 'delta', 'path' = 'copies');
CREATE TABLE IF NOT EXISTS windows (opened TIMESTAMP(3), n BIGINT) WITH ('connector' = 'delta', 'path' = 'windows');
CREATE TABLE IF NOT EXISTS totals (n BIGINT, ks BIGINT, PRIMARY KEY (n) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 'totals');
CREATE TABLE IF NOT EXISTS newest (k STRING, id BIGINT, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 'newest');
CREATE TABLE IF NOT EXISTS sent (id BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '{sent}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{sent}'
);
INSERT INTO copies SELECT id FROM clicks;
INSERT INTO windows SELECT window_start, COUNT(*)
  FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
INSERT INTO totals SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM clicks GROUP BY k) AS c GROUP BY n;
INSERT INTO newest SELECT k, id
  FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at DESC) AS rn FROM clicks) WHERE rn = 1;
INSERT INTO sent SELECT id FROM clicks;
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.broker,
    pytest.mark.timeout(900),
]


def run(module: str, project: Path, env: dict[str, str] | None) -> None:
    """Run the job until it has read all records, by this version or an earlier one."""
    command = [
        sys.executable,
        "-c",
        START.format(module=module),
        "run",
        "job.sql",
        "--available-now",
    ]
    done = subprocess.run(
        command, cwd=project, env=env, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]


def produce(kafka: KafkaServer, topic: str, ids: range) -> None:
    """Write records of these ids."""
    kafka.produce(
        topic,
        [
            json.dumps(
                {"id": n, "k": f"k{n % 7}", "at": f"2026-01-01 00:{n // 60:02d}:{n % 60:02d}.000"}
            )
            for n in ids
        ],
    )


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a Delta table."""
    found: list[dict[str, Any]] = read_delta(folder).to_pylist()
    return found


def committed(kafka: KafkaServer, topic: str) -> list[int]:
    """The ids of the committed records of a topic, sorted."""
    settings = kafka.client_settings(
        **{
            "group.id": "check",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer, found = Consumer(settings), []
    consumer.subscribe([topic])
    try:
        while (message := consumer.poll(30.0)) is not None and message.error() is None:
            found.append(json.loads(message.value() or b"{}")["id"])
    finally:
        consumer.close()
    return sorted(found)


@pytest.mark.nightly
def test_checkpoints_of_the_version_before_are_resumed_without_loss(
    kafka: KafkaServer, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An append, a window, chained aggregations, a deduplication and a Kafka sink: twice the records, each once."""
    earlier = install(BEFORE, tmp_path_factory.mktemp("earlier"))
    topic, sent = kafka.create_topic(partitions=1), kafka.create_topic(partitions=1)
    job = JOB.format(topic=topic, sent=sent, bootstrap=kafka.bootstrap)
    (project / "job.sql").write_text(job, encoding="utf-8")

    produce(kafka, topic, range(EACH))
    run("app", project, environment(earlier))
    before = Counter(row["id"] for row in rows(project / "copies"))
    produce(kafka, topic, range(EACH, 2 * EACH))
    run("commands.app", project, None)

    whole = range(2 * EACH)
    counts = Counter(Counter(n % 7 for n in whole).values())
    windows = {row["opened"].strftime("%H:%M:%S"): row["n"] for row in rows(project / "windows")}
    assert before == Counter(range(EACH))
    assert sorted(row["id"] for row in rows(project / "copies")) == list(whole)
    assert len(windows) == len(rows(project / "windows")) == 2 * EACH // 10 - 1
    assert set(windows.values()) == {10}
    assert {row["n"]: row["ks"] for row in rows(project / "totals")} == counts
    assert {row["k"]: row["id"] for row in rows(project / "newest")} == {
        f"k{n % 7}": n for n in whole
    }
    assert committed(kafka, sent) == list(whole)
