"""CREATE of an existing object: the same definition is the same table; another one is reported with its differences.

A file is run many times, against a catalog that remembers. Flink's default catalog is the session's, so that a file
with a plain CREATE TABLE always starts there; here it starts as long as it matches the catalog.
"""

from __future__ import annotations

import logging

from penstock.catalog.definitions.contract import Catalog, kind_of
from penstock.catalog.definitions.ddl_rules import find_catalog
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ObjectExistsError
from penstock.catalog.model.table import Table, View
from penstock.sql.ddl.definition_diff import DefinitionDiff, diff_definitions, since
from penstock.sql.statements.statement import (
    CreateCatalog,
    CreateDatabase,
    CreateTable,
    CreateTableAs,
    CreateView,
    Statement,
)

__all__ = [
    "create_catalog_or_keep",
    "create_database_or_keep",
    "create_or_keep",
    "definition_warning",
    "diff_with_catalog",
    "is_there",
    "kept_note",
    "refilled_error",
    "tell_definition",
]

log = logging.getLogger(__name__)


def create_or_keep(obj: Table | View, namespace: Namespace, *, if_not_exists: bool) -> None:
    """Add a definition, unless an equal one exists. Raises ObjectExistsError with the differences."""
    found = namespace.same_named(obj) if namespace.redefines else None
    if found is not None and kind_of(found) == kind_of(obj) and diff_definitions(found, obj):
        namespace.replace(found, obj)
        return
    try:
        namespace.create(obj, if_not_exists=if_not_exists)
    except ObjectExistsError as error:
        found = namespace.same_named(obj)
        if found is None or kind_of(found) != kind_of(obj):
            raise
        drift = diff_definitions(found, obj)
        if drift.parts:
            raise _other(obj, drift, error) from None


def create_database_or_keep(statement: CreateDatabase, catalog: Catalog) -> None:
    """Add a database, unless an equal one exists. Raises ObjectExistsError."""
    wanted = statement.database
    try:
        catalog.create_database(wanted, if_not_exists=statement.if_not_exists)
    except ObjectExistsError:
        if catalog.database(wanted.catalog, wanted.name) != wanted:
            raise


def create_catalog_or_keep(statement: CreateCatalog, catalog: Catalog) -> None:
    """Add a catalog, unless an equal one exists. Raises ObjectExistsError."""
    wanted = statement.catalog
    try:
        catalog.create_catalog(wanted, if_not_exists=statement.if_not_exists)
    except ObjectExistsError:
        if find_catalog(wanted.name, catalog) != wanted:
            raise


def refilled_error(statement: Statement, namespace: Namespace) -> ObjectExistsError | None:
    """Make the error for a CREATE TABLE ... AS of an existing table, which would get its rows twice.

    None for other statements, and for a new table. A query that never ends resumes from its checkpoint.
    """
    if not isinstance(statement, CreateTableAs) or statement.create.if_not_exists:
        return None
    if not is_there(statement, namespace):
        return None
    table = statement.create.table.identifier
    return ObjectExistsError(
        f"there is a table {table} already, and its query ends: it would write its rows again",
        hint=f"CREATE OR REPLACE TABLE {table.name} AS rewrites them, IF NOT EXISTS adds them again, "
        f"DROP TABLE {table.name} forgets the table",
        span=statement.span,
    )


def is_there(statement: Statement, namespace: Namespace) -> bool:
    """Return whether a CREATE defines an existing object, of this name and definition."""
    obj = _created(statement)
    found = None if obj is None else namespace.same_named(obj)
    if obj is None or found is None or kind_of(found) != kind_of(obj):
        return False
    return not diff_definitions(found, obj)


def kept_note(statement: Statement, namespace: Namespace) -> str | None:
    """Return a note that what a plain CREATE defines exists already; None where it is new, or under IF NOT EXISTS."""
    match statement:
        case CreateTable(if_not_exists=False) | CreateView(if_not_exists=False):
            obj = _created(statement)
            if obj is not None and is_there(statement, namespace):
                return f"{obj.identifier.name} is there already, with this definition"
    return None


def tell_definition(statement: Statement, namespace: Namespace) -> None:
    """Log that what a typed CREATE defines exists already, with the same definition or another.
    Raises ObjectExistsError.
    """
    if (refilled := refilled_error(statement, namespace)) is not None:
        raise refilled
    if (drift := diff_with_catalog(statement, namespace)) is not None:
        log.warning("%s", definition_warning(statement, drift, namespace).message)
    elif (note := kept_note(statement, namespace)) is not None:
        log.info("%s", note)


def diff_with_catalog(statement: Statement, namespace: Namespace) -> DefinitionDiff | None:
    """Describe how a CREATE differs from what the catalog holds under its name; None where it holds nothing else."""
    obj = _created(statement)
    found = None if obj is None else namespace.same_named(obj)
    # what has no version is not stored: it is of this file, of this session, or of a folder
    if obj is None or found is None or found.version is None or kind_of(found) != kind_of(obj):
        return None
    return diff_definitions(found, obj) or None


def definition_warning(
    statement: Statement, drift: DefinitionDiff, namespace: Namespace
) -> ObjectExistsError:
    """Make the warning that a definition of a file is not the one that is used."""
    obj = _created(statement)
    assert obj is not None, "a drift is of a CREATE"
    kind = kind_of(obj)
    return ObjectExistsError(
        f"{drift.identifier.name} is in the catalog with another definition{since(drift.identifier, namespace)}, "
        f"which is used; here it has: {drift}",
        hint=_ways(kind, drift.identifier.name),
        span=statement.span,
    )


def _created(statement: Statement) -> Table | View | None:
    match statement:
        case CreateTable(table=table):
            return table
        case CreateTableAs(create=create):
            return create.table
        case CreateView(view=view):
            return view
    return None


def _other(obj: Table | View, drift: DefinitionDiff, found: ObjectExistsError) -> ObjectExistsError:
    kind, name = kind_of(obj), obj.identifier.name
    if obj.temporary:
        return ObjectExistsError(
            f"{found.message}, with another definition; here it has: {drift}", hint=found.hint
        )
    return ObjectExistsError(
        f"there is a {kind} {obj.identifier} already, with another definition; here it has: "
        f"{drift}",
        hint=f"{_ways(kind, name)}; IF NOT EXISTS uses the catalog's",
    )


def _ways(kind: str, name: str) -> str:
    return (
        f"`penstock catalog apply FILE` takes the file's definition, ALTER {kind.upper()} {name} changes the "
        f"catalog's, DROP {kind.upper()} {name} forgets it (data stays)"
    )
