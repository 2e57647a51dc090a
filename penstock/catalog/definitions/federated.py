"""External catalogs, and the store together with them as one catalog; each has `information_schema` in it.

`ExternalCatalog` is the protocol for catalogs that something else keeps: a folder of Delta tables, a database server,
Spark. Of such a catalog the store keeps the descriptor, and for a folder of Delta tables what users define in it: a
table's key and options, views. Such a definition takes precedence over a table found under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from penstock.catalog.definitions.contract import (
    Catalog,
    Change,
    FunctionStore,
    Leases,
    ObjectKind,
    kind_of,
)
from penstock.catalog.definitions.ddl_rules import (
    check_unchanged,
    find_catalog,
    may_create,
    may_create_catalog,
    unknown_object,
)
from penstock.catalog.definitions.information_schema import (
    information_identifiers,
    information_table,
    is_information,
    refuse_change,
)
from penstock.catalog.definitions.overlay import Overlay
from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    UnknownObjectError,
    UnsupportedError,
)
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import (
    DEFAULT_CATALOG,
    DELTA_PATH,
    FOLDER_CONNECTOR,
    INFORMATION_SCHEMA,
    PATH,
    ROOT_DATABASE,
    CatalogDescriptor,
    DatabaseDescriptor,
)
from penstock.catalog.model.table import Table, View
from penstock.catalog.secrets.crypto import SealedSecret
from penstock.catalog.secrets.store import SecretStore


class ExternalCatalog(Protocol):
    """Databases and tables as they are found. Every method may block on I/O.

    Every method raises ConfigError when it cannot be looked into now, NotReachedError when it must not be here.
    """

    def check(self) -> None:
        """Check that it can be read: CREATE CATALOG does so before the catalog exists. Raises InputError."""

    def databases(self) -> Sequence[str]:
        """List its databases; the default one need not be among them."""

    def tables(self, database: str) -> Sequence[str]:
        """List the tables of a database; none where there is no such database."""

    def find(self, identifier: Identifier) -> Table | None:
        """Return a table as a definition; None where there is none. Raises UnsupportedError for types we have not."""


class NotReachedError(InputError):
    """A name is in a catalog that is not looked into here: a check of texts alone asks no server and no engine."""

    code: ClassVar[str] = UnsupportedError.code


Seal = Callable[[str], SealedSecret]
"""Gives a secret by its name, as it travels to what connects. Raises UnknownObjectError."""

OpenExternal = Callable[[CatalogDescriptor, Seal], ExternalCatalog]
"""Makes the catalog of a descriptor of a type in EXTERNAL, whose options refer to secrets. Opens nothing yet."""


def table_path(catalog: CatalogDescriptor, identifier: Identifier) -> str:
    """Return a table's path: `path`/database/name, and `path`/name in the root database. Raises DefinitionError."""
    root = catalog.resolved.get(PATH).rstrip("/") or "/"
    parts = [identifier.name]
    if identifier.database != ROOT_DATABASE:
        parts.insert(0, identifier.database)
    for part in parts:
        if part.startswith((".", "_")) or "/" in part or "\\" in part:
            raise DefinitionError(
                f"{identifier}: {part!r} is no name of a folder with a table",
                hint="names begin with no dot or underscore, and have no slash in them",
            )
    return "/".join((root.rstrip("/"), *parts))


def folder_options(catalog: CatalogDescriptor, identifier: Identifier) -> dict[str, str]:
    """Return the options that every table there has."""
    return {"connector": FOLDER_CONNECTOR, "path": table_path(catalog, identifier)}


def location_in(catalog: CatalogDescriptor, table: Table) -> tuple[tuple[str, str], ...]:
    """Return a table's options with those that its catalog decides. Raises DefinitionError where they contradict."""
    assert catalog.type == DELTA_PATH, "asked for a folder"
    given, decided = table.option_map, folder_options(catalog, table.identifier)
    for key, value in decided.items():
        if given.get(key, value) != value:
            raise DefinitionError(
                f"table {table.identifier}: option '{key}' = '{given[key]}', and the catalog "
                f"{catalog.name!r} says '{value}'",
                hint=f"leave '{key}' out, or create the table in another catalog",
            )
    return tuple((decided | given).items())


REMEMBERED_MS = 2_000
"""How long a definition that was found elsewhere is cached: a statement asks for it many times."""


class FederatedCatalog:
    """A catalog (`contract.Catalog`) over `base`, with the tables of external catalogs. Not thread-safe.

    An `Overlay` over `base` has the rest; its rules see what is found here.

    `now_ms` is a clock. An overlay looks up each name once and keeps the answer. Listings without a database name what
    the store has; those of a database include what is found there, too.
    """

    def __init__(
        self,
        base: Catalog,
        opens: OpenExternal,
        now_ms: Callable[[], int],
        *,
        isolated: bool = False,
    ) -> None:
        self._base = base
        self._isolated = isolated
        self._layer = Overlay(base, isolated=isolated, seen=self)
        self.default_catalog = base.default_catalog
        self.default_database = base.default_database
        self._opens = opens
        self._now_ms = now_ms
        self._found: dict[tuple[CatalogDescriptor, Identifier], tuple[int, Table]] = {}

    def overlay(self) -> FederatedCatalog:
        """Make an overlay over this catalog, whose changes stay in it."""
        return FederatedCatalog(self, self._opens, self._now_ms, isolated=True)

    # --- what is there ---

    @property
    def functions(self) -> FunctionStore:
        """The functions that users have registered."""
        return self._layer.functions

    @property
    def secrets(self) -> SecretStore:
        """What options refer to by `${secret:name}`: those of `base`, and an overlay's over them."""
        return self._layer.secrets

    @property
    def leases(self) -> Leases:
        """The leases of running pipelines: those of `base`."""
        return self._layer.leases

    def catalogs(self) -> list[CatalogDescriptor]:
        """List the catalogs, sorted by name."""
        return self._layer.catalogs()

    def databases(self, catalog: str | None = None) -> list[str]:
        """List the databases of a catalog (None: the default one), sorted. Raises UnknownObjectError."""
        names = self._layer.databases(catalog)
        external = self._external_here(catalog or self.default_catalog)
        return names if external is None else sorted({*names, *external.databases()})

    def database(self, catalog: str, name: str) -> DatabaseDescriptor:
        """Describe a database. Raises UnknownObjectError."""
        if name == INFORMATION_SCHEMA:
            find_catalog(catalog, self)
            return DatabaseDescriptor(catalog=catalog, name=name, comment="what the catalogs hold")
        if self._is_found_database(catalog, name):
            return DatabaseDescriptor(catalog=catalog, name=name)
        return self._layer.database(catalog, name)

    def tables(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the tables, sorted; those of one database, or of one catalog, when it is given."""
        name = catalog or self.default_catalog
        if database == INFORMATION_SCHEMA:
            return information_identifiers(name)
        names = self._layer.tables(database, catalog)
        external = None if database is None else self._external_here(name)
        if external is None or database is None:
            return names
        found = {
            Identifier(catalog=name, database=database, name=each)
            for each in external.tables(database)
        }
        return sorted({*names, *found} - {*self._layer.views(database, catalog)})

    def views(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the views, sorted; those of one database, or of one catalog, when it is given."""
        return self._layer.views(database, catalog)

    def get(self, identifier: Identifier) -> Table | View:
        """Return a definition. Raises UnknownObjectError with the nearest name."""
        if is_information(identifier):
            if identifier.catalog != DEFAULT_CATALOG:
                find_catalog(identifier.catalog, self)
            return information_table(identifier)
        descriptor = self._descriptor_here(identifier.catalog)
        if descriptor is None or self._is_stored(descriptor, identifier):
            return self._layer.get(identifier)
        found = self._look(descriptor, identifier)
        if found is None:
            namespace = (identifier.database, identifier.catalog)
            raise unknown_object(identifier, (*self.tables(*namespace), *self.views(*namespace)))
        return found

    def kind(self, identifier: Identifier) -> ObjectKind | None:
        """Return the kind of what has a name; None for a name that is free."""
        descriptor = self._descriptor_here(identifier.catalog)
        here = descriptor is None or self._is_stored(descriptor, identifier)
        if here and not is_information(identifier):
            return self._layer.kind(identifier)
        try:
            return kind_of(self.get(identifier))
        except UnknownObjectError:
            return None

    def history(
        self, name: Identifier | tuple[str, ...] | None = None, *, limit: int | None = None
    ) -> list[Change]:
        """List the changes of what has, or had, a name (None: all changes), the newest first; at most `limit`."""
        return self._layer.history(name, limit=limit)

    # --- definitions ---

    def create(
        self, obj: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        """Add a definition, or with `replace` change the one of that name and kind."""
        identifier = obj.identifier
        refuse_change(identifier)
        descriptor = self._external(identifier.catalog)
        if descriptor is not None:
            _check_takes(descriptor, str(identifier))
            if not self._is_stored(descriptor, identifier):
                taken = None if self._look(descriptor, identifier) is None else "table"
                flags = {"if_not_exists": if_not_exists, "replace": replace}
                if not may_create(obj, taken, **flags):  # type: ignore[arg-type]
                    return
            self._keep_database(identifier)
        self._layer.create(obj, if_not_exists=if_not_exists, replace=replace)

    def replace(self, before: Table | View, after: Table | View) -> None:
        """Change a definition, its name too if `after` has another."""
        refuse_change(before.identifier)
        refuse_change(after.identifier)
        descriptor = self._external(before.identifier.catalog)
        if descriptor is None:
            self._layer.replace(before, after)
            return
        _check_takes(descriptor, str(before.identifier))
        if isinstance(after, Table):
            if after.identifier != before.identifier:
                raise UnsupportedError(
                    f"{before.identifier} cannot be renamed: its name is that of its folder",
                    hint="move the folder",
                )
            location_in(descriptor, after)
        if self._is_stored(descriptor, before.identifier):
            self._layer.replace(before, after)
            return
        found = self._look(descriptor, before.identifier)
        check_unchanged(f"the table {before.identifier}", found, before)
        self._keep_database(after.identifier)
        self._layer.create(after, replace=True)

    def drop(self, identifier: Identifier, *, kind: ObjectKind, if_exists: bool = False) -> None:
        """Remove a definition. Raises UnknownObjectError; DefinitionError for a table that is found elsewhere."""
        refuse_change(identifier)
        descriptor = self._external(identifier.catalog)
        if descriptor is not None:
            _check_takes(descriptor, str(identifier))
            if kind == "table" and self._look(descriptor, identifier) is not None:
                raise DefinitionError(
                    f"{identifier} is a Delta table with its data in a folder, which DROP TABLE does not remove",
                    hint="remove the folder; the table is gone with it",
                )
        self._layer.drop(identifier, kind=kind, if_exists=if_exists)

    # --- catalogs and databases ---

    def create_catalog(self, new: CatalogDescriptor, *, if_not_exists: bool = False) -> None:
        """Add a catalog; an external one is looked into first. Raises ObjectExistsError, ConfigError."""
        if new.is_external and may_create_catalog(new, self, if_not_exists=if_not_exists):
            try:
                self._open(new).check()
            except NotReachedError:
                if not self._isolated:
                    raise
        self._layer.create_catalog(new, if_not_exists=if_not_exists)

    def replace_catalog(self, before: CatalogDescriptor, after: CatalogDescriptor) -> None:
        """Change a catalog's options or comment. Raises DefinitionError when it is no longer `before`."""
        if before.type == DELTA_PATH and before.option_map["path"] != after.option_map["path"]:
            raise UnsupportedError(
                f"catalog {before.name}: 'path' cannot be changed", hint="create another catalog"
            )
        if after.is_external and after.option_map != before.option_map and not self._isolated:
            self._open(after).check()
        self._layer.replace_catalog(before, after)

    def drop_catalog(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a catalog that holds nothing. Raises UnknownObjectError, DefinitionError."""
        self._layer.drop_catalog(name, if_exists=if_exists)

    def create_database(self, new: DatabaseDescriptor, *, if_not_exists: bool = False) -> None:
        """Add a database. Raises ObjectExistsError, and UnknownObjectError when the catalog does not exist."""
        _refuse_information(new.name)
        self._check_takes_database(new.catalog, new.name)
        self._layer.create_database(new, if_not_exists=if_not_exists)

    def replace_database(self, before: DatabaseDescriptor, after: DatabaseDescriptor) -> None:
        """Change a database's options or comment. Raises DefinitionError when it is no longer `before`."""
        _refuse_information(before.name)
        self._check_takes_database(before.catalog, before.name)
        if not self._isolated and self._is_found_database(before.catalog, before.name):
            self._base.create_database(after)
        else:
            self._layer.replace_database(before, after)

    def drop_database(
        self, catalog: str, name: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Remove a database; with `cascade` what is in it too. Raises UnknownObjectError, DefinitionError."""
        _refuse_information(name)
        self._check_takes_database(catalog, name)
        descriptor = self._external(catalog)
        if descriptor is not None and name in self._open(descriptor).databases():
            raise DefinitionError(
                f"the database {name!r} is a folder, which DROP DATABASE does not remove",
                hint="remove the folder; the database is gone with it",
            )
        self._layer.drop_database(catalog, name, if_exists=if_exists, cascade=cascade)

    # --- parts ---

    def _open(self, descriptor: CatalogDescriptor) -> ExternalCatalog:
        # of this layer: a file may create a secret and then the catalog that needs it
        return self._opens(descriptor, self.secrets.sealed)

    def _external(self, catalog: str) -> CatalogDescriptor | None:
        """Return the descriptor of an external catalog; None for others, and for one that is not there."""
        if catalog == DEFAULT_CATALOG:
            return None  # its type never changes: nothing has to be read
        found = next((each for each in self.catalogs() if each.name == catalog), None)
        return found if found is not None and found.is_external else None

    def _descriptor_here(self, catalog: str) -> CatalogDescriptor | None:
        """Return the descriptor of an external catalog that this layer reads; those of the base are read there."""
        if self._isolated and not self._layer.defines(catalog):
            return None
        return self._external(catalog)

    def _external_here(self, catalog: str) -> ExternalCatalog | None:
        descriptor = self._descriptor_here(catalog)
        return None if descriptor is None else self._open(descriptor)

    def _is_stored(self, descriptor: CatalogDescriptor, identifier: Identifier) -> bool:
        """Return whether the store, or this overlay, has a definition of that name."""
        if descriptor.type != DELTA_PATH:
            return False
        namespace = (identifier.database, identifier.catalog)
        if self._isolated and self._layer.changes(identifier):
            return self._layer.kind(identifier) is not None  # without a look at what is elsewhere
        return identifier in (*self._layer.tables(*namespace), *self._layer.views(*namespace))

    def _look(self, descriptor: CatalogDescriptor, identifier: Identifier) -> Table | None:
        """Return the external definition of a name."""
        asked = (descriptor, identifier)
        now = self._now_ms()
        since, known = self._found.get(asked, (now, None))
        if known is not None and (self._isolated or 0 <= now - since < REMEMBERED_MS):
            return known
        found = self._open(descriptor).find(identifier)
        if found is not None:
            self._found[asked] = (now, found)
        return found

    def _is_found_database(self, catalog: str, name: str) -> bool:
        """Return whether a database is found elsewhere, and not kept in the store."""
        external = self._external_here(catalog)
        if external is None or name in self._layer.databases(catalog):
            return False
        return name in external.databases()

    def _keep_database(self, identifier: Identifier) -> None:
        """Register in the store the database of a definition; an overlay asks nobody."""
        catalog, name = identifier.catalog, identifier.database
        if not self._isolated and self._is_found_database(catalog, name):
            # of this layer it is there already
            new = DatabaseDescriptor(catalog=catalog, name=name)
            self._base.create_database(new, if_not_exists=True)

    def _check_takes_database(self, catalog: str, name: str) -> None:
        descriptor = self._external(catalog)
        if descriptor is not None:
            _check_takes(descriptor, f"the database {name!r}")


def with_location(table: Table, catalog: Catalog) -> Table:
    """Return a table as its catalog wants it: in a folder of Delta tables with connector and path.

    Raises DefinitionError where its options say otherwise.
    """
    if table.temporary or table.identifier.catalog == DEFAULT_CATALOG:
        return table
    for descriptor in catalog.catalogs():
        if descriptor.name == table.identifier.catalog and descriptor.type == DELTA_PATH:
            return replace(table, options=location_in(descriptor, table))
    return table


def _check_takes(descriptor: CatalogDescriptor, what: str) -> None:
    """Refuse definitions in read-only catalogs. Raises UnsupportedError."""
    if descriptor.type != DELTA_PATH:
        raise UnsupportedError(
            f"{what} is in the catalog {descriptor.name!r} of type '{descriptor.type}', where nothing is created, "
            "altered or dropped from here",
            hint="do it there; it is seen here at once"
            if descriptor.type == "spark"
            else "do it in the database; it is seen here at once",
        )


def _refuse_information(database: str) -> None:
    if database == INFORMATION_SCHEMA:
        raise DefinitionError(
            f"the database {INFORMATION_SCHEMA} is in every catalog, and only read",
            hint="choose another name",
        )
