"""kill -9 at random moments: every row is once in the Delta table, whatever was going on."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.integration.pipeline import Pipeline, delta_rows, wait_until
from tests.kafka_server import KafkaServer

PARTITIONS = 4
SCRIPT = """
CREATE TABLE IF NOT EXISTS events (
  id BIGINT, part INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
  'scan.max-records-per-batch' = '{batch}', 'format' = 'json'
);
CREATE TABLE IF NOT EXISTS copied (id BIGINT, part INT, ts TIMESTAMP(3))
WITH ('connector' = 'delta', 'path' = 'copied');
INSERT INTO copied SELECT id, part, ts FROM events;
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("rows", "batch", "kills"),
    [
        (40_000, 10_000, 1),
        pytest.param(120_000, 16_000, 2, marks=pytest.mark.nightly),
        pytest.param(2_000_000, 50_000, 20, marks=pytest.mark.faults),
    ],
    ids=["once", "representative", "twenty"],
)
def test_every_row_is_there_once_after_kills(
    kafka: KafkaServer, project: Path, rows: int, batch: int, kills: int
) -> None:
    """A kill every few batches, in turn of everything and of Python alone, during the start, a batch or a commit."""
    topic = kafka.create_topic(partitions=PARTITIONS)
    each = rows // PARTITIONS
    for part in range(PARTITIONS):
        lines = (
            b'{"id":%d,"part":%d,"ts":"2024-01-01 %02d:%02d:%02d"}'
            % (part * each + i, part, i // 36_000 % 24, i // 600 % 60, i // 10 % 60)
            for i in range(each)
        )
        kafka.produce(topic, lines, partition=part)
    script = project / "copy.sql"
    text = SCRIPT.format(topic=topic, bootstrap=kafka.bootstrap, batch=batch)
    script.write_text(text, encoding="utf-8")
    pipeline = Pipeline(project, script)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    draw = random.Random(seed)

    for number in range(kills):
        before = pipeline.batches("copied")
        process = pipeline.start()
        if number % 4 == 3:
            time.sleep(draw.uniform(0.5, 8))  # the fault itself: a moment during the start
        else:
            wait_until(
                lambda before=before, process=process: (
                    pipeline.batches("copied") > before or process.poll() is not None
                ),
                seconds=240,
                what="a committed batch",
            )
            time.sleep(draw.uniform(0, 1.5))  # the fault itself: a moment within a batch
        assert process.poll() is None, "the run ended before it was killed: " + pipeline.log[-3000:]
        pipeline.kill(everything=number % 2 == 0)
    pipeline.start()
    pipeline.finish(600)

    assert delta_rows(
        project / "copied",
        "SELECT count(*), count(DISTINCT id), min(id), max(id), sum(part) FROM {table}",
    ) == [(rows, rows, 0, rows - 1, each * 6)]
