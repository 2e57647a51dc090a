"""Tables, views and users' functions as rows of the catalog's database.

The functions over tables and views work within the caller's transaction. The rules are in
`catalog/definitions/ddl_rules.py`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    bindparam,
    delete,
    insert,
    null,
    or_,
    select,
    update,
)

from penstock.catalog.definitions.contract import Action, ChangeKind, ObjectKind, kind_of
from penstock.catalog.definitions.ddl_rules import (
    changed_meanwhile,
    check_unchanged,
    may_create,
    may_drop,
    may_rename,
    unknown_object,
)
from penstock.catalog.errors import CatalogError, ObjectExistsError, UnknownObjectError
from penstock.catalog.migrations import FUNCTIONS, FUNCTIONS_SINCE, OBJECTS, VERSIONS_SINCE
from penstock.catalog.model.codec import table_from_json, table_to_json
from penstock.catalog.model.function import Function, function_from_json, function_to_json
from penstock.catalog.model.identifier import Identifier, check_storable
from penstock.catalog.model.table import Table, View
from penstock.catalog.store import history as history_rows
from penstock.catalog.store.database import Database, stored_version

_NAMED = ("catalog_name", "database_name", "object_name")
_FIND_OLD = select(OBJECTS.c.definition, null()).where(
    *(OBJECTS.c[name] == bindparam(name) for name in _NAMED)
)
_FIND = _FIND_OLD.with_only_columns(OBJECTS.c.definition, OBJECTS.c.version)
"""Made once: to make a statement takes as long as to run it, and every name is looked up by this one."""


def find_object(connection: Connection, identifier: Identifier, location: str) -> Table | View:
    """Return a definition. Raises UnknownObjectError with the nearest name, CatalogError for one
    that cannot be read.
    """
    known = stored_version(connection) >= VERSIONS_SINCE
    name = dict(zip(_NAMED, _name(identifier), strict=True))
    row = connection.execute(_FIND if known else _FIND_OLD, name).one_or_none()
    if row is None:
        raise unknown_object(identifier, _neighbours(connection, identifier))
    text, number = row
    try:
        return replace(table_from_json(json.loads(text)), version=number)
    except (ValueError, KeyError, TypeError) as error:
        raise CatalogError(
            f"the catalog {location} holds a definition of {identifier} that cannot be read",
            hint=f"drop it and create it again, or restore the catalog ({type(error).__name__}: {error})",
        ) from error


def kind_in(connection: Connection, identifier: Identifier) -> ObjectKind | None:
    """Return the kind of what has a name; None for a name that is free."""
    kind: ObjectKind | None = connection.scalar(select(OBJECTS.c.kind).where(*_is(identifier)))
    return kind


def identifiers(connection: Connection, *wanted: ColumnElement[bool]) -> list[Identifier]:
    """List the names of objects, sorted."""
    columns = (OBJECTS.c.catalog_name, OBJECTS.c.database_name, OBJECTS.c.object_name)
    rows = connection.execute(select(*columns).where(*wanted))
    # sorted here: databases sort text each in its own way
    names = sorted((c, d, n) for c, d, n in rows)
    return [Identifier(catalog=c, database=d, name=n) for c, d, n in names]


def create_object(
    connection: Connection, obj: Table | View, *, if_not_exists: bool, replace: bool
) -> None:
    """Add a definition, or with `replace` change the one of that name and kind.

    Raises ObjectExistsError, and DefinitionError where `obj` was derived from another version than the stored one.
    """
    name, kind = _name(obj.identifier), ChangeKind(kind_of(obj))
    check_storable(name)
    found = _found(connection, obj.identifier)
    kind_found = None if found is None else found.kind
    if not may_create(obj, kind_found, if_not_exists=if_not_exists, replace=replace):
        return
    if found is not None and obj.version not in (None, found.version):
        last = partial(history_rows.last_change, connection, name, kind)
        raise changed_meanwhile(f"the {kind} {obj.identifier}", found.version, obj.version, last)
    version = history_rows.next_version(
        connection, kind, name, found=None if found is None else found.version
    )
    row = {**_row(obj), "version": version}
    if found is None:
        connection.execute(insert(OBJECTS).values(row))
    else:
        connection.execute(update(OBJECTS).where(*_is(obj.identifier)).values(row))
    history_rows.record(
        connection,
        name,
        kind,
        Action.CREATE if found is None else Action.REPLACE,
        version=version,
        before=None if found is None else found.definition,
        after=row["definition"],
    )


def replace_object(
    connection: Connection, before: Table | View, after: Table | View, location: str
) -> None:
    """Change a definition, its name too if `after` has another. Raises as `contract.Catalog.replace`."""
    old, new = _name(before.identifier), _name(after.identifier)
    kind = ChangeKind(kind_of(before))
    check_storable(new)
    last = partial(history_rows.last_change, connection, old, kind)
    try:
        now = find_object(connection, before.identifier, location)
    except UnknownObjectError as error:
        gone = last()
        error.hint = error.hint if gone is None else f"it was {gone}"
        raise
    check_unchanged(f"the {kind} {before.identifier}", now, before, last=last)
    if old != new:
        may_rename(after, kind_in(connection, after.identifier))
    found = _found(connection, before.identifier)
    assert found is not None, "it was read in this transaction"
    version = history_rows.next_version(connection, kind, old, new, found=found.version)
    row = {**_row(after), "version": version}
    connection.execute(update(OBJECTS).where(*_is(before.identifier)).values(row))
    history_rows.record(
        connection,
        old,
        kind,
        Action.REPLACE if old == new else Action.RENAME,
        version=version,
        before=found.definition,
        after=row["definition"],
        renamed_to=() if old == new else new,
    )


def drop_object(
    connection: Connection, identifier: Identifier, kind: ObjectKind, *, if_exists: bool
) -> None:
    """Remove a definition. Raises UnknownObjectError."""
    found = kind_in(connection, identifier)
    if may_drop(
        identifier,
        kind,
        found,
        if_exists=if_exists,
        known=lambda: _neighbours(connection, identifier),
    ):
        drop_objects(connection, *_is(identifier))


def drop_objects(connection: Connection, *wanted: ColumnElement[bool]) -> None:
    """Remove definitions, each with a row in the history."""
    for row in connection.execute(select(OBJECTS).where(*wanted)).all():
        name, kind = (row.catalog_name, row.database_name, row.object_name), ChangeKind(row.kind)
        version = history_rows.next_version(connection, kind, name, found=row.version)
        history_rows.record(
            connection, name, kind, Action.DROP, version=version, before=row.definition
        )
    connection.execute(delete(OBJECTS).where(*wanted))


def _neighbours(connection: Connection, identifier: Identifier) -> list[Identifier]:
    """What is in the same database, and what has the same name in others: of these one may have been meant."""
    here = and_(
        OBJECTS.c.catalog_name == identifier.catalog,
        OBJECTS.c.database_name == identifier.database,
    )
    return identifiers(connection, or_(here, OBJECTS.c.object_name == identifier.name))


def _found(connection: Connection, identifier: Identifier) -> Row[Any] | None:
    return connection.execute(select(OBJECTS).where(*_is(identifier))).one_or_none()


def _row(obj: Table | View) -> dict[str, Any]:
    catalog, database, name = _name(obj.identifier)
    return {
        "catalog_name": catalog,
        "database_name": database,
        "object_name": name,
        "kind": kind_of(obj),
        "definition": json.dumps(table_to_json(obj), ensure_ascii=False),
    }


def _name(identifier: Identifier) -> tuple[str, str, str]:
    return (identifier.catalog, identifier.database, identifier.name)


def _is(identifier: Identifier) -> tuple[ColumnElement[bool], ...]:
    return (
        OBJECTS.c.catalog_name == identifier.catalog,
        OBJECTS.c.database_name == identifier.database,
        OBJECTS.c.object_name == identifier.name,
    )


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
    found = connection.execute(select(FUNCTIONS).where(*_is_function(identifier))).one_or_none()
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
        changed = update(FUNCTIONS).where(*_is_function(identifier))
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
    return drop_functions(connection, *_is_function(identifier)) > 0


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


def _is_function(identifier: Identifier) -> tuple[ColumnElement[bool], ...]:
    return tuple(
        FUNCTIONS.c[column] == part
        for column, part in zip(_COLUMNS, _name(identifier), strict=True)
    )
