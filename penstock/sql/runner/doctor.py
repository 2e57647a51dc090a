"""Checks whether this machine can run Penstock: one finding for each, with the fix.

For `penstock doctor` and the status page. Starts no Spark.
"""

from __future__ import annotations

import os
import platform
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.errors import PenstockError
from penstock.sql.script.project import Project

if TYPE_CHECKING:
    from penstock.catalog.store.sql_catalog import SqlCatalog  # noqa: TC004  loaded once it is opened
    from penstock.connector.jvm.jars import JarSet


MINIMUM_PYTHON = (3, 11)

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

PROBE_TIMEOUT_S = 2.0

IMPORT_TIMEOUT_S = 30


class Level(StrEnum):
    """How bad a finding is; only a failure keeps Penstock from working."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found. `hint` is what to do about it, None when all is well."""

    subject: str
    level: Level
    text: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What is looked at: the project, its catalog, at `catalog_url` where that is not the project's own, and brokers.

    `bootstrap` None: those of the catalog's Kafka tables.
    """

    project: Callable[[], Project]
    catalog: Callable[[], SqlCatalog]
    catalog_url: str | None = None
    bootstrap: str | None = None


def examine(examined: Examined) -> Iterator[Finding]:
    """Run all checks in order; a check that breaks is itself a failure."""
    checks: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("python", _python),
        ("java", _java),
        ("spark", _spark),
        ("worker python", _worker_python),
        ("jars", _jars),
        ("class data", _class_data),
        ("sqlglot", _sqlglot),
        ("native", _native),
        ("data folder", lambda: _data_folder(examined.project())),
        ("catalog", lambda: _catalog(examined)),
        ("broker", lambda: _brokers(examined)),
    )
    for subject, check in checks:
        try:
            yield from check()
        except PenstockError as error:
            hint = error.hint.replace("\n", " ") if error.hint else None
            yield Finding(subject=subject, level=Level.FAILURE, text=error.message, hint=hint)
        except Exception as error:  # noqa: BLE001 - the doctor reports what it meets and goes on
            yield Finding(
                subject=subject, level=Level.FAILURE, text=f"{type(error).__name__}: {error}"
            )


def _python() -> Iterator[Finding]:
    found = platform.python_version()
    if sys.version_info >= MINIMUM_PYTHON:
        yield _ok("python", f"{found} in {sys.executable}")
    else:
        yield _failure("python", f"{found} is too old", "install Python 3.11 or newer")


def _java() -> Iterator[Finding]:
    from penstock.connector.jvm.java import find_java, unfit_java_home

    home = find_java()
    yield _ok("java", f"{home.version} in {home.path}")
    if (unfit := unfit_java_home()) is not None:
        yield _warning("java", unfit, f"unset JAVA_HOME, or set it to {home.path}")


def _spark() -> Iterator[Finding]:
    """Spark and Delta must be the releases that this version of Penstock was tested with."""
    wanted = dict(
        re.findall(
            r"^(pyspark|delta-spark)\s*==\s*([\w.]+)", "\n".join(_requirements()), re.MULTILINE
        )
    )
    for name in ("pyspark", "delta-spark"):
        found, needed = _installed(name), wanted.get(name)
        if found is None:
            yield _failure(
                name, "is not installed", f"pip install {name}{'==' + needed if needed else ''}"
            )
        elif needed and found != needed:
            yield _failure(
                name, f"{found} does not match {needed}", f"pip install {name}=={needed}"
            )
        else:
            yield _ok(name, found)


def _requirements() -> list[str]:
    try:
        return requires("penstock") or []
    except PackageNotFoundError:
        return []


def _worker_python() -> Iterator[Finding]:
    """Spark starts its Python workers with PYSPARK_PYTHON; without pyarrow they die with no reason given."""
    interpreter = os.environ.get("PYSPARK_PYTHON")
    if interpreter is None:
        yield _ok("worker python", "this one")
        return
    code = "import pyarrow, confluent_kafka, penstock; print(pyarrow.__version__)"
    run = subprocess.run(
        [interpreter, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=IMPORT_TIMEOUT_S,
    )
    if run.returncode == 0:
        yield _ok("worker python", f"{interpreter}, pyarrow {run.stdout.strip()}")
    else:
        reason = (run.stderr.strip().splitlines() or ["it does not start"])[-1]
        yield _failure(
            "worker python",
            f"PYSPARK_PYTHON={interpreter}: {reason}",
            "unset it, or install penstock there too",
        )


def _jars() -> Iterator[Finding]:
    from penstock.connector.registry import jar_sets

    yield from map(_jar_set, jar_sets())


def _jar_set(jar_set: JarSet) -> Finding:
    from penstock.connector.jvm.jars import is_complete

    folder = jar_set.folder()
    if is_complete(jar_set, folder):
        return _ok("jars", f"{jar_set.title} in {folder}")
    return _warning(
        "jars",
        f"{jar_set.title} is not fetched yet",
        "it is at first use, from Maven Central",
    )


def _class_data() -> Iterator[Finding]:
    """The archive of Spark's classes: without one, or with one that does not fit, Spark only starts slower."""
    from penstock.connector.jvm.class_data import SWITCH, fits, is_off, is_trusted
    from penstock.connector.jvm.jars import is_complete
    from penstock.connector.registry import engine_jar_sets, engine_jars
    from penstock.sql.spark_process.class_path import archive_for, class_path_settings

    archive = None
    if all(is_complete(one, one.folder()) for one in engine_jar_sets()):
        archive = archive_for(class_path_settings(engine_jars(), {}, in_process=True))
    if is_off():
        yield _ok("class data", f"off by {SWITCH}=0")
    elif archive is None or not archive.file.exists():
        yield _ok("class data", "none: `penstock prepare` makes one, for quicker starts of Spark")
    elif not is_trusted(archive.file):
        yield _warning(
            "class data",
            f"{archive.file} is not used: another account may write to it or to a folder above it",
            "remove it, chmod go-w the folders, and make it anew by `penstock prepare`",
        )
    elif not fits(archive):
        yield _warning(
            "class data",
            f"{archive.file} does not fit this Java and its jars",
            "`penstock prepare` makes it anew",
        )
    else:
        yield _ok("class data", f"Spark starts with {archive.file}")


def _sqlglot() -> Iterator[Finding]:
    found, compiled = _installed("sqlglot"), _installed("sqlglotc")
    if compiled is not None:
        yield _failure(
            "sqlglot",
            f"its compiled build (sqlglotc {compiled}) refuses other dialects",
            "pip uninstall sqlglotc",
        )
    elif found is None:
        yield _failure("sqlglot", "is not installed", "pip install sqlglot")
    else:
        yield _ok("sqlglot", f"{found}, pure Python")


def _native() -> Iterator[Finding]:
    """What reads Kafka: the optional package, or Python."""
    from penstock.connector.kafka.client.native import find_native

    found = find_native()
    if found.faulty:
        yield _warning(
            "native",
            f"{found.text}; records are read in Python",
            "`make native` in a checkout of this Penstock builds the one that fits, PENSTOCK_NATIVE=0 turns it off",
        )
    else:
        yield _ok("native", found.text)


def _catalog(examined: Examined) -> Iterator[Finding]:
    store = examined.catalog()
    names = len(store.tables()) + len(store.views())
    file = _sqlite_file(examined)
    if file is None:
        yield _server(store, names)
        return
    existing = next(path for path in (file, *file.parents) if path.exists())
    if os.access(existing, os.W_OK):
        yield _ok(
            "catalog",
            f"{names} objects in {file}" if file.exists() else f"{file} will be made at first use",
        )
    else:
        yield _failure(
            "catalog",
            f"{existing} is not writable",
            "change its owner, or name another with --catalog",
        )


def _server(store: SqlCatalog, names: int) -> Finding:
    """A server's store is used as it is until it is upgraded: new features are missing meanwhile."""
    from penstock.catalog.migrations import HEAD

    version = store.version()
    if not 0 < version < HEAD:
        return _ok("catalog", f"{names} objects")
    return _warning(
        "catalog",
        f"{names} objects in a store of version {version}, this Penstock makes version {HEAD}",
        "`penstock catalog upgrade` says what that means for what runs, and does it with --yes",
    )


def _data_folder(project: Project) -> Iterator[Finding]:
    """Checkpoints, state, dead letters and logs hold whole records; the permissions of the folder
    above them exclude others.
    """
    folder = project.data_directory
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(nearest, os.W_OK):
        yield _failure(
            "data folder",
            f"{nearest} is not writable",
            "change its owner, or set data of [paths] in penstock.toml to another folder",
        )
        return
    if not folder.exists():
        yield _ok("data folder", f"{folder} will be made at first use, for you alone")
        return
    mode = stat.S_IMODE(folder.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        yield _warning(
            "data folder",
            f"other accounts may look into {folder} (mode {mode:04o}), which holds records and logs",
            f"chmod 700 {folder}",
        )
    else:
        yield _ok("data folder", f"{folder} is for you alone")


def _sqlite_file(examined: Examined) -> Path | None:
    from sqlalchemy.engine import make_url

    parsed = make_url(examined.catalog_url or examined.project().default_catalog_url)
    if (
        parsed.get_backend_name() != "sqlite"
        or not parsed.database
        or parsed.database == ":memory:"
    ):
        return None
    return Path(parsed.database).absolute()


def _brokers(examined: Examined) -> Iterator[Finding]:
    named = examined.bootstrap or _bootstrap_of_tables(examined.catalog())
    for address in dict.fromkeys(part.strip() for part in (named or DEFAULT_BOOTSTRAP).split(",")):
        yield _broker(address, expected=named is not None)


def _bootstrap_of_tables(store: SqlCatalog) -> str | None:
    from penstock.catalog.model.table import Table

    tables = [item for item in map(store.get, store.tables()) if isinstance(item, Table)]
    found = [table.option_map.get("properties.bootstrap.servers") for table in tables]
    return ",".join(servers for servers in found if servers) or None


def _broker(address: str, *, expected: bool) -> Finding:
    import socket

    from penstock.connector.kafka.broker.record import serves

    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return _failure("broker", f"{address!r} is no address", "write host:port")
    host = host.strip("[]")
    if serves(host, int(port), timeout_s=PROBE_TIMEOUT_S):
        return _ok("broker", f"{address} answers")
    try:
        socket.create_connection((host, int(port)), timeout=PROBE_TIMEOUT_S).close()
    except OSError as error:
        if not expected:
            return _warning("broker", f"none on {address}", "start one: penstock kafka start")
        return _failure(
            "broker", f"{address} cannot be reached: {error}", "start it, or check the address"
        )
    return _warning(
        "broker",
        f"{address} listens, but not in plaintext",
        "with TLS or SASL this is as it should be",
    )


def _installed(distribution: str) -> str | None:
    try:
        return installed(distribution)
    except PackageNotFoundError:
        return None


def _ok(subject: str, text: str) -> Finding:
    return Finding(subject=subject, level=Level.OK, text=text)


def _warning(subject: str, text: str, hint: str) -> Finding:
    return Finding(subject=subject, level=Level.WARNING, text=text, hint=hint)


def _failure(subject: str, text: str, hint: str) -> Finding:
    return Finding(subject=subject, level=Level.FAILURE, text=text, hint=hint)
