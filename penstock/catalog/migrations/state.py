"""Which version a store has. One plain query where it is up to date: every transaction asks."""

from __future__ import annotations

from sqlalchemy import Connection, func, inspect, select
from sqlalchemy.exc import OperationalError, ProgrammingError

from penstock.catalog.errors import CatalogError
from penstock.catalog.migrations.tables import HEAD, LEGACY_VERSION, VERSION

__all__ = ["LEGACY_HEAD", "legacy_version", "version_of"]

LEGACY_HEAD = 3
"""The last version of stores that a table of our own numbered."""


_ASKED = select(VERSION.c.version_num)


def version_of(connection: Connection) -> int:
    """Give the version of the store, 0 for one that holds nothing of ours.

    To be asked at the start of a transaction: another one begins where the store is not up to date. Raises
    CatalogError for a newer store, and for a SQLite file that is something else's.
    """
    try:
        found = connection.scalar(_ASKED)
    except (OperationalError, ProgrammingError):
        # PostgreSQL refuses whatever follows an error in a transaction
        connection.rollback()
        return legacy_version(connection)
    return _known(int(found) if found and found.isdecimal() else 0, found)


def legacy_version(connection: Connection) -> int:
    """Give the version of a store that Alembic does not know. Raises as `version_of`."""
    names = set(inspect(connection).get_table_names())
    if VERSION.name in names:
        # what was asked first failed for another reason: it says so once more
        return _known(int(connection.scalar(select(VERSION.c.version_num)) or 0), None)
    if LEGACY_VERSION.name in names:
        version = connection.scalar(select(func.max(LEGACY_VERSION.c.version))) or 0
        if version > LEGACY_HEAD:
            raise _newer(str(version))
        return version
    if names and connection.dialect.name == "sqlite":
        raise CatalogError(
            f"{connection.engine.url.database} is a database of something else, not a Penstock catalog",
            hint="name another file; this one was not changed",
        )
    return 0


def _known(version: int, text: str | None) -> int:
    if not 0 < version <= HEAD:
        raise _newer(text or "none")
    return version


def _newer(version: str) -> CatalogError:
    return CatalogError(
        f"the catalog was written by a newer Penstock (its version is {version}, this one knows {HEAD})",
        hint="upgrade Penstock, or name another catalog; this one was not changed",
    )
