"""The broker is down, dies, freezes, or loses a topic while a pipeline reads from it."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from penstock.connector.kafka.broker.broker import free_port
from tests.faults.faulty import CATCH_UP_S, FaultyPipeline
from tests.faults.workload import BOUNDED, COPY, Workload
from tests.kafka_server import TIMEOUT_S, KafkaServer

Make = Callable[..., FaultyPipeline]

pytestmark = pytest.mark.timeout(900)

RECOVERY_S = 15
"""Beyond the pause of a broker that stood still (reliability cases: recovery time <= pause + 15 s)."""

ANSWER_S = 30
"""From the start of a query to the error that names a broker that is not there."""

ENDLESS = ("--continuous",)


@pytest.fixture
def frozen(kafka: KafkaServer) -> Iterator[Callable[[float], None]]:
    """Freezes the broker for these many seconds; it goes on afterwards whatever the test does."""

    def send(number: int) -> None:
        assert kafka.broker.pid is not None
        os.kill(kafka.broker.pid, number)

    def freeze(seconds: float) -> None:
        send(signal.SIGSTOP)
        time.sleep(seconds)  # the fault itself
        send(signal.SIGCONT)

    yield freeze
    send(signal.SIGCONT)


def until_all(job: FaultyPipeline, workload: Workload, what: str) -> float:
    """Wait until the copy lacks nothing any more; looks again after each batch. Gives the seconds it took."""
    began_s, looked_at = time.monotonic(), 0

    def has_all() -> bool:
        nonlocal looked_at
        if (batches := job.batches("copied")) == looked_at:
            return False
        looked_at = batches
        return not workload.check_copy(job.project / "copied").lost

    job.until(has_all, what)
    return time.monotonic() - began_s


def stop(job: FaultyPipeline, workload: Workload) -> None:
    """End an endless pipeline in good order, and look at the copy."""
    assert job.process is not None
    job.process.send_signal(signal.SIGINT)
    job.finish(CATCH_UP_S)

    assert workload.check_copy(job.project / "copied").findings == {}


@pytest.mark.faults
def test_a_broker_that_is_down_at_the_start_is_named(pipeline: Make, workload: Workload) -> None:
    """Case 19: within 30 s of the query's start an error with address and reason, and nothing is begun."""
    address = f"127.0.0.1:{free_port()}"
    script = workload.script(COPY).replace(workload.kafka.bootstrap, address)
    job = pipeline("SET 'restart-strategy' = 'none';\n" + script, "--available-now")
    job.hold_at("starting")
    began = time.monotonic()
    job.let_go()
    status, summary = job.end()
    took_s = time.monotonic() - began

    (insert,) = [each for each in summary["statements"] if each["kind"] == "INSERT"]
    assert status == 1
    assert address in insert["error"]
    assert re.search("refused|timed out|unreachable", insert["error"], re.IGNORECASE)
    assert "help: " in job.log
    assert took_s < ANSWER_S
    assert job.logged("copied", "offsets") == []


@pytest.mark.faults
def test_a_broker_that_is_killed_again_and_again(
    kafka: KafkaServer, pipeline: Make, workload: Workload
) -> None:
    """Case 20: three times, records before and after each: the pipeline never goes back and loses nothing."""
    workload.write(200)
    job = pipeline(workload.script(COPY), *ENDLESS)
    job.start_clean()
    until_all(job, workload, "the first rows")
    for _ in range(3):
        kafka.broker.kill()
        kafka.broker.start()
        workload.write(200)
        until_all(job, workload, "the rows after the broker's death")

    stop(job, workload)


@pytest.mark.faults
def test_a_broker_that_stands_still(
    pipeline: Make, workload: Workload, frozen: Callable[[float], None]
) -> None:
    """Case 22: for 5 s and for 30 s; the rows that come afterwards are there 15 s later at the latest."""
    workload.write(200)
    job = pipeline(workload.script(COPY), *ENDLESS)
    job.start_clean()
    until_all(job, workload, "the first rows")
    recoveries_s: list[float] = []
    for seconds in (5, 30):
        frozen(seconds)
        workload.write(200)
        recoveries_s.append(until_all(job, workload, "the rows after the pause"))

    print(f"recovery in s: {recoveries_s}")
    assert max(recoveries_s) <= RECOVERY_S
    stop(job, workload)


@pytest.mark.faults
def test_what_an_aborted_transaction_wrote_is_never_read(
    pipeline: Make, workload: Workload
) -> None:
    """Case 28: aborted records in the middle and at the end, with a kill between: counts are right, the run ends."""
    workload.write(100)
    workload.write_in_transaction(0, 50, commit=False)
    workload.write_in_transaction(0, 50, commit=True)
    workload.write_in_transaction(1, 50, commit=False)
    job = pipeline(workload.script(COPY, options=BOUNDED, batch=60))
    job.hold_at("partitioned", visit=2)
    job.kill()
    summary = job.catch_up()

    (insert,) = [each for each in summary["statements"] if each["kind"] == "INSERT"]
    assert insert["status"] == "finished"
    assert workload.check_copy(job.project / "copied").findings == {}


@pytest.mark.faults
def test_a_transaction_that_another_left_open(pipeline: Make, workload: Workload) -> None:
    """Case 27: a run reads up to it and no further, records without a transaction behind it too; then all of them."""
    workload.write(100)
    job = pipeline(workload.script(COPY), "--available-now")
    with workload.open_transaction(0, 50) as other:
        workload.write(100)
        job.catch_up()
        held_back = workload.check_copy(job.project / "copied")
        other.commit_transaction(TIMEOUT_S)
    job.catch_up()

    assert held_back.findings == {"lost": [(0, seq) for seq in range(100, 250)]}
    assert workload.check_copy(job.project / "copied").findings == {}


@pytest.mark.faults
def test_a_topic_that_is_made_again_is_not_gone_on_with(
    kafka: KafkaServer, pipeline: Make, workload: Workload
) -> None:
    """Case 33: deleted while the pipeline runs, made again with more records: an error, and no row of the new one."""
    workload.write(200)
    job = pipeline(workload.script(COPY), *ENDLESS)
    job.start_clean()
    until_all(job, workload, "the first rows")
    kafka.delete_topic(workload.topic)
    kafka.create_topic(workload.topic, partitions=2)
    other = Workload(kafka, workload.seed + 1, topic=workload.topic)
    other.write(400)
    status, summary = job.end()

    (insert,) = [each for each in summary["statements"] if each["kind"] == "INSERT"]
    assert status == 1
    assert workload.topic in insert["error"]
    assert re.search("deleted|made again|another topic", insert["error"])
    assert workload.check_copy(job.project / "copied").findings == {}


@pytest.mark.faults
def test_a_broker_that_is_away_for_a_moment(
    kafka: KafkaServer, pipeline: Make, workload: Workload, frozen: Callable[[float], None]
) -> None:
    """Cases 20 and 22 in short: it freezes for 5 s, then it dies and comes back, in one run."""
    workload.write(200)
    job = pipeline(workload.script(COPY), *ENDLESS)
    job.start_clean()
    until_all(job, workload, "the first rows")
    frozen(5)
    workload.write(200)
    until_all(job, workload, "the rows after the pause")
    kafka.broker.kill()
    kafka.broker.start()
    workload.write(200)
    until_all(job, workload, "the rows after its death")

    stop(job, workload)
