"""`penstock run` as a process: streams, exit statuses, signals, restarts. Each test types what a person would."""

from __future__ import annotations

import json
import re
import shlex
import signal
import stat
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.delta_tables import read_delta

PENSTOCK = str(Path(sys.executable).with_name("penstock"))
END_S = 240

SOURCE = """
CREATE TEMPORARY TABLE clicks (
  id BIGINT,
  at TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = '{{ var("topic") }}',
  'properties.bootstrap.servers' = '{{ var("bootstrap") }}',
  'scan.startup.mode' = 'earliest-offset',
  'scan.max-records-per-batch' = '{{ var("batch", 100) }}',
  'format' = 'json'
);
CREATE TABLE IF NOT EXISTS copies (id BIGINT) WITH ('connector' = 'delta', 'path' = 'copies');
"""
COPY = SOURCE + "INSERT INTO copies SELECT id FROM clicks;\n"

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.broker]


class Process:
    """A running `penstock` whose stderr is read line by line as it comes."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [PENSTOCK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines = []
        self._waiting = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            for pattern, seen in self._waiting:
                if re.search(pattern, line):
                    seen.set()

    def expect(self, pattern):
        """Wait until stderr has a line that matches."""
        seen = Event()
        self._waiting.append((pattern, seen))
        if not any(re.search(pattern, line) for line in list(self.lines)):
            assert seen.wait(END_S), f"no {pattern!r} in:\n{''.join(self.lines)}"

    def end(self):
        """Wait for the end; gives status, stdout, stderr."""
        output = self.process.stdout.read()
        status = self.process.wait(END_S)
        self._reader.join(10)
        return status, output, "".join(self.lines)


@pytest.fixture
def penstock(project):
    """Starts commands in an empty project; those still running at the end are killed."""
    started = []

    def start(*arguments):
        started.append(Process(*arguments))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


@pytest.fixture
def clicks(kafka):
    """Gives the options that name a topic with these many clicks, a second apart."""

    def make(count, *, extra=()):
        topic = kafka.create_topic(partitions=1)
        moments = ((number, divmod(number, 60)) for number in range(count))
        values = [
            json.dumps({"id": n, "at": f"2026-01-01 00:{m:02d}:{s:02d}.000"})
            for n, (m, s) in moments
        ]
        kafka.produce(topic, [*values, *extra])
        return ("--var", f"topic={topic}", "--var", f"bootstrap={kafka.bootstrap}")

    return make


def write(project, text):
    """A SQL file with this text."""
    (project / "job.sql").write_text(text, encoding="utf-8")
    return "job.sql"


def copied(project):
    """The ids in the Delta table, sorted."""
    return sorted(read_delta(project / "copies")["id"].to_pylist())


def open_to_others(data, table):
    """What another account could read: in the data folder, and of what Spark and its workers write."""
    written = [data, *(data / "checkpoints").rglob("*"), table, *table.rglob("*")]
    assert len(written) > 10
    return [str(path) for path in written if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_a_run_tells_everything_in_json_and_goes_on_where_it_stopped(project, penstock, clicks):
    """Stdout is one document; the second run reads only what is new, and every row is there once."""
    options = clicks(250)
    file = write(project, COPY + "SELECT COUNT(*) AS n FROM copies;\n")
    command = ("run", file, *options, "--available-now", "--format", "json")

    status, output, errors = penstock(*command).end()

    assert status == 0, errors
    *definitions, insert, select = json.loads(output)["statements"]
    assert [each["kind"] for each in definitions] == ["CREATE TABLE", "CREATE TABLE"]
    assert (insert["sink"], insert["rows_in"], insert["rows_out"]) == ("copies", 250, 250)
    assert (insert["batches"], insert["status"], insert["error"]) == (3, "finished", None)
    assert select["rows"] == [{"n": 250}]
    assert "WARN" not in errors
    assert copied(project) == list(range(250))
    assert open_to_others(project / ".penstock", project / "copies") == []
    # each file is checked once: by Hadoop's .crc, not by Spark's besides
    (offsets,) = (project / ".penstock" / "checkpoints").rglob("offsets")
    assert {"0", ".0.crc"} <= {file.name for file in offsets.iterdir()}
    assert list(offsets.glob("[0-9]*.crc")) == []

    status, output, errors = penstock(*command).end()

    assert status == 0, errors
    *_, insert, select = json.loads(output)["statements"]
    assert insert["rows_in"] == 0
    assert select["rows"] == [{"n": 250}]


def test_stopped_once_a_run_finishes_its_batch_and_is_alone_meanwhile(project, penstock, clicks):
    """Cases 13 and 17: a second runner is refused before it starts Spark, by the name of the first; SIGTERM ends in
    good order.
    """
    options = clicks(2_000)
    file = write(project, COPY)
    first = penstock("run", file, *options, "--var", "batch=10", "--continuous", "--format", "json")
    first.expect(r"copies: batch \d+")

    status, output, errors = penstock("run", file, *options, "--var", "batch=10").end()

    assert (status, output) == (75, "")
    assert f"process {first.process.pid}" in errors
    assert "SET 'pipeline.name'" in errors
    assert "starting Spark" not in errors

    first.process.send_signal(signal.SIGTERM)
    status, output, errors = first.end()

    assert status == 0, errors
    assert "stopping after the batch in flight" in errors
    insert = json.loads(output)["statements"][-1]
    assert insert["status"] == "stopped"
    assert copied(project) == list(range(insert["rows_out"]))


@pytest.mark.nightly
def test_interrupted_twice_a_run_stops_at_once(project, penstock, clicks):
    """The status is that of an interrupted command, whatever the batch was doing."""
    file = write(project, COPY)
    run = penstock("run", file, *clicks(2_000), "--var", "batch=10", "--continuous")
    run.expect(r"copies: batch \d+")

    run.process.send_signal(signal.SIGINT)
    run.expect("again to stop at once")
    run.process.send_signal(signal.SIGINT)
    status, output, errors = run.end()

    assert (status, output) == (130, ""), errors
    assert "Traceback" not in errors


@pytest.mark.nightly
def test_a_bad_record_fails_its_statement_and_ends_the_run(project, penstock, clicks):
    """Status 1, the record named, the rest skipped, no stack trace; rows before it in its batch are not written."""
    file = write(project, COPY + "SELECT COUNT(*) FROM copies;\n")

    status, output, errors = penstock(
        "run", file, *clicks(5, extra=["{oops"]), "--available-now", "--format", "json"
    ).end()

    assert status == 1
    *_, insert, select = json.loads(output)["statements"]
    assert (insert["status"], select["status"]) == ("failed", "skipped")
    assert "partition 0, offset 5" in insert["error"]
    assert "ignore-parse-errors" in errors
    assert not re.search(r"Traceback|^\s+at ", errors, re.MULTILINE)


def test_a_file_with_mistakes_starts_nothing(project, penstock):
    """All of them are told, with their places; neither catalog nor tables nor a log come into being."""
    file = write(
        project,
        SOURCE.replace("earliest-offset", "earlyest")
        + "SELEC 1;\nINSERT INTO nowhere SELECT id FROM clicks;\n",
    )

    status, output, errors = penstock(
        "run", file, "--var", "topic=t", "--var", "bootstrap=127.0.0.1:1"
    ).end()

    assert (status, output) == (2, "")
    for place in ("job.sql:10:", "job.sql:15:1", "job.sql:16:13"):
        assert place in errors
    assert "nothing was started" in errors
    assert [path.name for path in project.iterdir()] == ["job.sql"]


@pytest.mark.nightly
def test_a_run_without_stdin_ends_as_any_other(project, penstock, clicks):
    """Case 17: nothing is read from it, and its descriptor may be closed."""
    file = write(project, COPY)
    command = shlex.join([PENSTOCK, "run", file, *clicks(5), "--available-now", "--format", "json"])

    run = subprocess.run(
        f"exec {command} <&-", shell=True, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stderr
    assert copied(project) == list(range(5))


@pytest.mark.nightly
def test_a_dry_run_shows_the_plan_and_starts_nothing(project, penstock, clicks):
    """Spark checks the queries, but neither the catalog nor the target is made."""
    file = write(project, COPY)

    status, output, errors = penstock("run", file, *clicks(1), "--dry-run").end()

    assert status == 0, errors
    assert "3  INSERT copies" in output
    assert "reads       clicks" in output
    assert "verdict     new" in output
    assert "-0 at 0, end 1, lag 1" in output
    assert "until it is stopped" in output
    assert not (project / "copies").exists()
    assert not (project / ".penstock" / "catalog.db").exists()
