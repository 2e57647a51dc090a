"""Documents of pipelines, by what their processes report and by what has become of these."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import CatalogError
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.clock import SystemClock
from penstock.sql.processes.live_pages import LivePages
from penstock.sql.processes.overview import SUMMARY, ProjectView, pipeline_documents
from penstock.sql.processes.process_end import ProcessState
from penstock.sql.processes.supervisor import ProcessView
from penstock.sql.ui.application import application
from penstock.sql.ui.documents.fields import SCHEMAS
from penstock.sql.ui.documents.stored import StoredPipelines
from penstock.sql.ui.pages import pipeline_page, pipelines_page

REPORTED = {
    "name": "shop/totals",
    "status": "running",
    "sentence": "caught up",
    "rows_per_second": 12.5,
    "rows_per_second_out": 6.5,
    "lag_records": 3,
    "oldest_unread": "2026-01-01T12:00:00.000Z",
    "rows_per_second_trend": [10.0, 12.5],
    "lag_records_trend": [4, 3],
    "restarts": 1,
}


def view(state: ProcessState, **changes: object) -> ProcessView:
    """A process with one pipeline that has reported."""
    values = {
        "name": "sql/totals.sql",
        "state": state,
        "pipelines": ("shop/totals",),
        "pid": 12,
        "documents": {"shop/totals": REPORTED},
    }
    return ProcessView(**(values | changes))  # type: ignore[arg-type]


def test_a_running_pipeline_is_as_its_process_reports_it() -> None:
    """With the process, and the restarts of both."""
    (found,) = pipeline_documents([view(ProcessState.RUNNING, restarts=2)], 0)

    assert found == REPORTED | {"runner": "process 12", "restarts": 3}


@pytest.mark.parametrize(
    ("own", "reported", "shown"),
    [
        ((0, 10), {"restarts_counted": 2, "restart_limit": 5}, (2, 5)),
        ((3, 10), {"restarts_counted": 2, "restart_limit": 5}, (3, 10)),
        ((0, 10), {}, (0, 10)),
    ],
)
def test_restarts_that_count_are_those_of_a_process_that_died_of_late(
    own: tuple[int, int], reported: dict[str, int], shown: tuple[int, int]
) -> None:
    """Else those within it, each of as many as are allowed; the list and the page show both numbers."""
    process = view(
        ProcessState.RUNNING,
        documents={"shop/totals": REPORTED | reported},
        restarts_counted=own[0],
        restart_limit=own[1],
    )
    (found,) = pipeline_documents([process], 0)

    assert (found["restarts_counted"], found["restart_limit"]) == shown
    assert "{} of {} allowed".format(*shown) in pipeline_page(found)
    assert ("{} of {}<".format(*shown) in pipelines_page([found])) == (shown[0] > 0)


def test_before_the_first_report_it_starts() -> None:
    """By its name, which is known without Spark; else by that of the file."""
    named = view(ProcessState.STARTING, documents={})
    unnamed = view(ProcessState.WAITING, documents={}, pipelines=(), pid=None)

    assert pipeline_documents([named, unnamed], 0) == [
        {
            "name": "shop/totals",
            "restarts": 0,
            "runner": "process 12",
            "status": "starting",
            "sentence": "starts",
        },
        {
            "name": "sql/totals.sql",
            "restarts": 0,
            "status": "waiting",
            "sentence": "waits for its turn to start",
        },
    ]


def test_one_of_a_process_that_has_not_reported_starts() -> None:
    """Its neighbour runs already."""
    both = view(ProcessState.RUNNING, pipelines=("shop/totals", "shop/more"))
    first, second = pipeline_documents([both], 0)

    assert (first["status"], second["status"]) == ("running", "starting")


@pytest.mark.parametrize(
    ("state", "status", "sentence"),
    [
        (ProcessState.RESTARTING, "restarting", "it died; starts again in 2 s"),
        (ProcessState.STARTING, "starting", "starts again: it died"),
        (ProcessState.FAILED, "failed", "failed: it died"),
        (ProcessState.STOPPED, "stopped", "stopped"),
        (ProcessState.FINISHED, "finished", "finished"),
    ],
)
def test_a_pipeline_is_not_running_because_it_once_was(
    state: ProcessState, status: str, sentence: str
) -> None:
    """What its dead process said of speed and lag is not shown."""
    gone = view(state, pid=None, reason="it died", starts_again_ms=5_500)
    (found,) = pipeline_documents([gone], 4_000)

    assert (found["status"], found["sentence"]) == (status, sentence)
    of_a_run = {"rows_per_second", "rows_per_second_out", "lag_records", "oldest_unread", "runner"}
    trends = {"rows_per_second_trend", "lag_records_trend"}
    assert not (of_a_run | trends) & found.keys()


def test_what_a_pipeline_said_at_its_end_stays() -> None:
    """It is more than what its process left: one of two pipelines of a file failed."""
    last = REPORTED | {"status": "failed", "sentence": "failed: no such topic"}
    ended = view(ProcessState.FAILED, pid=None, documents={"shop/totals": last}, reason="status 1")
    (found,) = pipeline_documents([ended], 0)

    assert found["sentence"] == "failed: no such topic"


@pytest.fixture
def processes() -> list[ProcessView]:
    """Those of the page; a test changes them."""
    return [view(ProcessState.RUNNING)]


@pytest.fixture
def page(tmp_path: Path, processes: list[ProcessView]) -> TestClient:
    """The status page over them."""
    namespace = Namespace(SqlCatalog(f"sqlite:///{tmp_path}/catalog.db"))
    stored = StoredPipelines(namespace=namespace, project=tmp_path)
    pages = ProjectView(processes=lambda: processes, stored=stored, clock=SystemClock())
    return TestClient(application(pages), base_url="http://127.0.0.1")


def test_a_list_has_the_fields_that_the_api_describes() -> None:
    """All but the checkpoint, which only the page of one pipeline has of those that run here."""
    described = [field.name for field in SCHEMAS["PipelineSummary"] if field.name != "checkpoint"]

    assert list(SUMMARY) == described


def test_the_page_shows_what_processes_report(page: TestClient) -> None:
    """As of jobs of its own process; a pipeline that nobody knows has no page."""
    (summary,) = page.get("/api/v1/pipelines").json()
    whole = page.get("/api/v1/pipelines/shop/totals").json()

    assert summary["rows_per_second"] == 12.5
    assert whole == summary
    assert page.get("/api/v1/pipelines/shop/none").status_code == 404
    assert "caught up" in page.get("/pipelines/shop/totals").text


def test_a_catalog_that_cannot_be_read_hides_no_pipeline_of_the_processes(
    page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk, which is when somebody looks."""

    def fail(_: StoredPipelines, **__: object) -> Iterator[dict[str, object]]:
        raise CatalogError("the catalog cannot be used: disk I/O error")

    monkeypatch.setattr(StoredPipelines, "summaries", fail)

    (summary,) = page.get("/api/v1/pipelines").json()
    assert summary["name"] == "shop/totals"
    assert page.get("/api/v1/pipelines/shop/totals").json() == summary
    assert page.get("/api/v1/pipelines/shop/none").status_code == 503


def test_the_catalog_is_not_asked_for_what_a_process_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page of a pipeline follows each batch; what the process does not tell is stored."""
    asked: list[str] = []
    whole = {"name": "shop/totals", "tables": [{"name": "orders"}], "sinks": [{"name": "totals"}]}
    monkeypatch.setattr(StoredPipelines, "summaries", lambda _: iter([whole]))
    monkeypatch.setattr(StoredPipelines, "_found", lambda _, name: asked.append(name))
    running = view(ProcessState.RUNNING, page_url="http://127.0.0.1:1/")
    pages = ProjectView(
        processes=lambda: [running],
        stored=StoredPipelines(
            namespace=Namespace(SqlCatalog(f"sqlite:///{tmp_path}/catalog.db")), project=tmp_path
        ),
        clock=SystemClock(),
        pages=LivePages(token="t", fetch=lambda *_: '{"tables": [{"name": "orders", "idle": 1}]}'),
    )

    found = pages.pipeline("shop/totals")

    assert found is not None
    assert found["tables"] == [{"name": "orders", "idle": 1}]
    assert found["sinks"] == [{"name": "totals"}]
    assert asked == ["totals"]


def test_readiness_is_that_of_all(page: TestClient, processes: list[ProcessView]) -> None:
    """One that has failed or starts again is not ready; health is the supervisor's own."""
    before = page.get("/readyz").status_code
    processes.append(view(ProcessState.RESTARTING, pipelines=("b",), documents={}, pid=None))

    assert (before, page.get("/readyz").status_code) == (200, 503)
    assert page.get("/healthz").status_code == 200
