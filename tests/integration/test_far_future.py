"""One record with a clock years ahead drops nothing behind it: it is a bad record, as the table says what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.catalog.errors import BadRecordError, RecordFault
from penstock.sql.jobs.job import Job
from penstock.sql.session.session import Session
from tests.kafka_server import KafkaServer

BASE = datetime(2024, 3, 1, tzinfo=UTC)
FAR = "2090-01-01 00:00:00"
BEFORE, BEHIND = 300, 300
"""Rows of partition 0 before the record of the future and behind it."""

SHORT = 100
LIMIT = BEFORE + 1 + 2 * SHORT
"""Of the first batch the record is the last one of its partition, and the others end there: nobody holds it back."""

TABLE = """
    CREATE TABLE orders (
      id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
    ) WITH (
      'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
      'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json',
      'scan.max-records-per-batch' = '{limit}'{options}
    )
"""
COUNTS = """
    CREATE TABLE counts (window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT)
    WITH ('connector' = 'delta', 'path' = 'counts')
"""
INSERT = """
    INSERT INTO counts
    SELECT window_start, window_end, COUNT(*)
    FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end
"""
SKIP = ", 'scan.watermark.on-future' = 'skip'"
DEAD_LETTER = ", 'scan.watermark.on-future' = 'dead-letter', 'scan.dead-letter.path' = 'letters'"
OFF = ", 'scan.watermark.max-future' = '0'"


@pytest.fixture
def session(spark: SparkSession, project: Path) -> Iterator[Session]:
    """A session in an empty project, with the sink."""
    with penstock.connect(spark) as session:
        session.sql(COUNTS)
        yield session


@pytest.fixture(scope="module")
def topic(kafka: KafkaServer) -> str:
    """Three partitions, a row a second in each; one record of the first is dated 2090."""
    name = kafka.create_topic(partitions=3)
    rows = [{"id": second, "ts": text(second)} for second in range(BEFORE + BEHIND)]
    kafka.produce_json(name, [*rows[:BEFORE], {"id": -1, "ts": FAR}, *rows[BEFORE:]], partition=0)
    for partition in (1, 2):
        kafka.produce_json(name, rows[:SHORT], partition=partition)
    return name


def text(second: int) -> str:
    """An event time."""
    return (BASE + timedelta(seconds=second)).strftime("%Y-%m-%d %H:%M:%S")


def batch_answer() -> dict[datetime, int]:
    """Rows by minute, without the record of the future."""
    counts: dict[datetime, int] = {}
    for seconds in (BEFORE + BEHIND, SHORT, SHORT):
        for second in range(seconds):
            minute = BASE.replace(tzinfo=None) + timedelta(minutes=second // 60)
            counts[minute] = counts.get(minute, 0) + 1
    return counts


def run(session: Session, kafka: KafkaServer, topic: str, options: str) -> Job:
    """Run the windowed count to the end, or on from its checkpoint, with the table as these options make it."""
    session.sql("DROP TABLE IF EXISTS orders")
    session.sql(TABLE.format(topic=topic, bootstrap=kafka.bootstrap, limit=LIMIT, options=options))
    script = Path.cwd() / "far.sql"
    script.write_text(INSERT, encoding="utf-8")
    (job,) = session.run_file(script, available_now=True)
    return job


def counted(session: Session) -> dict[datetime, int]:
    """Rows by window in the sink."""
    rows = session.spark.read.format("delta").load(str(Path.cwd() / "counts")).collect()
    return {row.window_start: row.n for row in rows}


def letters() -> dict[str, list[int]]:
    """Positions by dead-letter file."""
    return {
        path.name: [json.loads(line)["position"] for line in path.read_text().splitlines()]
        for path in sorted(Path("letters").rglob("*"))
        if path.is_file()
    }


def test_the_query_fails_and_goes_on_once_the_table_says_how(
    session: Session, kafka: KafkaServer, topic: str
) -> None:
    """By default; the record is named. The batch that failed is read again under the changed option, to the end."""
    with pytest.raises(BadRecordError) as caught:
        run(session, kafka, topic, "").await_termination(1)
    job = run(session, kafka, topic, SKIP)
    job.await_termination(1)

    assert caught.value.fault is RecordFault.FUTURE
    assert f"topic {topic}, partition 0, offset {BEFORE}: " in caught.value.message
    assert "2089-12-31T23:59:55" in caught.value.message
    assert "scan.watermark.on-future" in (caught.value.hint or "")
    assert counted(session) == batch_answer()
    assert (job.progress.rows_dropped, job.progress.bad_records) == (0, 1)


@pytest.mark.nightly
def test_a_dead_letter_keeps_the_record_and_costs_no_other(
    session: Session, kafka: KafkaServer, topic: str
) -> None:
    """Exact counts, one bad record; a later run adds no second letter."""
    job = run(session, kafka, topic, DEAD_LETTER)
    job.await_termination(1)
    first = letters()
    run(session, kafka, topic, DEAD_LETTER).await_termination(1)

    assert counted(session) == batch_answer()
    assert (job.progress.rows_dropped, job.progress.bad_records) == (0, 1)
    assert job.progress.rows_in == BEFORE + BEHIND + 2 * SHORT
    assert list(first.values()) == [[BEFORE]]
    assert letters() == first


@pytest.mark.nightly
def test_without_the_bound_the_rows_behind_are_late(
    session: Session, kafka: KafkaServer, topic: str
) -> None:
    """All that come with later batches, and they are counted: the reason for the option."""
    job = run(session, kafka, topic, OFF)
    job.await_termination(1)

    assert (job.progress.rows_dropped, job.progress.bad_records) == (BEHIND, 0)
