"""Rules for creating, changing and dropping catalogs, databases, tables and views.

The store and the overlays apply the same rules, so that a check of a file and a run of it refuse the same DDL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from penstock.catalog.definitions.contract import ObjectKind, kind_of
from penstock.catalog.errors import (
    DefinitionError,
    ObjectExistsError,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
    known_are,
)
from penstock.catalog.model.identifier import Identifier, quote
from penstock.catalog.model.namespaces import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    IN_MEMORY,
    INFORMATION_SCHEMA,
    CatalogDescriptor,
    DatabaseDescriptor,
)
from penstock.catalog.model.table import Table, View


def may_create(
    obj: Table | View, found: ObjectKind | None, *, if_not_exists: bool, replace: bool
) -> bool:
    """Return whether `obj` is to be written, given the kind of what has its name. Raises ObjectExistsError."""
    if found is None or (replace and found == kind_of(obj)):
        return True
    if if_not_exists:
        return False
    word = f"{'temporary ' if obj.temporary else ''}{found}"
    raise ObjectExistsError(
        f"there is a {word} {obj.identifier} already",
        hint=f"DROP {word.upper()} {obj.identifier} first, or write CREATE ... IF NOT EXISTS",
    )


def may_drop(
    identifier: Identifier,
    kind: ObjectKind,
    found: ObjectKind | None,
    *,
    if_exists: bool,
    known: Callable[[], Iterable[Identifier]],
) -> bool:
    """Return whether there is something to remove. Raises UnknownObjectError; a view is no table, as in Flink."""
    if found == kind:
        return True
    if if_exists:
        return False
    if found is None:
        raise unknown_object(identifier, known())
    raise UnknownObjectError(
        f"{identifier} is a {found}, not a {kind}", hint=f"DROP {found.upper()} {identifier}"
    )


def may_rename(after: Table | View, found: ObjectKind | None) -> None:
    """Check that a new name is free, given the kind of what has it. Raises ObjectExistsError."""
    if found is not None:
        raise ObjectExistsError(
            f"there is a {found} {after.identifier} already", hint="choose another name"
        )


def unknown_object(identifier: Identifier, known: Iterable[Identifier]) -> UnknownObjectError:
    """Make the error for an unknown name, with the nearest of `known`.

    `known` are those of its database, and may include others: one of the same name is mentioned.
    """
    known = list(known)
    namespace = (identifier.catalog, identifier.database)
    names = sorted({other.name for other in known if (other.catalog, other.database) == namespace})
    elsewhere = sorted(other for other in known if other.name == identifier.name)
    if elsewhere:
        hint = f"did you mean {elsewhere[0]}?"
    elif names:
        hint = did_you_mean(identifier.name, names) or known_are(names, all_by="SHOW TABLES")
    else:
        hint = (
            f"{identifier.catalog}.{identifier.database} has no tables: `penstock run FILE` defines those of a file; "
            "each project folder has a catalog of its own (`penstock doctor` names it)"
        )
    return UnknownObjectError(f"there is no table or view {identifier}", hint=hint)


SHOWN = 5
"""Names of objects that an error lists."""


class Namespaces(Protocol):
    """The existing definitions, as far as the rules need them."""

    def catalogs(self) -> list[CatalogDescriptor]:
        """List the catalogs, sorted by name."""

    def databases(self, catalog: str | None = None) -> list[str]:
        """List the databases of a catalog, sorted. Raises UnknownObjectError."""

    def tables(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the tables of a database or catalog."""

    def views(self, database: str | None = None, catalog: str | None = None) -> list[Identifier]:
        """List the views of a database or catalog."""


class Versioned(Protocol):
    """A definition that may know which version of it was read (`contract.Catalog`)."""

    @property
    def version(self) -> int | None:
        """The version; None where it is not known."""


def find_catalog(name: str, namespaces: Namespaces) -> CatalogDescriptor:
    """Return a catalog. Raises UnknownObjectError with the nearest name."""
    known = {catalog.name: catalog for catalog in namespaces.catalogs()}
    if name in known:
        return known[name]
    hint = did_you_mean(name, known) or known_are(list(known), all_by="SHOW CATALOGS")
    raise UnknownObjectError(f"there is no catalog {name!r}", hint=hint)


def find_database(catalog: str, name: str, namespaces: Namespaces) -> None:
    """Check that a database exists. Raises UnknownObjectError with the nearest name."""
    known = namespaces.databases(catalog)
    if name not in known and name != INFORMATION_SCHEMA:
        near = did_you_mean(name, (*known, INFORMATION_SCHEMA))
        hint = near or known_are(known, all_by="SHOW DATABASES")
        where = "" if catalog == DEFAULT_CATALOG else f" in the catalog {catalog!r}"
        raise UnknownObjectError(f"there is no database {name!r}{where}", hint=hint)


def check_namespace(identifier: Identifier, namespaces: Namespaces) -> None:
    """Check that the catalog and the database of a name exist. Raises UnknownObjectError."""
    if (identifier.catalog, identifier.database) == (DEFAULT_CATALOG, DEFAULT_DATABASE):
        return  # always there: nothing has to be read
    find_catalog(identifier.catalog, namespaces)
    find_database(identifier.catalog, identifier.database, namespaces)


def may_create_catalog(
    new: CatalogDescriptor, namespaces: Namespaces, *, if_not_exists: bool
) -> bool:
    """Return whether a catalog is to be written. Raises ObjectExistsError."""
    if new.name not in {catalog.name for catalog in namespaces.catalogs()}:
        return True
    if if_not_exists:
        return False
    raise ObjectExistsError(
        f"there is a catalog {new.name!r} already",
        hint=f"DROP CATALOG {quote(new.name)} first, or write CREATE CATALOG IF NOT EXISTS",
    )


def check_replaced_catalog(before: CatalogDescriptor, after: CatalogDescriptor) -> None:
    """Refuse a change of what a catalog is. Raises UnsupportedError."""
    if (before.type, before.default_database) != (after.type, after.default_database):
        raise UnsupportedError(
            f"catalog {before.name}: 'type' and 'default-database' cannot be changed",
            hint="create another catalog",
        )


def may_drop_catalog(name: str, namespaces: Namespaces, *, if_exists: bool) -> bool:
    """Return whether there is a catalog to remove. Raises UnknownObjectError, DefinitionError."""
    known = {catalog.name: catalog for catalog in namespaces.catalogs()}
    if name not in known and if_exists:
        return False
    found = find_catalog(name, namespaces)
    if name == DEFAULT_CATALOG:
        raise DefinitionError(f"the catalog {name!r} is built in: it cannot be dropped")
    if found.type != IN_MEMORY:
        inside = [*namespaces.tables(catalog=name), *namespaces.views(catalog=name)]
        if inside:
            first = inside[0].database
            raise DefinitionError(
                f"the catalog {name!r} is not empty: {_shown(inside)}",
                hint=f"drop what is in it first: DROP DATABASE {quote(name)}.{quote(first)} CASCADE"
                if first != found.default_database
                else "drop what is in it first",
            )
    return True


def may_create_database(
    new: DatabaseDescriptor, namespaces: Namespaces, *, if_not_exists: bool
) -> bool:
    """Return whether a database is to be written. Raises ObjectExistsError, UnknownObjectError."""
    find_catalog(new.catalog, namespaces)
    if new.name not in namespaces.databases(new.catalog):
        return True
    if if_not_exists:
        return False
    raise ObjectExistsError(
        f"there is a database {new.name!r} already",
        hint=f"DROP DATABASE {quote(new.name)} first, or write CREATE DATABASE IF NOT EXISTS",
    )


def may_drop_database(
    catalog: str, name: str, namespaces: Namespaces, *, if_exists: bool, cascade: bool
) -> bool:
    """Return whether there is a database to remove. Raises UnknownObjectError, DefinitionError."""
    found = find_catalog(catalog, namespaces)
    if name not in namespaces.databases(catalog) and if_exists:
        return False
    find_database(catalog, name, namespaces)
    if name == found.default_database:
        raise DefinitionError(
            f"{name!r} is the default database of the catalog {catalog!r}: it cannot be dropped"
        )
    inside = [*namespaces.tables(name, catalog), *namespaces.views(name, catalog)]
    if inside and not cascade:
        raise DefinitionError(
            f"the database {name!r} is not empty: {_shown(inside)}",
            hint=f"DROP DATABASE {quote(name)} CASCADE drops what is in it too",
        )
    return True


def check_unchanged(
    what: str,
    found: Versioned | None,
    before: Versioned,
    *,
    last: Callable[[], object] | None = None,
) -> None:
    """Refuse a change of a definition that changed since it was read: another version, or another value.

    `last` returns the newest change where there is a history. Raises DefinitionError.
    """
    now, then = None if found is None else found.version, before.version
    if found != before or (None not in (now, then) and now != then):
        raise changed_meanwhile(what, now, then, last)


def changed_meanwhile(
    what: str, now: int | None, then: int | None, last: Callable[[], object] | None
) -> DefinitionError:
    """Make the error for what is of the version `now`, and was of the version `then` when it was read."""
    change = None if last is None else last()
    details = "" if change is None else f": it was {change}"
    if None not in (now, then) and now != then:
        details += f" (it is version {now}, what was read is version {then})"
    return DefinitionError(
        f"{what} was changed by another process in the meantime{details}",
        hint="check it, and try again",
    )


def _shown(inside: Sequence[Identifier]) -> str:
    names = ", ".join(quote(one.name) for one in sorted(inside)[:SHOWN])
    return names if len(inside) <= SHOWN else f"{names} and {len(inside) - SHOWN} more"
