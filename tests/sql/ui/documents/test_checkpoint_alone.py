"""Pipelines that only a checkpoint tells of: `penstock ui --checkpoint`, also while another process writes it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from starlette.testclient import TestClient

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError, StateMismatchError
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.checkpoint.plan_record import (
    PLAN_FILE,
    Mechanism,
    OperatorRecord,
    PlanRecord,
    SinkRecord,
)
from penstock.sql.checkpoint.reader import LocalFiles, read_beside, read_checkpoint
from penstock.sql.cli.commands.app import app
from penstock.sql.information_schema.checkpoints import checkpoints_at
from penstock.sql.ui.application import StatusView, application
from penstock.sql.ui.documents.fields import SCHEMAS
from penstock.sql.ui.documents.stored import ALONE, StoredPipelines
from tests.sql.checkpoint.test_reader import Files, offsets
from tests.sql.cli.command_runner import CommandRunner
from tests.sql.sql_objects import run

PLAN = PlanRecord(
    operators=(
        OperatorRecord(
            name="Aggregate by k: COUNT(*)",
            level=0,
            mechanism=Mechanism.KEYED,
            key=("k",),
            keeps="COUNT(*)",
            bound="none",
            stages=("group_0",),
        ),
        OperatorRecord(name="Scan clicks", level=1, mechanism=Mechanism.READING_TASKS),
    ),
    sinks=(SinkRecord(name="copies", writer="spark", guarantee="exactly-once"),),
)


def written(folder: Path) -> Path:
    """A checkpoint of two batches in a folder."""
    for path, text in (Files().files | {PLAN_FILE: PLAN.to_text()}).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def page(project: Path, *locations: Path) -> TestClient:
    """A browser at the page of an empty project with these checkpoints."""
    project.mkdir(exist_ok=True)
    stored = StoredPipelines(
        namespace=Namespace(SqlCatalog(f"sqlite:///{project}/catalog.db")),
        project=project,
        checkpoints=tuple(one for at in locations for one in checkpoints_at(str(at))),
    )
    return TestClient(
        application(StatusView(jobs=list, stored=stored)), base_url="http://127.0.0.1"
    )


def test_a_checkpoint_shows_splits_and_operators_without_a_catalog(tmp_path: Path) -> None:
    """Whether it runs, and how much is left, is not known and not said."""
    folder = written(tmp_path / "elsewhere/shop/copies")
    client = page(tmp_path / "project", folder)
    (summary,) = client.get("/api/v1/pipelines").json()
    found = client.get("/api/v1/pipelines/shop/copies").json()

    assert (summary["name"], summary["sentence"]) == ("shop/copies", ALONE)
    assert "status" not in summary
    assert [each["position"] for each in found["tables"][0]["splits"]] == [150]
    assert "lag_records" not in found["tables"][0]
    assert [each["mechanism"] for each in found["operators"]] == ["keyed operator", "reading tasks"]
    assert found["sinks"][0]["guarantee"] == "exactly-once"
    assert found.keys() <= {field.name for field in SCHEMAS["Pipeline"]}
    text = client.get("/pipelines/shop/copies").text
    assert "Aggregate by k: COUNT(*)" in text
    assert "nothing bounds it" in text
    assert "shop/copies" in client.get("/").text


def test_a_table_that_the_catalog_knows_has_its_version(tmp_path: Path) -> None:
    """No checkpoint has it; a table that is damaged, or that nothing was written into, has none."""
    folder, project = written(tmp_path / "shop/copies"), tmp_path / "project"
    client = page(project, folder)
    namespace = Namespace(SqlCatalog(f"sqlite:///{project}/catalog.db"))
    run(
        "CREATE TABLE copies (id BIGINT) WITH ('connector' = 'delta', 'path' = 'copies')", namespace
    )

    def sink() -> dict[str, Any]:
        (found,) = client.get("/api/v1/pipelines/shop/copies").json()["sinks"]
        return found

    assert "version" not in sink()
    for _ in range(3):
        write_deltalake(project / "copies", pa.table({"id": [1]}), mode="append")
    assert sink()["version"] == 2
    for log in (project / "copies/_delta_log").glob("*.json"):
        log.write_text("{")
    assert "version" not in sink()


def test_a_table_that_the_catalog_knows_has_its_connector_and_group(tmp_path: Path) -> None:
    """No checkpoint has them, either."""
    client = page(tmp_path / "project", written(tmp_path / "shop/copies"))
    namespace = Namespace(SqlCatalog(f"sqlite:///{tmp_path}/project/catalog.db"))

    def table() -> dict[str, Any]:
        (found,) = client.get("/api/v1/pipelines/shop/copies").json()["tables"]
        return found

    assert not {"connector", "group"} & table().keys()
    run(
        "CREATE TABLE clicks (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'clicks', 'format' = 'json', "
        "'properties.bootstrap.servers' = 'nowhere:1', 'scan.watermark.alignment.group' = 'shop', "
        "'scan.watermark.alignment.max-drift' = '1 min')",
        namespace,
    )
    assert (table()["connector"], table()["group"]) == ("kafka", "shop")


def test_the_checkpoints_below_a_folder_are_shown_each_once(tmp_path: Path) -> None:
    """A folder of pipelines, and one of them again; two of one name are told apart by their folders."""
    for place in ("one/shop/copies", "one/shop/counts", "two/shop/copies"):
        written(tmp_path / place)
    client = page(tmp_path / "project", tmp_path / "one", tmp_path / "one/shop", tmp_path / "two")
    names = [each["name"] for each in client.get("/api/v1/pipelines").json()]

    assert names == ["shop/copies", f"shop/copies of {tmp_path}/two/shop/copies", "shop/counts"]
    for name in names:
        assert client.get(f"/api/v1/pipelines/{name}").json()["name"] == name


@pytest.mark.parametrize("file", ["offsets/1", "commits/1", "metadata", "penstock-query.json"])
@pytest.mark.parametrize("text", ["", "v1", "v1\n{", '{"sou', "\udcff"])
def test_a_file_that_was_cut_is_a_reason_and_no_trace(tmp_path: Path, file: str, text: str) -> None:
    """On the list, the page and in JSON."""
    folder = written(tmp_path / "shop/copies")
    (folder / file).write_bytes(text.encode("utf-8", "surrogateescape"))
    client = page(tmp_path / "project", folder)

    for path in (
        "/",
        "/pipelines/shop/copies",
        "/api/v1/pipelines",
        "/api/v1/pipelines/shop/copies",
    ):
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert file in answer.text, path
    assert "damaged" in client.get("/api/v1/pipelines").json()[0]["reason"]


def test_a_checkpoint_that_goes_away_is_known_no_more(tmp_path: Path) -> None:
    """Such as one that is set aside while the page is open."""
    folder = written(tmp_path / "shop/copies")
    client = page(tmp_path / "project", folder)
    shutil.rmtree(folder)

    for path in ("/", "/pipelines/shop/copies", "/api/v1/pipelines/shop/copies"):
        assert client.get(path).status_code == 200


@dataclass
class Moving(Files):
    """A checkpoint whose query ends a batch, and forgets old ones, whenever it is looked at."""

    moves: int = 3
    batch: int = field(default=1)

    def text(self, path: str) -> str | None:
        if self.moves and path.startswith("offsets/"):
            self.moves -= 1
            self.batch += 1
            self.files[f"offsets/{self.batch}"] = offsets(150, 200)
            self.files[f"commits/{self.batch}"] = 'v1\n{"nextBatchWatermarkMs":0}'
            for old in range(self.batch - 1):
                self.files.pop(f"offsets/{old}", None)
        return super().text(path)


def test_a_checkpoint_that_is_written_meanwhile_is_read_again() -> None:
    """It only looks damaged; a damaged one that stands still is."""
    with pytest.raises(StateMismatchError):
        read_checkpoint(Moving(moves=2))
    found = read_beside(Moving(moves=2), read_checkpoint)
    assert found is not None
    assert found.planned == found.committed == 3

    damaged = Moving(moves=0)
    damaged.files["offsets/1"] = "v1"
    with pytest.raises(StateMismatchError):
        read_beside(damaged, read_checkpoint)
    with pytest.raises(StateMismatchError):  # it is not read forever
        read_beside(Moving(moves=99), read_checkpoint)


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("s3a://bucket/checkpoints/shop/copies", "not on this machine"),
        ("hdfs:///checkpoints", "not on this machine"),
        ("none", "is not there"),
        ("file.txt", "is no folder"),
        ("empty", "holds no checkpoint"),
    ],
)
def test_what_is_no_checkpoint_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str, said: str
) -> None:
    """With what to name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "empty/in/it").mkdir(parents=True)

    with pytest.raises(ConfigError, match=said) as refused:
        checkpoints_at(location)
    assert refused.value.hint
    result = CommandRunner().invoke(app, ["ui", "--port", "0", "--checkpoint", location])
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
def test_a_folder_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    """And not a trace."""
    folder = written(tmp_path / "shop/copies")
    folder.chmod(0)
    try:
        with pytest.raises(ConfigError, match="cannot be read"):
            checkpoints_at(str(folder))
    finally:
        folder.chmod(0o700)


def test_a_folder_that_cannot_be_listed_any_more_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a file system that is gone."""
    folder = written(tmp_path / "shop/copies")
    client, listed = page(tmp_path / "project", folder), Path.iterdir

    def broken(path: Path) -> Iterator[Path]:
        if path.is_relative_to(folder):
            raise OSError(5, "Input/output error")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", broken)
    with pytest.raises(StateMismatchError, match="Input/output error"):
        LocalFiles(location=str(folder)).names("")
    (summary,) = client.get("/api/v1/pipelines").json()
    assert "Input/output error" in summary["reason"]
    assert "Input/output error" in client.get("/pipelines/shop/copies").text
