"""The catalog in a database: SQLite by default, PostgreSQL for teams. The only module that talks to it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    literal_column,
    select,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError, SQLAlchemyError

from penstock.catalog.codec import table_from_json, table_to_json
from penstock.catalog.contract import Kind
from penstock.catalog.errors import (
    CatalogError,
    PipelineLockedError,
    UnknownObjectError,
    did_you_mean,
)
from penstock.catalog.identifier import Identifier
from penstock.catalog.lease import LEASE_TIMEOUT_S, Lease, Owner, is_gone
from penstock.catalog.names import already_exists
from penstock.catalog.table import Table, View
from penstock.catalog.tables import LEASES, MIGRATIONS, OBJECTS, SCHEMA_VERSION, VERSION

__all__ = ["SqlCatalog"]

BUSY_TIMEOUT_MS = 10_000  # how long SQLite waits for another process's write


class SqlCatalog:
    """A catalog in a database (`Catalog`). Reading does not create a store that is not there.

    Raises CatalogError when the store cannot be read, was written by a newer Penstock, or is something else;
    then it is left as it is.
    """

    def __init__(self, url: str) -> None:
        try:
            self._url = make_url(url)
        except ArgumentError as error:
            raise CatalogError(
                f"{url!r} is not a database URL",
                hint="such as sqlite:///.penstock/catalog.db or postgresql://...",
            ) from error
        self._engine: Engine | None = None

    @property
    def location(self) -> str:
        """Where the catalog is, without a password."""
        return self._url.render_as_string(hide_password=True)

    def tables(self) -> Sequence[Identifier]:
        """List all tables, sorted."""
        return self._list("table")

    def views(self) -> Sequence[Identifier]:
        """List all views, sorted."""
        return self._list("view")

    def find(self, identifier: Identifier) -> Table | View | None:
        """Find a table or view; None when there is none."""
        with self._reading() as connection:
            if connection is None:
                return None
            text = connection.scalar(select(OBJECTS.c.definition).where(*_is(identifier)))
        return None if text is None else table_from_json(json.loads(text))

    def get(self, identifier: Identifier) -> Table | View:
        """Find a table or view. Raises UnknownObjectError with the nearest name."""
        found = self.find(identifier)
        if found is None:
            raise self._unknown(identifier, "table or view")
        return found

    def create(
        self, value: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        """Keep a new table or view. Raises ObjectExistsError when the name is taken."""
        identifier = value.identifier
        row = {
            "catalog": identifier.catalog,
            "database": identifier.database,
            "name": identifier.name,
            "kind": "table" if isinstance(value, Table) else "view",
            "definition": json.dumps(table_to_json(value)),
        }
        try:
            with self._writing() as connection:
                if replace:
                    connection.execute(delete(OBJECTS).where(*_is(identifier)))
                connection.execute(insert(OBJECTS).values(row))
        except IntegrityError as error:
            if not if_not_exists:
                raise already_exists(identifier) from error

    def drop(self, identifier: Identifier, *, kind: Kind, if_exists: bool = False) -> None:
        """Forget a table or view. Raises UnknownObjectError when there is none of that kind."""
        with self._writing() as connection:
            gone = connection.execute(
                delete(OBJECTS).where(*_is(identifier), OBJECTS.c.kind == kind)
            )
        if gone.rowcount == 0 and not if_exists:
            raise self._unknown(identifier, kind)

    def acquire_lease(self, pipeline: str, owner: Owner) -> Lease:
        """Take a pipeline for one runner. Raises PipelineLockedError, naming the runner that has it."""
        with self._writing() as connection:
            now = connection.scalar(select(self._clock()))
            found = connection.execute(
                select(LEASES).where(LEASES.c.pipeline == pipeline)
            ).one_or_none()
            if found is not None:
                held = Owner(
                    host=found.host, pid=found.pid, boot_id=found.boot_id, started=found.started
                )
                if not is_gone(held) and now - found.renewed < LEASE_TIMEOUT_S:
                    raise _locked(pipeline, held, found.since)
                connection.execute(
                    delete(LEASES).where(
                        LEASES.c.pipeline == pipeline, LEASES.c.token == found.token
                    )
                )
            token = 1 if found is None else found.token + 1
            row = {"pipeline": pipeline, "token": token, "since": now, "renewed": now}
            owned = {
                "host": owner.host,
                "pid": owner.pid,
                "boot_id": owner.boot_id,
                "started": owner.started,
            }
            connection.execute(insert(LEASES).values(row | owned))
        return Lease(pipeline=pipeline, owner=owner, token=token)

    def renew_lease(self, lease: Lease) -> bool:
        """Say that the runner lives. False when the lease was taken over: the runner must stop at once."""
        with self._writing() as connection:
            done = connection.execute(
                update(LEASES).where(*_held(lease)).values(renewed=self._clock())
            )
        return done.rowcount == 1

    def release_lease(self, lease: Lease) -> None:
        """Give a pipeline back; harmless when it was taken over."""
        with self._writing() as connection:
            # the row stays, so that the next owner's token is higher
            connection.execute(update(LEASES).where(*_held(lease)).values(renewed=0.0))

    def close(self) -> None:
        """Close the connections."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def _list(self, kind: Kind) -> Sequence[Identifier]:
        columns = (OBJECTS.c.catalog, OBJECTS.c.database, OBJECTS.c.name)
        with self._reading() as connection:
            if connection is None:
                return []
            rows = connection.execute(
                select(*columns).where(OBJECTS.c.kind == kind).order_by(*columns)
            ).all()
        return [
            Identifier(catalog=row.catalog, database=row.database, name=row.name) for row in rows
        ]

    def _unknown(self, identifier: Identifier, kind: str) -> UnknownObjectError:
        names = [known.name for known in (*self.tables(), *self.views())]
        hint = did_you_mean(identifier.name, names)
        return UnknownObjectError(
            f"there is no {kind} {identifier}", hint=hint or f"the catalog is {self.location}"
        )

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection | None]:
        """Open a connection for reading; None when there is no store yet."""
        if self._file is not None and not self._file.exists():
            yield None
            return
        with self._explained(), self._connect().connect() as connection:
            yield connection if self._version(connection) else None

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Open a transaction for writing; makes the store when there is none, and brings an older one up to date."""
        self._create_file()
        with self._explained(), self._writer().begin() as connection:
            self._migrate(connection)
            yield connection

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            cause = error.orig if isinstance(error, DatabaseError) else error
            raise CatalogError(
                f"the catalog {self.location} cannot be used: {cause}",
                hint="name another with --catalog or PENSTOCK_CATALOG, or restore the file; nothing was changed",
            ) from error

    @property
    def _file(self) -> Path | None:
        if self._url.get_backend_name() != "sqlite" or self._url.database in (None, "", ":memory:"):
            return None
        return Path(str(self._url.database))

    def _create_file(self) -> None:
        """Make SQLite's file readable by this user only: options may hold secrets."""
        file = self._file
        if file is None or file.exists():
            return
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise CatalogError(
                f"the catalog {file} cannot be created: {error.strerror}",
                hint="run in a folder that you may write to, or name another catalog with --catalog",
            ) from error

    def _connect(self) -> Engine:
        if self._engine is None:
            self._engine = (
                _sqlite_engine(self._url) if self._file is not None else create_engine(self._url)
            )
        return self._engine

    def _writer(self) -> Engine:
        return self._connect().execution_options(penstock_writes=True)

    def _version(self, connection: Connection) -> int:
        """Read the version of the store; 0 when it is empty. Raises CatalogError when it is newer."""
        if not inspect(connection).has_table(SCHEMA_VERSION.name):
            return 0
        version = int(connection.scalar(select(func.max(SCHEMA_VERSION.c.version))) or 0)
        if version > VERSION:
            raise CatalogError(
                f"the catalog {self.location} was written by a newer Penstock (version {version}, this one knows "
                f"{VERSION})",
                hint="upgrade Penstock; the catalog was not touched",
            )
        return version

    def _migrate(self, connection: Connection) -> None:
        version = self._version(connection)
        for number, migration in enumerate(MIGRATIONS[version:], start=version + 1):
            migration(connection)
            connection.execute(insert(SCHEMA_VERSION).values(version=number))

    def _clock(self) -> ColumnElement[Any]:
        """Give the database's clock, epoch seconds: the one clock that all runners share."""
        if self._url.get_backend_name() == "sqlite":
            return literal_column("((julianday('now') - 2440587.5) * 86400.0)")
        return func.extract("epoch", func.clock_timestamp())


def _sqlite_engine(url: URL) -> Engine:
    engine = create_engine(url)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: Any) -> None:
        # the driver would begin transactions late; writers have to queue up before they read
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA journal_mode = WAL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("penstock_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _is(identifier: Identifier) -> tuple[ColumnElement[bool], ...]:
    return (
        OBJECTS.c.catalog == identifier.catalog,
        OBJECTS.c.database == identifier.database,
        OBJECTS.c.name == identifier.name,
    )


def _held(lease: Lease) -> tuple[ColumnElement[bool], ...]:
    return LEASES.c.pipeline == lease.pipeline, LEASES.c.token == lease.token


def _locked(pipeline: str, owner: Owner, since: float) -> PipelineLockedError:
    at = datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds")
    return PipelineLockedError(
        f"the pipeline {pipeline} is run by process {owner.pid} on {owner.host} since {at}",
        hint="stop that one first, or give this one another name: SET 'pipeline.name' = '...'",
    )
