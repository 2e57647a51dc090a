"""A broker that dies and comes back, topics with gaps: nothing is lost, nothing hangs."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

import penstock
from penstock.sql.cli.output.progress import log_line
from penstock.sql.jobs.job import Job
from penstock.sql.observation.sentence import SentenceRule
from tests.integration.pipeline import Pipeline, delta_rows, wait_until
from tests.kafka_server import KafkaServer

SOURCE = """
CREATE TABLE IF NOT EXISTS events (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
      'scan.startup.mode' = 'earliest-offset', 'format' = 'json'{options});
CREATE TABLE IF NOT EXISTS copied (id BIGINT, ts TIMESTAMP(3))
WITH ('connector' = 'delta', 'path' = 'copied');
"""
INSERT = "INSERT INTO copied SELECT id, ts FROM events"


def rows(start: int, stop: int) -> list[dict[str, object]]:
    """Make records, one a second of event time."""
    return [
        {"id": i, "ts": f"2024-01-01 {i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}"}
        for i in range(start, stop)
    ]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_broker_that_is_killed_and_restarted_costs_nothing(
    kafka: KafkaServer, project: Path
) -> None:
    """The pipeline of the demo's kind runs on through a broker's death; every record arrives once."""
    topic = kafka.create_topic(partitions=2)
    script = project / "copy.sql"
    script.write_text(
        SOURCE.format(topic=topic, bootstrap=kafka.bootstrap, options="") + INSERT + ";",
        encoding="utf-8",
    )
    pipeline = Pipeline(project, script, ("--continuous",))
    for partition in range(2):
        kafka.produce_json(
            topic, rows(partition * 1000, partition * 1000 + 500), partition=partition
        )
    process = pipeline.start()
    wait_until(lambda: pipeline.batches("copied") > 0, seconds=240, what="a first batch")
    kafka.broker.kill()
    kafka.broker.start()
    for partition in range(2):
        kafka.produce_json(
            topic, rows(partition * 1000 + 500, partition * 1000 + 1000), partition=partition
        )

    def complete() -> bool:
        assert process.poll() is None, pipeline.log[-3000:]
        return delta_rows(project / "copied", "SELECT count(*) FROM {table}") == [(2000,)]

    wait_until(complete, seconds=300, what="all records in the table")
    process.send_signal(signal.SIGINT)
    summary = pipeline.finish(180)

    (insert,) = [s for s in summary["statements"] if s["kind"] == "INSERT"]
    assert insert["rows_in"] == 2000
    assert delta_rows(project / "copied", "SELECT count(*), count(DISTINCT id) FROM {table}") == [
        (2000, 2000)
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_planning_rides_out_a_broker_that_is_away_for_a_minute(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """The query neither fails nor starts again: it waits, says for what, and goes on with what comes afterwards."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, rows(0, 10))
    with penstock.connect(spark) as session:
        for statement in SOURCE.format(topic=topic, bootstrap=kafka.bootstrap, options="").split(
            ";"
        )[:2]:
            session.sql(statement)
        job = session.sql(INSERT)
        assert isinstance(job, Job)
        wait_until(lambda: job.progress.rows_in == 10, seconds=120, what="the first rows")
        kafka.broker.kill()
        time.sleep(60)  # the fault itself
        seen, listed = job.observed, session.sql("SHOW JOBS")
        (told,) = session.namespace.catalog.leases.job_reports().values()
        kafka.broker.start()
        kafka.produce_json(topic, rows(10, 20))
        wait_until(
            lambda: job.progress.rows_in == 20, seconds=180, what="the rows after the outage"
        )
        after = job.progress
        job.stop()

    waiting = f"Kafka at {kafka.bootstrap} (Connection refused)"
    away = seen.progress
    assert away.outage is not None
    assert (str(away.outage), away.lag_records) == (waiting, None)
    assert log_line(seen, away.outage.since_ms + 1_000).endswith("since 1 s (Connection refused)")
    assert f"{waiting} since" in str(listed.collect())
    assert told.waiting_for == waiting
    said = seen.sentence(away.outage.since_ms)
    assert (said.rule, str(said)) == (SentenceRule.OUTAGE, f"waits for {waiting}")
    assert (told.sentence or "").startswith(f"waits for {waiting}")
    assert (after.outage, after.lag_records) == (None, 0)
    assert job.exception is None
    assert job.progress.restarts == 0
    assert delta_rows(project / "copied", "SELECT count(*), count(DISTINCT id) FROM {table}") == [
        (20, 20)
    ]


def run_bounded(spark: SparkSession, kafka: KafkaServer, topic: str, project: Path) -> list[int]:
    """Copy a topic to its end; gives the ids that arrived, sorted."""
    options = ", 'scan.bounded.mode' = 'latest-offset'"
    with penstock.connect(spark) as session:
        for statement in SOURCE.format(
            topic=topic, bootstrap=kafka.bootstrap, options=options
        ).split(";")[:2]:
            session.sql(statement)
        job = session.sql(INSERT)
        assert job is not None
        assert job.await_termination(180)
    return [row[0] for row in delta_rows(project / "copied", "SELECT id FROM {table} ORDER BY id")]


def test_aborted_transactions_and_a_control_record_tail(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """Aborted records are not read, and a range that ends in control records ends (FLINK-34470)."""
    import json

    topic = kafka.create_topic()
    text = lambda start, stop: [json.dumps(row) for row in rows(start, stop)]  # noqa: E731
    kafka.transaction(topic, text(0, 10))
    kafka.transaction(topic, text(10, 20), commit=False)
    kafka.transaction(topic, text(20, 30))
    kafka.transaction(topic, text(30, 40), commit=False)

    assert run_bounded(spark, kafka, topic, project) == [*range(10), *range(20, 30)]


def count_records(kafka: KafkaServer, topic: str) -> int:
    """Count the records that are left in a topic of one partition."""
    low, high = kafka.watermarks(topic)
    consumer = Consumer(kafka.client_settings(group_id="count", enable_partition_eof=True))
    consumer.assign([TopicPartition(topic, 0, low)])
    left = 0
    while True:
        message = consumer.poll(10)
        assert message is not None, "the broker gave neither record nor end"
        if message.error():
            break
        left += 1
        if message.offset() >= high - 1:
            break
    consumer.close()
    return left


def test_a_compacted_topic(spark: SparkSession, kafka: KafkaServer, project: Path) -> None:
    """Compaction leaves gaps anywhere in a range; what is left is read, and the read ends."""
    topic = kafka.create_topic(
        **{
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "min.compaction.lag.ms": "0",
            "max.compaction.lag.ms": "100",
        }
    )
    for start in range(0, 500, 100):
        kafka.produce_json(topic, rows(start, start + 100), keys=[f"k{i}" for i in range(100)])

    def compacted() -> bool:
        # a record after segment.ms begins a segment, and makes the one before it cleanable
        kafka.produce_json(topic, rows(500, 501), keys=["last"])
        return count_records(kafka, topic) < 400

    wait_until(compacted, seconds=60, what="a compaction")
    before = count_records(kafka, topic)
    ids = run_bounded(spark, kafka, topic, project)

    assert len(ids) <= before
    assert ids[-1] == 500
    assert set(range(400, 500)) <= set(ids)
