"""The page beside a folder that is not as it should be: what runs is shown, and what could not be read is said."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.cli.commands.app import app
from penstock.sql.information_schema import checkpoints
from penstock.sql.script.project import find_project
from penstock.sql.ui.application import StatusView, application
from penstock.sql.ui.documents.fields import known
from penstock.sql.ui.documents.stored import StoredPipelines
from tests.sql.cli.command_runner import CommandRunner
from tests.sql.metrics.metered import SPLITS, job, read_batch, source_of
from tests.sql.ui.documents.test_checkpoint_alone import written

CHECKPOINTS = Path(".penstock") / "checkpoints"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the checkpoint of `shop/copies`, which does not run."""
    written(tmp_path / CHECKPOINTS / "shop" / "copies")
    return tmp_path


@pytest.fixture
def client(project: Path) -> TestClient:
    """A browser at the page of a process that runs `shop/totals`."""
    namespace = Namespace(SqlCatalog(f"sqlite:///{project}/catalog.db"))
    stored = StoredPipelines(namespace=namespace, project=project)
    jobs = [job(read_batch(7, source_of(*SPLITS)))]
    return TestClient(
        application(StatusView(jobs=lambda: jobs, stored=stored)), base_url="http://127.0.0.1"
    )


def refused(
    folder: Path, error: Callable[[], OSError]
) -> Callable[[os.PathLike[str]], os._ScandirIterator[str]]:
    """A scandir that fails for a folder, as this test may be run by root, to whom nothing is refused."""
    plain = os.scandir

    def scandir(path: os.PathLike[str]) -> os._ScandirIterator[str]:
        if not isinstance(path, int) and Path(path) == folder:
            raise error()
        return plain(path)

    return scandir


def listed(client: TestClient) -> set[str]:
    """The names of the pipelines in JSON, each of which is on the page; both are there."""
    answer, page = client.get("/api/v1/pipelines"), client.get("/")
    assert (answer.status_code, page.status_code) == (200, 200)
    names = {each["name"] for each in answer.json()}
    assert all(f"/pipelines/{name}" in page.text for name in names)
    return names


def test_a_project_without_faults_has_no_notice(client: TestClient) -> None:
    """What runs here, and what has a checkpoint."""
    assert listed(client) == {"shop/totals", "shop/copies"}
    assert "notice" not in client.get("/").text


def test_a_project_file_that_somebody_writes_takes_no_page_down(
    client: TestClient, project: Path
) -> None:
    """It is read at each look where it was not at the start; what needs it says so."""
    (project / "penstock.toml").write_text("[settings\n")

    assert listed(client) == {"shop/totals"}
    assert "penstock.toml" in client.get("/").text
    assert client.get("/pipelines/shop/totals").status_code == 200
    settings = client.get("/api/v1/settings")
    assert settings.status_code == 503
    assert "penstock.toml" in settings.json()["error"]


def test_a_page_goes_by_the_project_of_its_start(project: Path) -> None:
    """Also by its target, and where its checkpoints are; the file may be another by now."""
    file = project / "penstock.toml"
    file.write_text('[targets.prod.settings]\n"execution.checkpointing.dir" = "elsewhere"\n')
    stored = StoredPipelines(
        namespace=Namespace(SqlCatalog(f"sqlite:///{project}/catalog.db")),
        project=project,
        configured=find_project(project, target="prod"),
    )
    written(project / "elsewhere" / "of" / "target")
    file.write_text("[settings\n")

    assert [each["name"] for each in stored.pipelines()] == ["of/target"]
    assert stored.notices.texts == ()


def test_a_folder_of_another_account_hides_no_other(
    client: TestClient, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a run by root."""
    folder = project / CHECKPOINTS / "roots"
    folder.mkdir()
    fail = refused(folder, lambda: PermissionError(13, "Permission denied"))
    monkeypatch.setattr(checkpoints.os, "scandir", fail)

    assert listed(client) == {"shop/totals", "shop/copies"}
    page = client.get("/").text
    assert f"{folder} cannot be read: Permission denied" in page
    assert page.count('class="notice"') == 1


def test_a_folder_that_is_removed_meanwhile_is_no_fault(
    client: TestClient, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint is set aside or removed at any time."""
    folder = project / CHECKPOINTS / "gone"
    folder.mkdir()

    def removed() -> OSError:
        shutil.rmtree(folder, ignore_errors=True)
        return FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(checkpoints.os, "scandir", refused(folder, removed))

    assert listed(client) == {"shop/totals", "shop/copies"}
    assert "notice" not in client.get("/").text


def test_a_name_that_is_not_utf_8_is_said_and_left_out(client: TestClient, project: Path) -> None:
    """None of Penstock's folders has one."""
    written(project / CHECKPOINTS / os.fsdecode(b"caf\xe9") / "t")

    assert listed(client) == {"shop/totals", "shop/copies"}
    assert "caf\\udce9" in client.get("/").text
    assert client.get("/api/v1/pipelines/shop/copies").status_code == 200


def test_half_a_character_in_a_text_is_written_out(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON may hold one, as in a file that says whose checkpoint it is."""
    assert known(name="a\ud800b", other=1) == {"name": "a\\ud800b", "other": 1}
    odd = [{"name": "a", "kind": "VIEW", "comment": "b\ud800c"}]
    monkeypatch.setattr(StoredPipelines, "tables", lambda _: odd)

    assert client.get("/api/v1/tables").json() == odd
    assert "b\\ud800c" in client.get("/tables").text


@pytest.mark.parametrize("output", ["table", "json"])
def test_the_command_lists_the_others_too(
    project: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    """The notice is no line of the result."""
    written(project / CHECKPOINTS / os.fsdecode(b"caf\xe9") / "t")
    folder = project / CHECKPOINTS / "roots"
    folder.mkdir()
    monkeypatch.chdir(project)
    fail = refused(folder, lambda: PermissionError(13, "Permission denied"))
    monkeypatch.setattr(checkpoints.os, "scandir", fail)

    found = CommandRunner().invoke(app, ["jobs", "--format", output])

    assert found.exit_code == 0
    assert "shop/copies" in found.stdout
    if output == "json":
        assert [each["name"] for each in json.loads(found.stdout)] == ["shop/copies"]
    for said in ("roots cannot be read: Permission denied", "its name is not UTF-8"):
        assert said in found.stderr
        assert said not in found.stdout
