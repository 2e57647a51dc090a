"""Runs from topic to topic whose tasks write the records, and runs of the same checkpoint in which Spark does."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientPartition
from pyspark.sql import SparkSession

import penstock
from penstock.catalog.errors import SinkError
from penstock.connector.kafka.client.connection import Connection, TopicPartition
from penstock.connector.kafka.sink.client import SinkAdmin
from penstock.connector.kafka.sink.protocol import read_marker
from penstock.connector.scan import Scan, write_scan
from penstock.connector.spark.source import frame as scan_frames
from penstock.sql.jobs.progress import JobProgress
from tests.connector.kafka.sink.writing import committed, values

if TYPE_CHECKING:
    from tests.kafka_server import KafkaServer

ONCE = (
    "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{sink}', "
    "'sink.parallelism' = '{slots}', "
)
SCRIPT = """
SET 'pipeline.name' = '{sink}';
SET 'restart-strategy.type' = 'none';
CREATE TEMPORARY TABLE orders (id BIGINT, name STRING, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') WITH (
  'connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'json.ignore-parse-errors' = 'true',
  'scan.max-records-per-batch' = '{batch}');
CREATE TEMPORARY TABLE copied (id BIGINT NOT NULL, `name` STRING, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') WITH (
  'connector' = 'kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{bootstrap}',
  'key.format' = 'json', 'key.fields' = 'id', 'value.format' = 'json', {once}'sink.writer' = '{writer}');
INSERT INTO copied SELECT id, name, at FROM orders WHERE id >= 0;
"""
SLOTS = 2


class Copies:
    """Two topics and the script that copies one into the other."""

    def __init__(self, kafka: KafkaServer, topic: Callable[..., str], project: Path) -> None:
        self.kafka = kafka
        self.source, self.sink = topic(partitions=3), topic(partitions=2)
        self.script = project / "copy.sql"

    def send(self, first: int, count: int) -> None:
        """Send rows with ids from `first`, in turn into the partitions."""
        for partition in range(3):
            rows = [
                {"id": i, "name": f"n{i}"}
                for i in range(first, first + count)
                if i % 3 == partition
            ]
            self.kafka.produce_json(self.source, rows, partition=partition)

    def run(
        self,
        spark: SparkSession,
        writer: str = "auto",
        *,
        once: bool = True,
        batch: int = 1000,
        script: str = SCRIPT,
    ) -> JobProgress:
        """Run the script to the ends that the topic has. Raises what ended the job."""
        places = {
            "source": self.source,
            "sink": self.sink,
            "bootstrap": self.kafka.bootstrap,
            "slots": SLOTS,
        }
        text = script.format(
            **places, once=ONCE.format(**places) if once else "", writer=writer, batch=batch
        )
        self.script.write_text(text, encoding="utf-8")
        with penstock.connect(spark) as session:
            (job,) = session.run_file(self.script, available_now=True)
            if job.exception is not None:
                raise job.exception
            return job.progress

    def ids(self) -> list[int]:
        """The ids that readers of committed records see, sorted."""
        return sorted(json.loads(value)["id"] for value in values(self.kafka, self.sink, 2))


@pytest.fixture
def copies(kafka: KafkaServer, topic: Callable[..., str], project: Path) -> Copies:
    """Copies of a topic of its own."""
    return Copies(kafka, topic, project)


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether tasks write, of each frame that is built."""
    found: list[bool] = []

    def write(scan: Scan, path: Path) -> None:
        found.append(scan.output is not None)
        write_scan(scan, path)

    monkeypatch.setattr(scan_frames, "write_scan", write)
    return found


@pytest.mark.parametrize("once", [True, False], ids=["exactly once", "at least once"])
def test_records_of_tasks_are_those_that_spark_writes(
    spark: SparkSession, copies: Copies, writers: list[bool], *, once: bool
) -> None:
    """Keys, values and times, in the order of each split; rows in and out and bad records are counted alike."""
    copies.send(-3, 63)
    copies.kafka.produce_json(copies.source, ["bad"], partition=1)
    first, one = copies.sink, copies.run(spark, once=once, batch=20)
    copies.sink = copies.kafka.create_topic(partitions=2)
    other = copies.run(spark, "spark", once=once, batch=20)
    written = [
        sorted(
            (m.partition(), m.key(), m.value(), m.timestamp())
            for m in committed(copies.kafka, name, 2)
        )
        for name in (first, copies.sink)
    ]

    assert writers == [True, False]
    assert written[0] == written[1]
    assert len(written[0]) == 60
    assert (one.rows_in, one.rows_out, one.bad_records) == (
        other.rows_in,
        other.rows_out,
        other.bad_records,
    )
    assert (one.rows_in, one.rows_out, one.bad_records) == (63, 60, 1)


def set_back(kafka: KafkaServer, sink: str, slots: Sequence[str]) -> str:
    """Take a batch from the slot that has no rows of it, as if its task had been killed before it committed."""
    admin = SinkAdmin(Connection.of({"bootstrap.servers": kafka.bootstrap}))
    topic = TopicPartition(sink, 0)
    found = {slot: read_marker(admin, slot, topic) for slot in slots}
    (empty,) = (slot for slot, marker in found.items() if marker is not None and not marker.rows)
    marker = found[empty]
    assert marker is not None
    offset = ClientPartition(sink, 0, marker.next_batch - 1)
    request = ConsumerGroupTopicPartitions(empty, [offset])
    (answer,) = admin.admin.alter_consumer_group_offsets([request]).values()
    answer.result(30)
    return empty


@pytest.mark.parametrize(("began", "other"), [("auto", "spark"), ("spark", "auto")])
def test_a_batch_is_ended_by_those_who_began_it(
    spark: SparkSession,
    copies: Copies,
    project: Path,
    writers: list[bool],
    *,
    began: str,
    other: str,
) -> None:
    """One slot of two has it, and the other way is asked for: that begins with the next start, and no row is twice."""
    chosen = []
    copies.send(0, 1)
    copies.run(spark, began)
    chosen.append(writers[-1])  # a start that a busy machine makes twice chooses twice
    (folder,) = project.glob("**/commits")
    (ledger,) = (folder.parent / "kafka-sinks").iterdir()
    for path in folder.glob("*0*"):
        path.unlink()
    slots = [f"{copies.sink}-{ledger.name}-{slot}" for slot in range(SLOTS)]
    empty = set_back(copies.kafka, copies.sink, slots)
    copies.run(spark, other)
    chosen.append(writers[-1])
    admin = SinkAdmin(Connection.of({"bootstrap.servers": copies.kafka.bootstrap}))
    after = read_marker(admin, empty, TopicPartition(copies.sink, 0))
    copies.send(1, 5)
    copies.run(spark, other)
    chosen.append(writers[-1])

    assert after is not None
    assert after.next_batch == 1
    assert chosen == [began == "auto", began == "auto", other == "auto"]
    assert copies.ids() == list(range(6))


def test_a_bad_row_ends_the_query_and_leaves_no_transaction_open(
    spark: SparkSession, copies: Copies
) -> None:
    """NULL in a column that is NOT NULL: readers see the records behind it at once, without its timeout."""
    copies.send(0, 3)
    copies.kafka.produce_json(copies.source, [{"name": "no id"}], partition=0)
    script = SCRIPT.replace(" WHERE id >= 0", "")
    with pytest.raises(SinkError, match="column id is NOT NULL, and the query gives NULL"):
        copies.run(spark, script=script)
    copies.kafka.produce_json(copies.sink, [{"id": 9}], partition=0)

    assert 9 in copies.ids()
