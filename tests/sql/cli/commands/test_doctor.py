"""What `penstock doctor` prints of its findings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.connector import registry
from penstock.connector.jvm import class_data, jars
from penstock.connector.jvm.java import find_java
from penstock.connector.kafka.client import native
from penstock.connector.kafka.client.native import Native
from penstock.sql.cli.commands import doctor
from penstock.sql.cli.commands.app import app
from penstock.sql.cli.commands.catalog import open_catalog
from penstock.sql.runner.doctor import Examined, Finding, Level, examine
from penstock.sql.script.project import find_project
from penstock.sql.spark_process import class_path
from tests.sql.cli.command_runner import CommandRunner


def findings(_: object) -> Iterator[Finding]:
    """One that is well, one that is not."""
    yield Finding(subject="python", level=Level.OK, text="3.11")
    yield Finding(subject="broker", level=Level.WARNING, text="is away", hint="start it")


def examined(bootstrap: str | None = None) -> Iterator[Finding]:
    """What is found in the working directory."""
    here = Path.cwd()
    return examine(
        Examined(
            project=lambda: find_project(here),
            catalog=lambda: open_catalog(None),
            bootstrap=bootstrap,
        )
    )


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> CommandRunner:
    """Commands on a machine with these findings."""
    monkeypatch.setattr(doctor, "examine", findings)
    return CommandRunner(env={"NO_COLOR": "1"})


def test_the_document_has_a_hint_and_its_key_of_before(runner: CommandRunner) -> None:
    """`mend` stays for one version."""
    result = runner.invoke(app, ["doctor", "--format", "json"])

    assert json.loads(result.stdout) == {
        "checks": [
            {"check": "python", "level": "ok", "text": "3.11", "hint": None, "mend": None},
            {
                "check": "broker",
                "level": "warning",
                "text": "is away",
                "hint": "start it",
                "mend": "start it",
            },
        ]
    }


def test_a_line_has_what_to_do_at_its_end(runner: CommandRunner) -> None:
    """Where there is something to do."""
    result = runner.invoke(app, ["doctor"])

    assert result.stdout.splitlines() == [
        "ok       python: 3.11",
        "warning  broker: is away; start it",
    ]


def test_a_data_folder_that_cannot_be_made_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder above it is read-only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = [one for one in examined() if one.subject == "data folder"]

    assert [(one.level, one.text) for one in found] == [
        (Level.FAILURE, f"{tmp_path} is not writable")
    ]


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (Native(package=None, text="not installed: records are read in Python"), Level.OK),
        (Native(package=None, text="librdkafka 3", faulty=True), Level.WARNING),
    ],
)
def test_what_reads_kafka_is_a_finding(
    found: Native, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that cannot be used costs time, and no row."""
    monkeypatch.setattr(native, "find_native", lambda: found)
    findings = {f.subject: f for f in examined("127.0.0.1:1")}

    assert findings["native"].level is level
    assert found.text in findings["native"].text


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the archive that belongs to this Java and its jars; it is not there."""
    file = tmp_path / "class-data" / "java.jsa"
    made = class_data.Archive(file=file, java=find_java(), class_path=())
    monkeypatch.delenv(class_data.SWITCH, raising=False)
    monkeypatch.setattr(jars, "is_complete", lambda *_: True)
    monkeypatch.setattr(registry, "engine_jars", list)
    monkeypatch.setattr(class_path, "archive_for", lambda _: made)
    file.parent.mkdir(mode=0o700)
    return file


def class_data_finding() -> Finding:
    """What the doctor says of the archive."""
    found = examined("127.0.0.1:1")
    return next(one for one in found if one.subject == "class data")


def test_no_archive_of_classes_is_well(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the command that makes one, or the switch that turned it off."""
    none = class_data_finding()
    monkeypatch.setenv(class_data.SWITCH, "0")
    off = class_data_finding()

    assert (none.level, off.level) == (Level.OK, Level.OK)
    assert "penstock prepare" in none.text
    assert f"{class_data.SWITCH}=0" in off.text


def test_an_archive_that_others_may_write_is_a_warning(archive: Path) -> None:
    """Spark starts without it."""
    archive.write_bytes(b"classes")
    archive.chmod(0o602)
    found = class_data_finding()

    assert found.level is Level.WARNING
    assert f"{archive} is not used" in found.text


def test_an_archive_that_java_does_not_map_is_a_warning(archive: Path) -> None:
    """Such as one that was cut."""
    archive.write_bytes(b"classes")
    archive.chmod(0o600)
    found = class_data_finding()

    assert found.level is Level.WARNING
    assert f"{archive} does not fit" in found.text


def test_an_archive_that_java_maps_is_named(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of what `penstock prepare` is for."""
    archive.write_bytes(b"classes")
    archive.chmod(0o600)
    monkeypatch.setattr(class_data, "fits", lambda _: True)
    found = class_data_finding()

    assert (found.level, found.text) == (Level.OK, f"Spark starts with {archive}")
