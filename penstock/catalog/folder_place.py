"""Where the tables of a folder of Delta tables lie, by their names alone."""

from __future__ import annotations

from penstock.catalog.descriptor import DELTA_PATH, PATH, ROOT_DATABASE, CatalogDescriptor
from penstock.catalog.errors import DefinitionError
from penstock.catalog.identifier import Identifier
from penstock.catalog.table import Table

__all__ = ["folder_options", "placed_in", "table_path"]


def table_path(catalog: CatalogDescriptor, identifier: Identifier) -> str:
    """Give a table's path: `path`/database/name, and `path`/name in the root database. Raises DefinitionError."""
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
    """Give the options that every table there has."""
    return {"connector": "delta", "path": table_path(catalog, identifier)}


def placed_in(catalog: CatalogDescriptor, table: Table) -> tuple[tuple[str, str], ...]:
    """Give a table's options with those that its catalog decides. Raises DefinitionError where they say otherwise."""
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
