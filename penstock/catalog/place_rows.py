"""Catalogs and databases as rows, each function within the caller's transaction. The rules are `places.py`'s."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from penstock.catalog import codec
from penstock.catalog.descriptor import (
    DEFAULT_CATALOG,
    CatalogDescriptor,
    DatabaseDescriptor,
    default_catalog,
    implied_database,
)
from penstock.catalog.errors import CatalogError
from penstock.catalog.identifier import Identifier
from penstock.catalog.migrations import CATALOGS, DATABASES, FUNCTIONS, OBJECTS
from penstock.catalog.places import check_unchanged, find_catalog, find_database

__all__ = ["StoredPlaces", "identifiers"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlaces:
    """What one transaction sees (`places.Places`). None as connection is a store that is not there yet."""

    connection: Connection | None

    def catalogs(self) -> list[CatalogDescriptor]:
        """List the catalogs, sorted by name; the default one is there without a row, until it is altered."""
        found = {DEFAULT_CATALOG: default_catalog()}
        if self.connection is not None:
            for name, text in self.connection.execute(select(*CATALOGS.c)):
                read = partial(codec.catalog_from_json, name)
                found[name] = _decoded(read, text, f"the catalog {name}")
        return [found[name] for name in sorted(found)]

    def databases(self, catalog: str | None = None) -> list[str]:
        """List the databases of a catalog (None: the default one), sorted. Raises UnknownObjectError."""
        descriptor = find_catalog(catalog or DEFAULT_CATALOG, self)
        names = {descriptor.default_database}
        if self.connection is not None:
            wanted = select(DATABASES.c.database_name).where(
                DATABASES.c.catalog_name == descriptor.name
            )
            names |= set(self.connection.scalars(wanted))
        return sorted(names)

    def database(self, catalog: str, name: str) -> DatabaseDescriptor:
        """Describe a database. Raises UnknownObjectError."""
        descriptor = find_catalog(catalog, self)
        if self.connection is not None:
            wanted = select(DATABASES.c.definition).where(*_is(catalog, name))
            text = self.connection.scalar(wanted)
            if text is not None:
                read = partial(codec.database_from_json, catalog, name)
                return _decoded(read, text, f"the database {catalog}.{name}")
        find_database(catalog, name, self)
        return implied_database(descriptor)

    def tables(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the tables of a database or catalog, sorted."""
        return self._objects("table", database, catalog)

    def views(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the views of a database or catalog, sorted."""
        return self._objects("view", database, catalog)

    def lock(self, catalog: str, name: str) -> None:
        """Let nobody drop a database until the transaction ends; SQLite's writers queue up anyway."""
        if self.connection is not None:
            wanted = select(DATABASES.c.database_name).where(*_is(catalog, name))
            self.connection.execute(wanted.with_for_update())

    # --- changes ---

    def write_catalog(self, value: CatalogDescriptor) -> None:
        """Write a new catalog."""
        text = json.dumps(codec.catalog_to_json(value), ensure_ascii=False)
        self._writer.execute(insert(CATALOGS).values(catalog_name=value.name, definition=text))

    def replace_catalog(self, before: CatalogDescriptor, after: CatalogDescriptor) -> None:
        """Write a catalog over what it was. Raises DefinitionError when it is something else by now."""
        check_unchanged(f"the catalog {before.name!r}", find_catalog(before.name, self), before)
        self._writer.execute(delete(CATALOGS).where(CATALOGS.c.catalog_name == before.name))
        self.write_catalog(after)

    def delete_catalog(self, name: str) -> None:
        """Remove a catalog, and its databases with it."""
        self._writer.execute(delete(DATABASES).where(DATABASES.c.catalog_name == name))
        self._writer.execute(delete(CATALOGS).where(CATALOGS.c.catalog_name == name))

    def write_database(self, value: DatabaseDescriptor) -> None:
        """Write a new database."""
        text = json.dumps(codec.database_to_json(value), ensure_ascii=False)
        row = {"catalog_name": value.catalog, "database_name": value.name, "definition": text}
        self._writer.execute(insert(DATABASES).values(row))

    def replace_database(self, before: DatabaseDescriptor, after: DatabaseDescriptor) -> None:
        """Write a database over what it was. Raises DefinitionError when it is something else by now."""
        found = self.database(before.catalog, before.name)
        check_unchanged(f"the database {before.name!r}", found, before)
        self._writer.execute(delete(DATABASES).where(*_is(before.catalog, before.name)))
        self.write_database(after)

    def delete_database(self, catalog: str, name: str) -> None:
        """Remove a database and all that is in it."""
        for rows in (OBJECTS, FUNCTIONS):
            inside = (rows.c.catalog_name == catalog, rows.c.database_name == name)
            self._writer.execute(delete(rows).where(*inside))
        self._writer.execute(delete(DATABASES).where(*_is(catalog, name)))

    @property
    def _writer(self) -> Connection:
        assert self.connection is not None, "a store that is written to is there"
        return self.connection

    def _objects(self, kind: str, database: str | None, catalog: str | None) -> list[Identifier]:
        if self.connection is None:
            return []
        wanted: list[ColumnElement[bool]] = [OBJECTS.c.kind == kind]
        if database is not None:
            wanted.append(OBJECTS.c.database_name == database)
        if catalog is not None:
            wanted.append(OBJECTS.c.catalog_name == catalog)
        return identifiers(self.connection, *wanted)


def identifiers(connection: Connection, *wanted: ColumnElement[bool]) -> list[Identifier]:
    """List the names of objects, sorted."""
    columns = (OBJECTS.c.catalog_name, OBJECTS.c.database_name, OBJECTS.c.object_name)
    rows = connection.execute(select(*columns).where(*wanted))
    # sorted here: databases sort text each in its own way
    return sorted(Identifier(catalog=c, database=d, name=n) for c, d, n in rows)


def _is(catalog: str, name: str) -> tuple[ColumnElement[bool], ...]:
    return (DATABASES.c.catalog_name == catalog, DATABASES.c.database_name == name)


def _decoded(read: Callable[[Any], T], text: str, what: str) -> T:
    try:
        return read(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise CatalogError(
            f"the store holds a definition of {what} that cannot be read",
            hint=f"restore the catalog from a copy ({type(error).__name__}: {error})",
        ) from error
