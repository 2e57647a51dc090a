"""SIGTERM in the middle of a batch, with real processes: the batch is finished or given back, and each row is once."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.pipeline import Pipeline, delta_rows, wait_until
from tests.kafka_server import KafkaServer

ROWS = 200
BATCH = 20
SQL = """
CREATE TEMPORARY TABLE clicks (id BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'scan.max-records-per-batch' = '{batch}', 'format' = 'json'
);
CREATE TABLE IF NOT EXISTS copies (id BIGINT) WITH ('connector' = 'delta', 'path' = 'copies');
INSERT INTO copies SELECT id FROM clicks;
"""

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.broker]


@dataclass
class HeldRun:
    """A run whose third batch is held at a failpoint, its process, and what the test lets go on."""

    first: Pipeline
    again: Pipeline
    held: Path

    def finish_with_the_rest(self) -> None:
        """Run what is left; each row is there once."""
        self.again.start()
        self.again.finish(240)
        rows = delta_rows(self.first.project / "copies", "SELECT id FROM {table} ORDER BY id")
        assert [row[0] for row in rows] == list(range(ROWS))


@pytest.fixture
def start(project: Path, kafka: KafkaServer):
    """Starts a run, and waits until its third batch is held at the failpoint."""
    started: list[Pipeline] = []

    def make(failpoint: str, *arguments: str) -> HeldRun:
        topic = kafka.create_topic(partitions=1)
        kafka.produce(topic, [json.dumps({"id": number}) for number in range(ROWS)])
        script = project / "job.sql"
        text = SQL.format(topic=topic, bootstrap=kafka.bootstrap, batch=BATCH)
        script.write_text(text, encoding="utf-8")
        held, taken = project / "held", project / "taken"
        held.touch()
        taken.mkdir()
        environment = {
            "PENSTOCK_FAILPOINTS": f"{failpoint}=wait:{held}@3",
            "PENSTOCK_FAILPOINTS_TAKEN": str(taken),
        }
        first = Pipeline(project, script, ("--continuous", *arguments), environment)
        again = Pipeline(project, script, ("--available-now",))
        started.extend((first, again))
        first.start()
        wait_until((taken / failpoint).exists, seconds=240, what="the third batch is held")
        return HeldRun(first=first, again=again, held=held)

    yield make
    for each in started:
        if each.process is not None and each.process.poll() is None:
            each.kill()


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda way: way.name)
def test_a_batch_in_flight_is_finished(start, number: signal.Signals) -> None:
    """It is committed before the process ends with 0, and the next run reads what is behind it."""
    run = start("written")
    assert run.first.process is not None

    os.kill(run.first.process.pid, number)
    wait_until(
        lambda: "stopping after the batch in flight" in run.first.log,
        seconds=60,
        what="the signal is heeded",
    )
    run.held.unlink()
    summary = run.first.finish(120)

    insert = summary["statements"][-1]
    assert insert["status"] == "stopped"
    # Spark may have begun another one when the third was committed
    assert insert["batches"] in {3, 4}
    assert insert["rows_out"] == insert["batches"] * BATCH
    assert run.first.batches("copies") == insert["batches"]
    run.finish_with_the_rest()


@pytest.mark.nightly
@pytest.mark.parametrize("failpoint", ["planned", "written", "committed"])
def test_a_batch_that_takes_too_long_is_given_back(start, failpoint: str) -> None:
    """After --stop-timeout the process ends all the same; the next run does the batch again, once.

    One that Spark can interrupt is a clean end; one that waits in Python ends with the process.
    """
    run = start(failpoint, "--stop-timeout", "2")
    process = run.first.process
    assert process is not None

    process.send_signal(signal.SIGTERM)
    status = process.wait(120)

    assert run.held.exists(), "the batch was held to the end"
    assert status == (0 if failpoint == "planned" else 130), run.first.log
    assert run.first.batches("copies") == 2
    run.finish_with_the_rest()
