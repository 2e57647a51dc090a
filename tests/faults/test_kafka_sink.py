"""Kafka to Kafka, exactly once: whoever reads what is committed sees every record once, and a key's records in order."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.faults.checker import Row, check
from tests.faults.faulty import CATCH_UP_S, FaultyPipeline, spark_log
from tests.faults.workload import Workload
from tests.integration.pipeline import wait_until
from tests.kafka_server import TIMEOUT_S, KafkaServer

Make = Callable[..., FaultyPipeline]

pytestmark = pytest.mark.timeout(900)

BOTH = pytest.mark.parametrize("writer", ["auto", "spark"])
"""By reading tasks, and by Spark."""
EACH = 1_000
NOW = ("--available-now",)
SLOTS = 2
LOOKED_AT_S = 10
PUBLISH = """
CREATE TABLE IF NOT EXISTS published (part INT, seq BIGINT, payload STRING, crc BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '{target}', 'properties.bootstrap.servers' = '{bootstrap}',
  'key.format' = 'json', 'key.fields' = 'part', 'value.format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{target}',
  'sink.parallelism' = '{slots}', 'sink.writer' = '{writer}'
);
INSERT INTO published SELECT part, seq, payload, crc FROM events;
"""


def publishing(workload: Workload, *, batch: int = 500, writer: str = "auto") -> tuple[str, str]:
    """Make a target topic; gives its name and the SQL that copies the workload into it.

    `writer`: 'auto' are the reading tasks.
    """
    target = workload.kafka.create_topic(partitions=2)
    insert = PUBLISH.format(
        target=target, bootstrap=workload.kafka.bootstrap, slots=SLOTS, writer=writer
    )
    return target, workload.script(batch=batch) + insert


def committed_rows(kafka: KafkaServer, topic: str) -> Iterator[Row]:
    """Read a topic as a consumer does that wants committed records alone; a partition after the other."""
    settings = kafka.client_settings(
        group_id=f"{topic}-check",
        isolation_level="read_committed",
        enable_partition_eof=True,
        auto_offset_reset="earliest",
    )
    consumer = Consumer(settings)
    with contextlib.closing(consumer):
        for partition in consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions:
            consumer.assign([TopicPartition(topic, partition, 0)])
            ended = False
            while not ended:
                messages = consumer.consume(10_000, TIMEOUT_S)
                assert messages, "the broker gave neither record nor end"
                for message in messages:
                    ended = ended or message.error() is not None
                    if message.error() is None:
                        fields = json.loads(message.value())
                        yield Row(*(fields[name] for name in Row._fields))


def is_right(workload: Workload, target: str) -> None:
    """Check the target topic: every record once, a partition's in their order, damage and strangers none."""
    rows = committed_rows(workload.kafka, target)

    assert check(rows, workload.expected, ordered=True).findings == {}


@BOTH
@pytest.mark.nightly
@pytest.mark.slow
def test_killed_after_one_slot_of_two_is_committed(
    pipeline: Make, workload: Workload, writer: str
) -> None:
    """Case 5: the replay passes over the slot that has its transaction and writes the other."""
    workload.write(EACH)
    target, script = publishing(workload, writer=writer)
    job = pipeline(script, *NOW)
    job.hold_at("transaction-committed", visit=2)
    job.kill()
    job.catch_up()

    is_right(workload, target)


@BOTH
@pytest.mark.faults
def test_killed_with_an_open_transaction(pipeline: Make, workload: Workload, writer: str) -> None:
    """Before case 6: everything is with the broker and nothing is committed: the replay fences and writes anew."""
    workload.write(EACH)
    target, script = publishing(workload, writer=writer)
    job = pipeline(script, *NOW)
    job.hold_at("produced", visit=3)
    job.kill()
    job.catch_up()

    is_right(workload, target)


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_killed_while_the_commit_is_on_its_way(
    pipeline: Make, workload: Workload, seed: int, kills: int
) -> None:
    """Case 6: a worker dies some time within the 30 ms around its commit, again and again: either way it is once."""
    draw = random.Random(seed)
    workload.write(kills * 25)
    target, script = publishing(workload, batch=50)
    job = pipeline(script, *NOW, "--master", "local[2,20]")
    worker = job.hold_at("produced")
    for _ in range(kills):
        (job.taken / "produced").unlink()
        job.let_go()
        moment = draw.uniform(0, 0.03)
        job.pause(moment)
        job.gate.touch()
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        worker = job.until_taken("produced")
    job.let_go()
    job.finish(2 * CATCH_UP_S)

    is_right(workload, target)


@BOTH
@pytest.mark.faults
def test_a_zombie_worker_is_fenced(pipeline: Make, workload: Workload, writer: str) -> None:
    """Case 9: it stands still with an open transaction and outlives its driver: fenced, it commits nothing.

    Held at a failpoint: the kernel sends SIGHUP to stopped processes (SIGSTOP) that a dead parent leaves behind.
    """
    workload.write(EACH)
    target, script = publishing(workload, writer=writer)
    job = pipeline(script, *NOW)
    zombie = job.hold_at("produced", visit=2)
    job.kill_all_but(zombie)
    job.catch_up()
    is_right(workload, target)
    assert Path(f"/proc/{zombie}").exists()
    job.let_go()
    wait_until(lambda: not Path(f"/proc/{zombie}").exists(), seconds=CATCH_UP_S, what="its end")

    is_right(workload, target)


@pytest.mark.faults
def test_the_broker_dies_in_mid_transaction(
    kafka: KafkaServer, pipeline: Make, workload: Workload
) -> None:
    """Case 21: killed with transactions open, restarted: they end, and the job with all its records."""
    workload.write(EACH)
    target, script = publishing(workload)
    job = pipeline(script, *NOW)
    job.hold_at("produced", visit=2)
    kafka.broker.kill()
    kafka.broker.start()
    job.let_go()
    job.finish(CATCH_UP_S)

    is_right(workload, target)


@pytest.mark.faults
def test_a_commit_that_gets_no_answer(
    kafka: KafkaServer, pipeline: Make, workload: Workload
) -> None:
    """Case 25: the coordinator stands still until the attempt gives up, idly; the batch is replayed, once."""
    workload.write(EACH)
    target, script = publishing(workload)
    job = pipeline(script, *NOW)
    worker = job.hold_at("produced", visit=2)
    assert kafka.broker.pid is not None
    os.kill(kafka.broker.pid, signal.SIGSTOP)
    try:
        job.let_go()
        before_s = cpu_s(worker)
        job.pause(LOOKED_AT_S)
        used_s = cpu_s(worker) - before_s
        job.until(lambda: "did not answer" in spark_log(job.project), "the end of the attempt")
    finally:
        os.kill(kafka.broker.pid, signal.SIGCONT)
    job.finish(CATCH_UP_S)

    print(f"CPU of the worker that waits: {used_s / LOOKED_AT_S:.0%}")
    assert used_s < 0.2 * LOOKED_AT_S
    is_right(workload, target)


def cpu_s(process: int) -> float:
    """Give the CPU time of a process so far (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_two_million_rows_under_ten_kills(
    kafka: KafkaServer, pipeline: Make, seed: int, rows: int
) -> None:
    """Ten times wherever it is: read back with read_committed, every row is there once."""
    draw = random.Random(seed)
    workload = Workload(kafka, seed, partitions=4)
    workload.write(rows // 4)
    target, script = publishing(workload, batch=max(rows // 40, 1))
    job = pipeline(script, *NOW)
    for number in range(10):
        before = job.batches("published")
        job.start_clean()
        job.until(lambda before=before: job.batches("published") > before, "a batch")
        job.pause(draw.uniform(0, 2))
        job.kill(everything=number % 2 == 0)
    job.start_clean()
    job.finish(1800)

    is_right(workload, target)
