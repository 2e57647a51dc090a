"""What a scrape gives of real queries over a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from penstock.sql.clock import SystemClock
from penstock.sql.jobs.job import Job
from penstock.sql.metrics.collector import PipelineCollector
from penstock.sql.observation.pipeline import ResultMode
from tests.integration.pipeline import wait_until
from tests.kafka_server import KafkaServer
from tests.sql.observation.kafka_pipeline import COUNT, PLAIN, TIMED, Pipeline, running_pipeline


@pytest.fixture
def pipeline(spark: SparkSession, kafka: KafkaServer, project: Path) -> Iterator[Pipeline]:
    """A pipeline in an empty project."""
    assert project == Path.cwd()
    with running_pipeline(spark, kafka) as pipeline:
        yield pipeline


def scraped(job: Job, name: str) -> dict[tuple[str, ...], float]:
    """The series of a metric, by the values of the labels in the order of their names, without the pipeline's."""
    registry = CollectorRegistry()
    registry.register(PipelineCollector(lambda: [job], SystemClock()))
    return {
        tuple(value for key, value in sorted(sample.labels.items()) if key != "pipeline"): (
            sample.value
        )
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == name
    }


def in_batches(job: Job, batches: int) -> Job:
    """Wait until a job has committed so many batches."""
    wait_until(lambda: job.progress.batches >= batches, seconds=60, what=f"{batches} batches")
    return job


@pytest.mark.parametrize(
    ("query", "mode"),
    [
        ("SELECT COUNT(*) FROM events GROUP BY id", ResultMode.KEYED),
        (
            "SELECT SUM(id) OVER (ORDER BY PROCTIME() RANGE BETWEEN INTERVAL '1' SECOND PRECEDING "
            "AND CURRENT ROW) FROM events",
            ResultMode.RECOMPUTED,
        ),
        ("SELECT id FROM events", ResultMode.APPEND),
    ],
)
def test_the_mode_is_that_in_which_the_query_runs(
    pipeline: Pipeline, query: str, mode: ResultMode
) -> None:
    """What runs stages is known once they run."""
    topic = pipeline.table("events", TIMED)
    pipeline.write(topic, ["10:00:00"])
    job = in_batches(pipeline.start(f"INSERT INTO nowhere {query}"), 1)

    ((guarantee, found, sink, _),) = scraped(job, "penstock_pipeline_info")
    assert (guarantee, found, sink) == ("none", mode, "nowhere")


def test_single_splits_have_series_as_the_settings_say(pipeline: Pipeline) -> None:
    """As they are at the start of the query; the table has its own all the same."""
    topic = pipeline.table("events", TIMED)
    pipeline.write(topic, ["10:00:00"])
    insert = "INSERT INTO nowhere SELECT id FROM events"
    with_splits = in_batches(pipeline.start(insert), 1)
    assert scraped(with_splits, "penstock_split_position")
    with_splits.stop()
    pipeline.session.sql("SET 'metrics.per-split' = 'false'")
    pipeline.write(topic, ["10:00:01"])
    without = in_batches(pipeline.start(insert), 1)

    assert scraped(without, "penstock_split_position") == {}
    assert scraped(without, "penstock_lag_records") == {("events",): 0}


def test_late_rows_are_those_of_the_table_that_they_were_read_from(pipeline: Pipeline) -> None:
    """Of two tables whose windows are closed, one has a row of an hour before."""
    topics = [pipeline.table("events", TIMED), pipeline.table("others", TIMED)]
    for topic in topics:
        pipeline.write(topic, ["12:00:00"])
    counts = [
        "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE "
        f"{name}, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
        for name in ("events", "others")
    ]
    job = in_batches(pipeline.start(f"INSERT INTO counted {' UNION ALL '.join(counts)}"), 1)
    pipeline.write(topics[1], ["11:00:00", "11:00:01"])

    wait_until(lambda: job.progress.rows_dropped >= 2, seconds=60, what="the late rows")
    assert scraped(job, "penstock_rows_late_total") == {("events",): 0, ("others",): 2}


def test_late_rows_of_stages_are_those_of_the_table_that_the_stage_waits_for(
    pipeline: Pipeline,
) -> None:
    """An OVER aggregate drops what is behind the watermark."""
    topic = pipeline.table("events", TIMED)
    pipeline.table("others", TIMED)
    pipeline.write(topic, ["12:00:00"])
    job = in_batches(
        pipeline.start(
            "INSERT INTO nowhere SELECT a.n FROM (SELECT id, COUNT(*) OVER "
            "(PARTITION BY id ORDER BY ts) AS n FROM events) AS a UNION ALL SELECT id FROM others"
        ),
        1,
    )
    pipeline.write(topic, ["11:00:00"])

    wait_until(lambda: job.progress.rows_dropped >= 1, seconds=60, what="the late row")
    assert scraped(job, "penstock_rows_late_total") == {("events",): 1, ("others",): 0}


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_late_rows_of_a_join_are_those_of_the_side_that_they_came_on(
    pipeline: Pipeline, kind: str
) -> None:
    """Both sides are two minutes behind the watermark of neither, and rows of an hour before come on one."""
    topics = [pipeline.table("events", TIMED), pipeline.table("others", TIMED)]
    for topic in topics:
        pipeline.write(topic, ["12:00:00"])
    within = "BETWEEN b.ts - INTERVAL '1' MINUTE AND b.ts + INTERVAL '1' MINUTE"
    job = in_batches(
        pipeline.start(
            f"INSERT INTO nowhere SELECT a.id FROM events AS a {kind} others AS b "
            f"ON a.id = b.id AND a.ts {within}"
        ),
        1,
    )
    pipeline.write(topics[1], ["11:00:00", "11:00:01", "11:00:02"])
    pipeline.write(topics[0], ["11:00:00"])

    wait_until(lambda: job.progress.rows_dropped >= 4, seconds=60, what="the late rows")
    assert scraped(job, "penstock_rows_late_total") == {("events",): 1, ("others",): 3}


def test_the_record_that_fails_a_pipeline_is_counted(pipeline: Pipeline) -> None:
    """The pipeline is over by then, and its series is still there."""
    topic = pipeline.table("events", TIMED)
    pipeline.write(topic, ["12:00:00"])
    job = in_batches(pipeline.start(COUNT), 1)
    name = "penstock_bad_records_total"
    before = scraped(job, name)
    pipeline.kafka.produce(topic, [b"no json"])

    assert job.wait(60)
    failed = {("failed", "undecodable", "events"): 1, ("failed", "future", "events"): 0}
    assert {key: value for key, value in before.items() if key[0] == "failed"} == dict.fromkeys(
        failed, 0
    )
    assert scraped(job, name) == failed


def test_transactions_are_counted_and_those_of_a_batch_that_fails_apart(
    pipeline: Pipeline,
) -> None:
    """A record that cannot be decoded ends the second batch, whose transactions are open by then."""
    topic = pipeline.table("events", PLAIN)
    pipeline.table(
        "sent",
        PLAIN,
        sink_delivery__guarantee="exactly-once",
        sink_transactional__id__prefix="counted",
        sink_parallelism="2",
    )
    pipeline.kafka.produce_json(topic, [{"id": 1}])
    job = in_batches(pipeline.start("INSERT INTO sent SELECT id FROM events"), 1)
    before = scraped(job, "penstock_kafka_transactions_total")
    pipeline.kafka.produce(topic, [b"no json"])

    assert job.wait(60)
    assert before == {("ok", "sent"): 2, ("failed", "sent"): 0}
    assert job.batches is not None
    (commits,) = job.batches.commits.values()
    assert (commits.transactions, commits.failed_transactions) == (2, 2)


def test_bad_records_are_by_kind_and_by_what_becomes_of_them(pipeline: Pipeline) -> None:
    """One is kept as a dead letter, the other is of a time that is years ahead, and is only counted."""
    options = {
        "bad__records": "dead-letter",
        "scan_watermark_on__future": "skip",
        "properties_group_id": "readers",
    }
    topic = pipeline.table("events", TIMED, **options)
    pipeline.write(topic, ["12:00:00"])
    pipeline.kafka.produce(topic, [b"no json"])
    pipeline.kafka.produce_json(topic, [{"id": 1, "ts": "2124-05-01 12:00:00"}] * 2)
    job = pipeline.start(COUNT)

    wait_until(lambda: job.progress.bad_records >= 3, seconds=60, what="the bad records")
    assert scraped(job, "penstock_bad_records_total") == {
        ("dead_letter", "undecodable", "events"): 1,
        ("skipped", "future", "events"): 2,
    }


def test_commits_of_the_group_are_counted_and_a_table_without_one_has_none(
    pipeline: Pipeline,
) -> None:
    """The commit of a batch has ended a moment after it, without another one."""
    topic = pipeline.table("events", TIMED, properties_group_id="readers")
    pipeline.table("others", TIMED)
    pipeline.write(topic, ["12:00:00"])
    job = pipeline.start(
        "INSERT INTO nowhere SELECT id FROM events UNION ALL SELECT id FROM others"
    )
    name = "penstock_offset_commits_total"

    wait_until(lambda: scraped(job, name).get(("ok", "events")) == 1, seconds=60, what="a commit")
    assert scraped(job, name) == {
        ("ok", "events"): 1,
        ("failed", "events"): 0,
        ("skipped", "events"): 0,
    }
