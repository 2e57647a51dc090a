"""The PostgreSQL server of a test run, from Debian's package: started when first asked for, gone with the run."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

USER = "app"
TIMEOUT_S = 60.0
"""For one command of the server's; they take a second or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer:
    """A server on a loopback port, whose user `app` needs no password."""

    port: int

    @property
    def url(self) -> str:
        """URL of its one database, without the user."""
        return f"postgresql://127.0.0.1:{self.port}/postgres"

    def execute(self, text: str, *, schema: str = "public") -> list[tuple[Any, ...]]:
        """Run a statement in a schema, in a connection of its own."""
        import psycopg

        url = f"{self.url}?options=-csearch_path%3D{schema}"
        with psycopg.connect(url, user=USER) as connection:
            cursor = connection.execute(text)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def schema(self) -> Iterator[str]:
        """An empty schema, dropped afterwards with all that is in it."""
        name = f"t{os.urandom(4).hex()}"
        self.execute(f"CREATE SCHEMA {name}")
        try:
            yield name
        finally:
            self.execute(f"DROP SCHEMA {name} CASCADE")


def programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`; None where there is no server."""
    found = shutil.which("postgres")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@contextmanager
def running(folder_of_programs: Path) -> Iterator[PostgresServer]:
    """A new server with a folder of its own, both gone in the end."""
    # the server refuses to run as root
    user = "postgres" if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    port, data = free_port(), folder / "data"
    settings = (
        f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    )

    def run(*command: str) -> None:
        subprocess.run(
            command, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S
        )

    try:
        initdb, pg_ctl = (str(folder_of_programs / name) for name in ("initdb", "pg_ctl"))
        run(initdb, "-D", str(data), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")
        control = (pg_ctl, "-D", str(data), "-w", "-l", str(folder / "log"))
        run(*control, "-o", settings, "start")
        try:
            yield PostgresServer(port=port)
        finally:
            run(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
