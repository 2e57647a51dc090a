"""Brings a store up to date by Alembic's steps, without a file of settings: the connection is the caller's."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, delete, insert, inspect

from penstock.catalog.migrations.tables import (
    HEAD,
    LOWEST_READER,
    MIN_READER,
    STEP,
    legacy_version,
    version_of,
)


def migrate(connection: Connection) -> bool:
    """Bring the store up to date within the transaction of `connection`, which no other process migrates meanwhile.

    Returns whether there was anything to do. A store from before Alembic, or from before its steps were recorded apart
    from its readers, is upgraded from its present version.
    """
    names = set(inspect(connection).get_table_names())
    known = STEP.name in names
    # no question that fails: it would end the transaction
    if LOWEST_READER.name in names:
        version = version_of(connection, steps=known)
    else:
        version = legacy_version(connection)
    if version >= HEAD:
        return False
    config = Config()
    # a % begins an interpolation there
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    if version and not known:
        command.stamp(config, f"{version:04}")
    command.upgrade(config, f"{HEAD:04}")
    connection.execute(delete(LOWEST_READER))
    connection.execute(insert(LOWEST_READER).values(version_num=f"{MIN_READER:04}"))
    return True
