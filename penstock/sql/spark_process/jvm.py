"""Launches and ends the Java process of Spark for commands and `penstock.connect`, away from terminal and signals.

`spark_session.py` has Spark's settings. Uses PySpark's hook for this (`launch_gateway`'s `popen_kwargs`).
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger

from penstock.catalog.errors import ConfigError
from penstock.catalog.options.reference_rules import properties_text
from penstock.catalog.secrets.private_folder import make_data_folder
from penstock.connector.spark.internals import adopt_gateway, running_context
from penstock.sql.clock import SystemClock
from penstock.sql.spark_process.class_path import with_archive, with_compiler, with_java_options
from penstock.sql.spark_process.python_processes import end_fork_server
from penstock.sql.spark_process.spark_session import PRIVATE_UMASK, UMASK

MAX_LOGS = 10
SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
END_TIMEOUT_S = 10.0
_LOG4J = """status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""


class LogFiles:
    """Where one run of Spark writes: its log, and what its process prints."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.log = directory / f"{name}.log"
        self.output = directory / f"{name}.out"
        self.settings = directory / f"{name}.log4j2.properties"


def log_files(directory: Path) -> LogFiles:
    """Name the files of a new run in `directory`; nothing is written before the process is launched."""
    started = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    return LogFiles(directory, f"spark-{started:%Y%m%dT%H%M%S%f}-{os.getpid()}")


def make_room(directory: Path) -> None:
    """Make the folder of the logs, and remove the files of all but the last runs, and of those that still run."""
    make_data_folder(directory)
    ended = [file for file in sorted(directory.glob("spark-*.out")) if not _runs(file)]
    for old in ended[: -MAX_LOGS + 1]:
        for file in directory.glob(f"{old.stem}.*"):
            file.unlink(missing_ok=True)


def _runs(output: Path) -> bool:
    """Return whether the process that a run's file names is there: of `penstock up` there are many at a time."""
    pid = output.stem.rpartition("-")[2]
    if not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


def launch_jvm(
    settings: Mapping[str, str],
    files: LogFiles | None,
    *,
    java_options: Sequence[str] | None = None,
) -> None:
    """Launch Spark's Java process in a session of its own; the next SparkSession takes it.

    The session keeps a terminal's Ctrl-C from Spark's Python workers, which would die in the middle of a batch.
    With `files` it prints and logs there, else to stderr. `java_options` are more options of Java; None is those of the
    class data archive, if there is one. Raises ConfigError when it does not come up.
    """
    conf = with_compiler(settings)
    if java_options is None:
        conf = with_archive(conf)
    else:
        conf = with_java_options(conf, java_options)
    if files is not None:
        # PySpark logs every exception that it raises, with Java's stack, as a line of JSON on stderr
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    if files is None:
        streams: dict[str, Any] = {"stdout": sys.stderr.fileno(), "stderr": sys.stderr.fileno()}
        _launch(conf, streams, "its own words are above")
        return
    make_room(files.directory)
    files.settings.write_text(_LOG4J.format(log=files.log.as_posix()), encoding="utf-8")
    option = f"-Dlog4j2.configurationFile={files.settings.as_uri()}"
    conf = with_java_options(conf, (option,))
    with files.output.open("wb") as output:
        _launch(conf, {"stdout": output, "stderr": subprocess.STDOUT}, f"see {files.output}")


@dataclass(slots=True)
class _Launched:
    """The gateway to the Java process that was launched here last."""

    gateway: Any = None


_LAUNCHED = _Launched()


def end_jvm(timeout_s: float = END_TIMEOUT_S) -> None:
    """Stop Spark and wait for the end of its Java process, which is killed when that takes longer.

    Only of one that `launch_jvm` launched: Spark that runs already when a command is called goes on running.
    """
    context, gateway = running_context()
    if gateway is None or gateway is not _LAUNCHED.gateway:
        return
    with suppress(Exception):  # a JVM that is gone already has nothing to stop
        if context is not None:
            context.stop()
        if gateway is not None:
            gateway.shutdown()
    end_fork_server()
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    process.stdin.close()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _in_a_file(conf: Mapping[str, str]) -> Iterator[None]:
    """Launch Spark in here with settings from a file of this user alone: a command line is everybody's to read.

    PySpark takes its arguments only from PYSPARK_SUBMIT_ARGS, which keeps what it has.
    """
    before = os.environ.get(SUBMIT_ARGS)
    with TemporaryDirectory(prefix="penstock-conf-") as folder:  # mode 0700
        file = Path(folder) / "spark.properties"
        file.write_text(properties_text(conf), encoding="utf-8")
        os.environ[SUBMIT_ARGS] = (
            f"--load-spark-defaults --properties-file {shlex.quote(str(file))} "
            f"{before or 'pyspark-shell'}"
        )
        try:
            yield
        finally:
            if before is None:
                del os.environ[SUBMIT_ARGS]
            else:
                os.environ[SUBMIT_ARGS] = before


def _umask(conf: Mapping[str, str]) -> int:
    """Return the umask of the process, which Hadoop's own setting names too; -1 for one of another form: as it is."""
    text = conf.get(UMASK, PRIVATE_UMASK)
    return int(text, 8) if re.fullmatch("[0-7]{3,4}", text) else -1


def _launch(conf: Mapping[str, str], streams: Mapping[str, Any], where: str) -> None:
    try:
        with _in_a_file(conf):
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                None, {**streams, "start_new_session": True, "umask": _umask(conf)}
            )
    except PySparkRuntimeError as error:
        # as where memory is short: a command that found its Java is right
        refusal = ConfigError(f"Spark's Java process did not start; {where}")
        raise refusal.passing() from error
    _LAUNCHED.gateway = gateway
    adopt_gateway(gateway)
