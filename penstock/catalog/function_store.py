"""Functions as rows of the catalog's database, in a space of names of their own, as in Flink."""

from __future__ import annotations

import json
from typing import Protocol

from sqlalchemy import ColumnElement, delete, insert, inspect, select

from penstock.catalog.database import Database
from penstock.catalog.errors import CatalogError
from penstock.catalog.function import Function, function_from_json, function_to_json
from penstock.catalog.identifier import Identifier
from penstock.catalog.migrations import FUNCTIONS

__all__ = ["FunctionStore", "SqlFunctions"]


class FunctionStore(Protocol):
    """Keeps functions. Every method may block on I/O and raise CatalogError."""

    def listed(self) -> list[Function]:
        """List all functions, sorted by name."""

    def put(self, function: Function) -> None:
        """Add a function, or replace the one of its name."""

    def remove(self, identifier: Identifier) -> None:
        """Remove a function; none of that name is no error."""


class SqlFunctions:
    """The functions of a catalog in a database (`FunctionStore`)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def listed(self) -> list[Function]:
        """List all functions, sorted by name. Raises CatalogError for one that cannot be read."""
        with self._database.reading() as connection:
            # a store that an older Penstock wrote has no such table until something is written to it
            if connection is None or not inspect(connection).has_table(FUNCTIONS.name):
                return []
            texts = connection.scalars(select(FUNCTIONS.c.definition)).all()
        try:
            found = [function_from_json(json.loads(text)) for text in texts]
        except (ValueError, KeyError, TypeError) as error:
            raise CatalogError(
                f"the catalog {self._database.location} holds a function that cannot be read",
                hint=f"restore the catalog ({type(error).__name__}: {error})",
            ) from error
        return sorted(found, key=lambda function: function.identifier)

    def put(self, function: Function) -> None:
        """Add a function, or replace the one of its name."""
        identifier = function.identifier
        row = {
            "catalog_name": identifier.catalog,
            "database_name": identifier.database,
            "function_name": identifier.name,
            "definition": json.dumps(function_to_json(function), ensure_ascii=False),
        }
        with self._database.writing() as connection:
            connection.execute(delete(FUNCTIONS).where(*_is(identifier)))
            connection.execute(insert(FUNCTIONS).values(row))

    def remove(self, identifier: Identifier) -> None:
        """Remove a function; none of that name is no error."""
        with self._database.writing() as connection:
            connection.execute(delete(FUNCTIONS).where(*_is(identifier)))


def _is(identifier: Identifier) -> tuple[ColumnElement[bool], ...]:
    return (
        FUNCTIONS.c.catalog_name == identifier.catalog,
        FUNCTIONS.c.database_name == identifier.database,
        FUNCTIONS.c.function_name == identifier.name,
    )
