"""What a pipeline from Kafka to Delta promises beyond windows: offsets, bad records, loss, topics made again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.catalog.errors import (
    BadRecordError,
    DataLossError,
    OptionError,
    StateMismatchError,
    TopicChangedError,
)
from penstock.sql.jobs.job import Job
from penstock.sql.session.session import Session
from tests.integration.pipeline import wait_until
from tests.kafka_server import KafkaServer

TABLE = """
CREATE TABLE IF NOT EXISTS events (id BIGINT, name STRING, twice AS id * 2)
WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
      'properties.group.id' = 'group-of-{topic}', 'scan.startup.mode' = 'earliest-offset',
      'format' = 'json'{options})
"""
COPIED = """
CREATE TABLE IF NOT EXISTS copied (id BIGINT, name STRING, twice BIGINT)
WITH ('connector' = 'delta', 'path' = 'copied')
"""
INSERT = "INSERT INTO copied SELECT id, name, twice FROM events"


@pytest.fixture
def session(spark: SparkSession, project: Path) -> Iterator[Session]:
    """A session in an empty project."""
    with penstock.connect(spark) as session:
        yield session


def define(session: Session, kafka: KafkaServer, topic: str, options: str = "") -> None:
    """Define the source and the sink."""
    session.sql(TABLE.format(topic=topic, bootstrap=kafka.bootstrap, options=options))
    session.sql(COPIED)


def run_available(session: Session, statement: str = INSERT) -> Job:
    """Run an INSERT over what is there, to its end."""
    script = Path.cwd() / "copy.sql"
    script.write_text(statement, encoding="utf-8")
    (job,) = session.run_file(script, available_now=True)
    return job


def read_copied(session: Session, project: Path) -> list[int]:
    """Give the ids in the sink, sorted."""
    frame = session.spark.read.format("delta").load(str(project / "copied"))
    return sorted(row.id for row in frame.collect())


def test_the_group_is_at_the_end_when_the_run_is(
    session: Session, kafka: KafkaServer, project: Path
) -> None:
    """Spark never commits the last batch to the source; lag tools see 0 all the same."""
    topic = kafka.create_topic(partitions=2)
    for partition in range(2):
        kafka.produce_json(topic, [{"id": i, "name": "x"} for i in range(50)], partition=partition)
    define(session, kafka, topic)
    run_available(session)

    wait_until(
        lambda: kafka.committed(f"group-of-{topic}", topic, range(2)) == {0: 50, 1: 50},
        seconds=60,
        what="committed group offsets",
    )


def test_the_next_run_reads_only_what_is_new(
    session: Session, kafka: KafkaServer, project: Path
) -> None:
    """The checkpoint, not the group, says where to go on; a new partition starts at its first record."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, [{"id": i} for i in range(3)])
    define(session, kafka, topic)
    run_available(session)
    kafka.add_partitions(topic, 2)
    kafka.produce_json(topic, [{"id": 3}])
    kafka.produce_json(topic, [{"id": 4}], partition=1)
    job = run_available(session)

    assert job.progress.rows_in == 2
    assert read_copied(session, project) == [0, 1, 2, 3, 4]


def test_new_partitions_are_found_while_running(
    session: Session, kafka: KafkaServer, project: Path
) -> None:
    """Discovery happens between batches, no restart is needed."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, [{"id": 0}])
    define(session, kafka, topic, ", 'scan.topic-partition-discovery.interval' = '200 ms'")
    job = session.sql(INSERT)
    assert isinstance(job, Job)
    wait_until(lambda: job.progress.rows_in == 1, seconds=180, what="the first row")
    kafka.add_partitions(topic, 3)
    kafka.produce_json(topic, [{"id": 1}], partition=2)
    wait_until(lambda: job.progress.rows_in == 2, seconds=180, what="the row of the new partition")
    job.stop()

    assert job.exception is None
    assert read_copied(session, project) == [0, 1]


def test_a_bad_record_is_named(session: Session, kafka: KafkaServer, project: Path) -> None:
    """Topic, partition, offset and what is wrong; nothing of the batch is written."""
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, ['{"id": 1}', '{"id": "one"}', '{"id": 3}'], partition=1)
    define(session, kafka, topic)
    with pytest.raises(BadRecordError) as caught:
        run_available(session).await_termination(1)

    message = caught.value.message
    assert topic in message
    assert "partition 1" in message
    assert "offset 1" in message
    assert "id" in message


def test_bad_records_are_skipped_and_counted(
    session: Session, kafka: KafkaServer, project: Path
) -> None:
    """A bad record never costs a good one; the count is exact."""
    topic = kafka.create_topic()
    values = ['{"id": 1}', "no json", '{"id": 2}', "{", '{"id": 3}{"id": 4}', '{"id": 5}']
    kafka.produce(topic, values)
    define(session, kafka, topic, ", 'json.ignore-parse-errors' = 'true'")
    job = run_available(session)

    # of two objects in one record Flink reads the first
    assert read_copied(session, project) == [1, 2, 3, 5]
    assert job.progress.bad_records == 2
    assert job.progress.rows_in == job.progress.rows_out == 4


def test_deleted_records_fail_the_query(
    session: Session, kafka: KafkaServer, project: Path
) -> None:
    """Retention overtook the pipeline: the error names topic, partition and both offsets."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, [{"id": i} for i in range(5)])
    define(session, kafka, topic)
    run_available(session)
    kafka.produce_json(topic, [{"id": i} for i in range(5, 10)])
    kafka.delete_records(topic, {0: 8})
    with pytest.raises(DataLossError) as caught:
        run_available(session).await_termination(1)

    assert topic in caught.value.message
    assert "5" in caught.value.message
    assert "8" in caught.value.message


def test_deleted_records_are_passed_over_where_the_table_says_so(
    session: Session, kafka: KafkaServer, project: Path
) -> None:
    """scan.on-data-loss = continue; how many is counted."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, [{"id": i} for i in range(5)])
    define(session, kafka, topic, ", 'scan.on-data-loss' = 'continue'")
    run_available(session)
    kafka.produce_json(topic, [{"id": i} for i in range(5, 10)])
    kafka.delete_records(topic, {0: 8})
    job = run_available(session)

    assert job.progress.records_lost == 3
    assert read_copied(session, project) == [0, 1, 2, 3, 4, 8, 9]


def test_a_topic_made_again_is_an_error(
    session: Session, kafka: KafkaServer, project: Path
) -> None:
    """Offsets exist again with other records: never a continuation."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, [{"id": i} for i in range(3)])
    define(session, kafka, topic)
    run_available(session)
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    kafka.produce_json(topic, [{"id": i} for i in range(100, 110)])
    with pytest.raises(TopicChangedError):
        run_available(session).await_termination(1)

    assert read_copied(session, project) == [0, 1, 2]


def test_a_query_that_no_longer_fits_is_refused(
    session: Session, kafka: KafkaServer, project: Path
) -> None:
    """A filter may change between two runs, the sources may not; the error says how to start over."""
    topic, other = kafka.create_topic(), kafka.create_topic()
    kafka.produce_json(topic, [{"id": i} for i in range(3)])
    define(session, kafka, topic)
    run_available(session)
    kafka.produce_json(topic, [{"id": 7}, {"id": 8}])
    run_available(session, INSERT + " WHERE id > 7")
    session.sql(
        TABLE.format(topic=other, bootstrap=kafka.bootstrap, options="").replace("events", "others")
    )
    with pytest.raises(Exception) as caught:
        run_available(session, INSERT.replace("events", "others"))
    errors = getattr(caught.value, "errors", (caught.value,))

    assert isinstance(errors[0], StateMismatchError)
    assert "pipeline.name" in (errors[0].hint or "")
    assert read_copied(session, project) == [0, 1, 2, 8]


def test_a_bounded_table_is_a_plain_frame(
    session: Session, kafka: KafkaServer, project: Path
) -> None:
    """A query over a bounded table can be collected, its computed columns and metadata included."""
    topic = kafka.create_topic()
    kafka.produce_json(topic, [{"id": i, "name": f"n{i}"} for i in range(3)])
    session.sql(f"""
        CREATE TEMPORARY TABLE bounded (id BIGINT, place BIGINT METADATA FROM 'offset' VIRTUAL, twice AS id * 2)
        WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{kafka.bootstrap}',
              'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json')""")
    frame = session.sql("SELECT id, place, twice FROM bounded WHERE id > 0")
    count = session.sql("SELECT COUNT(*) AS n FROM bounded")

    assert frame is not None
    assert not frame.isStreaming
    assert sorted(map(tuple, frame.collect())) == [(1, 1, 2), (2, 2, 4)]
    assert count.collect()[0].n == 3


def test_wrong_options_are_refused_at_create(session: Session, project: Path) -> None:
    """Before anything is kept: the table is not there afterwards, and the near name is told."""
    with pytest.raises(OptionError) as caught:
        session.sql("""
            CREATE TABLE wrong (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 't',
              'properties.bootstrap.servers' = 'localhost:1', 'format' = 'json',
              'scan.startup.moode' = 'earliest-offset')""")
    listed = session.sql("SHOW TABLES")

    assert "scan.startup.mode" in (caught.value.hint or "")
    assert listed is not None
    assert listed.collect() == []
