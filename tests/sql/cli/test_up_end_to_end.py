"""`penstock up` as a process: a project's pipelines with real Spark and a broker, killed, stopped, started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from deltalake import DeltaTable

from tests.integration.pipeline import COMMAND, descendants, wait_until
from tests.kafka_server import KafkaServer

END_S = 240
STEP_S = 150

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.broker]


def pipeline(topic: str, bootstrap: str, table: str, *, batch: int = 20) -> str:
    """A file that copies a topic into a Delta table."""
    return f"""
CREATE TEMPORARY TABLE clicks (id BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'scan.max-records-per-batch' = '{batch}', 'format' = 'json'
);
CREATE TABLE IF NOT EXISTS {table} (id BIGINT) WITH ('connector' = 'delta', 'path' = '{table}');
SET 'restart-strategy.exponential-delay.initial-backoff' = '100 ms';
INSERT INTO {table} SELECT id FROM clicks;
"""


@dataclass
class Up:
    """A `penstock up` of a project, with what it wrote so far."""

    project: Path
    process: subprocess.Popen[bytes]

    @property
    def errors(self) -> str:
        """Its stderr."""
        return (self.project / "up.err").read_text(encoding="utf-8", errors="replace")

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its stdout, a document a line."""
        text = (self.project / "up.out").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def last(self, name: str) -> dict[str, Any]:
        """The last document of a pipeline."""
        return next((each for each in reversed(self.lines) if each["name"] == name), {})

    def expect(self, name: str, holds: Callable[[dict[str, Any]], bool], what: str) -> None:
        """Wait until the last document of a pipeline is as wanted."""
        wait_until(
            lambda: self.process.poll() is not None or holds(self.last(name)),
            seconds=STEP_S,
            what=f"{what}\n{self.errors}",
        )
        assert holds(self.last(name)), f"{what}\n{self.errors}"

    def child(self, name: str) -> int:
        """The process of a pipeline."""
        return int(self.last(name)["runner"].split()[1])

    def end(self) -> int:
        """Wait for its end; gives the status."""
        return self.process.wait(END_S)


@pytest.fixture
def up(project: Path) -> Iterator[Callable[..., Up]]:
    """Starts `penstock up` in the project; what is left of it at the end is killed."""
    started: list[Up] = []

    def start(*arguments: str) -> Up:
        with (project / "up.out").open("wb") as out, (project / "up.err").open("ab") as err:
            process = subprocess.Popen(
                [*COMMAND, "up", "--format", "json", "--master", "local[2]", *arguments],
                cwd=project,
                stdout=out,
                stderr=err,
            )
        started.append(Up(project=project, process=process))
        return started[-1]

    yield start
    for each in started:
        left = descendants(each.process.pid)
        each.process.kill()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        each.process.wait()


def write(project: Path, **files: str) -> None:
    """Write SQL files of the project."""
    (project / "sql").mkdir(exist_ok=True)
    for name, text in files.items():
        (project / "sql" / f"{name}.sql").write_text(text, encoding="utf-8")


def topic_of(kafka: KafkaServer, count: int) -> str:
    """A topic with numbered records."""
    topic = kafka.create_topic(partitions=1)
    kafka.produce(topic, [json.dumps({"id": number}) for number in range(count)])
    return topic


def copied(project: Path, table: str) -> list[int]:
    """The ids in a Delta table, sorted."""
    return sorted(DeltaTable(project / table).to_pyarrow_table()["id"].to_pylist())


@pytest.mark.parametrize(
    ("options", "names", "status"),
    [
        pytest.param((), ("sql/broken.sql", "sql/copy.sql"), 2, id="a process each"),
        pytest.param(("--shared",), ("all", "all"), 1, id="shared", marks=pytest.mark.nightly),
    ],
)
def test_one_pipeline_that_fails_stops_no_other_and_is_told_by_the_status(
    project: Path,
    kafka: KafkaServer,
    up: Callable[..., Up],
    options: tuple[str, ...],
    names: tuple[str, str],
    status: int,
) -> None:
    """The other reads its topic to the end; a report is not run, and each line has its process.

    The status is 2 where what failed was refused in a process of its own: another start would not help.
    """
    good = pipeline(topic_of(kafka, 50), kafka.bootstrap, "copies")
    write(project, copy=good, broken=good.replace("copies", "blocked"), report="SHOW TABLES;\n")
    (project / "blocked").write_text("no folder", encoding="utf-8")

    run = up("--available-now", "--metrics-port", "0", *options)

    assert run.end() == status, run.errors
    assert copied(project, "copies") == list(range(50))
    assert run.last("copy/copies")["status"] == "finished"
    assert run.last("broken/blocked")["status"] == "failed"
    assert "sql/report.sql is not run: it has no pipeline" in run.errors
    broken, copy = names
    assert f"{broken} | failed for good:" in run.errors
    assert copy == "all" or f"finished  {copy}" in run.errors


@pytest.mark.nightly
def test_a_process_that_is_killed_starts_again_and_every_row_is_there_once(
    project: Path, kafka: KafkaServer, up: Callable[..., Up]
) -> None:
    """Python and, later, Java by kill -9; metrics and page show it; a second `up` is refused; SIGTERM ends all."""
    topic = topic_of(kafka, 400)
    write(project, copy=pipeline(topic, kafka.bootstrap, "copies"))
    run = up("--metrics-port", "0", "--ui-port", "0")
    run.expect("copy/copies", lambda each: each.get("batches", 0) >= 2, "two batches")

    second = subprocess.run(
        [*COMMAND, "up"], cwd=project, capture_output=True, text=True, check=False
    )
    assert second.returncode == 75
    assert f"pipeline 'copy/copies' is already run by process {run.child('copy/copies')}" in (
        second.stderr
    )

    os.kill(run.child("copy/copies"), signal.SIGKILL)
    run.expect("copy/copies", lambda each: each.get("restarts") == 1, "its death is seen")
    run.expect(
        "copy/copies",
        lambda each: each["status"] == "running" and each["restarts"] == 1 and "batches" in each,
        "it runs again",
    )
    (java,) = [
        pid
        for pid in descendants(run.child("copy/copies"))
        if "java" in Path(f"/proc/{pid}/comm").read_text(encoding="ascii")
    ]
    os.kill(java, signal.SIGKILL)
    run.expect(
        "copy/copies",
        lambda each: each["status"] == "running" and each["restarts"] == 2 and "batches" in each,
        "it runs again without its Java",
    )
    text = _served(run, "metrics")
    assert 'penstock_process_restarts_total{process="sql/copy.sql"} 2.0' in text
    assert 'penstock_pipeline_status{pipeline="copy/copies",status="running"} 1.0' in text
    assert "copy/copies" in _served(run, "status page")
    command = Path(f"/proc/{run.child('copy/copies')}/cmdline").read_text(encoding="utf-8")
    words = command.split("\0")
    token = Path(words[words.index("--ui-token-file") + 1])
    assert token.read_text(encoding="ascii") not in command
    kafka.produce(topic, [json.dumps({"id": number}) for number in range(400, 500)])
    wait_until(
        lambda: len(copied(project, "copies")) >= 500, seconds=STEP_S, what="all rows are copied"
    )
    run.expect("copy/copies", lambda each: each.get("lag_records") == 0, "it has reported that")
    page = json.loads(_served(run, "status page", "api/v1/pipelines/copy/copies"))
    (split,) = page["tables"][0]["splits"]
    assert (split["id"], split["end"]) == (f"{topic}-0", 500)
    assert page["batches_recent"]

    run.process.send_signal(signal.SIGTERM)

    assert run.end() == 0, run.errors
    assert "Spark's Java process has died" in run.errors
    assert run.last("copy/copies")["status"] == "stopped"
    assert copied(project, "copies") == list(range(500))


def _served(run: Up, what: str, path: str = "") -> str:
    (line,) = [line for line in run.errors.splitlines() if line.startswith(f"{what}: ")]
    with urlopen(line.removeprefix(f"{what}: ") + path, timeout=10) as answer:
        return str(answer.read().decode())


@pytest.mark.nightly
def test_pipelines_of_one_process_are_stopped_and_started_again_together(
    project: Path, kafka: KafkaServer, up: Callable[..., Up]
) -> None:
    """Each file has its own settings; the process that is killed starts again with both, and no row is there twice."""
    topics = [topic_of(kafka, 200) for _ in range(2)]
    first = "SET 'pipeline.name' = 'one';" + pipeline(topics[0], kafka.bootstrap, "first")
    write(project, a=first, b=pipeline(topics[1], kafka.bootstrap, "second"))
    run = up("--shared")
    for name in ("one/first", "b/second"):
        run.expect(name, lambda each: each.get("batches", 0) >= 2, "two batches")
    assert run.child("one/first") == run.child("b/second")

    os.kill(run.child("b/second"), signal.SIGKILL)
    for name in ("one/first", "b/second"):
        run.expect(
            name,
            lambda each: (
                each["status"] == "running" and each["restarts"] == 1 and "batches" in each
            ),
            "it runs again",
        )
    for table in ("first", "second"):
        wait_until(
            lambda table=table: len(copied(project, table)) >= 200,  # type: ignore[misc]
            seconds=STEP_S,
            what="all rows are copied",
        )
    run.process.send_signal(signal.SIGTERM)

    assert run.end() == 0, run.errors
    assert copied(project, "first") == copied(project, "second") == list(range(200))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("options", "status"), [((), 2), (("--shared",), 1)], ids=["a process each", "shared"]
)
def test_a_pipeline_that_had_failed_is_told_by_the_status_of_a_stop(
    project: Path, kafka: KafkaServer, up: Callable[..., Up], options: tuple[str, ...], status: int
) -> None:
    """SIGTERM ends the other one as it should, and its rows are there."""
    good = pipeline(topic_of(kafka, 50), kafka.bootstrap, "copies")
    write(project, copy=good, broken=good.replace("copies", "blocked"))
    (project / "blocked").write_text("no folder", encoding="utf-8")
    run = up(*options)
    run.expect("broken/blocked", lambda each: each.get("status") == "failed", "the failure")
    run.expect("copy/copies", lambda each: each.get("rows_out", 0) >= 50, "all rows")

    run.process.send_signal(signal.SIGTERM)

    assert run.end() == status, run.errors
    assert run.last("copy/copies")["status"] == "stopped"
    assert run.last("broken/blocked")["status"] == "failed"
    assert copied(project, "copies") == list(range(50))


@pytest.mark.nightly
def test_a_process_that_is_killed_while_it_stops_is_told_by_the_status(
    project: Path, kafka: KafkaServer, up: Callable[..., Up]
) -> None:
    """It was asked and had begun to stop; the other one has stopped, and the next `up` has every row."""
    topic = topic_of(kafka, 200)
    good = pipeline(topic, kafka.bootstrap, "copies")
    write(project, copy=good, other=good.replace("copies", "others"))
    run = up()
    for name in ("copy/copies", "other/others"):
        run.expect(name, lambda each: each.get("batches", 0) >= 1, "a batch")
    child = run.child("copy/copies")
    os.kill(child, signal.SIGSTOP)  # it cannot end before it is killed

    run.process.send_signal(signal.SIGTERM)
    wait_until(
        lambda: run.last("other/others").get("status") == "stopped",
        seconds=STEP_S,
        what="the other one stops",
    )
    os.kill(child, signal.SIGKILL)

    assert run.end() == 1, run.errors
    killed = "while it stopped: the process was killed by SIGKILL: was the machine out of memory?"
    assert f"failed    sql/copy.sql  {killed}" in run.errors
    assert "stopped   sql/other.sql" in run.errors
    assert (run.last("copy/copies")["status"], run.last("copy/copies")["reason"]) == (
        "failed",
        killed,
    )
    again = up("--available-now")
    assert again.end() == 0, again.errors
    assert copied(project, "copies") == copied(project, "others") == list(range(200))


@pytest.mark.nightly
def test_no_process_outlives_a_supervisor_that_is_killed(
    project: Path, kafka: KafkaServer, up: Callable[..., Up]
) -> None:
    """They finish their batches and end, and the next `up` goes on where they stopped."""
    write(project, copy=pipeline(topic_of(kafka, 300), kafka.bootstrap, "copies"))
    run = up()
    run.expect("copy/copies", lambda each: each.get("batches", 0) >= 2, "two batches")
    left = descendants(run.process.pid)

    run.process.kill()
    wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in left),
        seconds=STEP_S,
        what="all processes end",
    )
    again = up("--available-now")

    assert len(left) >= 3
    assert again.end() == 0, again.errors
    assert copied(project, "copies") == list(range(300))
