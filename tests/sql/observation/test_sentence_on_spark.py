"""The sentence of pipelines that run: each rule is brought about by a real query over a real broker.

Where only time is missing, the sentence is asked for as of later.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.sql.cli.output.progress import log_line
from penstock.sql.clock import SystemClock
from penstock.sql.observation.sentence import SentenceRule
from penstock.sql.ui.documents.live import live_pipeline
from tests.integration import test_broker_faults
from tests.integration.pipeline import wait_until
from tests.kafka_server import KafkaServer
from tests.sql.observation.kafka_pipeline import COUNT, PLAIN, Pipeline, running_pipeline

HOUR_MS = 3_600_000
JOIN_IN_TIME = (
    "INSERT INTO ids SELECT a.id FROM orders AS a LEFT JOIN payments AS b ON a.id = b.id + 100 "
    "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND"
)


def test_each_rule_is_brought_about_here() -> None:
    """A rule without a test below, or of a broker that dies, would be one that no pipeline may ever come to."""
    files = Path(__file__), Path(test_broker_faults.__file__)
    text = "".join(file.read_text(encoding="utf-8") for file in files)

    assert [rule for rule in SentenceRule if f"SentenceRule.{rule.name}" not in text] == []


@pytest.fixture
def pipeline(spark: SparkSession, kafka: KafkaServer, project: Path) -> Iterator[Pipeline]:
    """A pipeline in an empty project."""
    assert project == Path.cwd()
    with running_pipeline(spark, kafka) as pipeline:
        yield pipeline


def test_a_pipeline_that_reads_what_there_is_is_caught_up(pipeline: Pipeline) -> None:
    """And once it is stopped, it says so."""
    topic = pipeline.table("events")
    pipeline.write(topic, ["10:00:00"])
    job = pipeline.start("INSERT INTO ids SELECT id FROM events")

    assert pipeline.said(job, SentenceRule.READING, also=lambda said: said == "caught up")
    job.stop()
    assert pipeline.said(job, SentenceRule.ENDED).startswith("stopped after batch ")


def test_a_pipeline_that_starts_again_with_nothing_to_read_is_caught_up(pipeline: Pipeline) -> None:
    """It says so from its first look at the source on, on a line of the log, too, and has the splits as they were."""
    topic = pipeline.table("events")
    pipeline.write(topic, ["10:00:00"])
    first = pipeline.start("INSERT INTO ids SELECT id FROM events")
    pipeline.said(first, SentenceRule.READING, also=lambda said: said == "caught up")
    first.stop()
    job = pipeline.start("INSERT INTO ids SELECT id FROM events")

    pipeline.said(job, SentenceRule.READING, also=lambda said: said == "caught up")
    looks = 0
    while looks < 20:
        wait_until(lambda: job.progress.activity.startswith("Waiting"), seconds=60, what="a look")
        assert job.sentence == "caught up"
        line = log_line(job.observed, SystemClock().now_ms())
        assert line == "ids: caught up"
        looks += 1
    assert (job.progress.batches, job.progress.batch_id) == (0, first.progress.batch_id)
    (table,) = live_pipeline(job)["tables"]
    (split,) = table["splits"]
    assert (split["id"], split["state"], split["position"], split["end"]) == (
        f"{topic}-0",
        "caught_up",
        1,
        1,
    )
    pipeline.write(topic, ["10:00:01"])
    wait_until(lambda: job.progress.batches > 0, seconds=60, what="another batch")
    assert job.progress.rows_in == 1


def test_a_failure_is_said_with_its_first_line(pipeline: Pipeline) -> None:
    """A record that cannot be decoded ends a pipeline that may not start again."""
    topic = pipeline.table("events")
    pipeline.kafka.produce(topic, [b"no json"])
    job = pipeline.start("INSERT INTO ids SELECT id FROM events")

    said = pipeline.said(job, SentenceRule.FAILED)
    assert said.startswith("failed: ")
    assert topic in said


def test_records_that_were_deleted_unread_are_said_with_their_table(pipeline: Pipeline) -> None:
    """While the pipeline was stopped; the page has the number, too."""
    topic = pipeline.table("events", PLAIN, scan_on__data__loss="continue")
    pipeline.kafka.produce_json(topic, [{"id": n} for n in range(2)])
    job = pipeline.start("INSERT INTO ids SELECT id FROM events")
    wait_until(lambda: job.progress.rows_in == 2, seconds=60, what="the first rows")
    job.stop()
    assert job.progress.records_lost == 0
    pipeline.kafka.produce_json(topic, [{"id": n} for n in range(2, 10)])
    pipeline.kafka.delete_records(topic, {0: 7})
    again = pipeline.start("INSERT INTO ids SELECT id FROM events")

    assert pipeline.said(again, SentenceRule.RECORDS_LOST).startswith(
        "lost 5 records of events within 15 min: deleted before they were read"
    )
    assert (again.progress.rows_in, again.progress.records_lost) == (3, 5)
    assert live_pipeline(again)["records_lost"] == 5


def test_records_that_are_gone_at_a_replay_are_counted_by_its_tasks_once(
    pipeline: Pipeline, project: Path
) -> None:
    """The batch was planned with them, failed, and is read again from the checkpoint's offsets."""
    well = project / "well"
    pipeline.function(
        project,
        "checked",
        f"    if not Path({str(well)!r}).exists():\n        raise ValueError('not yet')\n    return n",
    )
    topic = pipeline.table("events", PLAIN, scan_on__data__loss="continue")
    pipeline.kafka.produce_json(topic, [{"id": n} for n in range(10)])
    job = pipeline.start("INSERT INTO ids SELECT checked(id) AS id FROM events")
    pipeline.said(job, SentenceRule.FAILED)
    pipeline.kafka.delete_records(topic, {0: 7})
    well.touch()
    again = pipeline.start("INSERT INTO ids SELECT checked(id) AS id FROM events")

    assert pipeline.said(again, SentenceRule.RECORDS_LOST).startswith("lost 7 records of events ")
    assert (again.progress.rows_in, again.progress.records_lost) == (3, 7)
    pipeline.kafka.produce_json(topic, [{"id": 10}])
    wait_until(lambda: again.progress.rows_in == 4, seconds=60, what="the next batch")
    assert again.progress.records_lost == 7


def test_a_restart_is_said_with_its_number_and_the_error(pipeline: Pipeline, project: Path) -> None:
    """While the pipeline waits for its turn."""
    pipeline.function(project, "scored", "    raise ConnectionError('the model server is gone')")
    pipeline.session.sql("SET 'restart-strategy.type' = 'fixed-delay'")
    pipeline.session.sql("SET 'restart-strategy.fixed-delay.delay' = '1 min'")
    topic = pipeline.table("events", PLAIN)
    pipeline.kafka.produce_json(topic, [{"id": 1}])
    job = pipeline.start("INSERT INTO nowhere SELECT scored(id) FROM events")

    said = pipeline.said(job, SentenceRule.RESTARTING)
    assert said.startswith("restarts after: ")
    assert "the model server is gone" in said


def test_a_split_that_is_being_read_holds_the_watermark_with_what_is_left(
    pipeline: Pipeline,
) -> None:
    """One partition has a day to catch up with: no option helps, and none is advised."""
    topic = pipeline.table("events", partitions=2, scan_max__records__per__batch="2")
    pipeline.write(topic, ["08:00:00"] * 400, 0)
    pipeline.write(topic, ["23:00:00"], 1)
    job = pipeline.start(COUNT)

    said = pipeline.said(
        job, SentenceRule.SPLIT_BEHIND, also=lambda said: said.endswith("are not read yet")
    )
    assert f"split {topic}-0 holds the watermark at 2024-05-01 08:00:00Z, 15 h behind" in said


def test_a_batch_that_hangs_is_said_with_the_median(pipeline: Pipeline, project: Path) -> None:
    """A function that waits keeps the second batch from ending."""
    pipeline.function(
        project,
        "passed",
        f"    while n == 7 and not Path({str(project / 'open')!r}).exists():\n"
        "        time.sleep(0.05)\n"
        "    return n",
    )
    topic = pipeline.table("events", PLAIN)
    pipeline.kafka.produce_json(topic, [{"id": 1}])
    job = pipeline.start("INSERT INTO ids SELECT passed(id) FROM events")
    pipeline.said(job, SentenceRule.READING, also=lambda said: said == "caught up")
    pipeline.kafka.produce_json(topic, [{"id": 7}])
    said = pipeline.said(job, SentenceRule.LONG_BATCH, later_ms=HOUR_MS)
    (project / "open").touch()

    assert "runs for 1 h" in said
    assert "(median " in said


def test_a_split_that_is_hours_behind_holds_the_watermark(pipeline: Pipeline) -> None:
    """It is named, with since when it has had no record, and the option that lets the others go on."""
    topic = pipeline.table("events", partitions=2)
    pipeline.write(topic, ["08:00:00"], 0)
    pipeline.write(topic, ["12:00:00", "12:01:00"], 1)
    job = pipeline.start(COUNT)

    said = pipeline.said(
        job, SentenceRule.SPLIT_BEHIND, later_ms=HOUR_MS, also=lambda said: "silent for 1 h" in said
    )
    assert f"split {topic}-0 holds the watermark at 2024-05-01 08:00:00Z, 4 h 1 min behind" in said
    assert said.endswith("set scan.watermark.idle-timeout")


def test_splits_that_fell_silent_together_hold_the_watermark(pipeline: Pipeline) -> None:
    """Two of four, a minute apart: neither is far behind the other."""
    topic = pipeline.table("events", partitions=4)
    for partition, time in enumerate(["08:00:00", "08:01:00", "12:00:00", "12:00:30"]):
        pipeline.write(topic, [time], partition)
    job = pipeline.start(COUNT)

    said = pipeline.said(
        job, SentenceRule.SPLIT_BEHIND, later_ms=HOUR_MS, also=lambda said: "silent for 1 h" in said
    )
    hold = f"waits: splits {topic}-0, {topic}-1 hold the watermark at 2024-05-01 08:00:00Z"
    assert said.startswith(f"{hold}, 3 h 59 min behind the next; caught up, silent for 1 h")


def test_a_table_that_stopped_having_records_holds_the_watermark(pipeline: Pipeline) -> None:
    """Of a join in time over two tables that no group aligns: rows wait for the one that is behind."""
    orders, payments = pipeline.table("orders"), pipeline.table("payments")
    pipeline.write(orders, ["12:00:01", "12:00:02"])
    pipeline.write(payments, ["08:00:00"])
    job = pipeline.start(JOIN_IN_TIME)

    said = pipeline.said(
        job, SentenceRule.TABLE_BEHIND, later_ms=HOUR_MS, also=lambda said: "silent" in said
    )
    assert "table payments holds the watermark at 2024-05-01 08:00:00Z, 4 h behind" in said
    assert said.endswith("only its records move it on")


def test_a_split_without_a_record_is_what_the_watermark_waits_for(pipeline: Pipeline) -> None:
    """An empty partition beside one with records."""
    topic = pipeline.table("events", partitions=2)
    pipeline.write(topic, ["12:00:00", "12:05:00"], 1)
    job = pipeline.start(COUNT)

    said = pipeline.said(job, SentenceRule.NO_WATERMARK)
    assert f"split {topic}-0 had no record with a time" in said


def test_rows_that_wait_for_the_watermark_are_counted(pipeline: Pipeline) -> None:
    """All is read, and the window is open: the split on which a record closes it is named."""
    topic = pipeline.table("events")
    pipeline.write(topic, ["12:00:01", "12:00:02"])
    job = pipeline.start(COUNT)

    said = pipeline.said(job, SentenceRule.WAITING_ROWS)
    assert said.startswith(
        "caught up: 1 row of its state waits for the watermark, which is at 2024-05-01 12:00:02Z; "
    )
    assert said.endswith(f"must come on split {topic}-0")


def test_rows_of_keyed_operators_wait_for_the_watermark_too(pipeline: Pipeline) -> None:
    """A join in time keeps the rows of one side until the other has passed them by."""
    orders, payments = pipeline.table("orders"), pipeline.table("payments")
    pipeline.write(orders, ["12:00:01", "12:00:02"])
    pipeline.write(payments, ["11:55:00"])
    job = pipeline.start(JOIN_IN_TIME)

    said = pipeline.said(job, SentenceRule.WAITING_ROWS)
    assert "of its state wait for the watermark, which is at 2024-05-01 11:55:00Z" in said
    assert f"split {payments}-0" in said


def test_rows_that_stages_keep_uncounted_may_wait(pipeline: Pipeline) -> None:
    """A stage that computes keys anew does not count its rows: it is not said that the query let none through."""
    delayed = "id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE"
    topic = pipeline.table("events", delayed)
    pipeline.write(topic, ["12:00:01", "12:00:02"])
    job = pipeline.start(
        "INSERT INTO nowhere "
        "SELECT CAST(STDDEV_POP(id) OVER (PARTITION BY id ORDER BY ts) AS BIGINT) FROM events"
    )

    assert pipeline.said(job, SentenceRule.NO_OUTPUT) in (
        "2 rows of the last batch are read, and none came out: the query let none through, "
        "or they wait in its state",
        "2 rows of the last 2 batches are read, and none came out: the query let none through, "
        "or they wait in its state",
    )


def test_groups_that_having_leaves_out_do_not_wait_for_the_watermark(pipeline: Pipeline) -> None:
    """They are in the state of a keyed operator, over a table with a watermark, and no time lets them out."""
    topic = pipeline.table("events")
    pipeline.write(topic, ["12:00:01", "12:00:02"])
    job = pipeline.start(
        "INSERT INTO nowhere SELECT COUNT(*) FROM events GROUP BY id HAVING COUNT(*) > 10"
    )

    said = pipeline.said(job, SentenceRule.NO_OUTPUT, also=lambda said: "in its state" in said)
    assert said.endswith("and the query let none through; 2 rows are in its state")


def test_a_table_without_a_record_beside_one_that_gives_rows_is_no_reason(
    pipeline: Pipeline,
) -> None:
    """Of a union the rows of the other come out."""
    topic = pipeline.table("events")
    pipeline.table("others")
    pipeline.write(topic, ["12:00:00"])
    job = pipeline.start("INSERT INTO ids SELECT id FROM events UNION ALL SELECT id FROM others")

    wait_until(lambda: job.progress.rows_out == 1, seconds=60, what="the row")
    assert job.observed.sentence(SystemClock().now_ms()).rule is not SentenceRule.NEVER_READ


def test_splits_that_an_alignment_group_holds_are_said_with_the_reason(
    pipeline: Pipeline,
) -> None:
    """One table is a day ahead of the other, which has no more records."""
    aligned = {
        "scan_watermark_alignment_group": "g",
        "scan_watermark_alignment_max__drift": "1 min",
    }
    slow, fast = pipeline.table("slow", **aligned), pipeline.table("fast", **aligned)
    pipeline.write(slow, ["00:00:00"])
    pipeline.write(fast, [f"{hour:02}:00:00" for hour in range(1, 24)])
    job = pipeline.start(
        "INSERT INTO ids SELECT a.id FROM slow AS a JOIN fast AS b ON a.id = b.id "
        "AND b.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '5' SECOND"
    )

    said = pipeline.said(job, SentenceRule.PAUSED)
    assert said.startswith("waits: 1 of 1 splits of fast are paused: ")
    assert "'g'" in said


def test_a_table_that_had_no_record_is_named(pipeline: Pipeline) -> None:
    """A join with it gives nothing."""
    topic = pipeline.table("orders", PLAIN)
    pipeline.table("customers", PLAIN)
    pipeline.kafka.produce_json(topic, [{"id": 1}])
    job = pipeline.start(
        "INSERT INTO ids SELECT a.id FROM orders AS a JOIN customers AS b ON a.id = b.id"
    )

    assert pipeline.said(job, SentenceRule.NEVER_READ) == (
        "table customers had no record since the start: a join with it gives nothing"
    )


def test_rows_that_are_all_late_are_said_with_the_watermark(pipeline: Pipeline) -> None:
    """A record of the evening has moved the watermark in a run before."""
    topic = pipeline.table("events")
    pipeline.write(topic, ["23:00:00"])
    job = pipeline.start(COUNT)
    wait_until(lambda: job.progress.batches > 0, seconds=60, what="the record of the evening")
    job.stop()
    pipeline.write(topic, ["08:00:00", "08:00:30"])
    again = pipeline.start(COUNT)

    said = pipeline.said(again, SentenceRule.ALL_LATE)
    assert said.startswith(
        "all 2 rows of the last batch were late: the watermark, 2024-05-01 23:00"
    )
    assert "scan.watermark.max-future" in said


def test_a_query_that_lets_none_through_says_so(pipeline: Pipeline) -> None:
    """Its condition holds for no row."""
    topic = pipeline.table("events", PLAIN)
    pipeline.kafka.produce_json(topic, [{"id": 1}, {"id": 2}])
    job = pipeline.start("INSERT INTO ids SELECT id FROM events WHERE id > 100")

    assert pipeline.said(job, SentenceRule.NO_OUTPUT) == (
        "2 rows of the last batch are read, and the query let none through"
    )


@pytest.mark.nightly
@pytest.mark.slow
def test_a_pipeline_that_reads_more_slowly_than_is_written_falls_behind(pipeline: Pipeline) -> None:
    """Each batch reads one record, while five are written: after a minute the trend is told."""
    topic = pipeline.table("events", PLAIN, scan_max__records__per__batch="1")
    pipeline.kafka.produce_json(topic, [{"id": 1}] * 5)
    job = pipeline.start("INSERT INTO nowhere SELECT id FROM events")
    seen = 0

    def falls_behind() -> bool:
        nonlocal seen
        if job.progress.batches > seen:
            seen = job.progress.batches
            pipeline.kafka.produce_json(topic, [{"id": 1}] * 5)
        return job.observed.sentence(SystemClock().now_ms()).rule is SentenceRule.FALLS_BEHIND

    wait_until(falls_behind, seconds=150, what="a lag that grows")
    said = job.sentence
    assert said.startswith("falls behind: the lag grew from ")
    assert said.endswith(" % of a batch")
