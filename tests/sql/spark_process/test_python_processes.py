"""From where Spark's Python processes import PySpark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.sql.spark_process import python_processes
from penstock.sql.spark_process.class_path import installed_spark
from penstock.sql.spark_process.fork_client import SERVER
from penstock.sql.spark_process.python_processes import (
    ALLOCATORS,
    INTERPRETER,
    SCRIPT,
    STARTED,
    python_environment,
    worker_memory,
)

HOME = installed_spark()
ARCHIVES = [
    *sorted(str(path) for path in (HOME / "python" / "lib").glob("pyspark.zip")),
    *sorted(str(path) for path in (HOME / "python" / "lib").glob("py4j-*-src.zip")),
    *sorted(str(path) for path in (HOME / "jars").glob("spark-core_*.jar")),
]
"""What Spark puts before the folders of a user."""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the script is one of the shell")


def imported(folders: list[str]) -> dict[str, object]:
    """What an interpreter that the script starts imports PySpark from, and its PYTHONPATH."""
    code = (
        "import json, os, sys, pyspark; "
        "print(json.dumps([pyspark.__file__, os.environ.get('PYTHONPATH'), sys.executable]))"
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(folders),
        "SPARK_HOME": str(HOME),
        STARTED: sys.executable,
    }
    done = subprocess.run(
        [str(SCRIPT), "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    file, path, executable = json.loads(done.stdout)
    return {"file": file, "path": path, "executable": executable}


def test_pyspark_is_imported_from_where_it_is_installed() -> None:
    """An archive of its sources is compiled by each process again; a user's own folders stay."""
    assert len(ARCHIVES) == 3, "the form of Spark's own search path"

    found = imported([*ARCHIVES, "/of/a/user", "/another"])

    assert found["file"] == str(HOME / "__init__.py")
    assert found["path"] == "/of/a/user:/another"
    assert found["executable"] == sys.executable


def test_without_folders_of_a_user_there_is_no_search_path() -> None:
    """An empty entry would be the working folder."""
    found = imported(ARCHIVES)

    assert found["file"] == str(HOME / "__init__.py")
    assert found["path"] is None


def test_a_search_path_of_another_form_stays(tmp_path: Path) -> None:
    """What a user puts before Spark's archives is meant to come first."""
    folders = [str(tmp_path), *ARCHIVES]

    found = imported(folders)

    assert found["path"] == os.pathsep.join(folders)
    assert found["file"] == str(Path(ARCHIVES[0]) / "pyspark" / "__init__.py")


def test_the_environment_is_as_before_once_spark_has_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What this process starts later is no process of Spark's."""
    monkeypatch.setenv(INTERPRETER, sys.executable)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv(STARTED, raising=False)

    with python_environment(in_process=True):
        inside = os.environ[INTERPRETER], os.environ[STARTED]

    assert inside == (str(SCRIPT), sys.executable)
    assert os.environ[INTERPRETER] == sys.executable
    assert STARTED not in os.environ


@pytest.mark.parametrize("why", ["a cluster", "another interpreter", "another Spark", "no rights"])
def test_an_interpreter_is_started_as_it_is(
    why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On other machines, one that the user chose, beside a Spark of another folder, and where no script may run."""
    python = "/usr/bin/another" if why == "another interpreter" else sys.executable
    monkeypatch.setenv(INTERPRETER, python)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    if why == "another Spark":
        monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    if why == "no rights":
        script = tmp_path / "python"
        script.touch(mode=0o644)
        monkeypatch.setattr(python_processes, "SCRIPT", script)

    with python_environment(in_process=why != "a cluster"):
        assert os.environ[INTERPRETER] == python


def test_variables_of_allocators_that_a_user_set_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both allocators are left alone, Spark gets nothing for them."""
    for name in ALLOCATORS:
        monkeypatch.delenv(name, raising=False)

    assert worker_memory() == {f"spark.executorEnv.{n}": value for n, value in ALLOCATORS.items()}

    for name in ALLOCATORS:
        monkeypatch.setenv(name, "")

    assert worker_memory() == {}


@pytest.mark.spark
def test_processes_of_spark_keep_their_memory(spark: SparkSession) -> None:
    """The allocators of a worker read their variables when it starts."""

    def found(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({n: [os.environ.get(n)] for n in ALLOCATORS})

    columns = ", ".join(f"{name} STRING" for name in ALLOCATORS)
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(found, columns).collect()

    assert row.asDict() == ALLOCATORS


@pytest.mark.spark
def test_processes_of_spark_import_what_is_installed(spark: SparkSession) -> None:
    """The search path that Spark makes has the form that the script knows."""

    def where(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(where, "file STRING").collect()

    assert row.file == str(HOME / "__init__.py")


@pytest.mark.skipif(sys.platform != "linux", reason="a fork server runs on Linux alone")
def test_a_fork_server_that_still_imports_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A short command ends before it is ready: neither a process nor a folder stays. A fork of the command ends none."""
    monkeypatch.setattr(python_processes, "running_context", lambda: (None, None))
    monkeypatch.setattr(python_processes, "mkdtemp", lambda prefix: mkdtemp(prefix, dir=tmp_path))
    monkeypatch.delenv(SERVER, raising=False)
    server = python_processes._ForkServer()
    path = server.start()
    process, alive = server.process, os.dup(server.alive)
    assert path is not None
    assert process is not None
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: 0)
        server.end()
    assert process.poll() is None
    assert Path(path).parent.exists()

    server.process, server.alive = process, alive
    server.end()

    assert process.returncode == -signal.SIGTERM
    assert not Path(path).parent.exists()
