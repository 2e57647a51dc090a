"""Windows close without a new record: a split went idle, or a bounded table is read to its end."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.sql.jobs.job import Job
from tests.integration.pipeline import delta_rows, wait_until
from tests.kafka_server import KafkaServer

TABLE = """
CREATE TABLE events (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json'{options}
)"""
SINK = """
CREATE TABLE counts (window_start TIMESTAMP(3), n BIGINT) WITH ('connector' = 'delta', 'path' = 'counts')
"""
INSERT = """
INSERT INTO counts SELECT window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
"""


def rows_of(*seconds: int) -> list[dict[str, object]]:
    """Records at seconds of one minute."""
    return [{"id": s, "ts": f"2024-05-01 00:00:{s:02}"} for s in seconds]


def counts(project: Path) -> dict[datetime, int]:
    """What the sink holds."""
    rows = delta_rows(project / "counts", "SELECT window_start, n FROM {table}")
    return {start.replace(tzinfo=None): n for start, n in rows}


def moment(second: int) -> datetime:
    """A second of that minute."""
    return datetime(2024, 5, 1, 0, 0, second)


def test_an_idle_split_lets_windows_close(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """One partition falls silent at second 3; after the timeout the other alone says that second 20 is past.

    Its own last record came before that: nothing but the clock closes the windows.
    """
    topic = kafka.create_topic(partitions=2)
    kafka.produce_json(topic, rows_of(1, 2, 3), partition=0)
    options = ", 'scan.watermark.idle-timeout' = '10 s'"
    with penstock.connect(spark) as session:
        session.sql(TABLE.format(topic=topic, bootstrap=kafka.bootstrap, options=options))
        session.sql(SINK)
        job = session.sql(INSERT)
        assert isinstance(job, Job)
        wait_until(lambda: job.progress.rows_in == 3, seconds=120, what="the silent partition")
        kafka.produce_json(topic, rows_of(4, 12, 25), partition=1)
        wait_until(lambda: job.progress.rows_in == 6, seconds=120, what="the other partition")
        assert counts(project) == {}
        wait_until(
            lambda: counts(project) == {moment(0): 4, moment(10): 1},
            seconds=60,
            what="the windows before second 20",
        )
        job.stop()

    assert job.progress.rows_dropped == 0
    assert job.exception is None


def test_a_bounded_table_whose_last_split_is_empty_closes_its_windows(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """A partition that never had a record holds nothing back once the table is at its end."""
    topic = kafka.create_topic(partitions=3)
    kafka.produce_json(topic, rows_of(1, 11), partition=0)
    kafka.produce_json(topic, rows_of(2, 3, 31), partition=1)
    options = ", 'scan.bounded.mode' = 'latest-offset'"
    with penstock.connect(spark) as session:
        session.sql(TABLE.format(topic=topic, bootstrap=kafka.bootstrap, options=options))
        session.sql(SINK)
        job = session.sql(INSERT)
        assert isinstance(job, Job)
        assert job.await_termination(180)

    assert counts(project) == {moment(0): 3, moment(10): 1, moment(30): 1}


def test_a_filter_does_not_take_the_heartbeat_away(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """Spark pushes a view's WHERE towards the source; the row that only carries the watermark must be past it."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, rows_of(1, 2, 11, 25))
    options = ", 'scan.bounded.mode' = 'latest-offset', 'scan.max-records-per-batch' = '2'"
    with penstock.connect(spark) as session:
        session.sql(TABLE.format(topic=topic, bootstrap=kafka.bootstrap, options=options))
        session.sql(SINK)
        session.sql("CREATE VIEW small AS SELECT id, ts FROM events WHERE id < 20")
        job = session.sql(INSERT.replace("TABLE events", "TABLE small"))
        assert isinstance(job, Job)
        assert job.await_termination(180)

    assert counts(project) == {moment(0): 2, moment(10): 1}


@pytest.mark.nightly
def test_the_watermark_moves_under_a_join_without_rows(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """A side that waits sends heartbeats only, and holds back no state of the other: its join keys are NULL there."""
    topics = [kafka.create_topic(), kafka.create_topic()]
    minutes = [{"id": i, "ts": f"2024-05-01 {i // 60:02}:{i % 60:02}:00"} for i in range(300)]
    kafka.produce_json(topics[0], minutes)
    kafka.produce_json(topics[1], minutes[-1:])
    options = (
        ", 'scan.max-records-per-batch' = '30', 'scan.watermark.alignment.group' = 'joined', "
        "'scan.watermark.alignment.max-drift' = '30 min'"
    )
    with penstock.connect(spark) as session:
        for name, topic in zip(("a", "b"), topics, strict=True):
            table = TABLE.format(topic=topic, bootstrap=kafka.bootstrap, options=options)
            session.sql(table.replace("TABLE events", f"TABLE {name}"))
        frame = session.sql(
            "SELECT b.id FROM a JOIN b ON a.id = b.id "
            "AND b.ts BETWEEN a.ts - INTERVAL '5' MINUTE AND a.ts + INTERVAL '5' MINUTE"
        )
        writer = frame.writeStream.format("memory").queryName("joined")  # type: ignore[union-attr]
        writer = writer.option("checkpointLocation", str(project / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(180)
        fullest = max(p["stateOperators"][0]["numRowsTotal"] for p in query.recentProgress)

    assert [row.id for row in spark.table("joined").collect()] == [299]
    assert fullest < 100


def test_a_bounded_table_without_any_record_ends(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """Nothing to read is an end too."""
    topic = kafka.create_topic(partitions=2)
    options = ", 'scan.bounded.mode' = 'latest-offset'"
    with penstock.connect(spark) as session:
        session.sql(TABLE.format(topic=topic, bootstrap=kafka.bootstrap, options=options))
        session.sql(SINK)
        job = session.sql(INSERT)
        assert isinstance(job, Job)
        assert job.await_termination(180)

    assert counts(project) == {}
