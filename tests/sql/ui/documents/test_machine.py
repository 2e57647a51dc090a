"""The page of settings and of the machine: origins, no secrets, and findings that nobody waits for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from starlette.testclient import TestClient

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.runner.doctor import Finding, Level
from penstock.sql.script.project import find_project
from penstock.sql.ui.application import StatusView, application
from penstock.sql.ui.documents import stored
from penstock.sql.ui.documents.fields import SCHEMAS
from penstock.sql.ui.documents.machine import FRESH_MS, Examination, settings_document
from penstock.sql.ui.documents.stored import StoredPipelines
from tests.sql.run.scripted import MovedClock

CANARY = "canary-of-a-secret"
FILE = f"""
[settings]
"table.local-time-zone" = "Europe/Berlin"

[spark]
master = "local[2]"

[spark.conf]
"spark.sql.shuffle.partitions" = "3"
"spark.hadoop.fs.s3a.secret.key" = "{CANARY}"
"""
FAILURE = Finding(subject="broker", level=Level.FAILURE, text="<b>away</b>", hint="start it")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with settings, one of them secret."""
    (tmp_path / "penstock.toml").write_text(FILE)
    return tmp_path


def test_settings_have_their_origin_and_secrets_are_left_out(project: Path) -> None:
    """Those of the file, then the defaults; of Spark the file's alone."""
    found = settings_document(find_project(project), f"postgresql://me:{CANARY}@db/penstock")
    settings = {each["key"]: each for each in found["settings"]}
    spark = {each["key"]: each["value"] for each in found["spark"]}

    assert settings["table.local-time-zone"]["value"] == "Europe/Berlin"
    assert settings["table.local-time-zone"]["origin"] == "penstock.toml"
    assert settings["restart-strategy.type"]["origin"] == "default"
    assert all(each["meaning"] for each in settings.values())
    assert spark["spark.sql.shuffle.partitions"] == "3"
    assert CANARY not in str(found)
    assert "me:***@db" in found["catalog"]
    for schema, documents in (("Settings", [found]), ("Setting", found["settings"])):
        for each in documents:
            assert each.keys() <= {field.name for field in SCHEMAS[schema]}


class Doctor:
    """An examination that takes until it is told to end."""

    def __init__(self) -> None:
        self.begun, self.end, self.looks = Event(), Event(), 0

    def look(self) -> Iterator[Finding]:
        """Find a failure."""
        self.looks += 1
        self.begun.set()
        self.end.wait(60)
        yield FAILURE


def wait_for(examination: Examination, doctor: Doctor) -> dict:
    """The document once the examination is over."""
    while (found := examination.document(doctor.look))["running"]:
        doctor.end.wait(0.01)
    return found


def test_nobody_waits_for_an_examination_and_one_runs_at_a_time() -> None:
    """Whoever asks gets what is known; it is looked at again once that is old."""
    clock, doctor = MovedClock(), Doctor()
    examination = Examination(clock=clock)

    assert examination.document(doctor.look) == {"running": True, "findings": []}
    assert doctor.begun.wait(60)
    assert examination.document(doctor.look)["running"]
    doctor.end.set()
    found = wait_for(examination, doctor)
    assert [each["check"] for each in found["findings"]] == ["broker"]
    assert found["examined"].startswith("1970-01-01")
    assert doctor.looks == 1

    clock.now += FRESH_MS + 1
    doctor.end.clear()
    again = examination.document(doctor.look)
    assert again["running"]
    assert again["findings"] == found["findings"]
    doctor.end.set()
    wait_for(examination, doctor)
    assert doctor.looks == 2


def test_an_examination_is_old_by_a_clock_that_nobody_sets() -> None:
    """Set ahead, the wall clock would have it begun at each look, and set back, never again."""
    clock, doctor = MovedClock(), Doctor()
    examination = Examination(clock=clock)
    doctor.end.set()
    examination.document(doctor.look)
    wait_for(examination, doctor)

    clock.set_by_ms = 10 * FRESH_MS
    assert not examination.document(doctor.look)["running"]
    clock.set_by_ms = -10 * FRESH_MS
    clock.now += FRESH_MS + 1
    doctor.end.clear()
    assert examination.document(doctor.look)["running"]
    doctor.end.set()
    wait_for(examination, doctor)
    assert doctor.looks == 2


def test_an_examination_that_breaks_is_over() -> None:
    """The page says so, and the next look may go well."""

    def broken() -> Iterator[Finding]:
        raise RuntimeError("it broke")
        yield FAILURE

    examination, doctor = Examination(), Doctor()
    doctor.end.set()
    examination.document(broken)
    found = wait_for(examination, doctor)
    assert [each["text"] for each in found["findings"]] == ["RuntimeError: it broke"]


def test_the_page_shows_findings_as_text_and_asks_again_while_it_is_looked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the script of the page, not by one in it."""
    doctor = Doctor()
    monkeypatch.setattr(stored, "findings", lambda *_: doctor.look())
    namespace = Namespace(SqlCatalog(f"sqlite:///{project}/catalog.db"))
    pipelines = StoredPipelines(namespace=namespace, project=project)
    client = TestClient(
        application(StatusView(jobs=list, stored=pipelines)), base_url="http://127.0.0.1"
    )

    first = client.get("/settings").text
    assert 'data-refresh="2000"' in first
    doctor.end.set()
    while client.get("/api/v1/doctor").json()["running"]:
        doctor.end.wait(0.01)
    page = client.get("/settings").text

    assert "data-refresh" not in page
    assert "&lt;b&gt;away" in page
    assert "start it" in page
    assert CANARY not in page
    assert client.get("/api/v1/settings").json()["master"] == "local[2]"
