"""A session's view of the catalog: current database, temporary objects, and how a name in SQL becomes a full one."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.catalog.contract import Catalog, ObjectKind, kind_of
from penstock.catalog.errors import DefinitionError, UnknownObjectError
from penstock.catalog.existence import (
    check_place,
    may_create,
    may_drop,
    unknown_database,
    unknown_object,
)
from penstock.catalog.identifier import Identifier
from penstock.catalog.lease import Lease, Owner
from penstock.catalog.table import Table, View

__all__ = ["Namespace"]


class Namespace:
    """Resolves names as Flink does: temporary objects hide permanent ones of the same name. Not for many threads."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.current_catalog = catalog.default_catalog
        self.current_database = catalog.default_database
        self._temporary: dict[Identifier, Table | View] = {}

    def resolve(self, parts: Sequence[str]) -> Identifier:
        """Complete `name`, `database.name` or `catalog.database.name`. Whether it exists is not asked."""
        if not 1 <= len(parts) <= 3:
            raise DefinitionError(
                f"{'.'.join(parts)!r} is not the name of a table",
                hint="a name is [catalog.][database.]name",
            )
        given = (self.current_catalog, self.current_database)[: 3 - len(parts)]
        catalog, database, name = (*given, *parts)
        return Identifier(catalog=catalog, database=database, name=name)

    def lookup(self, identifier: Identifier) -> Table | View:
        """Give what a name stands for. Raises UnknownObjectError with the nearest name."""
        found = self._temporary.get(identifier)
        if found is not None:
            return found
        try:
            return self.catalog.get(identifier)
        except UnknownObjectError:
            known = (*self._temporary, *self.catalog.tables(), *self.catalog.views())
            raise unknown_object(identifier, known) from None

    def tables(self, database: str | None = None) -> list[Identifier]:
        """List the tables of a database (None: the current one), temporary ones too, sorted."""
        database = self._known(database)
        return self._listed("table", database, self.catalog.tables(database))

    def views(self, database: str | None = None) -> list[Identifier]:
        """List the views of a database (None: the current one), temporary ones too, sorted."""
        database = self._known(database)
        return self._listed("view", database, self.catalog.views(database))

    def use(self, parts: Sequence[str]) -> None:
        """Change the current database: `database` or `catalog.database`. Raises UnknownObjectError."""
        catalog, database = (self.current_catalog, *parts)[-2:]
        if catalog != self.catalog.default_catalog:
            raise UnknownObjectError(
                f"there is no catalog {catalog!r}",
                hint=f"there is only {self.catalog.default_catalog!r}",
            )
        self.current_catalog, self.current_database = catalog, self._known(database)

    def create(
        self, obj: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        """Add a definition: here when it is temporary, else to the catalog. Raises ObjectExistsError."""
        if not obj.temporary:
            self.catalog.create(obj, if_not_exists=if_not_exists, replace=replace)
            return
        found = self._temporary.get(obj.identifier)
        if may_create(
            obj,
            None if found is None else kind_of(found),
            if_not_exists=if_not_exists,
            replace=replace,
        ):
            self._temporary[obj.identifier] = obj

    def drop(
        self,
        identifier: Identifier,
        *,
        kind: ObjectKind,
        if_exists: bool = False,
        temporary: bool | None = None,
    ) -> None:
        """Remove a definition. `temporary` None removes what the name stands for, a temporary object first.

        With False a temporary object in the way is refused, as Flink does for a plain DROP. Raises
        UnknownObjectError.
        """
        found = self._temporary.get(identifier)
        hides = found is not None and kind_of(found) == kind
        if temporary is False and hides:
            raise DefinitionError(
                f"there is a temporary {kind} {identifier}",
                hint=f"DROP TEMPORARY {kind.upper()} it first: it hides the permanent one",
            )
        if hides:
            del self._temporary[identifier]
        elif not temporary:
            self.catalog.drop(identifier, kind=kind, if_exists=if_exists)
        elif not if_exists:
            raise UnknownObjectError(f"there is no temporary {kind} {identifier}")

    def overlay(self) -> Namespace:
        """Make a draft of this namespace: definitions may be tried on it without touching the store."""
        draft = Namespace(_Draft(self.catalog))
        draft.current_catalog, draft.current_database = self.current_catalog, self.current_database
        draft._temporary = dict(self._temporary)
        return draft

    def _known(self, database: str | None) -> str:
        if database is None or database == self.current_database:
            return self.current_database
        known = self.catalog.databases()
        if database not in known:
            raise unknown_database(database, known)
        return database

    def _listed(
        self, kind: ObjectKind, database: str, permanent: Sequence[Identifier]
    ) -> list[Identifier]:
        """Add the temporary objects of this kind, and leave out what those of the other kind hide."""
        place = (self.current_catalog, database)
        here = {
            i: kind_of(o) for i, o in self._temporary.items() if (i.catalog, i.database) == place
        }
        return sorted(
            {i for i in permanent if i not in here} | {i for i, k in here.items() if k == kind}
        )


class _Draft:
    """A catalog over another: changes stay here. Leases are not for drafts."""

    def __init__(self, base: Catalog) -> None:
        self._base = base
        self._changed: dict[Identifier, Table | View | None] = {}
        self.default_catalog = base.default_catalog
        self.default_database = base.default_database

    def databases(self) -> list[str]:
        return self._base.databases()

    def tables(self, database: str | None = None) -> list[Identifier]:
        return self._listed("table", self._base.tables(database), database)

    def views(self, database: str | None = None) -> list[Identifier]:
        return self._listed("view", self._base.views(database), database)

    def get(self, identifier: Identifier) -> Table | View:
        if identifier not in self._changed:
            return self._base.get(identifier)
        found = self._changed[identifier]
        if found is None:
            raise unknown_object(identifier, (*self.tables(), *self.views()))
        return found

    def create(
        self, obj: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        check_place(obj.identifier, self.default_catalog, self.databases())
        found = self._kind(obj.identifier)
        if may_create(obj, found, if_not_exists=if_not_exists, replace=replace):
            self._changed[obj.identifier] = obj

    def drop(self, identifier: Identifier, *, kind: ObjectKind, if_exists: bool = False) -> None:
        known = (*self.tables(), *self.views())
        if may_drop(identifier, kind, self._kind(identifier), if_exists=if_exists, known=known):
            self._changed[identifier] = None

    def _kind(self, identifier: Identifier) -> ObjectKind | None:
        try:
            return kind_of(self.get(identifier))
        except UnknownObjectError:
            return None

    def acquire_lease(self, pipeline: str, owner: Owner) -> Lease:
        raise AssertionError(f"a draft was asked for the lease of {pipeline} by {owner}")

    def renew(self, lease: Lease) -> None:
        raise AssertionError(f"a draft was asked to renew {lease}")

    def release(self, lease: Lease) -> None:
        raise AssertionError(f"a draft was asked to release {lease}")

    def _listed(
        self, kind: ObjectKind, base: Sequence[Identifier], database: str | None
    ) -> list[Identifier]:
        added = {
            i
            for i, obj in self._changed.items()
            if obj is not None and kind_of(obj) == kind and database in (None, i.database)
        }
        return sorted((set(base) - self._changed.keys()) | added)
