"""OpenLineage events of jobs, as a server gets them from OpenLineage's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.catalog.errors import ConfigError
from penstock.catalog.masking import keep_secret
from penstock.sql.jobs.progress import JobProgress
from penstock.sql.lineage.openlineage import (
    RUNNING_MS,
    EventSender,
    sending_events,
    wants_events,
)
from penstock.sql.observation.pipeline import JobStatus
from tests.integration.pipeline import wait_until
from tests.sql.lineage.test_datasets import lineages, query
from tests.sql.run.scripted import MovedClock

SQL = "INSERT INTO totals SELECT id, SUM(twice), MAX(ts) FROM larger GROUP BY id;"


class Server:
    """Keeps the events that are posted to it."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.paths: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.paths.append(self.path)
                server.events.append(
                    json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                )
                self.send_response(201)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing on stderr."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server at a port of its own."""
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()
    made.thread.join()


def job(status: JobStatus = JobStatus.RUNNING, **more: Any) -> Any:
    """A job that writes `totals`."""
    progress = JobProgress(
        name="job/totals",
        sink="totals",
        status=status,
        activity="",
        started_ms=1_767_225_600_000,
        seconds=1.0,
        **more,
    )
    return SimpleNamespace(progress=progress)


def test_a_run_is_told_from_its_start_to_its_end(
    server: Server, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    """With its datasets, their columns, where each column comes from, and the rows written."""
    monkeypatch.setenv("OPENLINEAGE_URL", server.url)
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
    known, running = lineages(SQL, query("totals")), job()
    with sending_events(lambda: [running], lambda: known) as sends:
        assert sends
        wait_until(lambda: len(server.events) > 0, seconds=20, what="the start")
        running.progress = job(JobStatus.FINISHED, batches=2, rows_out=7).progress
    start, end = server.events

    assert server.paths == ["/api/v1/lineage"] * 2
    assert [start["eventType"], end["eventType"]] == ["START", "COMPLETE"]
    assert start["eventTime"].startswith("2026-01-01T00:00:00")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert (start["job"]["namespace"], start["job"]["name"]) == ("shop", "job/totals")
    assert start["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert [(each["namespace"], each["name"]) for each in start["inputs"]] == [
        ("kafka://b1:9092", "eu"),
        ("kafka://b1:9092", "us"),
    ]
    (written,) = end["outputs"]
    assert (written["namespace"], written["name"]) == ("file", "/srv/shop/lake/totals")
    fields = written["facets"]["columnLineage"]["fields"]
    assert [each["field"] for each in fields["total"]["inputFields"]] == ["amount", "amount"]
    (made,) = fields["total"]["inputFields"][0]["transformations"]
    assert (made["subtype"], made["description"]) == ("TRANSFORMATION", "SUM(larger.twice)")
    (same,) = fields["id"]["inputFields"][0]["transformations"]
    assert same["subtype"] == "IDENTITY"
    columns = [(c["name"], c["type"]) for c in written["facets"]["schema"]["fields"]]
    assert columns[:2] == [("id", "BIGINT"), ("total", "DECIMAL(20, 2)")]
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 7
    assert "hunter2" not in json.dumps(server.events)


class Kept:
    """A client that keeps its events, or fails."""

    def __init__(self, *, fails: bool = False) -> None:
        self.events: list[Any] = []
        self.fails = fails

    def emit(self, event: Any) -> None:
        self.events.append(event)
        if self.fails:
            raise ConnectionError("the server is gone")


def sender(client: Kept, *jobs: Any) -> EventSender:
    """A sender of these jobs' events."""
    return EventSender(
        client=client, clock=MovedClock(), jobs=lambda: jobs, lineages={}, namespace="n"
    )


def look_after(events: EventSender, after_ms: int) -> None:
    """Let time pass, and look."""
    events.clock.wait(Event(), after_ms)
    events.look()


def test_running_is_told_once_a_minute_and_the_end_once() -> None:
    """However often the job is looked at."""
    client, running = Kept(), job()
    events = sender(client, running)
    for after_ms in (0, 1_000, RUNNING_MS - 1_000, 1_000, RUNNING_MS - 1_000):
        look_after(events, after_ms)
    running.progress = job(JobStatus.STOPPED).progress
    look_after(events, 1_000)
    look_after(events, 7 * RUNNING_MS)

    kinds = [event.eventType.value for event in client.events]
    assert kinds == ["START", "RUNNING", "RUNNING", "ABORT"]
    assert len({event.run.runId for event in client.events}) == 1


def test_a_failure_is_told_with_its_error_and_without_secrets() -> None:
    """Of a job that had ended before it was looked at, too."""
    keep_secret("hunter2-hunter2")
    client = Kept()
    failed = job(JobStatus.FAILED, last_error="log-in with hunter2-hunter2 failed")
    sender(client, failed).look()

    kinds = [event.eventType.value for event in client.events]
    assert kinds == ["START", "FAIL"]
    facets = client.events[-1].run.facets
    assert facets["errorMessage"].message == "log-in with ****** failed"


def test_a_server_that_is_away_is_named_in_the_log_and_costs_no_job(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each event is tried once; the next one is sent all the same."""
    client, running = Kept(fails=True), job()
    events = sender(client, running)
    events.look()
    look_after(events, RUNNING_MS)

    assert len(client.events) == 2
    assert caplog.messages[0] == (
        "the OpenLineage event START of job/totals is not sent: the server is gone"
    )


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OPENLINEAGE_URL": "http://m:5000"}, True),
        ({"OPENLINEAGE_CONFIG": "/etc/openlineage.yml"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "console"}, True),
        ({"OPENLINEAGE_URL": "http://m:5000", "OPENLINEAGE_DISABLED": "true"}, False),
        ({"OPENLINEAGE_DISABLED": "false"}, False),
    ],
)
def test_openlineages_variables_say_whether_events_are_sent(
    environ: dict[str, str], wanted: bool, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or its file in the project's folder."""
    monkeypatch.setenv("HOME", str(project))

    assert wants_events(environ, project) is wanted
    (project / "openlineage.yml").touch()
    assert wants_events(environ, project) is (environ.get("OPENLINEAGE_DISABLED") != "true")


def test_a_client_that_is_missing_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of no events without a word; where nothing asks for events, nothing is said."""
    monkeypatch.setenv("HOME", str(project))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert not wants_events({}, project)
    with pytest.raises(ConfigError) as caught:
        wants_events({"OPENLINEAGE_URL": "http://m:5000"}, project)
    assert "penstock[openlineage]" in (caught.value.hint or "")
