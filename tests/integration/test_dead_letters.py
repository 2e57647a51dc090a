"""Dead letters of a Kafka table: exactly once through kills, looked at, and given back once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

import penstock
from penstock.catalog.errors import BadRecordError, SinkError, UnknownObjectError
from penstock.connector.dead_letters.store import DeadLetterStore
from penstock.sql.cli.output.dead_letter_text import counts_document, letter_document, letter_lines
from penstock.sql.jobs.job import Job
from penstock.sql.runner.dead_letters import DeadLetterReplayer, find_dead_letter_stores
from penstock.sql.session.session import Session
from tests.faults.faulty import FaultyPipeline
from tests.integration.pipeline import delta_rows
from tests.kafka_server import KafkaServer

RECORDS, EVERY = 3_000, 100
"""Records of each of two partitions, and one of how many is bad."""

SQL = """
    CREATE TABLE IF NOT EXISTS orders (k BIGINT, id BIGINT) WITH (
      'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
      'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
      'scan.max-records-per-batch' = '{limit}', 'value.format' = 'json', 'key.format' = 'raw', 'key.fields' = 'k',
      'value.fields-include' = 'EXCEPT_KEY', 'bad-records' = '{policy}'{more}
    );
    CREATE TABLE IF NOT EXISTS kept (k BIGINT, id BIGINT) WITH ('connector' = 'delta', 'path' = 'kept');
    INSERT INTO kept SELECT k, id FROM orders;
"""
BAD_KEY, BAD_VALUE, BAD_BOTH = 7, 57, 91
"""Which of a hundred records are bad, and where."""


def record(number: int) -> tuple[bytes, bytes]:
    """Key and value of a record."""
    kind = number % EVERY
    key = b"no key" if kind in (BAD_KEY, BAD_BOTH) else number.to_bytes(8, "big")
    value = b"\xff%d" % number if kind in (BAD_VALUE, BAD_BOTH) else b'{"id": %d}' % number
    return key, value


def is_good(number: int) -> bool:
    """Tell which records are rows."""
    return number % EVERY not in (BAD_KEY, BAD_VALUE, BAD_BOTH)


def bad_offsets(records: int) -> list[int]:
    """The offsets of bad records in each partition."""
    return [number for number in range(records) if not is_good(number)]


def fill(kafka: KafkaServer, records: int) -> str:
    """Make a topic of two partitions."""
    topic = kafka.create_topic(partitions=2)
    for partition in range(2):
        keys, values = zip(*map(record, range(records)), strict=True)
        times = [1_700_000_000_000 + number for number in range(records)]
        headers = {"trace": b"\x01"}
        kafka.produce(
            topic, values, partition=partition, keys=keys, timestamps_ms=times, headers=headers
        )
    return topic


def sql_of(
    kafka: KafkaServer, topic: str, *, limit: int, policy: str = "dead-letter", more: str = ""
) -> str:
    """The pipeline's file."""
    return SQL.format(topic=topic, bootstrap=kafka.bootstrap, limit=limit, policy=policy, more=more)


def place_of(message: Any) -> tuple[int, int]:
    """Partition and offset of the record that a letter in a topic is of."""
    headers = dict(message.headers())
    return int(headers["__penstock.errors.partition"]), int(headers["__penstock.errors.offset"])


def content(kafka: KafkaServer, topic: str, partition: int = 0) -> list[Any]:
    """The committed records of a partition, up to its end now."""
    end = kafka.watermarks(topic, partition)[1]
    consumer = Consumer(
        kafka.client_settings(
            group_id="test-content", enable_partition_eof=True, auto_offset_reset="earliest"
        )
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Any] = []
    try:
        while end and consumer.position([TopicPartition(topic, partition)])[0].offset < end:
            message = consumer.poll(10)
            assert message is not None, "the topic ends too early"
            if message.error() is None:
                found.append(message)
    finally:
        consumer.close()
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("policy", "in_topic", "moments"),
    [
        ("skip", False, [("written", 2)]),
        ("dead-letter", False, [("written", 2), ("committed", 1), ("read-to-end", 1)]),
        ("dead-letter", True, [("written", 2), ("transaction-committed", 1), ("committed", 1)]),
    ],
)
@pytest.mark.faults
def test_bad_records_are_left_out_once_through_kills(
    kafka: KafkaServer,
    project: Path,
    policy: str,
    in_topic: bool,
    moments: list[tuple[str, int]],
) -> None:
    """Case 37: read = rows + bad records, by partition and offset, whatever dies between rows, letters and the end."""
    topic, letters_in = fill(kafka, RECORDS), kafka.create_topic()
    script = project / "job.sql"
    more = f", 'dead-letter.topic' = '{letters_in}'" if in_topic else ""
    text = sql_of(kafka, topic, limit=1500, policy=policy, more=more)
    script.write_text(text, encoding="utf-8")
    pipeline = FaultyPipeline(project, script)
    for failpoint, visit in moments:
        pipeline.hold_at(failpoint, visit=visit)
        pipeline.kill()
    pipeline.catch_up()
    rows = delta_rows(project / "kept", "SELECT id, count(*) FROM {table} GROUP BY id ORDER BY id")

    assert rows == [(number, 2) for number in range(RECORDS) if is_good(number)]
    if in_topic:
        found = sorted(place_of(message) for message in content(kafka, letters_in))
        assert found == [(p, offset) for p in range(2) for offset in bad_offsets(RECORDS)]
    elif policy == "dead-letter":
        query = 'SELECT "partition", "offset", count(*) FROM {table} GROUP BY ALL ORDER BY ALL'
        letters = delta_rows(pipeline.checkpoint("kept") / "dead-letters", query)
        assert letters == [(p, offset, 1) for p in range(2) for offset in bad_offsets(RECORDS)]


@pytest.fixture
def session(spark: SparkSession, project: Path) -> Iterator[Session]:
    """A session in an empty project."""
    with penstock.connect(spark) as session:
        yield session


def run_to_end(session: Session, script: Path) -> Job:
    """Run a file with one INSERT."""
    (job,) = session.run_file(script, available_now=True)
    job.await_termination(1)
    return job


def the_shelf(session: Session, workdir: Path) -> DeadLetterStore:
    """The dead letters that the pipeline kept."""
    (found,) = find_dead_letter_stores(
        session.spark, session.project, session.catalog, workdir, pipelines=("job",), path=None
    )
    return found


@pytest.fixture
def shelf(session: Session, kafka: KafkaServer, tmp_path: Path) -> DeadLetterStore:
    """The letters of a pipeline that ran to its end."""
    topic = fill(kafka, EVERY)
    script = Path.cwd() / "job.sql"
    script.write_text(sql_of(kafka, topic, limit=1000), encoding="utf-8")
    job = run_to_end(session, script)
    assert job.progress.bad_records == 2 * len(bad_offsets(EVERY))
    return the_shelf(session, tmp_path)


def test_letters_say_how_many_and_why_and_lead_to_their_records(shelf: DeadLetterStore) -> None:
    """Counted by stage and kind of error; bytes that are no text are shown in base64."""
    counted = counts_document([(shelf.path, shelf.counts())])["places"][0]
    letters = [letter_document(row) for row in shelf.newest(2)]
    by_stage = {error["stage"]: error["letters"] for error in counted["errors"]}
    newest = letters[0]
    other = DeadLetterStore(
        spark=shelf.spark, backend=shelf.backend, project=shelf.project, pipelines=("jo",)
    )

    assert (counted["letters"], counted["replayed"], by_stage) == (6, 0, {"key": 2, "value": 4})
    assert (newest["offset"], newest["stage"], newest["key"]) == (BAD_BOTH, "value", "no key")
    assert newest["value_base64"] == "/zkx"
    assert newest["headers"] == [{"key": "trace", "value": "\x01"}]
    assert datetime.fromisoformat(newest["timestamp"]).astimezone(UTC) == datetime.fromtimestamp(
        1_700_000_000.091, UTC
    )
    assert letter_lines(newest)[-1] == "  value in base64: /zkx"
    assert json.dumps(letters)
    assert other.counts() == []


@pytest.mark.nightly
def test_records_are_given_back_as_they_were_and_once(
    shelf: DeadLetterStore,
    session: Session,
    kafka: KafkaServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when the command dies between Kafka's commit and its own note of it."""
    target = kafka.create_topic()
    replayer = DeadLetterReplayer(
        catalog=session.catalog, project=session.project.root, target=target
    )
    told = list(replayer.run(shelf, really=False))
    nothing = content(kafka, target)
    (same,) = find_dead_letter_stores(
        session.spark,
        session.project,
        session.catalog,
        tmp_path,
        pipelines=("job/kept",),
        path=None,
    )
    with pytest.raises(UnknownObjectError, match="no topic 'nowhere'"):
        list(replace(replayer, target="nowhere").run(shelf, really=True))
    finish = DeadLetterStore.finish

    def dies(*_: object) -> None:
        raise SinkError("the command dies here")

    monkeypatch.setattr(DeadLetterStore, "finish", dies)
    with pytest.raises(SinkError, match="dies here"):
        list(replayer.run(shelf, really=True))
    monkeypatch.setattr(DeadLetterStore, "finish", finish)
    again = list(replayer.run(shelf, really=True))
    found = content(kafka, target)

    assert told[0].startswith("would replay 6 records of ")
    assert (same.path, len(same.newest(9))) == (shelf.path, 6)
    assert nothing == []
    assert again[0].startswith("found written 6 records of ")
    assert list(replayer.run(shelf, really=True)) == []
    assert sorted((m.key(), m.value()) for m in found) == sorted(
        record(number) for number in bad_offsets(EVERY) for _ in range(2)
    )
    assert {m.timestamp()[1] - 1_700_000_000_000 for m in found} == set(bad_offsets(EVERY))
    assert {tuple(m.headers() or ()) for m in found} == {(("trace", b"\x01"),)}
    assert shelf.counts()[0].replayed == shelf.counts()[0].letters


@pytest.mark.nightly
def test_letters_in_a_topic_are_there_once_and_lead_to_their_records(
    session: Session, kafka: KafkaServer, tmp_path: Path
) -> None:
    """A batch of which only Spark's note is lost is run again: the topic has its letters. Then as with a table."""
    letters_in, target = kafka.create_topic(), kafka.create_topic()
    script = Path.cwd() / "job.sql"
    more = f", 'dead-letter.topic' = '{letters_in}'"
    script.write_text(sql_of(kafka, fill(kafka, EVERY), limit=1000, more=more), encoding="utf-8")
    run_to_end(session, script)
    Path(".penstock/checkpoints/job/kept/commits/0").unlink()
    Path(".penstock/checkpoints/job/kept/commits/.0.crc").unlink()
    run_to_end(session, script)
    shelf = the_shelf(session, tmp_path)
    newest = letter_document(shelf.newest(1)[0])
    replayer = DeadLetterReplayer(
        catalog=session.catalog, project=session.project.root, target=target
    )
    told = list(replayer.run(shelf, really=True))
    written = content(kafka, letters_in)

    assert sorted(map(place_of, written)) == [
        (partition, offset) for partition in range(2) for offset in bad_offsets(EVERY)
    ]
    assert shelf.path == f"topic {letters_in} at {kafka.bootstrap}"
    assert (newest["offset"], newest["stage"], newest["key"]) == (BAD_BOTH, "value", "no key")
    assert newest["headers"] == [{"key": "trace", "value": "\x01"}]
    assert (newest["pipeline"], newest["batch_id"]) == ("job/kept", 0)
    assert told[0].startswith("replayed 6 records of ")
    assert list(replayer.run(shelf, really=True)) == []
    assert sum(count.replayed for count in shelf.counts()) == 6
    assert sorted((m.key(), m.value()) for m in content(kafka, target)) == sorted(
        record(number) for number in bad_offsets(EVERY) for _ in range(2)
    )

    # what the replay noted lies beside the checkpoints, and is none
    every = find_dead_letter_stores(
        session.spark, session.project, session.catalog, tmp_path, pipelines=None, path=None
    )
    assert [found.path for found in every] == [shelf.path]


def test_a_topic_of_rubbish_stops_before_its_second_batch(
    session: Session, kafka: KafkaServer, tmp_path: Path
) -> None:
    """The circuit breaker (case 38) when each task alone has too few records to know: the driver adds them up."""
    topic = kafka.create_topic(partitions=2)
    for partition in range(2):
        kafka.produce(topic, [b"rubbish"] * 2_000, partition=partition)
    script = Path.cwd() / "job.sql"
    script.write_text(sql_of(kafka, topic, limit=1500), encoding="utf-8")
    with pytest.raises(BadRecordError, match=r"too many bad records in a batch: 1,500 of 1,500"):
        run_to_end(session, script)
    shelf = the_shelf(session, tmp_path)

    assert not list(Path(".penstock/checkpoints/job/kept/commits").glob("[0-9]*"))
    assert shelf.counts() == []
