"""A session's view of the catalog: current database, temporary objects, and how a name in SQL becomes a full one."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.catalog.contract import Catalog, ObjectKind, kind_of
from penstock.catalog.errors import DefinitionError, UnknownObjectError
from penstock.catalog.existence import may_create, may_rename, unknown_object
from penstock.catalog.function_names import FunctionNames
from penstock.catalog.identifier import Identifier
from penstock.catalog.information_schema import refuse_change
from penstock.catalog.layer import Layer
from penstock.catalog.places import check_place, check_unchanged, find_catalog, find_database
from penstock.catalog.secret_store import SecretStore
from penstock.catalog.table import Table, View

__all__ = ["Namespace"]


class Namespace:
    """Resolves names as Flink does: temporary objects hide permanent ones of the same name. Not for many threads."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog if isinstance(catalog, Layer) else Layer(catalog, draft=False)
        self.current_catalog = catalog.default_catalog
        self.current_database = catalog.default_database
        self._temporary: dict[Identifier, Table | View] = {}
        self.functions = FunctionNames(lambda: catalog.functions)
        self.redefines = False
        """Whether a CREATE TABLE or VIEW takes the place of what has its name with another definition."""

    @property
    def secrets(self) -> SecretStore:
        """What options refer to by `${secret:name}`: the catalog's, and drafts over them."""
        return self.catalog.secrets

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
            check_place(identifier, self.catalog)
            if not self._temporary:
                raise
            place = (identifier.database, identifier.catalog)
            known = (
                *self._temporary,
                *self.catalog.tables(*place),
                *self.catalog.views(*place),
            )
            raise unknown_object(identifier, known) from None

    def same_named(self, obj: Table | View) -> Table | View | None:
        """Give what has the name of a definition already, among temporary or permanent objects as `obj` is one."""
        if obj.temporary:
            return self._temporary.get(obj.identifier)
        try:
            return self.catalog.get(obj.identifier)
        except UnknownObjectError:
            return None

    def catalogs(self) -> list[str]:
        """List the catalogs, sorted."""
        return [catalog.name for catalog in self.catalog.catalogs()]

    def databases(self, catalog: str | None = None) -> list[str]:
        """List the databases of a catalog (None: the current one), sorted. Raises UnknownObjectError."""
        return self.catalog.databases(catalog or self.current_catalog)

    def tables(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the tables of a database (None: the current one), temporary ones too, sorted."""
        catalog, database = self._known(catalog, database)
        return self._listed("table", catalog, database, self.catalog.tables(database, catalog))

    def views(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the views of a database (None: the current one), temporary ones too, sorted."""
        catalog, database = self._known(catalog, database)
        return self._listed("view", catalog, database, self.catalog.views(database, catalog))

    def temporary(self) -> list[Table | View]:
        """List the temporary objects of all databases, sorted by name."""
        return [self._temporary[identifier] for identifier in sorted(self._temporary)]

    def use(self, parts: Sequence[str]) -> None:
        """Change the current database: `database` or `catalog.database`. Raises UnknownObjectError."""
        catalog, database = (self.current_catalog, *parts)[-2:]
        self.current_catalog, self.current_database = self._known(catalog, database)

    def drop_catalog(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a catalog, unless it is the current one. Raises UnknownObjectError, DefinitionError."""
        if name == self.current_catalog != self.catalog.default_catalog:
            raise DefinitionError(
                f"the catalog {name!r} is in use",
                hint=f"USE CATALOG {self.catalog.default_catalog}",
            )
        self.catalog.drop_catalog(name, if_exists=if_exists)

    def drop_database(
        self, catalog: str, name: str, *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Remove a database, unless it is the current one. Raises UnknownObjectError, DefinitionError."""
        if (catalog, name) == (self.current_catalog, self.current_database):
            raise DefinitionError(f"the database {name!r} is in use", hint="USE another one first")
        self.catalog.drop_database(catalog, name, if_exists=if_exists, cascade=cascade)

    def create(
        self, obj: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        """Add a definition: here when it is temporary, else to the catalog. Raises ObjectExistsError."""
        if not obj.temporary:
            self.catalog.create(obj, if_not_exists=if_not_exists, replace=replace)
            return
        refuse_change(obj.identifier)
        found = self._temporary.get(obj.identifier)
        if may_create(
            obj,
            None if found is None else kind_of(found),
            if_not_exists=if_not_exists,
            replace=replace,
        ):
            self._temporary[obj.identifier] = obj

    def replace(self, before: Table | View, after: Table | View) -> None:
        """Change a definition, its name too if `after` has another. Raises as `contract.Catalog.replace`."""
        if not before.temporary:
            self.catalog.replace(before, after)
            return
        found = self._temporary.get(before.identifier)
        check_unchanged(f"the temporary {kind_of(before)} {before.identifier}", found, before)
        if after.identifier != before.identifier:
            other = self._temporary.get(after.identifier)
            may_rename(after, None if other is None else kind_of(other))
        del self._temporary[before.identifier]
        self._temporary[after.identifier] = after

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
        draft = Namespace(self.catalog.overlay())
        draft.current_catalog, draft.current_database = self.current_catalog, self.current_database
        draft._temporary = dict(self._temporary)
        draft.functions = self.functions.overlay()
        draft.redefines = self.redefines
        return draft

    def _known(self, catalog: str | None, database: str | None) -> tuple[str, str]:
        """Complete a place, and check that it exists. Raises UnknownObjectError."""
        if catalog is None:
            catalog = self.current_catalog
        if database is None:
            database = self.current_database
        if (catalog, database) != (self.current_catalog, self.current_database):
            find_catalog(catalog, self.catalog)
            find_database(catalog, database, self.catalog)
        return catalog, database

    def _listed(
        self, kind: ObjectKind, catalog: str, database: str, permanent: Sequence[Identifier]
    ) -> list[Identifier]:
        """Add the temporary objects of this kind, and leave out what those of the other kind hide."""
        place = (catalog, database)
        here = {
            i: kind_of(o) for i, o in self._temporary.items() if (i.catalog, i.database) == place
        }
        if not here:
            return list(permanent)
        return sorted(
            {i for i in permanent if i not in here} | {i for i, k in here.items() if k == kind}
        )
