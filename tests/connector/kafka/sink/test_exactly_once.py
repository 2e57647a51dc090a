"""Batches that are written again, in part, by two, or under another checkpoint: on a real broker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.catalog.errors import OptionError, SinkError, StateMismatchError, decode_failure
from penstock.connector.kafka.client.connection import Connection, TopicPartition, admin_connection
from penstock.connector.kafka.sink import batch_files
from penstock.connector.kafka.sink.client import RecordProducer, SinkAdmin, transactional
from penstock.connector.kafka.sink.open_transactions import blocked_partitions
from penstock.connector.kafka.sink.protocol import BatchCommit, Destination, SlotNames, SlotWriter
from penstock.connector.kafka.sink.sink_state import next_batch, read_slots, set_marker
from penstock.sql.cli.commands.app import app
from tests.connector.kafka.sink.writing import (
    KEYED,
    ONCE,
    batch_of,
    committed,
    sink_into,
    values,
)
from tests.integration.pipeline import wait_until
from tests.sql.cli.command_runner import CommandRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.connector.contract import MicroBatch
    from penstock.connector.kafka.sink.sink import KafkaSink
    from tests.kafka_server import KafkaServer

SLOTS = {"sink.parallelism": "3"}


def rows(spark: SparkSession, first: int, count: int = 20) -> DataFrame:
    """Rows with ids from `first`."""
    return spark.range(first, first + count).selectExpr("id", "concat('n', id) AS name")


def ids(kafka: KafkaServer, topic: str) -> list[int]:
    """The ids that readers of committed records see, sorted."""
    return sorted(int(value.split(":")[1].split(",")[0]) for value in values(kafka, topic, 2))


def once(kafka: KafkaServer, topic: str, **more: str) -> KafkaSink:
    """An exactly-once sink of three slots."""
    return sink_into(kafka, topic, {**ONCE, **SLOTS, **KEYED, **more})


def slot_writer(kafka: KafkaServer, topic: str, slot: str, batch_id: int) -> SlotWriter:
    """What a task has in hand, without Spark."""
    return SlotWriter(
        connection=Connection.of({"bootstrap.servers": kafka.bootstrap}),
        timeout_ms=60_000,
        partition=TopicPartition(topic, 0),
        claim=BatchCommit(slot=slot, batch_id=batch_id, first_batch=0, digest="d"),
    )


def records(*texts: str) -> list[pa.RecordBatch]:
    """One batch of records without keys."""
    value = pa.array([text.encode() for text in texts])
    key = pa.nulls(len(texts), pa.binary())
    return [pa.RecordBatch.from_arrays([key, value], names=["key", "value"])]


def only_slot_1(batches: Any, *, task: Any) -> Any:
    """Write as a driver's tasks do that dies after one slot."""
    from pyspark import TaskContext

    from penstock.connector.kafka.sink.tasks import write_slot

    context = TaskContext.get()
    assert context is not None
    if context.partitionId() == 1:
        yield from write_slot(batches, task=task)


def fail_after_slot_1(
    sink: KafkaSink, frame: DataFrame, batch: MicroBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write one of three slots of a batch."""
    monkeypatch.setattr("penstock.connector.kafka.sink.sink.write_slot", only_slot_1)
    with pytest.raises(SinkError, match="not done"):
        sink.write_batch(frame, batch)
    monkeypatch.undo()


def test_slots_that_are_committed_are_passed_over_and_the_others_written(
    spark: SparkSession,
    kafka: KafkaServer,
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver died after one of three slots: the replay writes the other two, and order is kept within a key."""
    name = topic(partitions=2)
    batch = batch_of(spark, tmp_path, 0)
    fail_after_slot_1(once(kafka, name), rows(spark, 0), batch, monkeypatch)
    seen = ids(kafka, name)
    once(kafka, name).write_batch(rows(spark, 0), batch)

    assert 0 < len(seen) < 20
    assert ids(kafka, name) == list(range(20))


def test_a_first_batch_whose_markers_may_be_forgotten_is_not_written_again(
    spark: SparkSession,
    kafka: KafkaServer,
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of three slots has it, and a week later no slot without a marker says that it has not."""
    name = topic(partitions=2)
    batch = batch_of(spark, tmp_path, 0)
    fail_after_slot_1(once(kafka, name), rows(spark, 0), batch, monkeypatch)
    seen = ids(kafka, name)
    (noted,) = tmp_path.glob("kafka-sinks/*/attempts/0")
    noted.write_text(str(int(noted.read_text()) - 7 * 86_400_000))
    noted.with_name(".0.crc").unlink(missing_ok=True)
    # the broker of the tests forgets nothing
    monkeypatch.setattr(batch_files, "marker_lasts_ms", lambda _: 6 * 86_400_000)

    with pytest.raises(StateMismatchError, match=r"begun 7\.0 days ago and it is unknown"):
        once(kafka, name).write_batch(rows(spark, 0), batch)
    assert ids(kafka, name) == seen


CHANGED = {"json.encode.ignore-null-fields": "true"}


def keyless(kafka: KafkaServer, topic: str, **more: str) -> KafkaSink:
    """An exactly-once sink of three slots, chosen by the bytes of the whole record."""
    return sink_into(kafka, topic, {**ONCE, **SLOTS, **more})


def with_nulls(spark: SparkSession) -> DataFrame:
    """Rows whose values are other bytes where fields that are NULL are left out."""
    return spark.range(40).selectExpr("id", "CAST(NULL AS STRING) AS name")


def test_a_half_written_batch_is_not_completed_with_other_records(
    spark: SparkSession,
    kafka: KafkaServer,
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A changed format moves rows between slots: those of slot 1 would be there twice, others nowhere."""
    name, batch = topic(partitions=2), batch_of(spark, tmp_path, 0)
    fail_after_slot_1(keyless(kafka, name), with_nulls(spark), batch, monkeypatch)
    seen = ids(kafka, name)

    with pytest.raises(StateMismatchError, match="would become other records") as caught:
        keyless(kafka, name, **CHANGED).write_batch(with_nulls(spark), batch)
    assert "undo the change" in (caught.value.hint or "")
    assert ids(kafka, name) == seen
    assert 0 < len(seen) < 40

    keyless(kafka, name).write_batch(with_nulls(spark), batch)
    assert ids(kafka, name) == list(range(40))
    # it is complete: the change may be made
    keyless(kafka, name, **CHANGED).write_batch(with_nulls(spark), batch)
    assert ids(kafka, name) == list(range(40))


def test_a_half_written_batch_that_is_staged_is_completed_after_a_change(
    spark: SparkSession,
    kafka: KafkaServer,
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its records stay as they are."""
    name, staged = topic(partitions=2), {"sink.staging": "always"}
    batch = batch_of(spark, tmp_path, 0)
    fail_after_slot_1(keyless(kafka, name, **staged), with_nulls(spark), batch, monkeypatch)

    keyless(kafka, name, **staged, **CHANGED).write_batch(with_nulls(spark), batch)

    assert ids(kafka, name) == list(range(40))
    assert all("null" in value for value in values(kafka, name, 2))


def test_a_half_written_batch_of_an_earlier_version_is_completed(
    spark: SparkSession,
    kafka: KafkaServer,
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its markers do not say how rows became records."""
    name, batch = topic(partitions=2), batch_of(spark, tmp_path, 0)
    monkeypatch.setattr(
        "penstock.connector.kafka.sink.sink.encoded_digest", lambda digest, *_: digest
    )
    fail_after_slot_1(keyless(kafka, name), with_nulls(spark), batch, monkeypatch)

    keyless(kafka, name).write_batch(with_nulls(spark), batch)

    assert ids(kafka, name) == list(range(40))


def test_a_zombie_attempt_is_fenced(kafka: KafkaServer, topic: Callable[..., str]) -> None:
    """It has sent its rows and wakes up after its replacement has committed: nothing of it is ever seen."""
    name, slot = topic(), "zombies-1"
    writer = slot_writer(kafka, name, slot, 0)

    def asleep() -> Any:
        yield from records("late")
        destination = Destination(topic=name, fixed=None)
        assert slot_writer(kafka, name, slot, 0).write(iter(records("a", "b")), destination) == 2

    with pytest.raises(SinkError, match=f"slot '{slot}' is fenced"):
        writer.write(asleep(), Destination(topic=name, fixed=None))

    assert values(kafka, name) == ["a", "b"]
    assert writer.write(iter(records("a", "b")), Destination(topic=name, fixed=None)) is None


def test_a_copied_checkpoint_is_refused(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str], tmp_path: Path
) -> None:
    """It has the same query id and goes its own way: its first batch has another digest."""
    name = topic(partitions=2)
    sink = once(kafka, name)
    sink.write_batch(rows(spark, 0), batch_of(spark, tmp_path / "a", 0))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    sink.write_batch(rows(spark, 20), batch_of(spark, tmp_path / "a", 1))
    other = batch_of(spark, tmp_path / "b", 1, offsets="further than the first went")

    with pytest.raises(StateMismatchError, match="another batch of this number"):
        once(kafka, name).write_batch(rows(spark, 20, 50), other)
    assert ids(kafka, name) == list(range(40))


def test_a_lost_marker_stops_the_pipeline(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str], tmp_path: Path
) -> None:
    """The marker's group was deleted between two batches (case 30): not taken for a slot that never wrote."""
    name = topic(partitions=2)
    sink = once(kafka, name)
    sink.write_batch(rows(spark, 0), batch_of(spark, tmp_path, 0))
    slot = SlotNames.of("tests", "q", f"/{sink.name}").slot(0)
    for future in kafka.admin.delete_consumer_groups([slot]).values():
        future.result()

    with pytest.raises(Exception, match="marker of the batch before is lost") as caught:
        sink.write_batch(rows(spark, 20), batch_of(spark, tmp_path, 1))
    failure = decode_failure(str(caught.value))
    assert isinstance(failure, StateMismatchError)
    assert "offsets.retention.minutes" in (failure.hint or "")


def test_a_lost_marker_is_set_again_from_the_checkpoint(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str], tmp_path: Path
) -> None:
    """After somebody has looked whether the batch that was begun is there; slots that have a marker keep it."""
    name = topic(partitions=2)
    sink = once(kafka, name)
    sink.write_batch(rows(spark, 0), batch_of(spark, tmp_path, 0))
    done = tmp_path / "commits" / "0"
    done.parent.mkdir()
    done.touch()
    begun = batch_of(spark, tmp_path, 1)
    for future in kafka.admin.delete_consumer_groups(
        [SlotNames.of("tests", "q", f"/{sink.name}").slot(0)]
    ).values():
        future.result()
    connection = admin_connection({"bootstrap.servers": kafka.bootstrap})
    admin = SinkAdmin(connection)
    (known,) = read_slots(str(tmp_path), "tests", [name])
    following = next_batch(known, not_written=True)
    assert following == 1
    markers = [set_marker(connection, admin, slot, following) for slot in known.slots()]
    again = [set_marker(connection, admin, slot, 7) for slot in known.slots()]
    once(kafka, name).write_batch(rows(spark, 20), begun)

    assert [marker.digest is None for marker in markers] == [True, False, False]
    assert {marker.next_batch for marker in again} == {1}
    assert ids(kafka, name) == list(range(40))


def test_a_transaction_timeout_above_the_brokers_limit_is_refused(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """Both numbers are named (case 26); left out, it fits the broker, unlike Flink's hour (FLINK-35870)."""
    name = topic()
    schema = rows(spark, 0).schema
    once(kafka, name).prepare(spark, schema)

    with pytest.raises(OptionError, match=r"'3600000' is more .* is 900000"):
        once(kafka, name, **{"properties.transaction.timeout.ms": "3600000"}).prepare(spark, schema)


def test_what_a_dead_attempt_left_open_does_not_outlive_the_next(
    kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """A slot has one id for good, so its next attempt ends the open transaction, and readers go on."""
    name, slot = topic(), "abandoned-0"
    dead = RecordProducer(
        Connection.of({"bootstrap.servers": kafka.bootstrap, "transactional.id": slot}), who="dead"
    )
    dead.fence()
    dead.begin()
    Destination(topic=name, fixed=None).send(dead, iter(records("lost")))
    dead.flush()
    written = slot_writer(kafka, name, slot, 0).write(
        iter(records("kept")), Destination(topic=name, fixed=None)
    )

    assert written == 1
    assert [message.value() for message in committed(kafka, name)] == [b"kept"]
    with pytest.raises(SinkError, match="dead is fenced"):
        dead.add_marker(slot, TopicPartition(name, 0), (1, ""))
    dead.drop()


def test_rows_that_a_replay_may_change_are_staged(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str], tmp_path: Path
) -> None:
    """The replay publishes what was kept, and older batches are removed."""
    name = topic(partitions=2)
    chance = rows(spark, 0, 5).selectExpr("id", "uuid() AS name")
    sink = once(kafka, name)
    sink.write_batch(rows(spark, 100, 5), batch_of(spark, tmp_path, 0))
    sink.write_batch(chance, batch_of(spark, tmp_path, 1))
    (staged,) = [path for path in tmp_path.rglob("staged/*") if path.is_dir()]
    kept = spark.read.parquet(str(staged)).count()
    once(kafka, name).write_batch(chance, batch_of(spark, tmp_path, 1))

    assert (staged.name, kept) == ("1", 5)
    assert len(ids(kafka, name)) == 10


def test_rows_of_a_query_that_a_replay_may_change_are_staged_though_the_batch_does_not_show_it(
    spark: SparkSession, kafka: KafkaServer, topic: Callable[..., str], tmp_path: Path
) -> None:
    """A statement set, and what keeps results up to date, give the sink rows that were computed before."""
    batch = replace(batch_of(spark, tmp_path, 0), differences=lambda: ("the expression uuid()",))
    once(kafka, topic(partitions=2)).write_batch(rows(spark, 0, 5), batch)

    assert [path.name for path in tmp_path.rglob("staged/*") if path.is_dir()] == ["0"]


def test_a_write_that_fails_leaves_no_transaction_open(
    kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """Readers of committed records would wait for its timeout, five minutes, where nobody tries again."""
    name, slot = topic(), "failing-0"
    admin = SinkAdmin(Connection.of({"bootstrap.servers": kafka.bootstrap}))
    # so that it is not the broker that ends it
    writer = replace(slot_writer(kafka, name, slot, 0), timeout_ms=600_000)

    def fails() -> Iterator[pa.RecordBatch]:
        yield from records(*(str(number) for number in range(1000)))
        # so that the broker has some of them, in an open transaction
        wait_until(
            lambda: bool(blocked_partitions(admin, [name])), seconds=60, what="a transaction"
        )
        raise ValueError("the rows of this batch cannot be computed")

    with pytest.raises(ValueError, match="cannot be computed"):
        writer.write(fails(), Destination(topic=name, fixed=None))

    # the broker ends a transaction behind its answer
    wait_until(lambda: not blocked_partitions(admin, [name]), seconds=60, what="its end")
    assert values(kafka, name) == []


def test_open_transactions_are_listed_and_ended(
    kafka: KafkaServer, topic: Callable[..., str]
) -> None:
    """What a dead pipeline left holds readers back; `penstock kafka transactions abort` lets them go (FK#296)."""
    name, slot = topic(), "lingering-0"
    slot_writer(kafka, name, slot, 0).write(iter(records("a")), Destination(topic=name, fixed=None))
    connection = Connection.of({"bootstrap.servers": kafka.bootstrap})
    dead = RecordProducer(transactional(connection, slot, 60_000), who="dead")
    dead.fence()
    dead.begin()
    Destination(topic=name, fixed=None).send(dead, iter(records("b")))
    dead.flush()
    shown = CommandRunner().invoke(
        app,
        [
            *("kafka", "transactions", "ls", "--bootstrap", kafka.bootstrap, "--prefix"),
            *("lingering", "--topic", name, "--format", "json"),
        ],
    )
    CommandRunner().invoke(
        app, ["kafka", "transactions", "abort", slot, "--bootstrap", kafka.bootstrap]
    )
    dead.drop()

    assert shown.exit_code == 0
    document = json.loads(shown.stdout)
    assert document["slots"] == [{"transactional_id": slot, "last_batch": 0, "rows": 1}]
    assert [held["topic"] for held in document["held_back"]] == [name]
    assert blocked_partitions(SinkAdmin(connection), [name]) == ()
    assert values(kafka, name) == ["a"]
