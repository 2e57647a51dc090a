"""Functions that users have registered, in the catalog's database: a space of names of their own, as in Flink."""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import Connection

from penstock.catalog.database import Database
from penstock.catalog.errors import CatalogError
from penstock.catalog.function import Function
from penstock.catalog.function_rows import drop_function, list_functions, put_function
from penstock.catalog.identifier import Identifier

__all__ = ["FunctionStore", "SqlFunctions"]


class FunctionStore(Protocol):
    """Keeps functions. Every method may block on I/O and raise CatalogError."""

    def listed(self) -> list[Function]:
        """List all functions, sorted by name."""

    def put(self, function: Function, *, before: Function | None = None) -> None:
        """Add a function, or change what was `before`, and is so no longer.

        Raises ObjectExistsError for one to add that is there, UnknownObjectError for one to change that is not, and
        DefinitionError for one that is no longer `before`.
        """

    def remove(self, identifier: Identifier) -> bool:
        """Remove a function. Tells whether there was one."""


class SqlFunctions:
    """The functions of a catalog in a database (`FunctionStore`)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def listed(self) -> list[Function]:
        """List all functions, sorted by name. Raises CatalogError for one that cannot be read."""
        with self._database.reading() as connection:
            return [] if connection is None else self._listed(connection)

    def put(self, function: Function, *, before: Function | None = None) -> None:
        """Add a function, or change what was `before`. Raises as `FunctionStore.put`."""
        self._database.change(lambda connection: put_function(connection, function, before))

    def remove(self, identifier: Identifier) -> bool:
        """Remove a function. Tells whether there was one."""
        return self._database.change(lambda connection: drop_function(connection, identifier))

    def _listed(self, connection: Connection) -> list[Function]:
        try:
            return list_functions(connection)
        except (ValueError, KeyError, TypeError) as error:
            raise CatalogError(
                f"the catalog {self._database.location} holds a function that cannot be read",
                hint=f"restore the catalog ({type(error).__name__}: {error})",
            ) from error
