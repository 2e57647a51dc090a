"""A catalog as it was when it was first asked: what drafts stand on, so that checking a file reads a name once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from penstock.catalog.contract import Catalog, ObjectKind
from penstock.catalog.descriptor import CatalogDescriptor, DatabaseDescriptor
from penstock.catalog.errors import UnknownObjectError
from penstock.catalog.identifier import Identifier
from penstock.catalog.table import Table, View

__all__ = ["Snapshot"]

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
        """Give a definition. Raises UnknownObjectError."""
        return self._once(identifier, lambda: self._base.get(identifier))

    def kind(self, identifier: Identifier) -> ObjectKind | None:
        """Give the kind of what has a name; None for a name that is free."""
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
