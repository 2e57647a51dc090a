"""The version of a store, and the versions of Penstock that may use it. One plain query where it is
up to date: every transaction asks.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, inspect, select
from sqlalchemy.exc import OperationalError, ProgrammingError

from penstock.catalog.errors import CatalogError
from penstock.catalog.migrations.tables import HEAD, LEGACY_VERSION, LOWEST_READER, STEP

__all__ = ["LEGACY_HEAD", "legacy_version", "version_of"]

LEGACY_HEAD = 3
"""The last version of stores that a table of our own numbered."""

_READER = select(LOWEST_READER.c.version_num).scalar_subquery()
_ASKED = select(select(STEP.c.version_num).scalar_subquery(), _READER)
_ASKED_BEFORE = select(LOWEST_READER.c.version_num)


def version_of(connection: Connection, *, steps: bool = True) -> int:
    """Return the version of the store, 0 for one that holds nothing of ours. It may be newer than HEAD.

    To be asked at the start of a transaction: another one begins where the store is not up to date. `steps` False does
    not look for STEP, which stores before STEPS_SINCE lack: a server logs each question that fails.
    Raises CatalogError for a store that is not for this Penstock any more, and for a SQLite file that is something
    else's.
    """
    try:
        if steps:
            return _known(*connection.execute(_ASKED).one())
    except (OperationalError, ProgrammingError):
        # PostgreSQL refuses whatever follows an error in a transaction
        connection.rollback()
    try:
        version = connection.scalar(_ASKED_BEFORE)
    except (OperationalError, ProgrammingError):
        connection.rollback()
        return legacy_version(connection)
    return _known(version, version)


def legacy_version(connection: Connection) -> int:
    """Return the version of a store that Alembic does not know. Raises as `version_of`."""
    names = set(inspect(connection).get_table_names())
    if LOWEST_READER.name in names:
        # what was asked first failed for another reason: it says so once more
        version = connection.scalar(_ASKED_BEFORE)
        return _known(version, version)
    if LEGACY_VERSION.name in names:
        last = connection.scalar(select(func.max(LEGACY_VERSION.c.version))) or 0
        if last > LEGACY_HEAD:
            raise _newer(str(last))
        return last
    if names and connection.dialect.name == "sqlite":
        raise CatalogError(
            f"{connection.engine.url.database} is a database of something else, not a Penstock catalog",
            hint="name another file; this one was not changed",
        )
    return 0


def _known(version: str | None, reader: str | None) -> int:
    """Read the numbers of a store: Penstock of `reader` and later may use it."""
    number = int(version) if version and version.isdecimal() else 0
    lowest = int(reader) if reader and reader.isdecimal() else 0
    if not number or not 0 < lowest <= HEAD:
        raise _newer(reader or "none")
    return number


def _newer(reader: str) -> CatalogError:
    return CatalogError(
        f"the catalog was written by a newer Penstock (it is for version {reader} and later, this one knows {HEAD})",
        hint="upgrade Penstock, or name another catalog; this one was not changed",
    )
