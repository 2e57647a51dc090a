"""The catalog in a database (`contract.Catalog`): definitions as rows of JSON, leases beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from penstock.catalog import lease_rows
from penstock.catalog.codec import table_from_json, table_to_json
from penstock.catalog.contract import DEFAULT_CATALOG, DEFAULT_DATABASE, ObjectKind, kind_of
from penstock.catalog.database import Database
from penstock.catalog.descriptor import CatalogDescriptor, DatabaseDescriptor
from penstock.catalog.errors import CatalogError
from penstock.catalog.existence import may_create, may_drop, may_rename, unknown_object
from penstock.catalog.function_store import SqlFunctions
from penstock.catalog.identifier import Identifier
from penstock.catalog.lease import Claim, Lease, Owner
from penstock.catalog.migrations import OBJECTS, PLACES_SINCE
from penstock.catalog.place_rows import StoredPlaces, identifiers
from penstock.catalog.places import (
    check_place,
    check_replaced_catalog,
    check_unchanged,
    may_create_catalog,
    may_create_database,
    may_drop_catalog,
    may_drop_database,
)
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
        self.functions = SqlFunctions(self._database)

    @property
    def location(self) -> str:
        """Where the catalog is, without a password."""
        return self._database.location

    def catalogs(self) -> list[CatalogDescriptor]:
        """List the catalogs, sorted by name; the default one is always there."""
        with self._places() as places:
            return places.catalogs()

    def databases(self, catalog: str | None = None) -> list[str]:
        """List the databases of a catalog (None: the default one), sorted. Raises UnknownObjectError."""
        with self._places() as places:
            return places.databases(catalog)

    def database(self, catalog: str, name: str) -> DatabaseDescriptor:
        """Describe a database. Raises UnknownObjectError."""
        with self._places() as places:
            return places.database(catalog, name)

    def tables(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the tables, sorted; those of one database, or of one catalog, when it is given."""
        with self._database.reading() as connection:
            return StoredPlaces(connection=connection).tables(database, catalog)

    def views(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the views, sorted; those of one database, or of one catalog, when it is given."""
        with self._database.reading() as connection:
            return StoredPlaces(connection=connection).views(database, catalog)

    def get(self, identifier: Identifier) -> Table | View:
        """Give a definition. Raises UnknownObjectError with the nearest name."""
        with self._database.reading() as connection:
            if connection is None:
                raise unknown_object(identifier, ())
            text = connection.scalar(select(OBJECTS.c.definition).where(*_is(identifier)))
            if text is None:
                raise unknown_object(identifier, identifiers(connection))
        return self._decoded(identifier, text)

    def create(
        self, obj: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        """Add a definition, or with `replace` change the one of that name and kind."""
        assert not obj.temporary, "temporary objects live in a namespace"
        with self._places() as places:
            check_place(obj.identifier, places)  # before a store is made for nothing

        def write(connection: Connection, places: StoredPlaces) -> None:
            _check_target(obj.identifier, places)
            found = _kind(connection, obj.identifier)
            if may_create(obj, found, if_not_exists=if_not_exists, replace=replace):
                if found is not None:
                    connection.execute(delete(OBJECTS).where(*_is(obj.identifier)))
                # what another process has created since then is in the way, not replaced
                connection.execute(insert(OBJECTS).values(_row(obj)))

        self._write(write)

    def replace(self, before: Table | View, after: Table | View) -> None:
        """Change a definition, its name too if `after` has another."""
        assert not after.temporary, "temporary objects live in a namespace"

        def write(connection: Connection, places: StoredPlaces) -> None:
            _check_target(after.identifier, places)
            wanted = select(OBJECTS.c.definition).where(*_is(before.identifier))
            text = connection.scalar(wanted.with_for_update())
            if text is None:
                raise unknown_object(before.identifier, identifiers(connection))
            found = self._decoded(before.identifier, text)
            check_unchanged(f"the {kind_of(before)} {before.identifier}", found, before)
            if after.identifier != before.identifier:
                may_rename(after, _kind(connection, after.identifier))
            connection.execute(delete(OBJECTS).where(*_is(before.identifier)))
            connection.execute(insert(OBJECTS).values(_row(after)))

        self._write(write)

    def drop(self, identifier: Identifier, *, kind: ObjectKind, if_exists: bool = False) -> None:
        """Remove a definition; what the table's connector holds stays. Raises UnknownObjectError."""
        if not self._exists(identifier) and if_exists:
            return
        with self._database.writing() as connection:
            found = _kind(connection, identifier)
            if may_drop(
                identifier,
                kind,
                found,
                if_exists=if_exists,
                known=lambda: identifiers(connection),
            ):
                connection.execute(delete(OBJECTS).where(*_is(identifier)))

    def create_catalog(self, new: CatalogDescriptor, *, if_not_exists: bool = False) -> None:
        """Add a catalog. Raises ObjectExistsError."""

        def write(_: Connection, places: StoredPlaces) -> None:
            if may_create_catalog(new, places, if_not_exists=if_not_exists):
                places.write_catalog(new)

        self._write(write)

    def replace_catalog(self, before: CatalogDescriptor, after: CatalogDescriptor) -> None:
        """Change a catalog's options or comment. Raises DefinitionError when it is no longer `before`."""
        check_replaced_catalog(before, after)
        self._write(lambda _, places: places.replace_catalog(before, after))

    def drop_catalog(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a catalog that holds nothing. Raises UnknownObjectError, DefinitionError."""
        with self._places() as places:
            if not may_drop_catalog(name, places, if_exists=if_exists):
                return

        def write(_: Connection, places: StoredPlaces) -> None:
            for database in places.databases(name):
                places.lock(name, database)
            if may_drop_catalog(name, places, if_exists=if_exists):
                places.delete_catalog(name)

        self._write(write)

    def create_database(self, new: DatabaseDescriptor, *, if_not_exists: bool = False) -> None:
        """Add a database. Raises ObjectExistsError, and UnknownObjectError when the catalog does not exist."""
        with self._places() as places:
            if not may_create_database(new, places, if_not_exists=if_not_exists):
                return

        def write(_: Connection, places: StoredPlaces) -> None:
            if may_create_database(new, places, if_not_exists=if_not_exists):
                places.write_database(new)

        self._write(write)

    def replace_database(self, before: DatabaseDescriptor, after: DatabaseDescriptor) -> None:
        """Change a database's options or comment. Raises DefinitionError when it is no longer `before`."""
        self._write(lambda _, places: places.replace_database(before, after))

    def drop_database(
        self, catalog: str, name: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Remove a database; with `cascade` what is in it too. Raises UnknownObjectError, DefinitionError."""
        with self._places() as places:
            if not may_drop_database(catalog, name, places, if_exists=if_exists, cascade=cascade):
                return

        def write(_: Connection, places: StoredPlaces) -> None:
            places.lock(catalog, name)
            if may_drop_database(catalog, name, places, if_exists=if_exists, cascade=cascade):
                places.delete_database(catalog, name)

        self._write(write)

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

    def claims(self) -> list[Claim]:
        """List the claims of runners that live, by pipeline."""
        with self._database.reading() as connection:
            return [] if connection is None else lease_rows.claims(connection)

    def request_stop(self, pipeline: str) -> Claim | None:
        """Ask the runner of a pipeline to end; it finds out when it renews its lease. None where there is none."""
        with self._database.writing() as connection:
            return lease_rows.request_stop(connection, pipeline)

    def is_asked_to_stop(self, lease: Lease) -> bool:
        """Tell whether somebody asked for the end of the run that holds `lease`."""
        with self._database.reading() as connection:
            return connection is not None and lease_rows.is_asked_to_stop(connection, lease)

    def close(self) -> None:
        """Close what is open; the next call opens it again."""
        self._database.close()

    def _write(self, step: Callable[[Connection, StoredPlaces], None]) -> None:
        """Do a step in a transaction; once more where another process was in the way, which is seen then."""
        try:
            with self._database.writing() as connection:
                step(connection, StoredPlaces(connection=connection))
        except IntegrityError:
            with self._database.writing() as connection:
                step(connection, StoredPlaces(connection=connection))

    @contextmanager
    def _places(self) -> Iterator[StoredPlaces]:
        with self._database.reading(since=PLACES_SINCE) as connection:
            yield StoredPlaces(connection=connection)

    def _decoded(self, identifier: Identifier, text: str) -> Table | View:
        try:
            return table_from_json(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise CatalogError(
                f"the catalog {self.location} holds a definition of {identifier} that cannot be read",
                hint=f"drop it and create it again, or restore the catalog ({type(error).__name__}: {error})",
            ) from error

    def _exists(self, identifier: Identifier) -> bool:
        with self._database.reading() as connection:
            return connection is not None and _kind(connection, identifier) is not None


def _check_target(identifier: Identifier, places: StoredPlaces) -> None:
    """Check the place of a definition, which then stays until the transaction ends. Raises UnknownObjectError."""
    places.lock(identifier.catalog, identifier.database)
    check_place(identifier, places)


def _row(obj: Table | View) -> dict[str, Any]:
    return {
        "catalog_name": obj.identifier.catalog,
        "database_name": obj.identifier.database,
        "object_name": obj.identifier.name,
        "kind": kind_of(obj),
        "definition": json.dumps(table_to_json(obj), ensure_ascii=False),
    }


def _is(identifier: Identifier) -> tuple[ColumnElement[bool], ...]:
    return (
        OBJECTS.c.catalog_name == identifier.catalog,
        OBJECTS.c.database_name == identifier.database,
        OBJECTS.c.object_name == identifier.name,
    )


def _kind(connection: Connection, identifier: Identifier) -> ObjectKind | None:
    kind: ObjectKind | None = connection.scalar(select(OBJECTS.c.kind).where(*_is(identifier)))
    return kind
