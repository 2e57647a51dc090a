"""A catalog's database as transactions: opened late, checked for its version, its errors explained.

Knows nothing of definitions and leases. SQLite by default, PostgreSQL for teams.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError

from penstock.catalog.errors import CatalogError, ConfigError
from penstock.catalog.migrations import (
    HEAD,
    MIN_READER,
    STEPS_SINCE,
    VERSIONS_SINCE,
    create_store,
    version_of,
)
from penstock.catalog.options.redaction import is_secret
from penstock.catalog.store import postgres
from penstock.catalog.store import sqlite as sqlite_file

T = TypeVar("T")

ATTEMPTS = 10
"""How often a step is done before other processes are said to be in its way."""

STORED_VERSION = "penstock_stored_version"
"""Execution option of a connection: the version of the store that it is to."""


def shown_url(url: URL | str) -> str:
    """Write a database's URL with its secrets masked: the password, also where it is one of the query's parameters."""
    made = make_url(url)
    query = {key: _MASK if is_secret(key) else value for key, value in made.query.items()}
    # a render quotes it
    text = made.set(query=query).render_as_string(hide_password=True)
    return text.replace(quote(_MASK, safe=""), _MASK)


_MASK = "***"


class Database:
    """Gives transactions. Safe to use from any thread, and after a fork.

    Raises ConfigError for a URL that cannot be used, CatalogError for a store that cannot be read, was written by a
    newer Penstock or is something else: that one is left as it is.
    """

    def __init__(
        self, url: str, *, running: Callable[[Connection], Sequence[str]] = lambda _: ()
    ) -> None:
        """`running` lists the pipelines of other processes, which an upgrade in passing must not stop."""
        self._url = _checked(url)
        self._running = running
        self._is_sqlite = self._url.get_backend_name() == "sqlite"
        self._file = sqlite_file.file_of(self._url) if self._is_sqlite else None
        if self._file is not None:
            # a relative path means the folder of now, wherever the process goes later
            self._url = self._url.set(database=str(self._file))
        in_memory = self._is_sqlite and self._file is None
        # a database in memory is one connection, which threads take in turns
        self._turn: AbstractContextManager[object] = RLock() if in_memory else nullcontext()
        self._engine = (
            sqlite_file.open_engine(self._url)
            if self._is_sqlite
            else postgres.open_engine(self._url, self.location)
        )
        self._process = os.getpid()
        self._has_steps = True

    @property
    def location(self) -> str:
        """Where the catalog is: the file, or the URL without a password."""
        return str(self._file or shown_url(self._url))

    @property
    def file(self) -> Path | None:
        """The file of a SQLite catalog; None for another database, and for one in memory."""
        return self._file

    @contextmanager
    def reading(self, *, since: int = 1) -> Iterator[Connection | None]:
        """Open a transaction for reading; None when there is no store yet, which is not made.

        `since` is the version that has what is to be read: None for an older store, which is left as it is.
        """
        if self._file is not None and not self._file.exists():
            yield None
            return
        with self._turn, self._explained(), self._opened().connect() as connection:
            version = self._version_of(connection)
            connection.execution_options(**{STORED_VERSION: version})
            yield connection if version >= max(since, 1) else None

    @contextmanager
    def writing(
        self, *, queued: bool = False, since: int = VERSIONS_SINCE, upgrading: bool = True
    ) -> Iterator[Connection]:
        """Open a transaction for writing, committed at the end; makes the store first where there is none.

        `since` is the version that has what is to be written. With `upgrading` a SQLite file is brought up to date in
        passing, where that stops nobody; a server's store is by `upgrade` alone. `queued`: no other one that is queued
        runs at once, as with SQLite's writers always.

        Raises CatalogError for an older store, passes IntegrityError on: the caller knows its meaning.
        """
        with self._turn, self._explained():
            version = self._ready_to_write(since, upgrading=upgrading)
            with self._writer().begin() as connection:
                if queued:
                    self._queue_up(connection)
                connection.execution_options(**{STORED_VERSION: version})
                yield connection

    def version(self) -> int:
        """Return the version of the store, 0 where there is none."""
        with self.reading() as connection:
            return 0 if connection is None else stored_version(connection)

    def upgrade(self) -> None:
        """Make the store, or bring it up to date."""
        with self._turn, self._explained():
            self._create_file()
            self._bring_up_to_date()

    def change(
        self,
        step: Callable[[Connection], T],
        *,
        queued: bool = True,
        since: int = VERSIONS_SINCE,
    ) -> T:
        """Do a step in a transaction for writing; again, up to ATTEMPTS times, while others are in the way."""
        failure: BaseException | None = None
        for _ in range(ATTEMPTS):
            try:
                with self.writing(queued=queued, since=since) as connection:
                    return step(connection)
            except IntegrityError as error:
                failure = error
            except CatalogError as error:
                if not _is_passing(error.__cause__):
                    raise
                failure = error
        raise CatalogError(
            f"other processes were in the way {ATTEMPTS} times at the catalog {self.location}",
            hint="nothing was changed; try again",
        ).passing() from failure

    def wipe(self) -> None:
        """Leave nothing of removed rows in a SQLite file and its journal; elsewhere that is the database's part."""
        if self._file is not None:
            with self._turn, self._explained(), self._opened().connect() as connection:
                sqlite_file.wipe(connection)

    def close(self) -> None:
        """Close what is open; the next call opens it again."""
        self._engine.dispose()

    def _opened(self) -> Engine:
        if self._process != os.getpid():
            # after a fork: the parent goes on to use its connections
            self._engine.dispose(close=False)
            self._process = os.getpid()
        return self._engine

    def _writer(self) -> Engine:
        return self._opened().execution_options(**{sqlite_file.WRITES: True})

    def _queue_up(self, connection: Connection) -> None:
        if not self._is_sqlite:
            postgres.queue_up(connection)

    def _version_of(self, connection: Connection) -> int:
        version = version_of(connection, steps=self._has_steps)
        if not self._has_steps and not 0 < version < STEPS_SINCE:
            version = version_of(connection)
        self._has_steps = not 0 < version < STEPS_SINCE
        return version

    def _ready_to_write(self, since: int, *, upgrading: bool) -> int:
        """Make the store, or bring it up to date where that may be done in passing. Returns its version."""
        self._create_file()
        with self._opened().connect() as connection:
            version = self._version_of(connection)
            if version >= HEAD or (version >= since and not upgrading):
                return version
            others = self._in_the_way(connection, version)
        if version == 0 or others is None:
            self._bring_up_to_date()
            return HEAD
        if version < since:
            raise CatalogError(
                f"the catalog {self.location} is of version {version}, and this Penstock writes version {since} and "
                f"later: {others}",
                hint="`penstock catalog upgrade` brings it up to date; nothing was changed",
            )
        return version

    def _in_the_way(self, connection: Connection, version: int) -> str | None:
        """Explain why a store is not brought up to date in passing; None where it may be."""
        if not self._is_sqlite:
            return "it is not upgraded in passing, as others may use it"
        if version >= MIN_READER or version == 0:
            return None
        running = self._running(connection)
        return f"its runners would stop ({', '.join(running)})" if running else None

    def _create_file(self) -> None:
        if self._file is not None and not self._file.exists():
            sqlite_file.create_file(self._file)

    def _bring_up_to_date(self) -> None:
        if self._apply(create_store):
            return
        # loaded before others have to wait for the transaction
        from penstock.catalog.migrations.upgrade import migrate

        self._apply(migrate)

    def _apply(self, step: Callable[[Connection], bool]) -> bool:
        """Do a step that changes tables, while no other process does. Returns whether there was anything to do."""
        with self._writer().connect() as connection:
            with connection.begin():
                self._queue_up(connection)
                done = step(connection)
            if done and self._file is not None:
                sqlite_file.write_ahead(connection, self._file)
        self._has_steps = True
        return done

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            # the statement and its values stay out: values are definitions, which may hold secrets
            cause = error.orig if isinstance(error, DBAPIError) else error
            reason = " ".join(str(cause).split())
            if self._file is not None and sqlite_file.is_full(self._file.parent):
                reason += "; its disk is full"  # SQLite calls that an I/O error
            refusal = CatalogError(
                f"the catalog {self.location} cannot be used: {reason}",
                hint=self._hint(error),
            )
            raise (refusal.passing() if self._may_pass(error) else refusal) from error

    def _may_pass(self, error: SQLAlchemyError) -> bool:
        """Return whether the same request may succeed later: the store is away, locked or out of room."""
        if not isinstance(error, DBAPIError):
            return False
        if self._is_sqlite:
            return sqlite_file.may_pass(error, self._file)
        return postgres.may_pass(error)

    def _hint(self, error: SQLAlchemyError) -> str:
        if isinstance(error, DBAPIError):
            if "locked" in str(error.orig) or postgres.is_lock_timeout(error):
                return "another process held it for too long; try again"
            if not self._is_sqlite and postgres.is_away(error):
                return "start the server, or correct the URL in --catalog or PENSTOCK_CATALOG"
        return "fix it, or name another with --catalog or PENSTOCK_CATALOG; nothing was changed"


def _is_passing(error: BaseException | None) -> bool:
    """Return whether a transaction failed because of another one: the next attempt may succeed."""
    return isinstance(error, DBAPIError) and postgres.is_passing(error)


def stored_version(connection: Connection) -> int:
    """Return the version of the store that a connection of `Database` is to."""
    version: int = connection.get_execution_options()[STORED_VERSION]
    return version


def now_ms(connection: Connection) -> int:
    """Read the database's clock in epoch ms: with PostgreSQL the one clock that all runners share.

    SQLite asks the machine that it runs on: for one machine that is as good, but over a network drive each machine
    has a clock of its own, and claims of others look older or younger by the difference.
    """
    if connection.dialect.name == "sqlite":
        # its CURRENT_TIMESTAMP has no fraction of a second
        text = connection.scalar(select(func.strftime("%Y-%m-%d %H:%M:%f", "now")))
        return round(datetime.fromisoformat(str(text)).replace(tzinfo=UTC).timestamp() * 1000)
    # the time of now: CURRENT_TIMESTAMP is the transaction's beginning there
    now = connection.scalar(select(func.clock_timestamp()))
    assert now is not None, "a clock always answers"
    moment: datetime = now
    return round(moment.timestamp() * 1000)


def _checked(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    if parsed is None or parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        # the text itself may hold a password, so only its beginning is shown
        raise ConfigError(
            f"{url.partition(':')[0]!r}... is not the URL of a catalog",
            hint="such as sqlite:///.penstock/catalog.db or postgresql://user@host/database",
        )
    return parsed
