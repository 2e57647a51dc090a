"""The connection to a database: opened for one transaction, its failures explained. The only user of the drivers.

Every transaction that writes has a connection of its own: a micro-batch takes longer than opening one, and nothing is
held between. A task that looks rows up reads several times over one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from penstock.catalog.errors import (
    ConfigError,
    InputError,
    PenstockError,
    QueryFailedError,
    SinkError,
)
from penstock.catalog.options.references import reveal
from penstock.connector.jdbc.address import Address, Backend
from penstock.connector.jdbc.settings import JdbcTable

T = TypeVar("T")
log = logging.getLogger(__name__)

RETRY_S = 1.0
"""Times the number of the attempt, as in Flink."""

# SQLSTATE classes that pass: connection, rollback (deadlock), resources, operator, system; and a lock that was not had
_PASSING = frozenset({"08", "40", "53", "57", "58", "55"})
# and those of settings: authorization, no such database or schema or table, rights
_SETTINGS = frozenset({"28", "3D", "3F", "42"})
_SIGNS_OF_LIFE = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""For libpq: a connection whose other end is gone without a word is given up within a minute, not after hours."""

# what a server says before there is a connection comes without a state
_REFUSED = re.compile(r"FATAL: .*(authentication failed|does not exist|no pg_hba.conf entry)")


@dataclass(slots=True, kw_only=True)
class Reads:
    """Reads over one connection, opened with the first of them: each sees the database as it is then.

    One whose connection was lost is tried `retries` times more, over another one.
    """

    engine: Engine
    retries: int
    explained: Callable[[Exception], tuple[PenstockError, bool]]
    _connection: Connection | None = None

    def run(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction that only reads. Raises ConfigError, QueryFailedError as `reading`."""
        attempt = 0
        while True:
            try:
                if self._connection is None:
                    self._connection = self.engine.connect()
                found = work(self._connection)
                self._connection.rollback()  # ends the transaction, and what it sees
            except (SQLAlchemyError, self.engine.dialect.loaded_dbapi.Error) as error:
                self.close()
                failure, passes = self.explained(error)
                attempt += 1
                if not passes or attempt > self.retries:
                    raise failure from error
                log.warning("%s; attempt %d follows", failure.message, attempt + 1)
                Event().wait(RETRY_S * attempt)
            else:
                return found

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcDatabase:
    """Runs transactions at an address. `shown` names the target in messages."""

    address: Address
    username: str | None
    password: str | None
    connect_timeout_s: int
    retries: int
    shown: str

    @classmethod
    def of(cls, table: JdbcTable, *, retries: int = 0) -> JdbcDatabase:
        """Describe the connection that the options of a table ask for."""
        return cls(
            address=table.address,
            username=table.username,
            password=table.password,
            connect_timeout_s=table.connect_timeout_s,
            retries=retries,
            shown=table.shown,
        )

    def __repr__(self) -> str:
        return f"JdbcDatabase({self.address.shown})"

    def run(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction; again, all of it, where the connection was lost or the database says so.

        Whether a commit that got no answer was done, `work` has to find out itself. Raises ConfigError where the
        database cannot be used so, SinkError where it may be later, a permanent one for the rows.
        """
        engine = self._engine()
        attempt = 0
        while True:
            try:
                return self._transaction(engine, work)
            except (SQLAlchemyError, engine.dialect.loaded_dbapi.Error) as error:
                failure, passes = self._explained(error)
                attempt += 1
                if not passes or attempt > self.retries:
                    raise failure from error
                log.warning("%s; attempt %d follows", failure.message, attempt + 1)
                Event().wait(RETRY_S * attempt)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that only reads, once.

        Raises ConfigError where the database cannot be used so, QueryFailedError where it may be later.
        """
        engine = self._engine()
        self._check_file()
        try:
            with engine.connect() as connection:
                yield connection
        except (SQLAlchemyError, engine.dialect.loaded_dbapi.Error) as error:
            raise self._read_failure(error)[0] from error

    def reads(self) -> Reads:
        """Prepare to read several times. Raises ConfigError."""
        self._check_file()
        return Reads(engine=self._engine(), retries=self.retries, explained=self._read_failure)

    def _read_failure(self, error: Exception) -> tuple[PenstockError, bool]:
        """Return the product's error for a read that failed, and whether another attempt may do."""
        failure, passes = self._explained(error)
        if isinstance(failure, InputError):
            return failure, passes
        cause = error.orig if isinstance(error, DBAPIError) else error
        message = f"{self.shown} cannot be read: {' '.join(str(cause).split())}"
        hint = "is the database there, and its address right?"
        return QueryFailedError(message, hint=hint), passes

    def _check_file(self) -> None:
        if self.address.backend is Backend.SQLITE and not Path(self.address.database).exists():
            # the driver would make an empty one
            raise ConfigError(
                f"{self.shown}: there is no such file",
                hint="create the database first; a relative path is relative to the project",
            )

    def _transaction(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        self._check_file()
        with engine.begin() as connection:
            if self.address.backend is Backend.SQLITE:
                # Python's driver begins with the first INSERT, after what was read
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            return work(connection)

    def _engine(self) -> Engine:
        address = self.address
        if address.backend is Backend.SQLITE:
            url = URL.create("sqlite", database=address.database)
            arguments: dict[str, Any] = {"timeout": self.connect_timeout_s}
        else:
            url = URL.create(
                "postgresql+psycopg",
                username=None if self.username is None else reveal(self.username, secret=False),
                password=None if self.password is None else reveal(self.password, secret=True),
                host=address.host,
                port=address.port,
                database=address.database,
            )
            arguments = _libpq(address, self.connect_timeout_s)
        try:
            return create_engine(
                url, poolclass=NullPool, connect_args=arguments, hide_parameters=True
            )
        except ImportError as error:
            raise ConfigError(
                f"{self.shown} needs the Python package {error.name!r}",
                hint="pip install 'penstock[jdbc]'",
            ) from error

    def _explained(self, error: Exception) -> tuple[PenstockError, bool]:
        """Return the product's error, and whether another attempt may do."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        text = " ".join(str(cause).split())
        state = getattr(cause, "sqlstate", None) or ""
        if state[:2] in _SETTINGS or (not state and _REFUSED.search(text)):
            return _unusable(self.shown, text), False
        lost = isinstance(error, DBAPIError) and error.connection_invalidated
        operational = (
            isinstance(error, OperationalError) or type(cause).__name__ == "OperationalError"
        )
        if lost or state[:2] in _PASSING or (operational and not state):
            message = f"{self.shown} cannot be written: {text}"
            return SinkError(message, hint="is the database there, and its address right?"), True
        return SinkError(f"{self.shown} refuses the batch: {text}", permanent=True), False


def _libpq(address: Address, connect_timeout_s: int) -> dict[str, Any]:
    parameters = dict(address.parameters)
    search_path = parameters.pop("search_path", None)
    if search_path is not None:
        parameters["options"] = f"-csearch_path={search_path}"
    return {
        **_SIGNS_OF_LIFE,
        "connect_timeout": connect_timeout_s,
        "application_name": "penstock",
        "client_encoding": "UTF8",
        **parameters,
    }


def _unusable(shown: str, text: str) -> InputError:
    return ConfigError(
        f"{shown} cannot be used: {text}",
        hint="check 'url', 'table-name', 'username' and 'password', and the user's rights in the database",
    )
