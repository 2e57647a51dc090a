"""Catalogs and databases as rows, each function within the caller's transaction.

The rules are in `catalog/definitions/ddl_rules.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, null, select, update
from sqlalchemy import Table as Rows

from penstock.catalog.definitions.ddl_rules import check_unchanged, find_catalog, find_database
from penstock.catalog.definitions.history import Action, ChangeKind
from penstock.catalog.errors import CatalogError
from penstock.catalog.migrations import CATALOGS, DATABASES, FUNCTIONS, OBJECTS, VERSIONS_SINCE
from penstock.catalog.model import codec
from penstock.catalog.model.identifier import Identifier, check_storable
from penstock.catalog.model.namespaces import (
    DEFAULT_CATALOG,
    CatalogDescriptor,
    DatabaseDescriptor,
    default_catalog,
    implied_database,
)
from penstock.catalog.store import history as history_rows
from penstock.catalog.store.database import stored_version
from penstock.catalog.store.functions import drop_functions
from penstock.catalog.store.objects import drop_objects, identifiers

__all__ = ["StoredNamespaces"]

T = TypeVar("T", CatalogDescriptor, DatabaseDescriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNamespaces:
    """What one transaction sees (`ddl_rules.Namespaces`). None as connection is a store that does not exist yet."""

    connection: Connection | None

    def catalogs(self) -> list[CatalogDescriptor]:
        """List the catalogs, sorted by name; the default one exists without a row, until it is altered."""
        found = {DEFAULT_CATALOG: replace(default_catalog(), version=0)}
        if self.connection is not None:
            columns = (CATALOGS.c.catalog_name, *self._kept(CATALOGS))
            for name, text, version in self.connection.execute(select(*columns)):
                read = partial(codec.catalog_from_json, name)
                found[name] = _decoded(read, text, version, f"the catalog {name}")
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
            wanted = select(*self._kept(DATABASES)).where(*_is((catalog, name)))
            row = self.connection.execute(wanted).one_or_none()
            if row is not None:
                read = partial(codec.database_from_json, catalog, name)
                return _decoded(read, row[0], row[1], f"the database {catalog}.{name}")
        find_database(catalog, name, self)
        return replace(implied_database(descriptor), version=0)

    def tables(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the tables of a database or catalog, sorted."""
        return self._objects("table", database, catalog)

    def views(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the views of a database or catalog, sorted."""
        return self._objects("view", database, catalog)

    # --- changes: of a store that is up to date, in a transaction that is queued ---

    def write_catalog(self, value: CatalogDescriptor) -> None:
        """Write a new catalog."""
        self._write(CATALOGS, ChangeKind.CATALOG, (value.name,), codec.catalog_to_json(value))

    def replace_catalog(self, before: CatalogDescriptor, after: CatalogDescriptor) -> None:
        """Write a catalog over what it was. Raises DefinitionError when it is something else by now."""
        last = partial(history_rows.last_change, self._writer, (before.name,), ChangeKind.CATALOG)
        found = find_catalog(before.name, self)
        check_unchanged(f"the catalog {before.name!r}", found, before, last=last)
        self.write_catalog(after)

    def delete_catalog(self, name: str) -> None:
        """Remove a catalog, and what is left in it."""
        inside = select(DATABASES.c.database_name).where(DATABASES.c.catalog_name == name)
        drop_functions(self._writer, FUNCTIONS.c.catalog_name == name)
        for database in self._writer.scalars(inside).all():
            self._delete(DATABASES, ChangeKind.DATABASE, (name, database))
        self._delete(CATALOGS, ChangeKind.CATALOG, (name,))

    def write_database(self, value: DatabaseDescriptor) -> None:
        """Write a new database."""
        name = (value.catalog, value.name)
        self._write(DATABASES, ChangeKind.DATABASE, name, codec.database_to_json(value))

    def replace_database(self, before: DatabaseDescriptor, after: DatabaseDescriptor) -> None:
        """Write a database over what it was. Raises DefinitionError when it is something else by now."""
        name = (before.catalog, before.name)
        last = partial(history_rows.last_change, self._writer, name, ChangeKind.DATABASE)
        found = self.database(*name)
        check_unchanged(f"the database {before.name!r}", found, before, last=last)
        self.write_database(after)

    def delete_database(self, catalog: str, name: str) -> None:
        """Remove a database and all that is in it."""
        objects, functions = OBJECTS.c, FUNCTIONS.c
        drop_objects(self._writer, objects.catalog_name == catalog, objects.database_name == name)
        drop_functions(
            self._writer, functions.catalog_name == catalog, functions.database_name == name
        )
        self._delete(DATABASES, ChangeKind.DATABASE, (catalog, name))

    @property
    def _writer(self) -> Connection:
        assert self.connection is not None, "a store that is written to is there"
        return self.connection

    def _kept(self, rows: Rows) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
        """The definition and its version, which older stores have not."""
        assert self.connection is not None, "asked for a store that is there"
        has_versions = stored_version(self.connection) >= VERSIONS_SINCE
        return rows.c.definition, rows.c.version if has_versions else null()

    def _row(self, rows: Rows, name: tuple[str, ...]) -> Row[Any] | None:
        return self._writer.execute(select(rows).where(*_is(name))).one_or_none()

    def _write(
        self, rows: Rows, kind: ChangeKind, name: tuple[str, ...], definition: Mapping[str, Any]
    ) -> None:
        check_storable(name)
        text = json.dumps(definition, ensure_ascii=False)
        found = self._row(rows, name)
        version = history_rows.next_version(
            self._writer, kind, name, found=None if found is None else found.version
        )
        if found is None:
            row = dict(zip(("catalog_name", "database_name"), name, strict=False))
            self._writer.execute(
                insert(rows).values(row | {"definition": text, "version": version})
            )
        else:
            changed = update(rows).where(*_is(name))
            self._writer.execute(changed.values(definition=text, version=version))
        history_rows.record(
            self._writer,
            name,
            kind,
            Action.CREATE if found is None else Action.REPLACE,
            version=version,
            before=None if found is None else found.definition,
            after=text,
        )

    def _delete(self, rows: Rows, kind: ChangeKind, name: tuple[str, ...]) -> None:
        found = self._row(rows, name)
        if found is None:
            return
        version = history_rows.next_version(self._writer, kind, name, found=found.version)
        self._writer.execute(delete(rows).where(*_is(name)))
        history_rows.record(
            self._writer, name, kind, Action.DROP, version=version, before=found.definition
        )

    def _objects(self, kind: str, database: str | None, catalog: str | None) -> list[Identifier]:
        if self.connection is None:
            return []
        wanted: list[ColumnElement[bool]] = [OBJECTS.c.kind == kind]
        if database is not None:
            wanted.append(OBJECTS.c.database_name == database)
        if catalog is not None:
            wanted.append(OBJECTS.c.catalog_name == catalog)
        return identifiers(self.connection, *wanted)


def _is(name: tuple[str, ...]) -> tuple[ColumnElement[bool], ...]:
    if len(name) == 1:
        return (CATALOGS.c.catalog_name == name[0],)
    return (DATABASES.c.catalog_name == name[0], DATABASES.c.database_name == name[1])


def _decoded(read: Callable[[Any], T], text: str, version: int | None, what: str) -> T:
    try:
        return replace(read(json.loads(text)), version=version)
    except (ValueError, KeyError, TypeError) as error:
        raise CatalogError(
            f"the store holds a definition of {what} that cannot be read",
            hint=f"restore the catalog from a copy ({type(error).__name__}: {error})",
        ) from error
