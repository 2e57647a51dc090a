"""The interpreter of Spark's Python processes: that it has what they need, and from where it imports PySpark.

Each query starts some: to plan its source, to fork workers from. On Linux they are forked from one process that has
imported what they need (`fork_server.py`). Used by `spark_session.py`; `jvm.py` ends it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from penstock.catalog.errors import ConfigError
from penstock.connector.jvm.interrupts import interrupts_deferred
from penstock.connector.spark.internals import running_context
from penstock.sql.spark_process.class_path import installed_spark, spark_home
from penstock.sql.spark_process.fork_client import SERVER

INTERPRETER = "PYSPARK_PYTHON"
"""PySpark's variable; a session takes it when it starts."""

STARTED = "PENSTOCK_WORKER_PYTHON"
"""The interpreter that the script starts."""

SCRIPT = Path(__file__).with_name("python")
"""Starts an interpreter that imports the installed PySpark, in place of an archive of its sources."""

ALLOCATORS = {
    "MIMALLOC_PURGE_DELAY": "1000",
    "GLIBC_TUNABLES": ":".join(
        f"glibc.malloc.{name}={size}"
        for name, size in (
            ("mmap_threshold", 32 << 20),
            ("trim_threshold", 512 << 20),
            ("top_pad", 16 << 20),
        )
    ),
}
"""Variables of Arrow's allocator (ms) and of glibc's (bytes): the memory of a fetch is kept for the next one.

By default both return it to the system after each, and each page that comes again is an interrupt, and is cleared: a
tenth of what a row costs. Here Arrow's is returned after a second without use, glibc's once 512 MB are free at its end.
"""


def worker_memory() -> dict[str, str]:
    """Return settings of Spark for its Python processes; variables that this process has itself are left to it."""
    return {
        f"spark.executorEnv.{name}": value
        for name, value in ALLOCATORS.items()
        if name not in os.environ
    }


SERVER_SCRIPT = Path(__file__).with_name("fork_server.py")

OF_SPARK = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES"}
"""What Spark and its scripts set for a Python process before it starts."""

SEARCH_PATH = "PYTHONPATH"

END_TIMEOUT_S = 5.0


@dataclass(slots=True)
class _ForkServer:
    """The fork server of this process's Spark, and the pipe whose end ends it."""

    process: subprocess.Popen[bytes] | None = None
    alive: int = -1
    folder: Path | None = None
    owner: int = -1

    def start(self) -> str | None:
        """Start one, unless a Spark runs that has the one from before or none; the path of its socket."""
        if os.environ.get(SERVER) == "0" or sys.platform != "linux" or running_context()[1]:
            return None
        self.end()
        self.folder, self.owner = Path(mkdtemp(prefix="penstock-fork-")), os.getpid()  # mode 0700
        path = str(self.folder / "socket")
        environment = ALLOCATORS | os.environ | OF_SPARK | {SERVER: path, STARTED: sys.executable}
        if not environment.get(SEARCH_PATH):
            environment.pop(SEARCH_PATH, None)  # as the script leaves it
        closed, self.alive = os.pipe()
        try:
            with interrupts_deferred():
                self.process = subprocess.Popen(
                    [sys.executable, "-P", SERVER_SCRIPT, path, str(closed)],
                    env=environment,
                    pass_fds=[closed],
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
        finally:
            os.close(closed)
        return path

    def end(self) -> None:
        """End it, also where it still imports; processes that were forked end with Spark."""
        process, self.process = self.process, None
        if process is None:
            return
        os.close(self.alive)
        if self.owner != os.getpid():
            return  # a fork of the process that started it, which goes on
        process.terminate()
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


_FORK_SERVER = _ForkServer()
atexit.register(_FORK_SERVER.end)


def end_fork_server() -> None:
    """End the process from which Spark's Python processes are forked, where there is one."""
    _FORK_SERVER.end()


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
    before = {name: os.environ.get(name) for name in (STARTED, SERVER)}
    path = _FORK_SERVER.start()
    os.environ[STARTED], os.environ[INTERPRETER] = sys.executable, str(SCRIPT)
    if path is not None:
        os.environ[SERVER] = path
    else:
        os.environ.pop(SERVER, None)  # a user's "0"
    try:
        yield
    finally:
        os.environ[INTERPRETER] = python
        for name, value in before.items():
            if value is not None:
                os.environ[name] = value
            else:
                os.environ.pop(name, None)


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
