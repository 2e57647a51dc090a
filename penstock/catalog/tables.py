"""The store's own tables, and how an older store is brought up to date. SQLAlchemy core, any database.

Migrations run in order, each in the transaction that records its version; a store of a newer version is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import BigInteger, Column, Connection, Float, Integer, MetaData, String, Table, Text

__all__ = ["LEASES", "MIGRATIONS", "OBJECTS", "VERSION"]

_METADATA = MetaData()

SCHEMA_VERSION = Table("penstock_version", _METADATA, Column("version", Integer, nullable=False))
OBJECTS = Table(
    "penstock_objects",
    _METADATA,
    Column("catalog", String(255), primary_key=True),
    Column("database", String(255), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("definition", Text, nullable=False),
)
LEASES = Table(
    "penstock_leases",
    _METADATA,
    Column("pipeline", String(512), primary_key=True),
    Column("host", String(255), nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("boot_id", String(64), nullable=False),
    Column("started", String(64), nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("since", Float, nullable=False),  # epoch seconds by the database's clock
    Column("renewed", Float, nullable=False),  # as above
)


def _create(connection: Connection) -> None:
    _METADATA.create_all(connection)


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_create,)
VERSION = len(MIGRATIONS)
