"""What `penstock doctor` prints of its findings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.connector.kafka.client import native
from penstock.connector.kafka.client.native import Native
from penstock.sql.cli.commands import doctor
from penstock.sql.cli.commands.app import app
from penstock.sql.cli.commands.doctor import Finding, Level
from tests.sql.cli.command_runner import CommandRunner


def findings(**_: object) -> Iterator[Finding]:
    """One that is well, one that is not."""
    yield Finding(subject="python", level=Level.OK, text="3.11")
    yield Finding(subject="broker", level=Level.WARNING, text="is away", hint="start it")


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
    found = [
        one
        for one in doctor.examine(catalog_url=None, bootstrap=None)
        if one.subject == "data folder"
    ]

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
    findings = {f.subject: f for f in doctor.examine(catalog_url=None, bootstrap="127.0.0.1:1")}

    assert findings["native"].level is level
    assert found.text in findings["native"].text
