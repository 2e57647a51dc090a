"""Name resolution of a session: current catalog and database, temporary tables, views and functions.

Order of resolution as in Flink: temporary objects hide those of the catalog, temporary system functions hide
built-in ones. A name becomes an `Identifier`, and that becomes a table, view or function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.catalog.definitions.contract import Catalog, ObjectKind, kind_of
from penstock.catalog.definitions.ddl_rules import (
    check_namespace,
    check_unchanged,
    find_catalog,
    find_database,
    may_create,
    may_rename,
    unknown_object,
)
from penstock.catalog.definitions.federated import FederatedCatalog
from penstock.catalog.definitions.information_schema import refuse_change
from penstock.catalog.definitions.overlay import Overlay
from penstock.catalog.errors import (
    DefinitionError,
    ObjectExistsError,
    UnknownObjectError,
    did_you_mean,
)
from penstock.catalog.model.function import Function
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table, View
from penstock.catalog.secrets.store import SecretStore

if TYPE_CHECKING:
    from penstock.catalog.definitions.contract import FunctionStore


class FunctionNames:
    """Finds functions by name (in lower case). An overlay accepts changes without touching the store. Not thread-safe.

    `store` returns the store on first use: most files define no function.
    """

    def __init__(self, store: Callable[[], FunctionStore], *, isolated: bool = False) -> None:
        self._store = store
        self._isolated = isolated
        self._changed: dict[Identifier, Function | None] = {}
        self._temporary: dict[Identifier, Function] = {}
        self._system: dict[str, Function] = {}
        self.has_engine: Callable[[str], bool] = _nothing
        """Whether the engine has a function of this name (in lower case) that its user registered there."""

    def overlay(self) -> FunctionNames:
        """Make an overlay: definitions may be tried on it."""
        made = FunctionNames(self._store, isolated=True)
        made._changed = dict(self._changed)
        made._temporary, made._system = dict(self._temporary), dict(self._system)
        made.has_engine = self.has_engine
        return made

    def visible(self, catalog: str, database: str) -> Mapping[str, Function]:
        """Return what each name calls in a database."""
        namespace = (catalog, database)
        found = {
            i.name: f for i, f in self._stored().items() if (i.catalog, i.database) == namespace
        }
        found |= {
            i.name: f for i, f in self._temporary.items() if (i.catalog, i.database) == namespace
        }
        return found | self._system

    def listed(self) -> list[Function]:
        """List the functions of all databases, temporary and system ones too."""
        stored = {i: f for i, f in self._stored().items() if i not in self._temporary}
        return [*stored.values(), *self._temporary.values(), *self._system.values()]

    def find(self, identifier: Identifier) -> Function:
        """Return the function of a name. Raises UnknownObjectError with the nearest name."""
        found = self.visible(identifier.catalog, identifier.database)
        if identifier.name in found:
            return found[identifier.name]
        hint = (
            did_you_mean(identifier.name, found) or "SHOW USER FUNCTIONS lists those that there are"
        )
        raise UnknownObjectError(f"there is no function {identifier}", hint=hint)

    def create(self, function: Function, *, if_not_exists: bool = False) -> None:
        """Add a function; an existing one with the same code is that function. Raises ObjectExistsError."""
        identifier, temporary, system = function.identifier, function.temporary, function.system
        found = self._own(identifier, temporary=temporary, system=system)
        if found is None:
            try:
                self._put(function, before=None)
            except ObjectExistsError:  # by another process since then
                found = self._own(identifier, temporary=temporary, system=system)
                if not if_not_exists and found != function:
                    raise
        elif not if_not_exists and found != function:
            kind = _kind(temporary=temporary, system=system)
            raise ObjectExistsError(
                f"there is a {kind} {identifier.name if system else identifier} already, "
                f"with other code: {found.code}",
                hint="ALTER it, DROP it first, or write CREATE ... IF NOT EXISTS",
            )

    def alter(self, function: Function, *, if_exists: bool = False) -> None:
        """Replace the code of a function; its jars stay. Raises UnknownObjectError, and DefinitionError when it is
        another's by then.
        """
        identifier, temporary, system = function.identifier, function.temporary, function.system
        found = self._own(identifier, temporary=temporary, system=system)
        if found is not None:
            self._put(replace(function, jars=found.jars), before=found)
        elif not if_exists:
            raise _missing(identifier, temporary=temporary, system=system)

    def drop(
        self, identifier: Identifier, *, temporary: bool, system: bool, if_exists: bool = False
    ) -> None:
        """Remove the function of a name and kind. Raises UnknownObjectError."""
        found = self._own(identifier, temporary=temporary, system=system)
        if found is None:
            if if_exists:
                return
            raise _missing(identifier, temporary=temporary, system=system)
        if system:
            del self._system[identifier.name]
        elif temporary:
            del self._temporary[identifier]
        elif self._isolated:
            self._changed[identifier] = None
        elif not self._store().remove(identifier) and not if_exists:
            raise _missing(identifier, temporary=temporary, system=system)

    def _own(self, identifier: Identifier, *, temporary: bool, system: bool) -> Function | None:
        """Find what has this name among the functions of one kind."""
        if system:
            return self._system.get(identifier.name)
        if temporary:
            return self._temporary.get(identifier)
        return self._stored().get(identifier)

    def _put(self, function: Function, *, before: Function | None) -> None:
        if function.system:
            self._system[function.name] = function
        elif function.temporary:
            self._temporary[function.identifier] = function
        elif self._isolated:
            self._changed[function.identifier] = replace(function, version=None)
        else:
            self._store().put(function, before=before)

    def _stored(self) -> dict[Identifier, Function]:
        found: dict[Identifier, Function | None] = {f.identifier: f for f in self._store().listed()}
        return {i: f for i, f in (found | self._changed).items() if f is not None}


def _nothing(_: str) -> bool:
    """Know no function: no engine runs yet."""
    return False


def _missing(identifier: Identifier, *, temporary: bool, system: bool) -> UnknownObjectError:
    kind = _kind(temporary=temporary, system=system)
    shown = identifier.name if system else identifier
    return UnknownObjectError(f"there is no {kind} {shown}")


def _kind(*, temporary: bool, system: bool) -> str:
    if system:
        return "temporary system function"
    return "temporary function" if temporary else "function"


class Namespace:
    """Resolves names as Flink does: temporary objects hide permanent ones of the same name. Not for many threads."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog: Overlay | FederatedCatalog = (
            catalog
            if isinstance(catalog, Overlay | FederatedCatalog)
            else Overlay(catalog, isolated=False)
        )
        self.current_catalog = catalog.default_catalog
        self.current_database = catalog.default_database
        self._temporary: dict[Identifier, Table | View] = {}
        self.functions = FunctionNames(lambda: catalog.functions)
        self.redefines = False
        """Whether a CREATE TABLE or VIEW takes the place of what has its name with another definition."""

    @property
    def secrets(self) -> SecretStore:
        """What options refer to by `${secret:name}`: the catalog's, and overlays over them."""
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
        """Resolve a name. Raises UnknownObjectError with the nearest name."""
        found = self._temporary.get(identifier)
        if found is not None:
            return found
        try:
            return self.catalog.get(identifier)
        except UnknownObjectError:
            check_namespace(identifier, self.catalog)
            if not self._temporary:
                raise
            namespace = (identifier.database, identifier.catalog)
            known = (
                *self._temporary,
                *self.catalog.tables(*namespace),
                *self.catalog.views(*namespace),
            )
            raise unknown_object(identifier, known) from None

    def same_named(self, obj: Table | View) -> Table | View | None:
        """Return what has the name of a definition already, among temporary or permanent objects as `obj` is one."""
        if obj.temporary:
            return self._temporary.get(obj.identifier)
        try:  # an error would look for the nearest name
            there = self.catalog.kind(obj.identifier) is not None
            return self.catalog.get(obj.identifier) if there else None
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
        """Remove a definition. `temporary` None removes what the name resolves to, a temporary object first.

        With False a temporary object in the way is refused, as Flink does for a plain DROP. Raises UnknownObjectError.
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
        """Make an overlay of this namespace: definitions may be tried on it without touching the store."""
        overlay = Namespace(self.catalog.overlay())
        overlay.current_catalog, overlay.current_database = (
            self.current_catalog,
            self.current_database,
        )
        overlay._temporary = dict(self._temporary)
        overlay.functions = self.functions.overlay()
        overlay.redefines = self.redefines
        return overlay

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
        namespace = (catalog, database)
        here = {
            i: kind_of(o)
            for i, o in self._temporary.items()
            if (i.catalog, i.database) == namespace
        }
        if not here:
            return list(permanent)
        return sorted(
            {i for i in permanent if i not in here} | {i for i, k in here.items() if k == kind}
        )
