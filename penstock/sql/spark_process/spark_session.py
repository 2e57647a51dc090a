"""Start Spark with Delta and the settings that a local run needs.

Checks a given session and its releases; refuses Spark Connect. Guards, published names and exactly-once rest
on what the tested releases do inside; another one may differ silently.
"""

from __future__ import annotations

import getpass
import logging
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.catalog.errors import ConfigError, UnsupportedError, failure_mark
from penstock.catalog.secrets.private_folder import make_private_folder
from penstock.connector.jvm.java import find_java
from penstock.connector.registry import engine_jars
from penstock.connector.spark.errors import share_failure_mark
from penstock.connector.spark.internals import jvm_of, remember_members, set_default
from penstock.sql.settings import SUBSTITUTION
from penstock.sql.spark_process.class_path import class_path_settings
from penstock.sql.spark_process.java_environment import java_environment
from penstock.sql.spark_process.python_processes import (
    INTERPRETER,
    check_interpreter,
    python_environment,
    worker_memory,
)

_MODULE = "pyspark.sql.connect."


def refuse_connect(spark: object) -> None:
    """Refuse a Spark Connect session. Raises UnsupportedError.

    Its Java process is elsewhere: no catalog can be published there, no checkpoint be read, no sink be prepared.
    """
    if type(spark).__module__.startswith(_MODULE):
        raise UnsupportedError(
            "this is a Spark Connect session, and Penstock needs the Spark that runs in its own process",
            hint="run penstock.connect() in the server's process: its Connect clients then read the published tables "
            "with spark.sql and spark.table; pipelines run with `penstock run`",
        )


TESTED_SPARK = ("4.2.0",)

TESTED_DELTA = ("4.4.0",)

OVERRIDE = "PENSTOCK_UNTESTED_VERSIONS"
"""The variable that permits other releases when it is 1; each start logs it."""

logger = logging.getLogger(__name__)


def check_versions(spark: SparkSession) -> None:
    """Check the releases behind a session. Raises ConfigError for one that was not tested, without the override."""
    check_releases(spark.version, _delta_version(spark))


def check_releases(spark: str, delta: str | None) -> None:
    """Check releases by name; None is a Delta that does not tell its own. Raises ConfigError."""
    untested = [
        f"{product} {found or 'of an unknown version'} (tested: {', '.join(tested)})"
        for product, found, tested in (
            ("Spark", spark, TESTED_SPARK),
            ("Delta", delta, TESTED_DELTA),
        )
        if found not in tested
    ]
    if not untested:
        return
    named = " and ".join(untested)
    if os.environ.get(OVERRIDE) == "1":
        logger.warning(
            "%s: Penstock was not tested with it, and %s=1 lets it pass", named, OVERRIDE
        )
        return
    raise ConfigError(
        f"Penstock was not tested with {named}",
        hint=f"install pyspark=={TESTED_SPARK[-1]} and Delta {TESTED_DELTA[-1]}; or set {OVERRIDE}=1: what Penstock "
        "promises (exactly once, read-only serving) is then not promised",
    )


def _delta_version(spark: SparkSession) -> str | None:
    """Return Delta's release; its package object has it since 3.0."""
    jvm = jvm_of(spark)
    try:
        return str(jvm.io.delta.package.VERSION())
    except Exception:  # noqa: BLE001  py4j has its own errors for a class that is not there
        return None


# local[*] never tries a task again, local[*,4] does
DEFAULT_MASTER = "local[*,4]"

FOR_PEOPLE: Mapping[str, str] = {"spark.log.level": "ERROR"}
"""Spark settings in a notebook: Spark's own warnings, which are about its internals, are not shown there."""

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
    if master.startswith("local"):
        check_interpreter(os.environ.get(INTERPRETER, sys.executable))
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    in_process = re.match(r"local(\[|$)", master) is not None
    jars = class_path_settings(engine_jars(), conf or {}, in_process=in_process)
    settings = {**_defaults(master), **jars, **(conf or {}), SUBSTITUTION: "false"}
    builder = SparkSession.builder.appName("penstock").master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with java_environment(), python_environment(in_process=in_process):
        if launch is not None:
            launch({"spark.master": master, "spark.app.name": "penstock", **settings})
        session = builder.getOrCreate()
    check_versions(session)
    share_failure_mark(session)
    remember_members(session)
    return session


def leave_variables(spark: SparkSession) -> None:
    """Disable the substitution of `${...}` in SQL, in a session and those created later from its Spark.

    For good: rows that are read after `Session.stop` would hold keys as well.
    """
    spark.conf.set(SUBSTITUTION, "false")
    set_default(spark, SUBSTITUTION, "false")


def is_running() -> bool:
    """Return whether this thread has a Spark session, which `start_spark` would use."""
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


def warehouse_folder() -> Path:
    """Return the folder of Spark's own tables: this user's alone, where the temporary folder is everybody's.

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
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.timeType.enabled": "true",  # TIME is behind a switch in Spark 4.2
        # Hadoop checks local files by a .crc of its own, and starts a process (chmod) for each file that it makes
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # counting them reads each key once more before it is written; nothing shows the count
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.sql.warehouse.dir": str(warehouse_folder()),
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.python.worker.faulthandler.enabled": "true",
        **worker_memory(),
    } | ({"spark.driver.host": "127.0.0.1"} if master.startswith("local") else {})
