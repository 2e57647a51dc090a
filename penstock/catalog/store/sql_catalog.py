"""The catalog in a database (`contract.Catalog`): namespaces and definitions as rows of JSON, leases beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, null, select, update
from sqlalchemy import Table as Rows

from penstock.catalog.definitions.contract import Action, Change, ChangeKind, ObjectKind
from penstock.catalog.definitions.ddl_rules import (
    check_namespace,
    check_replaced_catalog,
    check_unchanged,
    find_catalog,
    find_database,
    may_create_catalog,
    may_create_database,
    may_drop_catalog,
    may_drop_database,
    unknown_object,
)
from penstock.catalog.errors import CatalogError
from penstock.catalog.migrations import (
    CATALOGS,
    DATABASES,
    FUNCTIONS,
    NAMESPACES_SINCE,
    OBJECTS,
    VERSIONS_SINCE,
)
from penstock.catalog.model import codec
from penstock.catalog.model.identifier import Identifier, check_storable
from penstock.catalog.model.namespaces import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    CatalogDescriptor,
    DatabaseDescriptor,
    default_catalog,
    implied_database,
)
from penstock.catalog.model.table import Table, View
from penstock.catalog.store import history as history_rows
from penstock.catalog.store import leases as lease_rows
from penstock.catalog.store.database import Database, stored_version
from penstock.catalog.store.objects import (
    SqlFunctions,
    create_object,
    drop_functions,
    drop_object,
    drop_objects,
    find_object,
    identifiers,
    kind_in,
    replace_object,
)
from penstock.catalog.store.secrets import SqlSecrets

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


class SqlCatalog:
    """A catalog in a database, by SQLAlchemy URL. Safe to use from any thread and in several processes at once.

    Nothing is opened before the first call, and a call that only reads does not make a store that is not there.
    Raises ConfigError for a URL that cannot be used; every method raises CatalogError.
    """

    default_catalog = DEFAULT_CATALOG
    default_database = DEFAULT_DATABASE

    def __init__(
        self, url: str, *, secret_key_file: Path | None = None, lease_url: str | None = None
    ) -> None:
        """`secret_key_file`: the keys of secrets, where the environment names none; None is beside a local file.

        `lease_url` is the store of leases where it is another: of catalogs that share checkpoints.
        """
        self._database = Database(url, running=lease_rows.running_elsewhere)
        self._lease_database = (
            self._database
            if lease_url in (None, url)
            else Database(lease_url, running=lease_rows.running_elsewhere)
        )
        self.leases = lease_rows.SqlLeases(self._lease_database)
        self.functions = SqlFunctions(self._database)
        self.secrets = SqlSecrets(self._database, secret_key_file)

    @property
    def location(self) -> str:
        """Where the catalog is, without a password."""
        return self._database.location

    def catalogs(self) -> list[CatalogDescriptor]:
        """List the catalogs, sorted by name; the default one is always there."""
        with self._namespaces() as namespaces:
            return namespaces.catalogs()

    def databases(self, catalog: str | None = None) -> list[str]:
        """List the databases of a catalog (None: the default one), sorted. Raises UnknownObjectError."""
        with self._namespaces() as namespaces:
            return namespaces.databases(catalog)

    def database(self, catalog: str, name: str) -> DatabaseDescriptor:
        """Describe a database. Raises UnknownObjectError."""
        with self._namespaces() as namespaces:
            return namespaces.database(catalog, name)

    def tables(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the tables, sorted; those of one database, or of one catalog, when it is given."""
        with self._database.reading() as connection:
            return StoredNamespaces(connection=connection).tables(database, catalog)

    def views(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the views, sorted; those of one database, or of one catalog, when it is given."""
        with self._database.reading() as connection:
            return StoredNamespaces(connection=connection).views(database, catalog)

    def get(self, identifier: Identifier) -> Table | View:
        """Return a definition. Raises UnknownObjectError with the nearest name."""
        with self._database.reading() as connection:
            if connection is None:
                raise unknown_object(identifier, ())
            return find_object(connection, identifier, self.location)

    def kind(self, identifier: Identifier) -> ObjectKind | None:
        """Return the kind of what has a name; None for a name that is free."""
        with self._database.reading() as connection:
            return None if connection is None else kind_in(connection, identifier)

    def history(
        self, name: Identifier | tuple[str, ...] | None = None, *, limit: int | None = None
    ) -> list[Change]:
        """List the changes of what has, or had, a name (None: all changes), the newest first; at most `limit`."""
        if isinstance(name, Identifier):
            name = (name.catalog, name.database, name.name)
        with self._database.reading(since=VERSIONS_SINCE) as connection:
            return [] if connection is None else history_rows.changes(connection, name, limit)

    def purge_history(
        self, name: tuple[str, ...] | None, age_ms: int = 0, *, counted_only: bool = False
    ) -> int:
        """Remove the changes of a name, or all, that are older than an age; returns their number. Definitions stay.

        Nothing of them is left in a SQLite file; other databases overwrite it when they vacuum.
        """
        removed = self._database.change(
            lambda connection: history_rows.purge(
                connection, name, age_ms, counted_only=counted_only
            )
        )
        if removed and not counted_only:
            self._database.wipe()
        return removed

    def create(
        self, obj: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        """Add a definition, or with `replace` change the one of that name and kind."""
        assert not obj.temporary, "temporary objects live in a namespace"
        with self._namespaces() as namespaces:
            check_namespace(obj.identifier, namespaces)  # before a store is made for nothing

        def write(connection: Connection, namespaces: StoredNamespaces) -> None:
            check_namespace(obj.identifier, namespaces)
            create_object(connection, obj, if_not_exists=if_not_exists, replace=replace)

        self._write(write)

    def replace(self, before: Table | View, after: Table | View) -> None:
        """Change a definition, its name too if `after` has another."""
        assert not after.temporary, "temporary objects live in a namespace"

        def write(connection: Connection, namespaces: StoredNamespaces) -> None:
            check_namespace(after.identifier, namespaces)
            replace_object(connection, before, after, self.location)

        self._write(write)

    def drop(self, identifier: Identifier, *, kind: ObjectKind, if_exists: bool = False) -> None:
        """Remove a definition; what the table's connector holds stays. Raises UnknownObjectError."""
        if if_exists and self.kind(identifier) is None:
            return

        def write(connection: Connection, _: StoredNamespaces) -> None:
            drop_object(connection, identifier, kind, if_exists=if_exists)

        self._write(write)

    def create_catalog(self, new: CatalogDescriptor, *, if_not_exists: bool = False) -> None:
        """Add a catalog. Raises ObjectExistsError."""

        def write(_: Connection, namespaces: StoredNamespaces) -> None:
            if may_create_catalog(new, namespaces, if_not_exists=if_not_exists):
                namespaces.write_catalog(new)

        self._write(write)

    def replace_catalog(self, before: CatalogDescriptor, after: CatalogDescriptor) -> None:
        """Change a catalog's options or comment. Raises DefinitionError when it is no longer `before`."""
        check_replaced_catalog(before, after)
        self._write(lambda _, namespaces: namespaces.replace_catalog(before, after))

    def drop_catalog(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a catalog that holds nothing. Raises UnknownObjectError, DefinitionError."""
        with self._namespaces() as namespaces:
            if not may_drop_catalog(name, namespaces, if_exists=if_exists):
                return

        def write(_: Connection, namespaces: StoredNamespaces) -> None:
            if may_drop_catalog(name, namespaces, if_exists=if_exists):
                namespaces.delete_catalog(name)

        self._write(write)

    def create_database(self, new: DatabaseDescriptor, *, if_not_exists: bool = False) -> None:
        """Add a database. Raises ObjectExistsError, and UnknownObjectError when the catalog does not exist."""
        with self._namespaces() as namespaces:
            if not may_create_database(new, namespaces, if_not_exists=if_not_exists):
                return

        def write(_: Connection, namespaces: StoredNamespaces) -> None:
            if may_create_database(new, namespaces, if_not_exists=if_not_exists):
                namespaces.write_database(new)

        self._write(write)

    def replace_database(self, before: DatabaseDescriptor, after: DatabaseDescriptor) -> None:
        """Change a database's options or comment. Raises DefinitionError when it is no longer `before`."""
        self._write(lambda _, namespaces: namespaces.replace_database(before, after))

    def drop_database(
        self, catalog: str, name: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Remove a database; with `cascade` what is in it too. Raises UnknownObjectError, DefinitionError."""
        with self._namespaces() as namespaces:
            if not may_drop_database(
                catalog, name, namespaces, if_exists=if_exists, cascade=cascade
            ):
                return

        def write(_: Connection, namespaces: StoredNamespaces) -> None:
            if may_drop_database(catalog, name, namespaces, if_exists=if_exists, cascade=cascade):
                namespaces.delete_database(catalog, name)

        self._write(write)

    def version(self) -> int:
        """Return the version of the store, 0 where there is none."""
        return self._database.version()

    def upgrade(self) -> None:
        """Make the store, or upgrade it. Running pipelines continue where MIN_READER allows it."""
        self._database.upgrade()

    def close(self) -> None:
        """Close what is open; the next call opens it again."""
        self._database.close()
        self._lease_database.close()

    def _write(self, step: Callable[[Connection, StoredNamespaces], None]) -> None:
        """Change definitions in a transaction: no other process does, or it is all done again."""
        self._database.change(
            lambda connection: step(connection, StoredNamespaces(connection=connection))
        )

    @contextmanager
    def _namespaces(self) -> Iterator[StoredNamespaces]:
        with self._database.reading(since=NAMESPACES_SINCE) as connection:
            yield StoredNamespaces(connection=connection)
