"""Spark as a command starts it: said on stderr, its own words in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.sql.cli.output.report import say
from penstock.sql.spark_process.jvm import LogFiles, launch_jvm, log_files
from penstock.sql.spark_process.spark_session import DEFAULT_MASTER, is_running, start_spark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from penstock.sql.script.project import Project


def spark_logs(project: Project, *, verbose: bool) -> LogFiles | None:
    """Name the files of a new run of Spark in the project's data directory; None: to stderr, where one asks for it."""
    return None if verbose else log_files(project.data_directory / "logs")


def open_spark(
    master: str | None, conf: Mapping[str, str], files: LogFiles | None, *, announce: bool = True
) -> SparkSession:
    """Start Spark, or return the running session; without `files` it writes to stderr. Raises ConfigError.

    The caller ends it by `end_jvm`.
    """
    master = master or DEFAULT_MASTER
    if announce and not is_running():
        say(f"starting Spark on {master}")
    return start_spark(master, conf, launch=lambda settings: launch_jvm(settings, files))
