"""What Spark does to a Python source, each once a surprise: none of it may cost or double a row."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

import penstock
from penstock.connector.kafka.client.admin import KafkaAdmin
from penstock.connector.scan import Scan
from penstock.connector.spark.source.columns import scan_schema
from penstock.connector.spark.source.stream import IDLE_WAIT_S, SplitStreamReader
from tests.connector.kafka.tables import kafka_table
from tests.integration.pipeline import Pipeline, delta_rows, descendants, wait_until
from tests.kafka_server import KafkaServer

SCRIPT = """
CREATE TABLE IF NOT EXISTS events (id BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = '{mode}', 'format' = 'json'
);
CREATE TABLE IF NOT EXISTS copied (id BIGINT) WITH ('connector' = 'delta', 'path' = 'copied');
INSERT INTO copied SELECT id FROM events;
"""


def write_script(project: Path, kafka: KafkaServer, topic: str, mode: str) -> Path:
    """Write the file of a plain copy."""
    script = project / "copy.sql"
    text = SCRIPT.format(topic=topic, bootstrap=kafka.bootstrap, mode=mode)
    script.write_text(text, encoding="utf-8")
    return script


@contextmanager
def repeated(action: Callable[[int], object], pause_s: float) -> Iterator[None]:
    """Call `action` with 0, 1, 2, ... on a thread, with pauses between."""
    done = threading.Event()

    def repeat() -> None:
        number = 0
        while not done.wait(pause_s):
            action(number)
            number += 1

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def producing(kafka: KafkaServer, topic: str) -> AbstractContextManager[None]:
    """Write ids 0, 1, 2, ... one after the other, so that an id is its offset."""
    return repeated(lambda number: kafka.produce(topic, [b'{"id":%d}' % number]), 0.005)


def offsets(project: Path) -> dict[int, str]:
    """The offset log of the copy: what each batch's file holds."""
    folder = project / ".penstock" / "checkpoints" / "copy" / "copied" / "offsets"
    found = {}
    for file in folder.glob("*"):
        with suppress(FileNotFoundError):
            if file.name.isdigit() and (text := file.read_text(encoding="utf-8")):
                found[int(file.name)] = text
    return found


def state_of(text: str) -> dict[str, Any]:
    """The source's state in an offset file."""
    state: dict[str, Any] = json.loads(text.splitlines()[-1])
    return state


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_a_start_at_the_latest_offset_is_resolved_once(kafka: KafkaServer, project: Path) -> None:
    """Killed with its first batch logged and not committed, while records come: none is lost, none comes twice.

    Spark asks again for the initial offset when it replays the first batch, in a new process.
    """
    topic = kafka.create_topic()
    pipeline = Pipeline(project, write_script(project, kafka, topic, "latest-offset"))
    with producing(kafka, topic):
        pipeline.start()
        wait_until(lambda: 0 in offsets(project), seconds=120, what="the first batch's offsets")
        pipeline.kill()
        assert pipeline.batches("copied") == 0, "the kill came after the first commit"
        (split,) = state_of(offsets(project)[0])["splits"].values()
        pipeline.start()
        wait_until(lambda: pipeline.batches("copied") >= 3, seconds=120, what="three batches")
        pipeline.kill()
    pipeline.arguments = ("--available-now",)
    pipeline.start()
    pipeline.finish(200)

    first, end = split["from"], kafka.watermarks(topic)[1]
    assert first > 0
    assert delta_rows(
        project / "copied", "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM {table}"
    ) == [(end - first, end - first, first, end - 1)]


def test_nothing_new_leaves_the_offset_log_as_it_is(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """Offsets are compared as text: a restart that finds nothing logs no batch, and changes no byte."""
    topic = kafka.create_topic(partitions=3)
    kafka.produce_json(topic, [{"id": i} for i in range(10)], partition=1)
    script = write_script(project, kafka, topic, "earliest-offset")
    with penstock.connect(spark) as session:
        session.run_file(script, available_now=True)
        before = offsets(project)
        session.run_file(script, available_now=True)
        assert offsets(project) == before

        kafka.add_partitions(topic, 4)
        session.run_file(script, available_now=True)
        after = offsets(project)

    assert before == {i: after[i] for i in before}
    assert len(after) == len(before) + 1
    assert len(state_of(after[max(after)])["splits"]) == 4


@pytest.mark.timeout(300)
@pytest.mark.parametrize("polls", [100, pytest.param(1000, marks=pytest.mark.nightly)])
def test_hundreds_of_idle_polls(
    kafka: KafkaServer, project: Path, monkeypatch: pytest.MonkeyPatch, polls: int
) -> None:
    """No batch, and a few requests for each wait: Spark itself would ask every 10 ms."""
    topic = kafka.create_topic(partitions=4)
    kafka.produce_json(topic, [{"id": i} for i in range(10)])
    options = {"topic": topic, "properties.bootstrap.servers": kafka.bootstrap}
    table = kafka_table(options, columns={"id": "BIGINT"})
    scan = Scan(table=table, columns=("id",), rowtime=None, time_zone="UTC", project=str(project))
    reader = SplitStreamReader(scan, scan.open_source(), scan_schema(scan, counts_skipped=False))
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    requests = count_requests(monkeypatch)
    began_s, cpu_s = time.monotonic(), time.process_time()
    polled = {json.dumps(reader.latestOffset(end, ReadAllAvailable())) for _ in range(polls)}
    took_s, busy_s = time.monotonic() - began_s, time.process_time() - cpu_s
    reader.stop()

    assert polled == {json.dumps(end)}
    assert took_s >= polls * IDLE_WAIT_S
    assert len(requests) <= 2 * polls + took_s + 1  # partitions are listed once a second
    assert busy_s < took_s / 4


def count_requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count what is asked of the broker from now on; `patiently` is the loop around each question."""
    asked: list[str] = []
    for name in [n for n in vars(KafkaAdmin) if not n.startswith("_") and n != "patiently"]:
        method = getattr(KafkaAdmin, name)
        if not callable(method):
            continue

        def counted(*args: Any, _method: Any = method, _name: str = name, **more: Any) -> Any:
            asked.append(_name)
            return _method(*args, **more)

        monkeypatch.setattr(KafkaAdmin, name, counted)
    return asked


def test_a_task_that_is_tried_again_gives_its_rows_once(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """A task dies half way; its second attempt reads the same range from its beginning."""
    topic = kafka.create_topic(partitions=2)
    for partition in range(2):
        rows = [{"id": 50_000 * partition + i} for i in range(50_000)]
        kafka.produce_json(topic, rows, partition=partition)

    def die_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            context = TaskContext.get()
            if context is not None and context.attemptNumber() == 0:
                os._exit(1)

    with penstock.connect(spark) as session:
        session.sql(
            f"CREATE TABLE events (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '{topic}', "
            f"'properties.bootstrap.servers' = '{kafka.bootstrap}', 'format' = 'json', "
            "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset')"
        )
        frame = session.sql("SELECT id FROM events")
        assert frame is not None
        found = [row.id for row in frame.mapInArrow(die_once, "id BIGINT").collect()]

    assert sorted(found) == list(range(100_000))


CORES = 2
"""Of the fixture `spark`: as many tasks run at a time."""

LOOK_S = 0.1
"""A batch takes longer, and a client that one opens lives as long."""


def test_batches_share_the_processes_and_the_consumers_of_their_tasks(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """As many as there are cores, however many batches and tasks there are: each would start a second of work.

    Spark gives a task the process that has waited longest, so that those of earlier tests take turns.
    """
    topic = kafka.create_topic(partitions=4)
    for partition in range(4):
        kafka.produce_json(topic, [{"id": number} for number in range(60)], partition=partition)
    seen: set[tuple[int, int]] = set()
    before, workers = set(consumers_of_tasks()), workers_of_spark()
    script = project / "drop.sql"
    script.write_text(DROPPED.format(topic=topic, bootstrap=kafka.bootstrap), encoding="utf-8")
    with penstock.connect(spark) as session, looking(seen):
        (job,) = session.run_file(script, available_now=True)

    assert job.progress.batches == 6
    assert seen
    # those of an earlier test may be taken up again
    used = [process for process, _ in seen - before]
    assert len(set(used)) <= max(CORES, len(workers))
    assert len(used) == len(set(used))


DROPPED = """
CREATE TEMPORARY TABLE events (id BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json',
  'scan.max-records-per-batch' = '40', 'scan.parallelism' = '4'
);
CREATE TEMPORARY TABLE dropped (id BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO dropped SELECT id FROM events;
"""


def looking(seen: set[tuple[int, int]]) -> AbstractContextManager[None]:
    """Add to `seen` what consumers tasks have, again and again."""
    return repeated(lambda _: seen.update(consumers_of_tasks()), LOOK_S)


def consumers_of_tasks() -> Iterator[tuple[int, int]]:
    """Name Kafka's clients in the workers of Spark, which its daemon forks: each client has one such thread."""
    for process in python_processes():
        with suppress(OSError):
            for thread in Path(f"/proc/{process}/task").iterdir():
                if (thread / "comm").read_text().strip() == "rdk:main":
                    yield process, int(thread.name)


def workers_of_spark() -> set[int]:
    """Name the workers of Spark that are there: what its daemon has forked."""
    found = set(python_processes())
    return {process for one in found for process in descendants(one)} & found


def python_processes() -> Iterator[int]:
    """Name the workers of Spark, and its daemon."""
    for process in descendants(os.getpid()):
        with suppress(OSError):
            named = [Path(f"/proc/{process}/{name}").read_bytes() for name in ("comm", "cmdline")]
            if b"pyspark.daemon" in b"".join(named):
                yield process
