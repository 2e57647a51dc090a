"""Databases for the sink's tests: a file of SQLite, and a PostgreSQL server of the run where Debian's package is there."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class TestDatabase:
    """A database: what a table's options say of it, and a way to run a statement past the connector."""

    __test__ = False
    options: dict[str, str]
    execute: Callable[[str], list[tuple[Any, ...]]]


def postgres_programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`; None where there is no server."""
    found = shutil.which("postgres")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A server of its own on a free port; skipped where PostgreSQL or its driver is not installed."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'penstock[jdbc]'")
    # the server refuses to run as root
    user = "postgres" if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    port, data = free_port(), folder / "data"
    server = (
        f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    )

    def run(*command: str) -> None:
        subprocess.run(
            command, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=60
        )

    try:
        run(str(programs / "initdb"), "-D", str(data), "-U", "app", "-A", "trust", "-E", "UTF8")
        control = (str(programs / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log"))
        run(*control, "-o", server, "start")
        try:
            yield f"postgresql://127.0.0.1:{port}/postgres"
        finally:
            run(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def sqlite_database(tmp_path: Path) -> TestDatabase:
    """An empty file."""
    path = tmp_path / "target.db"

    def execute(text: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(path)
        try:
            with connection:
                return connection.execute(text).fetchall()
        finally:
            connection.close()

    return TestDatabase(options={"url": f"jdbc:sqlite:{path}"}, execute=execute)


@pytest.fixture
def postgresql_database(postgresql_url: str) -> Iterator[TestDatabase]:
    """An empty schema, which the connection of a table is in."""
    import psycopg

    schema = f"t{os.urandom(4).hex()}"
    url = f"{postgresql_url}?options=-csearch_path%3D{schema}"

    def execute(text: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(url, user="app") as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []

    execute(f"CREATE SCHEMA {schema}")
    yield TestDatabase(
        options={
            "url": f"jdbc:{postgresql_url}?currentSchema={schema}",
            "username": "app",
            "password": "hunter2",
        },
        execute=execute,
    )
    execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> TestDatabase:
    """Each kind in turn."""
    made: TestDatabase = request.getfixturevalue(f"{request.param}_database")
    return made
