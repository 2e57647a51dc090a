"""External catalogs: the protocol for catalogs that something else keeps (a folder of Delta tables, a database
server, Spark).

`folder_options` names the location of a table in a folder catalog by its name alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from penstock.catalog.errors import DefinitionError, InputError, UnsupportedError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import DELTA_PATH, PATH, ROOT_DATABASE, CatalogDescriptor
from penstock.catalog.model.table import Table
from penstock.catalog.secrets.crypto import SealedSecret

__all__ = [
    "ExternalCatalog",
    "NotReachedError",
    "OpenExternal",
    "Seal",
    "folder_options",
    "location_in",
    "table_path",
]


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
    return {"connector": "delta", "path": table_path(catalog, identifier)}


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
