"""The last errors of a pipeline, on its page and in JSON: of its runner, its checkpoint, and its process."""

from __future__ import annotations

from pathlib import Path

from starlette.testclient import TestClient

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.masking import keep_secret
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.checkpoint.failure_record import FAILURES_FILE, FailureRecord, failures_text
from penstock.sql.clock import SystemClock
from penstock.sql.information_schema.checkpoints import checkpoints_at
from penstock.sql.processes.overview import ProjectView
from penstock.sql.processes.process_end import ProcessState
from penstock.sql.processes.supervisor import ProcessView
from penstock.sql.ui.application import StatusView, application
from penstock.sql.ui.documents.errors import error_documents
from penstock.sql.ui.documents.fields import SCHEMAS
from penstock.sql.ui.documents.stored import StoredPipelines
from tests.sql.metrics.metered import NOON_MS, job, read_batch
from tests.sql.ui.documents.test_checkpoint_alone import written

CANARY = "canary-of-a-failure"
SINK_AWAY = FailureRecord(at_ms=NOON_MS, code="PEN-8003", message="the sink <b>is away")


def stored_in(project: Path, *checkpoints: Path) -> StoredPipelines:
    """What is stored of an empty project, and these checkpoints."""
    project.mkdir(exist_ok=True)
    return StoredPipelines(
        namespace=Namespace(SqlCatalog(f"sqlite:///{project}/catalog.db")),
        project=project,
        checkpoints=tuple(one for at in checkpoints for one in checkpoints_at(str(at))),
    )


def client_of(view: StatusView | ProjectView) -> TestClient:
    """A browser at a page."""
    return TestClient(application(view), base_url="http://127.0.0.1")


def test_failures_of_a_job_are_on_its_page_newest_first(tmp_path: Path) -> None:
    """As text; one that never failed has none."""
    later = FailureRecord(at_ms=NOON_MS + 60_000, code="PEN-6002", message="no such topic")
    failing = job(read_batch(7), failures=(SINK_AWAY, later))
    jobs = [failing, job(read_batch(7), name="shop/whole")]
    client = client_of(StatusView(jobs=lambda: jobs, stored=stored_in(tmp_path / "project")))
    found = client.get("/api/v1/pipelines/shop/totals").json()["errors"]
    page = client.get("/pipelines/shop/totals").text

    assert [each["code"] for each in found] == ["PEN-6002", "PEN-8003"]
    assert found[1]["at"] == "2026-01-01T12:00:00.000Z"
    assert all(each.keys() <= {f.name for f in SCHEMAS["PipelineError"]} for each in found)
    assert "the sink &lt;b&gt;is away" in page
    assert page.index("no such topic") < page.index("is away")
    assert "errors" not in client.get("/api/v1/pipelines/shop/whole").json()
    assert "Last errors" not in client.get("/pipelines/shop/whole").text


def test_failures_of_a_pipeline_that_is_over_are_those_of_its_checkpoint(tmp_path: Path) -> None:
    """Also where the checkpoint is damaged otherwise."""
    folder = written(tmp_path / "shop/copies")
    (folder / FAILURES_FILE).write_text(failures_text([SINK_AWAY]))
    client = client_of(StatusView(jobs=list, stored=stored_in(tmp_path / "project", folder)))
    address = "/api/v1/pipelines/shop/copies"
    whole = client.get(address).json()["errors"]
    (folder / "metadata").write_text("{")

    assert [each["message"] for each in whole] == ["the sink <b>is away"]
    assert client.get(address).json()["errors"] == whole


def test_what_a_job_and_its_checkpoint_know_is_said_once(tmp_path: Path) -> None:
    """The runner writes what it knows; an older failure is in the checkpoint alone."""
    older = FailureRecord(at_ms=NOON_MS - 1, code="PEN-1", message="before")
    (tmp_path / FAILURES_FILE).write_text(failures_text([older, SINK_AWAY]))

    assert [each["code"] for each in error_documents([SINK_AWAY], str(tmp_path))] == [
        "PEN-8003",
        "PEN-1",
    ]
    assert error_documents([], "s3a://bucket/checkpoint") == []


def test_no_failure_has_a_secret(tmp_path: Path) -> None:
    """Neither one that was written by a process that did not know it."""
    keep_secret(CANARY)
    told = FailureRecord(at_ms=NOON_MS, code=None, message=f"log-in with {CANARY} failed")
    (tmp_path / FAILURES_FILE).write_text(failures_text([told]))

    assert CANARY not in str(error_documents([], str(tmp_path)))


def test_the_death_of_a_process_is_an_error_of_its_pipelines(tmp_path: Path) -> None:
    """Among those that it told of before."""
    killed = FailureRecord(at_ms=NOON_MS + 1, code=None, message="killed by SIGKILL")
    process = ProcessView(
        name="sql/totals.sql",
        state=ProcessState.RESTARTING,
        pipelines=("shop/totals",),
        failures=(killed,),
    )
    stored = stored_in(tmp_path / "project")
    view = ProjectView(processes=lambda: [process], stored=stored, clock=SystemClock())
    (found,) = client_of(view).get("/api/v1/pipelines/shop/totals").json()["errors"]

    assert found == {"at": "2026-01-01T12:00:00.001Z", "message": "killed by SIGKILL"}
    assert "killed by SIGKILL" in client_of(view).get("/pipelines/shop/totals").text
