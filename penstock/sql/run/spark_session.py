"""Starts Spark for Penstock, with Delta: settings that a local run needs, and what a given session must have."""

from __future__ import annotations

import getpass
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.catalog.errors import ConfigError, failure_mark
from penstock.catalog.private_folder import make_private_folder
from penstock.connector.delta.jars import delta_jars
from penstock.connector.java import find_java
from penstock.connector.spark.failure import share_failure_mark
from penstock.sql.plan.engine import SUBSTITUTION
from penstock.sql.run.java_environment import java_environment
from penstock.sql.run.versions import check_versions

__all__ = [
    "DEFAULT_MASTER",
    "FOR_PEOPLE",
    "PRIVATE_UMASK",
    "UMASK",
    "is_running",
    "leave_variables",
    "start_spark",
]

# local[*] never tries a task again, local[*,4] does
DEFAULT_MASTER = "local[*,4]"
FOR_PEOPLE: Mapping[str, str] = {"spark.log.level": "ERROR"}
"""Settings of a Spark that talks into somebody's notebook: its warnings are of its own inside."""

UMASK = "spark.hadoop.fs.permissions.umask-mode"
"""Hadoop's name for the rights that new files do not get; the Java process has the same (`jvm.py`)."""

PRIVATE_UMASK = "077"
"""Checkpoints, staged rows, state and dead letters hold whole records."""

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def start_spark(
    master: str = DEFAULT_MASTER,
    conf: Mapping[str, str] | None = None,
    *,
    launch: Callable[[Mapping[str, str]], None] | None = None,
) -> SparkSession:
    """Start a Spark session, or take the running one. `conf` wins over the defaults.

    `launch` is given all settings and may launch the Java process its own way (`jvm.py`). The process does not get
    the keys of secrets (`java_environment`). Raises InputError when Java is missing or too old, ConfigError when a
    session runs that has no Delta, or when PYSPARK_PYTHON names an interpreter that lacks what Spark's Python
    processes need.
    """
    failure_mark()  # the Java process hands the environment on to Python processes
    running = SparkSession.getActiveSession()
    if running is not None:
        check_spark(running)
        leave_variables(running)
        share_failure_mark(running)
        return running
    os.environ["JAVA_HOME"] = str(find_java().path)  # the one named there may be too old
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        _check_interpreter(os.environ["PYSPARK_PYTHON"])
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {**_defaults(master), **(conf or {}), SUBSTITUTION: "false"}
    builder = SparkSession.builder.appName("penstock").master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with java_environment():
        if launch is not None:
            launch({"spark.master": master, "spark.app.name": "penstock", **settings})
        session = builder.getOrCreate()
    check_versions(session)
    share_failure_mark(session)
    return session


def leave_variables(spark: SparkSession) -> None:
    """Have a session, and those that are made from now on of its Spark, take `${...}` in SQL for what is written.

    For good: rows that are read after `Session.stop` would hold keys as well.
    """
    spark.conf.set(SUBSTITUTION, "false")
    own = spark._jsparkSession  # noqa: SLF001  new sessions begin with the settings of these two
    own.sharedState().conf().set(SUBSTITUTION, "false")
    own.sparkContext().conf().set(SUBSTITUTION, "false")


def is_running() -> bool:
    """Tell whether this thread has a Spark session, which `start_spark` would take."""
    return SparkSession.getActiveSession() is not None


def check_spark(spark: SparkSession) -> None:
    """Check that a session given by the user can read and write Delta, of releases that were tested.

    Raises ConfigError.
    """
    extensions = spark.conf.get("spark.sql.extensions", "") or ""
    if "DeltaSparkSessionExtension" not in extensions:
        raise ConfigError(
            "the Spark session was started without Delta",
            hint="start it with spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension, "
            "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog and the Delta jars; "
            "or let Penstock start it: penstock.connect()",
        )
    check_versions(spark)


def _check_interpreter(python: str) -> None:
    """Check that the interpreter of Spark's Python processes has what they need. Raises ConfigError.

    Without it Spark says that a "Python worker failed to connect back", and why only in its log.
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


def warehouse_folder() -> Path:
    """Give the folder of Spark's own tables: this user's alone, where the temporary folder is everybody's.

    Raises ConfigError where another account was there first.
    """
    folder = (
        Path(tempfile.gettempdir())
        / f"penstock-warehouse-{os.getuid() if hasattr(os, 'getuid') else getpass.getuser()}"
    )
    make_private_folder(folder)
    found = folder.lstat()
    owner = os.geteuid() if hasattr(os, "geteuid") else found.st_uid
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner:
        raise ConfigError(
            f"{folder} is not a folder of this user",
            hint="remove it, or set spark.sql.warehouse.dir to a folder of yours",
        )
    if os.name == "posix" and found.st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def _defaults(master: str) -> dict[str, str]:
    cores = str(os.cpu_count() or 2)
    return {
        UMASK: PRIVATE_UMASK,
        "spark.jars": ",".join(str(jar) for jar in delta_jars()),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.timeType.enabled": "true",  # TIME is behind a switch in Spark 4.2
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.sql.warehouse.dir": str(warehouse_folder()),
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.python.worker.faulthandler.enabled": "true",
    } | ({"spark.driver.host": "127.0.0.1"} if master.startswith("local") else {})
