"""A catalog over another one: changes stay here. Used to check files and for catalogs that live with a session.

`Snapshot` reads the catalog below once and answers from memory afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

from penstock.catalog.definitions.contract import (
    Catalog,
    Change,
    ChangeKind,
    DefinitionReader,
    FunctionStore,
    Leases,
    ObjectKind,
    kind_of,
)
from penstock.catalog.definitions.ddl_rules import (
    check_namespace,
    check_replaced_catalog,
    check_unchanged,
    find_catalog,
    find_database,
    may_create,
    may_create_catalog,
    may_create_database,
    may_drop,
    may_drop_catalog,
    may_drop_database,
    may_rename,
    unknown_object,
)
from penstock.catalog.errors import UnknownObjectError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import (
    IN_MEMORY,
    CatalogDescriptor,
    DatabaseDescriptor,
    implied_database,
)
from penstock.catalog.model.table import Table, View
from penstock.catalog.secrets.store import OverlaySecrets, SecretStore

T = TypeVar("T", Table | View, CatalogDescriptor, DatabaseDescriptor)

RECENT = 20
"""Changes of a name among which the newest of a table or view is looked for: functions may have the same name."""


class Overlay:
    """A catalog (`contract.Catalog`) over `base`. Not for many threads.

    `isolated`: every change stays here. Otherwise only catalogs of the type IN_MEMORY are here, and what changes in
    others is written to `base`. `seen` is what the rules of definitions look at, where a catalog around this one finds
    more than this one has.
    """

    def __init__(
        self, base: Catalog, *, isolated: bool, seen: DefinitionReader | None = None
    ) -> None:
        self._base = base
        self._isolated = isolated
        self._seen: DefinitionReader = seen or self
        self._below = Snapshot(base) if isolated else None
        # None: there below, and dropped here
        self._catalogs: dict[str, CatalogDescriptor | None] = {}
        # of catalogs that are below, and what is in them too
        self._described: dict[str, CatalogDescriptor] = {}
        self._databases: dict[tuple[str, str], DatabaseDescriptor | None] = {}
        self._objects: dict[Identifier, Table | View | None] = {}
        self._secrets = OverlaySecrets(lambda: base.secrets) if isolated else None
        self.default_catalog = base.default_catalog
        self.default_database = base.default_database

    def overlay(self) -> Overlay:
        """Make an overlay over this catalog, whose changes stay in it."""
        return Overlay(self, isolated=True)

    def defines(self, catalog: str) -> bool:
        """Return whether a catalog was created here, and is in no catalog below."""
        return self._catalogs.get(catalog) is not None

    def changes(self, identifier: Identifier) -> bool:
        """Return whether a definition was created, changed or dropped here."""
        return identifier in self._objects

    # --- what is there ---

    @property
    def functions(self) -> FunctionStore:
        """The functions that users have registered; overlays of them are `resolver.py`'s."""
        return self._base.functions

    @property
    def secrets(self) -> SecretStore:
        """What options refer to by `${secret:name}`: those of `base`, and an overlay's over them."""
        return self._secrets or self._base.secrets

    @property
    def leases(self) -> Leases:
        """The leases of running pipelines: those of `base`."""
        return self._base.leases

    def catalogs(self) -> list[CatalogDescriptor]:
        """List the catalogs, sorted by name."""
        found: dict[str, CatalogDescriptor | None] = {c.name: c for c in self._read.catalogs()}
        found |= self._described | self._catalogs
        return [found[name] for name in sorted(found) if found[name] is not None]  # type: ignore[misc]

    def databases(self, catalog: str | None = None) -> list[str]:
        """List the databases of a catalog (None: the default one), sorted. Raises UnknownObjectError."""
        name = catalog or self.default_catalog
        if name in self._catalogs:
            names = {find_catalog(name, self).default_database}
        else:
            names = set(self._read.databases(name))
        for (parent, database), value in self._databases.items():
            if parent == name:
                names = names - {database} if value is None else names | {database}
        return sorted(names)

    def database(self, catalog: str, name: str) -> DatabaseDescriptor:
        """Describe a database. Raises UnknownObjectError."""
        found = self._databases.get((catalog, name))
        if found is not None:
            return found
        descriptor = find_catalog(catalog, self)
        find_database(catalog, name, self._seen)
        if catalog in self._catalogs:
            return implied_database(descriptor)
        return self._read.database(catalog, name)

    def tables(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the tables, sorted; those of one database, or of one catalog, when it is given."""
        return self._listed("table", self._read.tables(database, catalog), database, catalog)

    def views(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the views, sorted; those of one database, or of one catalog, when it is given."""
        return self._listed("view", self._read.views(database, catalog), database, catalog)

    def get(self, identifier: Identifier) -> Table | View:
        """Return a definition. Raises UnknownObjectError with the nearest name."""
        if identifier in self._objects:
            found = self._objects[identifier]
        elif identifier.catalog in self._catalogs or self._is_dropped(identifier):
            found = None
        else:
            return self._read_below(identifier)
        if found is None:
            raise unknown_object(identifier, (*self.tables(), *self.views()))
        return found

    def kind(self, identifier: Identifier) -> ObjectKind | None:
        """Return the kind of what has a name; None for a name that is free."""
        if identifier in self._objects:
            found = self._objects[identifier]
            return None if found is None else kind_of(found)
        if identifier.catalog in self._catalogs or self._is_dropped(identifier):
            return None
        return self._read.kind(identifier)

    def history(
        self, name: Identifier | tuple[str, ...] | None = None, *, limit: int | None = None
    ) -> list[Change]:
        """List the changes of what has, or had, a name (None: all changes), the newest first; at most `limit`.

        What changed here, in an overlay or in memory, has no history.
        """
        return self._base.history(name, limit=limit)

    # --- definitions ---

    def create(
        self, obj: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        """Add a definition, or with `replace` change the one of that name and kind."""
        if not self._keeps(obj.identifier.catalog):
            self._base.create(obj, if_not_exists=if_not_exists, replace=replace)
            return
        check_namespace(obj.identifier, self._seen)
        found = self._seen.kind(obj.identifier)
        if may_create(obj, found, if_not_exists=if_not_exists, replace=replace):
            self._objects[obj.identifier] = _unstored(obj)

    def replace(self, before: Table | View, after: Table | View) -> None:
        """Change a definition, its name too if `after` has another."""
        if not self._keeps(before.identifier.catalog):
            self._base.replace(before, after)
            return
        check_namespace(after.identifier, self._seen)
        what = f"the {kind_of(before)} {before.identifier}"
        last = partial(self._last_change, before.identifier)
        check_unchanged(what, self._seen.get(before.identifier), before, last=last)
        if after.identifier != before.identifier:
            may_rename(after, self._seen.kind(after.identifier))
        self._objects[before.identifier] = None
        self._objects[after.identifier] = _unstored(after)

    def drop(self, identifier: Identifier, *, kind: ObjectKind, if_exists: bool = False) -> None:
        """Remove a definition. Raises UnknownObjectError."""
        if not self._keeps(identifier.catalog):
            self._base.drop(identifier, kind=kind, if_exists=if_exists)
            return
        found = self._seen.kind(identifier)
        if may_drop(
            identifier,
            kind,
            found,
            if_exists=if_exists,
            known=lambda: (*self.tables(), *self.views()),
        ):
            self._objects[identifier] = None

    # --- catalogs and databases ---

    def create_catalog(self, new: CatalogDescriptor, *, if_not_exists: bool = False) -> None:
        """Add a catalog. Raises ObjectExistsError."""
        if not may_create_catalog(new, self._seen, if_not_exists=if_not_exists):
            return
        if self._isolated or new.type == IN_MEMORY:
            self._catalogs[new.name] = new
        else:
            self._base.create_catalog(new, if_not_exists=if_not_exists)

    def replace_catalog(self, before: CatalogDescriptor, after: CatalogDescriptor) -> None:
        """Change a catalog's options or comment. Raises DefinitionError when it is no longer `before`."""
        if not self._keeps(before.name):
            self._base.replace_catalog(before, after)
            return
        check_replaced_catalog(before, after)
        found = find_catalog(before.name, self)
        last = partial(self._last_change, (before.name,))
        check_unchanged(f"the catalog {before.name!r}", found, before, last=last)
        if before.name in self._catalogs:
            self._catalogs[before.name] = _unstored(after)
        else:
            self._described[before.name] = _unstored(after)

    def drop_catalog(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a catalog that holds nothing. Raises UnknownObjectError, DefinitionError."""
        if not may_drop_catalog(name, self._seen, if_exists=if_exists):
            return
        if not self._keeps(name):
            self._base.drop_catalog(name, if_exists=if_exists)
            return
        self._described.pop(name, None)
        self._forget(name)
        if self._isolated:
            self._catalogs[name] = None
        else:
            del self._catalogs[name]

    def create_database(self, new: DatabaseDescriptor, *, if_not_exists: bool = False) -> None:
        """Add a database. Raises ObjectExistsError, and UnknownObjectError when the catalog does not exist."""
        if not may_create_database(new, self._seen, if_not_exists=if_not_exists):
            return
        if self._keeps(new.catalog):
            self._databases[new.catalog, new.name] = new
        else:
            self._base.create_database(new, if_not_exists=if_not_exists)

    def replace_database(self, before: DatabaseDescriptor, after: DatabaseDescriptor) -> None:
        """Change a database's options or comment. Raises DefinitionError when it is no longer `before`."""
        if not self._keeps(before.catalog):
            self._base.replace_database(before, after)
            return
        found = self._seen.database(before.catalog, before.name)
        last = partial(self._last_change, (before.catalog, before.name))
        check_unchanged(f"the database {before.name!r}", found, before, last=last)
        self._databases[after.catalog, after.name] = _unstored(after)

    def drop_database(
        self, catalog: str, name: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Remove a database; with `cascade` what is in it too. Raises UnknownObjectError, DefinitionError."""
        if not self._keeps(catalog):
            self._base.drop_database(catalog, name, if_exists=if_exists, cascade=cascade)
            return
        if may_drop_database(catalog, name, self._seen, if_exists=if_exists, cascade=cascade):
            for identifier in (*self._seen.tables(name, catalog), *self._seen.views(name, catalog)):
                self._objects[identifier] = None
            self._databases[catalog, name] = None

    # --- parts ---

    @property
    def _read(self) -> Catalog | Snapshot:
        """What is below, for reading."""
        return self._below or self._base

    def _read_below(self, identifier: Identifier) -> Table | View:
        """Read a definition from below; the nearest name may be one that is here. Raises UnknownObjectError."""
        try:
            return self._read.get(identifier)
        except UnknownObjectError:
            catalog, database = identifier.catalog, identifier.database
            if not any((i.catalog, i.database) == (catalog, database) for i in self._objects):
                raise
            known = (*self._seen.tables(database, catalog), *self._seen.views(database, catalog))
            raise unknown_object(identifier, known) from None

    def _last_change(self, name: Identifier | tuple[str, ...]) -> Change | None:
        """The newest change that was stored: what another process did since something was read."""
        found = self._base.history(name, limit=RECENT)
        return next((c for c in found if c.kind is not ChangeKind.FUNCTION), None)

    def _keeps(self, catalog: str) -> bool:
        """Return whether changes in a catalog stay here."""
        return self._isolated or self.defines(catalog)

    def _is_dropped(self, identifier: Identifier) -> bool:
        return self._databases.get((identifier.catalog, identifier.database), True) is None

    def _forget(self, catalog: str) -> None:
        """Forget what was in a catalog, so that another one of its name does not show it."""
        self._databases = {key: d for key, d in self._databases.items() if key[0] != catalog}
        self._objects = {i: o for i, o in self._objects.items() if i.catalog != catalog}

    def _listed(
        self,
        kind: ObjectKind,
        base: Sequence[Identifier],
        database: str | None,
        catalog: str | None,
    ) -> list[Identifier]:
        added = {
            i
            for i, obj in self._objects.items()
            if obj is not None
            and kind_of(obj) == kind
            and database in (None, i.database)
            and catalog in (None, i.catalog)
        }
        if not self._objects and not self._catalogs:
            return list(base)
        below = {i for i in base if i.catalog not in self._catalogs} - self._objects.keys()
        return sorted(below | added)


def _unstored(value: T) -> T:
    """Drop the stored version from a definition that was derived from a stored one."""
    return value if value.version is None else replace(value, version=None)


Answer = TypeVar("Answer")


class Snapshot:
    """Reads of a catalog, each done once; the methods are `contract.Catalog`'s. Not for many threads."""

    def __init__(self, base: Catalog) -> None:
        self._base = base
        self._known: dict[Hashable, object] = {}

    def catalogs(self) -> list[CatalogDescriptor]:
        """List the catalogs, sorted by name."""
        return list(self._once("catalogs", self._base.catalogs))

    def databases(self, catalog: str) -> list[str]:
        """List the databases of a catalog, sorted. Raises UnknownObjectError."""
        return list(self._once(("databases", catalog), lambda: self._base.databases(catalog)))

    def database(self, catalog: str, name: str) -> DatabaseDescriptor:
        """Describe a database. Raises UnknownObjectError."""
        return self._once(("database", catalog, name), lambda: self._base.database(catalog, name))

    def tables(self, database: str | None, catalog: str | None) -> list[Identifier]:
        """List the tables, sorted; those of one database, or of one catalog, when it is given."""
        asked = ("tables", database, catalog)
        return list(self._once(asked, lambda: self._base.tables(database, catalog)))

    def views(self, database: str | None, catalog: str | None) -> list[Identifier]:
        """List the views, sorted; those of one database, or of one catalog, when it is given."""
        asked = ("views", database, catalog)
        return list(self._once(asked, lambda: self._base.views(database, catalog)))

    def get(self, identifier: Identifier) -> Table | View:
        """Return a definition. Raises UnknownObjectError."""
        return self._once(identifier, lambda: self._base.get(identifier))

    def kind(self, identifier: Identifier) -> ObjectKind | None:
        """Return the kind of what has a name; None for a name that is free."""
        return self._once(("kind", identifier), lambda: self._base.kind(identifier))

    def _once(self, asked: Hashable, read: Callable[[], Answer]) -> Answer:
        if asked not in self._known:
            try:
                self._known[asked] = read()
            except UnknownObjectError as error:
                self._known[asked] = error
        found = self._known[asked]
        if isinstance(found, UnknownObjectError):
            # a new one: its place is given to it by whoever asked
            raise UnknownObjectError(found.message, hint=found.hint)
        return cast("Answer", found)
