"""Which database a URL names: JDBC's spelling or SQLAlchemy's, of drivers and parameters that are known to be safe.

A URL may come from a file of another author. JDBC parameters can load classes and read files, so only those listed
here pass, and user and password are options of their own, which are never shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from penstock.catalog.errors import OptionError, UnsupportedError, did_you_mean


class Backend(StrEnum):
    """A kind of database."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a database is. `parameters` have libpq's names; `database` of SQLite is an absolute path."""

    backend: Backend
    database: str
    host: str | None = None
    port: int | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The address for messages; it holds no secrets."""
        if self.backend is Backend.SQLITE:
            return self.database
        return f"{self.host}{f':{self.port}' if self.port else ''}/{self.database}"


DRIVERS = {"org.postgresql.Driver": Backend.POSTGRESQL, "org.sqlite.JDBC": Backend.SQLITE}
"""Flink's option `driver`; the driver used is Python's."""

# pgJDBC's names and libpq's -> libpq's
_PARAMETERS = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "connectTimeout": "connect_timeout",
    "connect_timeout": "connect_timeout",
    "ApplicationName": "application_name",
    "application_name": "application_name",
    "currentSchema": "search_path",
}
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(,[A-Za-z_][A-Za-z0-9_$]*)*")
_URL = re.compile(
    r"(?:jdbc:)?(?P<kind>[A-Za-z0-9]+)(?:\+(?P<driver>[a-z0-9]+))?:(?P<rest>.*)", re.DOTALL
)
_SERVER = re.compile(
    r"//(?:(?P<user>[^@/]*)@)?(?P<host>\[[0-9a-fA-F:.]+\]|[^:/?,@]+)(?::(?P<port>[0-9]{1,5}))?/(?P<database>[^/?]+)"
    r"(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_EXAMPLE = "write jdbc:postgresql://host:5432/database"


def read_address(url: str, project: Path, *, owner: str) -> Address:
    """Read the option `url`; SQLite's relative paths are of `project`. No I/O. Raises OptionError, UnsupportedError."""
    found = _URL.fullmatch(url.strip())
    if found is None:
        raise OptionError(f"{owner}: option 'url' is no URL of a database", hint=_EXAMPLE)
    kind = found["kind"].lower()
    match {"postgres": "postgresql"}.get(kind, kind):
        case Backend.POSTGRESQL:
            if found["driver"] not in (None, "psycopg"):
                raise UnsupportedError(
                    f"{owner}: option 'url' asks for the driver {found['driver']!r}",
                    hint="PostgreSQL is reached through psycopg: leave the driver out of the URL",
                )
            return _postgresql(found["rest"], owner)
        case Backend.SQLITE:
            return _sqlite(found["rest"], project, owner)
    raise UnsupportedError(
        f"{owner}: option 'url' is of a database {kind!r}, which cannot be written",
        hint=f"databases are: {', '.join(Backend)}; {_EXAMPLE}; for another, write into a Kafka topic, and let a sink "
        "of Kafka Connect bring the rows there",
    )


def _postgresql(rest: str, owner: str) -> Address:
    server = _SERVER.fullmatch(rest)
    if server is None:
        raise OptionError(
            f"{owner}: option 'url' does not name one host and a database",
            hint=f"{_EXAMPLE}, without user and password in it",
        )
    pairs = parse_qsl(server["query"] or "", keep_blank_values=True)
    if server["user"] is not None or {"user", "password"} & {key for key, _ in pairs}:
        raise OptionError(
            f"{owner}: option 'url' holds a user or a password, which would be shown with it",
            hint="give them in the options 'username' and 'password'",
        )
    port = None if server["port"] is None else int(server["port"])
    if port is not None and not 0 < port < 1 << 16:
        raise OptionError(f"{owner}: option 'url' has the port {port}", hint=_EXAMPLE)
    return Address(
        backend=Backend.POSTGRESQL,
        host=unquote(server["host"]).strip("[]"),
        port=port,
        database=unquote(server["database"]),
        parameters=dict(_parameter(key, value, owner) for key, value in pairs),
    )


def _parameter(key: str, value: str, owner: str) -> tuple[str, str]:
    known = _PARAMETERS.get(key)
    if known is None:
        raise OptionError(
            f"{owner}: the parameter {key!r} in option 'url' is not allowed",
            hint="; ".join(
                filter(
                    None,
                    [did_you_mean(key, _PARAMETERS), f"allowed are: {', '.join(_PARAMETERS)}"],
                )
            ),
        )
    malformed = (known == "search_path" and not _SCHEMA.fullmatch(value)) or (
        known == "connect_timeout" and not value.isdecimal()
    )
    if malformed:
        raise OptionError(f"{owner}: the parameter {key!r} in option 'url' is malformed")
    return known, value


def _sqlite(rest: str, project: Path, owner: str) -> Address:
    # jdbc:sqlite:file.db and SQLAlchemy's sqlite:///file.db, sqlite:////absolute/file.db
    path = rest.removeprefix("///")
    if not path or path.startswith(("//", ":memory:", "file:")) or "?" in path:
        raise OptionError(
            f"{owner}: option 'url' does not name a file of SQLite",
            hint="write jdbc:sqlite:folder/file.db",
        )
    return Address(backend=Backend.SQLITE, database=os.path.normpath(project.absolute() / path))
