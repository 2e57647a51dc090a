"""A catalog's database as transactions: opened late, checked for its version, its errors explained.

Knows nothing of definitions and leases. SQLite by default, PostgreSQL for teams.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC
from threading import RLock

from sqlalchemy import Connection, Engine, create_engine, func, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from penstock.catalog import sqlite_file
from penstock.catalog.errors import CatalogError, ConfigError
from penstock.catalog.migrations import MIGRATIONS, is_foreign, migrate, version_of

__all__ = ["Database", "now_ms"]


class Database:
    """Gives transactions. Safe to use from any thread, and after a fork.

    Raises ConfigError for a URL that cannot be used, CatalogError for a store that cannot be read, was written by a
    newer Penstock or is something else: that one is left as it is.
    """

    def __init__(self, url: str) -> None:
        self._url = _checked(url)
        self._is_sqlite = self._url.get_backend_name() == "sqlite"
        self._file = sqlite_file.file_of(self._url) if self._is_sqlite else None
        if self._file is not None:
            # a relative path means the folder of now, wherever the process goes later
            self._url = self._url.set(database=str(self._file))
        in_memory = self._is_sqlite and self._file is None
        # a database in memory is one connection, which threads take in turns
        self._turn: AbstractContextManager[object] = RLock() if in_memory else nullcontext()
        self._engine = self._open()

    @property
    def location(self) -> str:
        """Where the catalog is: the file, or the URL without a password."""
        return str(self._file or self._url.render_as_string(hide_password=True))

    @contextmanager
    def reading(self, *, since: int = 1) -> Iterator[Connection | None]:
        """Open a transaction for reading; None when there is no store yet, which is not made.

        `since` is the version that has what is to be read: None for an older store, which is left as it is.
        """
        if self._file is not None and not self._file.exists():
            yield None
            return
        with self._turn, self._explained(), self._engine.begin() as connection:
            yield connection if self._version(connection) >= since else None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction for writing, committed at the end; makes the store, or brings it up to date, first.

        Lets IntegrityError pass: the caller knows what it means.
        """
        with self._turn, self._explained():
            self._bring_up_to_date()
            with self._writer().begin() as connection:
                yield connection

    def close(self) -> None:
        """Close what is open; the next call opens it again."""
        self._engine.dispose()

    def _open(self) -> Engine:
        if self._is_sqlite:
            return sqlite_file.open_engine(self._url)
        try:
            return create_engine(self._url, poolclass=NullPool)
        except ImportError as error:
            raise ConfigError(
                f"the catalog {self.location} needs the Python package {error.name!r}",
                hint=f"pip install {error.name}",
            ) from error

    def _writer(self) -> Engine:
        return self._engine.execution_options(**{sqlite_file.WRITES: True})

    def _version(self, connection: Connection) -> int:
        version = version_of(connection)
        if version == 0 and self._is_sqlite and is_foreign(connection):
            raise CatalogError(
                f"{self.location} is a database of something else, not a Penstock catalog",
                hint="name another file; this one was not changed",
            )
        return version

    def _bring_up_to_date(self) -> None:
        if self._file is not None and not self._file.exists():
            sqlite_file.create_file(self._file)
        with self._engine.begin() as connection:
            if self._version(connection) == len(MIGRATIONS):
                return
        try:
            with self._writer().connect() as connection:
                with connection.begin():
                    migrated = migrate(connection)
                if migrated and self._file is not None:
                    sqlite_file.write_ahead(connection, self._file)
        except DBAPIError:
            # where definitions of tables do not queue up, another process was first
            with self._engine.begin() as connection:
                if self._version(connection) != len(MIGRATIONS):
                    raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            # the statement and its values stay out: values are definitions, which may hold secrets
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise CatalogError(
                f"the catalog {self.location} cannot be used: {' '.join(str(cause).split())}",
                hint="another process held it for too long; try again"
                if "locked" in str(cause)
                else "mend it, or name another with --catalog or PENSTOCK_CATALOG; nothing was changed",
            ) from error


def now_ms(connection: Connection) -> int:
    """Read the database's clock in epoch ms, to the second: the one clock that all runners share."""
    now = connection.scalar(select(func.current_timestamp()))
    assert now is not None, "a clock always answers"
    return int((now.replace(tzinfo=UTC) if now.tzinfo is None else now).timestamp() * 1000)


def _checked(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    if parsed is None or parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        # the text itself may hold a password, so only its beginning is shown
        raise ConfigError(
            f"{url.partition(':')[0]!r}... is not the URL of a catalog",
            hint="such as sqlite:///.penstock/catalog.db or postgresql+psycopg://user@host/database",
        )
    return parsed
