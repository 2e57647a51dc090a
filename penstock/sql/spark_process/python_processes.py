"""The interpreter of Spark's Python processes: that it has what they need, and from where it imports PySpark.

Each query starts some: to plan its source, to fork workers from. Used by `spark_session.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.catalog.errors import ConfigError
from penstock.sql.spark_process.class_path import installed_spark, spark_home

INTERPRETER = "PYSPARK_PYTHON"
"""PySpark's variable; a session takes it when it starts."""

STARTED = "PENSTOCK_WORKER_PYTHON"
"""The interpreter that the script starts."""

SCRIPT = Path(__file__).with_name("python")
"""Starts an interpreter that imports the installed PySpark, in place of an archive of its sources."""


@contextmanager
def python_environment(*, in_process: bool) -> Iterator[None]:
    """Start Spark in here: its Python processes run this interpreter, where PYSPARK_PYTHON names no other.

    `in_process`: they run on this machine, in the environment of the Java process that starts in here.
    """
    os.environ.setdefault(INTERPRETER, sys.executable)
    python = os.environ[INTERPRETER]
    if not in_process or not _imports_installed(python):
        yield
        return
    before = os.environ.get(STARTED)
    os.environ[STARTED], os.environ[INTERPRETER] = sys.executable, str(SCRIPT)
    try:
        yield
    finally:
        os.environ[INTERPRETER] = python
        if before is None:
            del os.environ[STARTED]
        else:
            os.environ[STARTED] = before


def _imports_installed(python: str) -> bool:
    """Return whether an interpreter would import the very PySpark whose archive Spark has for it."""
    return (
        os.name == "posix"
        and shutil.which(python) == sys.executable
        and spark_home() == installed_spark()
        and os.access(SCRIPT, os.X_OK)
    )


def check_interpreter(python: str) -> None:
    """Check that the interpreter of Spark's Python processes has the needed packages. Raises ConfigError.

    Without them Spark reports that a "Python worker failed to connect back", and the cause only in its log.
    """
    if shutil.which(python) == sys.executable:
        return
    hint = f"unset PYSPARK_PYTHON, or install Penstock there: {python} -m pip install penstock"
    try:
        check = [python, "-c", "import pyarrow, pyspark, penstock"]
        done = subprocess.run(check, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(
            f"PYSPARK_PYTHON = {python!r} does not run: {error}", hint=hint
        ) from error
    if done.returncode:
        why = done.stderr.strip().splitlines() or ["it says nothing"]
        raise ConfigError(
            f"Spark's Python processes would run {python} (PYSPARK_PYTHON), which cannot read tables: {why[-1]}",
            hint=hint,
        )
