"""The catalog's SQLite file: its permissions, how it is opened, how writers queue up. The only dialect branch."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection as Driver
from sqlite3 import OperationalError as DriverError
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool, StaticPool

from penstock.catalog.errors import CatalogError
from penstock.catalog.secrets.private_folder import make_private_folder

BUSY_TIMEOUT_S = 10
"""How long a writer waits for another process's transaction; ours take milliseconds."""

LEAST_FREE_BYTES = 65_536
"""A disk with less room is full: a transaction writes some pages of 4 kB."""

WRITES = "penstock_writes"
"""Execution option of a connection that is going to write."""

_MAY_PASS = ("locked", "disk I/O error", "disk is full")
"""Words of SQLite about what another process, or the machine, is to blame for."""

_NOT_OPENED = "unable to open database file"
"""Words of SQLite where the machine is out of files, but also where a folder or a permission is missing."""

# WAL shares memory between processes through a file, which network file systems do not carry
_NETWORK_FILE_SYSTEMS = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "fuse.sshfs",
        "glusterfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
)


def file_of(url: URL) -> Path | None:
    """Return the file of a SQLite URL; None for one in memory."""
    if url.database in (None, "", ":memory:") or str(url.database).startswith("file:"):
        return None
    return Path(str(url.database)).absolute()


def open_engine(url: URL) -> Engine:
    """Make the engine: no connection outlives its use (forks!), every transaction begins in its final mode."""
    if file_of(url) is None:
        engine = create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False})
    else:
        engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": BUSY_TIMEOUT_S})

    @event.listens_for(engine, "connect")
    def hand_over_transactions(connection: Driver, _record: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # the driver would take the write lock at the first write, after reads that may be stale by then
        writes = connection.get_execution_options().get(WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def create_file(file: Path) -> None:
    """Make the file for this user only, since options may hold secrets; SQLite gives its side files the same mode.

    Raises CatalogError, also where anyone may put another file in its place.
    """
    try:
        make_private_folder(file.parent)
        mode = file.parent.stat().st_mode
        if os.name == "posix" and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise CatalogError(
                f"the catalog {file} would lie in a folder that every user of this machine may write to",
                hint=f"chmod o-w {file.parent}, or name another catalog with --catalog",
            )
        with suppress(FileExistsError):  # another process was first
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise CatalogError(
            f"the catalog {file} cannot be created: {error.strerror}",
            hint="name a place that you may write to: --catalog sqlite:///..., or PENSTOCK_CATALOG",
        ) from error


def write_ahead(connection: Connection, file: Path) -> None:
    """Enable concurrent readers and a writer (WAL), where the file is on a local disk."""
    if _file_system(file) in _NETWORK_FILE_SYSTEMS:
        return
    driver = connection.connection.driver_connection
    assert isinstance(driver, Driver), "SQLite has the standard driver"
    try:
        driver.execute("PRAGMA journal_mode = WAL")
    except DriverError:
        return  # another process is at work: its own journal mode is as safe, only slower


def wipe(connection: Connection) -> None:
    """Rewrite the file without its free pages, and empty the journal: both hold removed rows until then."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, Driver), "SQLite has the standard driver"
    driver.execute("VACUUM")
    driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _file_system(file: Path) -> str:
    """Name the kind of file system that holds `file`; empty where the system does not tell."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    mounts = (line.split()[1:3] for line in lines)
    kinds = [(mount.replace("\\040", " "), kind) for mount, kind in mounts]
    holding = [(mount, kind) for mount, kind in kinds if file.is_relative_to(mount)]
    return max(holding, key=lambda mount: len(mount[0]), default=("", ""))[1]


def may_pass(error: DBAPIError, file: Path | None) -> bool:
    """Return whether a later request may succeed; by words, as the driver has one class for all of them."""
    if not isinstance(error, OperationalError):
        return False
    words = str(error.orig)
    if _NOT_OPENED in words:
        return file is not None and _is_usable(file)
    return any(each in words for each in _MAY_PASS)


def _is_usable(file: Path) -> bool:
    """Return whether this user may read and write the file, or make it, and make others beside it."""
    if not (file.parent.is_dir() and os.access(file.parent, os.W_OK | os.X_OK)):
        return False
    return not file.exists() or (file.is_file() and os.access(file, os.R_OK | os.W_OK))


def is_full(folder: Path) -> bool:
    """Return whether the disk of a folder has no room for a transaction; False where that is not known."""
    try:
        return shutil.disk_usage(folder).free < LEAST_FREE_BYTES
    except OSError:
        return False
