"""Alignment on real topics: what the offset log of a query says about who waited for whom."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.connector.source.state import MAX_WATERMARK_MS, SourceState, decode_state
from penstock.sql.session.session import Session
from tests.kafka_server import KafkaServer

BASE = datetime(2024, 3, 1)
DRIFT_S = 120
SECONDS = 600
BATCH = 100

TABLE = """
CREATE TABLE {name} (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
      'scan.startup.mode' = 'earliest-offset', 'format' = 'json',
      'scan.max-records-per-batch' = '{batch}', 'scan.watermark.alignment.group' = 'g',
      'scan.watermark.alignment.max-drift' = '{drift} s'{options})
"""
BOUNDED = ", 'scan.bounded.mode' = 'latest-offset'"
JOINED = "CREATE TABLE joined (id BIGINT) WITH ('connector' = 'delta', 'path' = 'joined')"
JOIN = """
INSERT INTO joined SELECT a.id FROM late AS a JOIN early AS b
ON a.id = b.id AND b.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '5' SECOND
"""
COUNTS = """
CREATE TABLE counts (window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT)
WITH ('connector' = 'delta', 'path' = 'counts')
"""
COUNT = """
INSERT INTO counts SELECT window_start, window_end, COUNT(*)
FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end
"""


@pytest.fixture
def session(spark: SparkSession, project: Path) -> Iterator[Session]:
    """A session in an empty project."""
    with penstock.connect(spark) as session:
        yield session


def fill(kafka: KafkaServer, topic: str, seconds: Sequence[int], partition: int = 0) -> None:
    """Write a record for each second since the base; its id is the second."""
    rows = [{"id": s, "ts": str(BASE + timedelta(seconds=s))} for s in seconds]
    kafka.produce_json(topic, rows, partition=partition)


def define(
    session: Session, kafka: KafkaServer, name: str, topic: str, options: str = BOUNDED
) -> None:
    """Define an aligned table over a topic."""
    session.sql(
        TABLE.format(
            name=name,
            topic=topic,
            bootstrap=kafka.bootstrap,
            batch=BATCH,
            drift=DRIFT_S,
            options=options,
        )
    )


def run(session: Session, project: Path, statement: str) -> None:
    """Run a statement as the pipeline `aligned`, to its end."""
    script = project / "aligned.sql"
    script.write_text(statement + ";", encoding="utf-8")
    (job,) = session.run_file(script, available_now=True)
    assert job.exception is None


def planned_batches(project: Path, sink: str) -> list[dict[str, SourceState]]:
    """Read the offset log: the state of each table, by the first letter of its topic, batch by batch."""
    log = project / ".penstock" / "checkpoints" / "aligned" / sink / "offsets"
    files = sorted((f for f in log.iterdir() if f.name.isdigit()), key=lambda f: int(f.name))
    batches = []
    for file in files:
        states = [
            decode_state(value)
            for line in file.read_text(encoding="utf-8").splitlines()
            if line.startswith("{") and "splits" in (value := json.loads(line))
        ]
        batches.append({state.splits[0].owner: state for state in states})
    return batches


def watermark_s(state: SourceState) -> float | None:
    """Give a table's watermark as seconds since the base."""
    if state.watermark_ms is None:
        return None
    return state.watermark_ms / 1000 - (BASE - datetime(1970, 1, 1)).total_seconds()


def test_a_topic_a_day_ahead_waits_for_the_other_of_its_join(
    session: Session, kafka: KafkaServer, project: Path
) -> None:
    """The lead is never read further than the drift allows, every pair is found, and the bounded query ends."""
    day = 86_400
    late, early = kafka.create_topic("late-topic"), kafka.create_topic("early-topic")
    fill(kafka, late, [*range(SECONDS), *range(day, day + SECONDS)])
    fill(kafka, early, range(day, day + SECONDS))
    define(session, kafka, "late", late)
    define(session, kafka, "early", early)
    session.sql(JOINED)
    run(session, project, JOIN)
    rows = session.spark.read.format("delta").load(str(project / "joined")).collect()
    batches = planned_batches(project, "joined")
    ahead = [b[early].splits[0] for b in batches if b[late].splits[0].end < SECONDS]

    assert sorted(row.id for row in rows) == list(range(day, day + SECONDS))
    assert len(ahead) >= 2
    assert all(split.end == 0 for split in ahead)
    assert any("group 'g'" in (split.paused or "") for split in ahead)
    assert len(batches) <= 3 * SECONDS // BATCH + 10
    assert [state.watermark_ms for state in batches[-1].values()] == [MAX_WATERMARK_MS] * 2


@pytest.mark.nightly
def test_a_fast_partition_is_held_at_every_batch_end(
    session: Session, kafka: KafkaServer, project: Path
) -> None:
    """Within one topic, and the windowed counts are those of all records."""
    topic = kafka.create_topic(partitions=2)
    fill(kafka, topic, range(SECONDS), partition=0)
    fill(kafka, topic, range(0, 10 * SECONDS, 10), partition=1)
    define(session, kafka, "ticks", topic)
    session.sql(COUNTS)
    run(session, project, COUNT)
    rows = session.spark.read.format("delta").load(str(project / "counts")).collect()
    held = 0
    for batch in planned_batches(project, "counts"):
        slow, fast = sorted(batch[topic].splits, key=lambda split: split.split_id)
        if slow.watermark_ms is not None and fast.watermark_ms is not None and not slow.finished:
            assert fast.watermark_ms <= slow.watermark_ms + DRIFT_S * 1000
            held += bool(fast.paused)

    assert held >= 3
    assert sum(row.n for row in rows) == 2 * SECONDS


@pytest.mark.nightly
def test_a_run_goes_on_from_the_offsets_of_another_and_reads_the_same(
    session: Session, kafka: KafkaServer, project: Path
) -> None:
    """Unbounded tables in runs with an end: an empty partition holds nobody, nothing is read twice or left out."""
    late, early = kafka.create_topic(partitions=2), kafka.create_topic()
    define(session, kafka, "late", late, ", 'scan.watermark.idle-timeout' = '1 ms'")
    define(session, kafka, "early", early, "")
    session.sql(JOINED)
    for start in (0, 300):
        fill(kafka, late, range(start, start + 300))
        fill(kafka, early, range(start, start + 300))
        run(session, project, JOIN)
    batches = planned_batches(project, "joined")
    rows = session.spark.read.format("delta").load(str(project / "joined")).collect()

    assert sorted(row.id for row in rows) == list(range(600))
    for topic in (late, early):
        position, last = 0, None
        for state in (batch[topic] for batch in batches):
            split = min(state.splits, key=lambda found: found.split_id)
            # Spark repeats the offset of a table that has no part in a batch
            assert split.start == position or state == last
            position, last = split.end, state
        assert position == 600
    assert watermark_s(batches[-1][late]) == 598
