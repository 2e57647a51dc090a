"""Names in statements: the current catalog and database, temporary objects, and drafts that touch no store."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.catalog.contract import DEFAULT_CATALOG, DEFAULT_DATABASE, Catalog, Kind
from penstock.catalog.errors import ObjectExistsError, UnknownObjectError, did_you_mean
from penstock.catalog.identifier import Identifier, quote
from penstock.catalog.table import Table, View

__all__ = ["Namespace"]


class Namespace:
    """What names mean to one session: its temporary objects hide those of the catalog, as in Flink."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._temporary: dict[Identifier, Table | View] = {}
        self.current_catalog = DEFAULT_CATALOG
        self.current_database = DEFAULT_DATABASE

    def resolve(self, parts: Sequence[str]) -> Identifier:
        """Complete a name of one to three parts. Raises UnknownObjectError for a catalog that is not there."""
        catalog, database, name = (self.current_catalog, self.current_database, *parts)[-3:]
        if catalog != DEFAULT_CATALOG:
            raise UnknownObjectError(
                f"there is no catalog {quote(catalog)}", hint=f"there is {DEFAULT_CATALOG}"
            )
        return Identifier(catalog=catalog, database=database, name=name)

    def find(self, identifier: Identifier) -> Table | View | None:
        """Find a table or view; None when there is none."""
        return self._temporary.get(identifier) or self._find_kept(identifier)

    def lookup(self, identifier: Identifier) -> Table | View:
        """Find a table or view. Raises UnknownObjectError with the nearest name."""
        found = self.find(identifier)
        if found is None:
            raise self._unknown(identifier, "table or view")
        return found

    def tables(self) -> Sequence[Identifier]:
        """List the tables that can be seen, sorted."""
        return self._visible(Table)

    def views(self) -> Sequence[Identifier]:
        """List the views that can be seen, sorted."""
        return self._visible(View)

    def create(
        self, value: Table | View, *, if_not_exists: bool = False, replace: bool = False
    ) -> None:
        """Define a table or view: for this session when it is temporary, else in the catalog."""
        if not value.temporary:
            self._create_kept(value, if_not_exists=if_not_exists, replace=replace)
        elif value.identifier not in self._temporary or replace:
            self._temporary[value.identifier] = value
        elif not if_not_exists:
            raise ObjectExistsError(
                f"a temporary object {value.identifier} exists already",
                hint="add IF NOT EXISTS, or drop it first",
            )

    def drop(
        self,
        identifier: Identifier,
        *,
        kind: Kind,
        if_exists: bool = False,
        temporary: bool = False,
    ) -> None:
        """Forget a table or view. A temporary one has to be dropped as such before one that it hides."""
        wanted = Table if kind == "table" else View
        hidden = self._temporary.get(identifier)
        if temporary:
            if isinstance(hidden, wanted):
                del self._temporary[identifier]
            elif not if_exists:
                raise UnknownObjectError(f"there is no temporary {kind} {identifier}")
        elif isinstance(hidden, wanted):
            raise ObjectExistsError(
                f"a temporary {kind} hides {identifier}",
                hint=f"DROP TEMPORARY {kind.upper()} it first",
            )
        else:
            self._drop_kept(identifier, kind=kind, if_exists=if_exists)

    def use(self, parts: Sequence[str]) -> None:
        """Change the current database (one part) or catalog and database (two)."""
        catalog, database = (self.current_catalog, *parts)[-2:]
        if catalog != DEFAULT_CATALOG:
            raise UnknownObjectError(
                f"there is no catalog {quote(catalog)}", hint=f"there is {DEFAULT_CATALOG}"
            )
        if database != DEFAULT_DATABASE and not any(i.database == database for i in self._kept()):
            raise UnknownObjectError(
                f"there is no database {quote(database)}", hint=f"there is {DEFAULT_DATABASE}"
            )
        self.current_catalog, self.current_database = catalog, database

    def overlay(self) -> Draft:
        """Make a draft of this namespace, on which definitions can be tried."""
        return Draft(self)

    def _find_kept(self, identifier: Identifier) -> Table | View | None:
        return self._catalog.find(identifier)

    def _create_kept(self, value: Table | View, *, if_not_exists: bool, replace: bool) -> None:
        self._catalog.create(value, if_not_exists=if_not_exists, replace=replace)

    def _drop_kept(self, identifier: Identifier, *, kind: Kind, if_exists: bool) -> None:
        self._catalog.drop(identifier, kind=kind, if_exists=if_exists)

    def _kept(self) -> Sequence[Identifier]:
        return [*self._catalog.tables(), *self._catalog.views()]

    def _visible(self, kind: type[Table | View]) -> Sequence[Identifier]:
        seen = {*self._kept(), *self._temporary}
        return sorted(identifier for identifier in seen if isinstance(self.find(identifier), kind))

    def _unknown(self, identifier: Identifier, kind: str) -> UnknownObjectError:
        names = sorted(
            {i.name for i in (*self._kept(), *self._temporary) if i.database == identifier.database}
        )
        known = (
            f"there are: {', '.join(names)}"
            if names
            else "nothing is defined yet: CREATE TABLE comes first"
        )
        return UnknownObjectError(
            f"there is no {kind} {quote(identifier.name)}",
            hint=did_you_mean(identifier.name, names) or known,
        )


class Draft(Namespace):
    """A namespace on which definitions are tried: it sees the catalog and never changes it."""

    def __init__(self, base: Namespace) -> None:
        super().__init__(base._catalog)  # noqa: SLF001  a draft is a namespace of the same catalog
        self._temporary = dict(base._temporary)  # noqa: SLF001
        self.current_catalog, self.current_database = base.current_catalog, base.current_database
        self._tried: dict[Identifier, Table | View | None] = {}

    def _find_kept(self, identifier: Identifier) -> Table | View | None:
        if identifier in self._tried:
            return self._tried[identifier]
        return super()._find_kept(identifier)

    def _create_kept(self, value: Table | View, *, if_not_exists: bool, replace: bool) -> None:
        if self._find_kept(value.identifier) is None or replace:
            self._tried[value.identifier] = value
        elif not if_not_exists:
            raise already_exists(value.identifier)

    def _drop_kept(self, identifier: Identifier, *, kind: Kind, if_exists: bool) -> None:
        found = self._find_kept(identifier)
        if isinstance(found, Table if kind == "table" else View):
            self._tried[identifier] = None
        elif not if_exists:
            raise self._unknown(identifier, kind)

    def _kept(self) -> Sequence[Identifier]:
        kept = {*super()._kept(), *self._tried}
        return [identifier for identifier in kept if self._find_kept(identifier) is not None]


def already_exists(identifier: Identifier) -> ObjectExistsError:
    """Make the error for a name that is taken."""
    return ObjectExistsError(
        f"{identifier} exists already", hint="add IF NOT EXISTS to keep it, or DROP it first"
    )
