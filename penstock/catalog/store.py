"""The catalog in a database (`contract.Catalog`): definitions as rows of JSON, leases beside them."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from penstock.catalog import lease_rows
from penstock.catalog.codec import table_from_json, table_to_json
from penstock.catalog.contract import DEFAULT_CATALOG, DEFAULT_DATABASE, ObjectKind, kind_of
from penstock.catalog.database import Database
from penstock.catalog.errors import CatalogError
from penstock.catalog.existence import check_place, may_create, may_drop, unknown_object
from penstock.catalog.identifier import Identifier
from penstock.catalog.lease import Lease, Owner
from penstock.catalog.migrations import OBJECTS
from penstock.catalog.table import Table, View

__all__ = ["SqlCatalog"]


class SqlCatalog:
    """A catalog in a database, by SQLAlchemy URL. Safe to use from any thread and in several processes at once.

    Nothing is opened before the first call, and a call that only reads does not make a store that is not there.
    Raises ConfigError for a URL that cannot be used; every method raises CatalogError.
    """

    default_catalog = DEFAULT_CATALOG
    default_database = DEFAULT_DATABASE

    def __init__(self, url: str) -> None:
        self._database = Database(url)

    @property
    def location(self) -> str:
        """Where the catalog is, without a password."""
        return self._database.location

    def databases(self) -> list[str]:
        """List the databases: the default one."""
        return [self.default_database]

    def tables(self, database: str | None = None) -> list[Identifier]:
        """List the tables, sorted; those of one database when it is given."""
        return self._listed("table", database)

    def views(self, database: str | None = None) -> list[Identifier]:
        """List the views, sorted; those of one database when it is given."""
        return self._listed("view", database)

    def get(self, identifier: Identifier) -> Table | View:
        """Give a definition. Raises UnknownObjectError with the nearest name."""
        with self._database.reading() as connection:
            if connection is None:
                raise unknown_object(identifier, ())
            text = connection.scalar(select(OBJECTS.c.definition).where(*_is(identifier)))
            if text is None:
                raise unknown_object(identifier, _identifiers(connection))
        try:
            return table_from_json(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise CatalogError(
                f"the catalog {self.location} holds a definition of {identifier} that cannot be read",
                hint=f"drop it and create it again, or restore the catalog ({type(error).__name__}: {error})",
            ) from error

    def create(
        self, obj: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        """Add a definition, or with `replace` change the one of that name and kind."""
        assert not obj.temporary, "temporary objects live in a namespace"
        check_place(obj.identifier, self.default_catalog, self.databases())
        try:
            self._create(obj, if_not_exists=if_not_exists, replace=replace)
        except IntegrityError:
            # another process created it since we looked: now it is seen
            self._create(obj, if_not_exists=if_not_exists, replace=replace)

    def drop(self, identifier: Identifier, *, kind: ObjectKind, if_exists: bool = False) -> None:
        """Remove a definition; what the table's connector holds stays. Raises UnknownObjectError."""
        if not self._exists(identifier) and if_exists:
            return
        with self._database.writing() as connection:
            found, known = _kind(connection, identifier), _identifiers(connection)
            if may_drop(identifier, kind, found, if_exists=if_exists, known=known):
                connection.execute(delete(OBJECTS).where(*_is(identifier)))

    def acquire_lease(self, pipeline: str, owner: Owner) -> Lease:
        """Claim a pipeline. Raises PipelineLockedError, which names the holder, when another runner has it."""
        try:
            with self._database.writing() as connection:
                return lease_rows.acquire(connection, pipeline, owner)
        except IntegrityError:
            with self._database.writing() as connection:
                return lease_rows.acquire(connection, pipeline, owner)

    def renew(self, lease: Lease) -> None:
        """Say that the holder lives. Raises PipelineLockedError when the lease is lost."""
        with self._database.writing() as connection:
            lease_rows.renew(connection, lease)

    def release(self, lease: Lease) -> None:
        """Give a lease back; one that was lost is left alone."""
        with self._database.writing() as connection:
            lease_rows.release(connection, lease)

    def close(self) -> None:
        """Close what is open; the next call opens it again."""
        self._database.close()

    def _create(self, obj: Table | View, *, if_not_exists: bool, replace: bool) -> None:
        identifier = obj.identifier
        row: dict[str, Any] = {
            "catalog_name": identifier.catalog,
            "database_name": identifier.database,
            "object_name": identifier.name,
            "kind": kind_of(obj),
            "definition": json.dumps(table_to_json(obj), ensure_ascii=False),
        }
        with self._database.writing() as connection:
            found = _kind(connection, identifier)
            if may_create(obj, found, if_not_exists=if_not_exists, replace=replace):
                if found is not None:
                    connection.execute(delete(OBJECTS).where(*_is(identifier)))
                # what another process has created since then is in the way, not replaced
                connection.execute(insert(OBJECTS).values(row))

    def _exists(self, identifier: Identifier) -> bool:
        with self._database.reading() as connection:
            return connection is not None and _kind(connection, identifier) is not None

    def _listed(self, kind: ObjectKind, database: str | None) -> list[Identifier]:
        with self._database.reading() as connection:
            if connection is None:
                return []
            wanted = [OBJECTS.c.kind == kind]
            if database is not None:
                wanted.append(OBJECTS.c.database_name == database)
            return _identifiers(connection, *wanted)


def _is(identifier: Identifier) -> tuple[ColumnElement[bool], ...]:
    return (
        OBJECTS.c.catalog_name == identifier.catalog,
        OBJECTS.c.database_name == identifier.database,
        OBJECTS.c.object_name == identifier.name,
    )


def _kind(connection: Connection, identifier: Identifier) -> ObjectKind | None:
    kind: ObjectKind | None = connection.scalar(select(OBJECTS.c.kind).where(*_is(identifier)))
    return kind


def _identifiers(connection: Connection, *wanted: ColumnElement[bool]) -> list[Identifier]:
    columns = (OBJECTS.c.catalog_name, OBJECTS.c.database_name, OBJECTS.c.object_name)
    rows = connection.execute(select(*columns).where(*wanted))
    # sorted here: databases sort text each in its own way
    return sorted(Identifier(catalog=c, database=d, name=n) for c, d, n in rows)
