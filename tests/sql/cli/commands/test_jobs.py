"""`penstock jobs`: a line and a sentence for each pipeline of a project, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.sql.cli.commands.app import app
from penstock.sql.cli.commands.jobs import job_lines
from tests.sql.cli.command_runner import CommandRunner


def test_each_pipeline_has_a_line_and_its_sentence() -> None:
    """Names in one column; what is not known is left out."""
    running = {
        "name": "shop/totals",
        "status": "running",
        "batch_id": 7,
        "watermark": "2026-01-01T12:00:00.000Z",
        "runner": "process 12 on host",
        "sentence": "waits: split orders-3 holds the watermark",
    }
    stopped = {"name": "a/b", "status": "stopped", "sentence": "stopped after batch 3"}

    assert job_lines([running, stopped]) == [
        "shop/totals  running, batch 7, watermark 2026-01-01T12:00:00.000Z, process 12 on host",
        "  waits: split orders-3 holds the watermark",
        "a/b          stopped",
        "  stopped after batch 3",
    ]


def test_a_project_without_pipelines_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For people in words, for programs as an empty list."""
    monkeypatch.chdir(tmp_path)
    runner = CommandRunner()

    text = runner.invoke(app, ["jobs"])
    document = runner.invoke(app, ["jobs", "--format", "json"])

    assert (text.exit_code, document.exit_code) == (0, 0)
    assert "nothing runs here" in text.stdout
    assert json.loads(document.stdout) == []
