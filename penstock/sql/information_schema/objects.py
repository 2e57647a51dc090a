"""All tables and views that a session sees, catalog by catalog; what cannot be read is skipped.

An unavailable database server does not hide the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.catalog.definitions.contract import kind_of
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table, View

__all__ = ["NamedObject", "named_objects", "places"]

log = logging.getLogger(__name__)

KINDS = {"table": "BASE TABLE", "view": "VIEW"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedObject:
    """A name and what it resolves to; None where that cannot be described. `kind` is SQL's word."""

    identifier: Identifier
    kind: str
    found: Table | View | None


def places(namespace: Namespace) -> Iterator[tuple[str, str]]:
    """Return every database as (catalog, database), sorted."""
    for catalog in namespace.catalog.catalogs():
        try:
            names = namespace.catalog.databases(catalog.name)
        except InputError as error:
            _left_out(f"the catalog {catalog.name!r}", error)
            continue
        for name in names:
            yield catalog.name, name


def named_objects(namespace: Namespace) -> Iterator[NamedObject]:
    """Return every table and view; a temporary one instead of what it hides."""
    temporary = {each.identifier: each for each in namespace.temporary()}
    for catalog, database in places(namespace):
        yield from _permanent(namespace, catalog, database, temporary)
    for identifier, found in temporary.items():
        yield NamedObject(identifier=identifier, kind=KINDS[kind_of(found)], found=found)


def _permanent(
    namespace: Namespace, catalog: str, database: str, hidden: dict[Identifier, Table | View]
) -> Iterator[NamedObject]:
    try:
        names = {
            "table": namespace.catalog.tables(database, catalog),
            "view": namespace.catalog.views(database, catalog),
        }
    except InputError as error:
        _left_out(f"the database {catalog}.{database}", error)
        return
    for kind, identifiers in names.items():
        for identifier in identifiers:
            if identifier not in hidden:
                found = _looked_up(namespace, identifier)
                yield NamedObject(identifier=identifier, kind=KINDS[kind], found=found)


def _looked_up(namespace: Namespace, identifier: Identifier) -> Table | View | None:
    try:
        return namespace.catalog.get(identifier)
    except InputError as error:
        _left_out(f"the definition of {identifier}", error)
        return None


def _left_out(what: str, error: InputError) -> None:
    log.warning("information_schema leaves out %s: %s", what, error.message)
