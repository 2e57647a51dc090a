"""What is checked before a JVM starts."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.catalog.errors import ConfigError
from penstock.sql.spark_process.spark_session import start_spark, warehouse_folder


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no Spark be running, whatever other tests have started."""
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)


def test_an_interpreter_without_pyarrow_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's own message names neither the interpreter nor the package."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))

    with pytest.raises(ConfigError, match=f"{python}.*No module named 'pyarrow'") as caught:
        start_spark()
    assert "unset PYSPARK_PYTHON" in (caught.value.hint or "")


def test_an_interpreter_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")

    with pytest.raises(ConfigError, match="'no-such-python' does not run"):
        start_spark()


def test_the_folder_of_sparks_own_tables_is_this_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary folder is everybody's: who made the folder first, or a link, would have the tables."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = warehouse_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    assert warehouse_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    folder.rmdir()
    (tmp_path / "theirs").mkdir()
    folder.symlink_to(tmp_path / "theirs")
    with pytest.raises(ConfigError, match="is not a folder of this user"):
        warehouse_folder()
    folder.unlink()
    if os.geteuid() == 0:
        folder.mkdir()
        os.chown(folder, 12345, 12345)
        with pytest.raises(ConfigError, match="is not a folder of this user"):
            warehouse_folder()
