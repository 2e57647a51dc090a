"""The reason for Penstock: with Flink's watermark no row of a slow partition is lost, with Spark's own most are."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import penstock
from tests.kafka_server import KafkaServer

BASE = datetime(2024, 3, 1, tzinfo=UTC)
PER_PARTITION = 3_000
HOURS_AHEAD = (0, 5, 11)  # event time of each partition's first record

TABLE = """
    CREATE TABLE orders (
      id BIGINT, amount DOUBLE, ts {time_type},
      WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
    ) WITH (
      'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
      'scan.startup.mode' = 'earliest-offset', 'format' = 'json'{options}
    )
"""
WINDOWS = """
    CREATE TABLE counts (window_start {time_type}, window_end {time_type}, n BIGINT, total DOUBLE)
    WITH ('connector' = 'delta', 'path' = 'counts')
"""
INSERT = """
    INSERT INTO counts
    SELECT window_start, window_end, COUNT(*), SUM(amount)
    FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end
"""


def produce_skewed(kafka: KafkaServer, topic: str) -> list[datetime]:
    """Fill three partitions that lie hours apart, each out of order by up to five seconds. Gives all event times."""
    draw = random.Random(7)
    times = []
    for partition, hours in enumerate(HOURS_AHEAD):
        rows = []
        for index in range(PER_PARTITION):
            at = BASE + timedelta(hours=hours, seconds=index - draw.randrange(5))
            times.append(at)
            text = at.strftime("%Y-%m-%d %H:%M:%S")
            rows.append({"id": partition * PER_PARTITION + index, "amount": 0.5, "ts": text})
        kafka.produce_json(topic, rows, partition=partition)
    return times


def expected_counts(times: list[datetime]) -> dict[datetime, int]:
    """Count per minute, the batch answer."""
    counts: dict[datetime, int] = {}
    for at in times:
        minute = at.replace(second=0, tzinfo=None)
        counts[minute] = counts.get(minute, 0) + 1
    return counts


def run_penstock(
    spark: SparkSession,
    kafka: KafkaServer,
    topic: str,
    options: str,
    time_type: str = "TIMESTAMP(3)",
) -> tuple[dict[datetime, int], Any]:
    """Run the windowed INSERT over the topic to its end; gives counts by window start and the job's progress."""
    with penstock.connect(spark) as session:
        session.sql(
            TABLE.format(
                topic=topic, bootstrap=kafka.bootstrap, options=options, time_type=time_type
            )
        )
        session.sql(WINDOWS.format(time_type=time_type))
        job = session.sql(INSERT)
        assert job is not None
        assert job.await_termination(240)
        rows = spark.read.format("delta").load(str(Path.cwd() / "counts")).collect()
    return {row.window_start: row.n for row in rows}, job.progress


@pytest.mark.parametrize(
    "time_type", ["TIMESTAMP(3)", pytest.param("TIMESTAMP_LTZ(3)", marks=pytest.mark.nightly)]
)
def test_skewed_partitions_lose_nothing(
    spark: SparkSession, kafka: KafkaServer, project: Path, time_type: str
) -> None:
    """Windowed counts equal the batch answer exactly, though partitions lie hours apart; none is dropped."""
    topic = kafka.create_topic(partitions=3)
    times = produce_skewed(kafka, topic)
    if "LTZ" in time_type:
        options = ", 'json.timestamp-format.standard' = 'SQL'"
        kafka_rows = kafka.create_topic(partitions=3)
        times = produce_skewed_utc(kafka, kafka_rows)
        topic = kafka_rows
    else:
        options = ""
    options += ", 'scan.bounded.mode' = 'latest-offset', 'scan.max-records-per-batch' = '1000'"
    counts, progress = run_penstock(spark, kafka, topic, options, time_type)

    assert counts == expected_counts(times)
    assert progress.rows_in == len(times)
    assert progress.rows_dropped == 0
    assert progress.batches >= 9


def produce_skewed_utc(kafka: KafkaServer, topic: str) -> list[datetime]:
    """Fill as `produce_skewed`, with instants: a trailing Z."""
    times = []
    for partition, hours in enumerate(HOURS_AHEAD):
        at = [BASE + timedelta(hours=hours, seconds=index) for index in range(PER_PARTITION)]
        times += at
        rows = [
            {"id": index, "amount": 0.5, "ts": moment.strftime("%Y-%m-%d %H:%M:%SZ")}
            for index, moment in enumerate(at)
        ]
        kafka.produce_json(topic, rows, partition=partition)
    return times


@pytest.mark.nightly
def test_sparks_own_watermark_loses_rows_of_the_same_topic(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """The same rows in the same batches through Spark's withWatermark: most of the slow partitions is gone."""
    topic = kafka.create_topic(partitions=3)
    times = produce_skewed(kafka, topic)
    options = ", 'scan.bounded.mode' = 'latest-offset', 'scan.max-records-per-batch' = '1000'"
    with penstock.connect(spark) as session:
        session.sql(
            TABLE.format(
                topic=topic, bootstrap=kafka.bootstrap, options=options, time_type="TIMESTAMP(3)"
            )
        )
        # Spark refuses a TIMESTAMP_NTZ column here; the cast changes nothing, the session is in UTC
        plain = spark.readStream.format("penstock").option("table", "orders").load()
        rows = plain.select(F.col("ts").cast("timestamp").alias("ts"))
        counted = (
            rows.withWatermark("ts", "5 seconds")
            .groupBy(F.window("ts", "1 minute"))
            .agg(F.count("*").alias("n"))
        )
        query = (
            counted.writeStream.format("delta")
            .option("checkpointLocation", str(project / "spark-checkpoint"))
            .outputMode("append")
            .trigger(availableNow=True)
            .start(str(project / "spark-counts"))
        )
        assert query.awaitTermination(120)
        kept = (
            spark.read.format("delta").load(str(project / "spark-counts")).agg(F.sum("n")).first()
        )

    assert kept is not None
    assert (kept[0] or 0) < 0.7 * len(times)


@pytest.mark.nightly
def test_an_hourly_run_gives_the_same_as_one_that_never_stops(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """--available-now keeps open windows in the checkpoint; the next run goes on with them."""
    topic = kafka.create_topic(partitions=2)
    make = lambda start, count: [  # noqa: E731
        {"id": i, "amount": 1.0, "ts": (BASE + timedelta(seconds=i)).strftime("%Y-%m-%d %H:%M:%S")}
        for i in range(start, start + count)
    ]
    with penstock.connect(spark) as session:
        session.sql(
            TABLE.format(
                topic=topic, bootstrap=kafka.bootstrap, options="", time_type="TIMESTAMP(3)"
            )
        )
        session.sql(WINDOWS.format(time_type="TIMESTAMP(3)"))
        script = project / "hourly.sql"
        script.write_text(INSERT + ";", encoding="utf-8")
        seen = []
        for start in (0, 90, 180):
            for partition in range(2):
                kafka.produce_json(topic, make(start, 90), partition=partition)
            session.run_file(script, available_now=True)
            rows = spark.read.format("delta").load(str(project / "counts")).collect()
            seen.append({row.window_start.minute: row.n for row in rows})

    assert seen == [{0: 120}, {0: 120, 1: 120}, {0: 120, 1: 120, 2: 120, 3: 120}]
