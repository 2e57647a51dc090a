"""The example notebook runs from its first cell to its last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from pyspark.sql import SparkSession

import penstock

NOTEBOOK = Path(__file__).resolve().parents[3] / "examples" / "notebook" / "first_steps.ipynb"


def test_the_example_notebook_runs(
    spark: SparkSession,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its cells, in a shell without a kernel, on the Spark that the tests have."""
    connect = penstock.connect
    monkeypatch.setattr(penstock, "connect", lambda: connect(spark))
    shell = InteractiveShell()
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            shell.run_cell("".join(cell["source"])).raise_error()
    InteractiveShell.clear_instance()
    shown = capsys.readouterr().out

    assert "error[" not in shown
    assert "|      1|" in shown
    assert "(3 rows)" in shown
    assert (project / "sales" / "_delta_log").is_dir()
