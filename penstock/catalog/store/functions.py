"""Functions that users have registered, as rows of the catalog's database."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, null, select, update

from penstock.catalog.definitions.ddl_rules import check_unchanged
from penstock.catalog.definitions.history import Action, ChangeKind
from penstock.catalog.errors import CatalogError, ObjectExistsError, UnknownObjectError
from penstock.catalog.migrations import FUNCTIONS, FUNCTIONS_SINCE, VERSIONS_SINCE
from penstock.catalog.model.function import Function, function_from_json, function_to_json
from penstock.catalog.model.identifier import Identifier, check_storable
from penstock.catalog.store import history as history_rows
from penstock.catalog.store.database import Database, stored_version

__all__ = ["SqlFunctions", "drop_functions"]


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
        self._database.change(lambda connection: _put_function(connection, function, before))

    def remove(self, identifier: Identifier) -> bool:
        """Remove a function. Returns whether there was one."""
        return self._database.change(lambda connection: _drop_function(connection, identifier))

    def _listed(self, connection: Connection) -> list[Function]:
        try:
            return _list_functions(connection)
        except (ValueError, KeyError, TypeError) as error:
            raise CatalogError(
                f"the catalog {self._database.location} holds a function that cannot be read",
                hint=f"restore the catalog ({type(error).__name__}: {error})",
            ) from error


def _list_functions(connection: Connection) -> list[Function]:
    """List all functions, sorted by name. Raises ValueError, KeyError, TypeError for one that cannot be read."""
    known = stored_version(connection)
    if known < FUNCTIONS_SINCE:
        return []
    version = FUNCTIONS.c.version if known >= VERSIONS_SINCE else null()
    rows = connection.execute(select(FUNCTIONS.c.definition, version)).all()
    found = [replace(function_from_json(json.loads(text)), version=number) for text, number in rows]
    return sorted(found, key=lambda function: function.identifier)


def _put_function(connection: Connection, function: Function, before: Function | None) -> None:
    """Add a function, or change what is `before`. Raises ObjectExistsError, UnknownObjectError, DefinitionError."""
    identifier, name = function.identifier, _name(function.identifier)
    check_storable(name)
    found = connection.execute(select(FUNCTIONS).where(*_is(identifier))).one_or_none()
    if found is not None:
        if before is None:
            raise ObjectExistsError(
                f"there is a function {identifier} already",
                hint="ALTER it, DROP it first, or write CREATE ... IF NOT EXISTS",
            )
        check_unchanged(
            f"the function {identifier}",
            replace(function_from_json(json.loads(found.definition)), version=found.version),
            before,
            last=lambda: history_rows.last_change(connection, name, ChangeKind.FUNCTION),
        )
    elif before is not None:
        last = history_rows.last_change(connection, name, ChangeKind.FUNCTION)
        raise UnknownObjectError(
            f"there is no function {identifier}", hint=None if last is None else f"it was {last}"
        )
    text = json.dumps(function_to_json(function), ensure_ascii=False)
    version = history_rows.next_version(
        connection, ChangeKind.FUNCTION, name, found=None if found is None else found.version
    )
    if found is None:
        names = dict(zip(_COLUMNS, name, strict=True))
        connection.execute(insert(FUNCTIONS).values(**names, definition=text, version=version))
    else:
        changed = update(FUNCTIONS).where(*_is(identifier))
        connection.execute(changed.values(definition=text, version=version))
    history_rows.record(
        connection,
        name,
        ChangeKind.FUNCTION,
        Action.CREATE if found is None else Action.REPLACE,
        version=version,
        before=None if found is None else found.definition,
        after=text,
    )


def _drop_function(connection: Connection, identifier: Identifier) -> bool:
    """Remove a function. Returns whether there was one."""
    return drop_functions(connection, *_is(identifier)) > 0


def drop_functions(connection: Connection, *wanted: ColumnElement[bool]) -> int:
    """Remove functions, each with a row in the history. Returns their number."""
    rows: list[Row[Any]] = list(connection.execute(select(FUNCTIONS).where(*wanted)))
    for row in rows:
        name = (row.catalog_name, row.database_name, row.function_name)
        version = history_rows.next_version(
            connection, ChangeKind.FUNCTION, name, found=row.version
        )
        history_rows.record(
            connection,
            name,
            ChangeKind.FUNCTION,
            Action.DROP,
            version=version,
            before=row.definition,
        )
    connection.execute(delete(FUNCTIONS).where(*wanted))
    return len(rows)


_COLUMNS = ("catalog_name", "database_name", "function_name")


def _name(identifier: Identifier) -> tuple[str, str, str]:
    return (identifier.catalog, identifier.database, identifier.name)


def _is(identifier: Identifier) -> tuple[ColumnElement[bool], ...]:
    return tuple(
        FUNCTIONS.c[column] == part
        for column, part in zip(_COLUMNS, _name(identifier), strict=True)
    )
