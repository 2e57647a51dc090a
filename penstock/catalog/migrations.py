"""The store's own tables, and how an older store is brought up to date. Plain SQLAlchemy, no database's own SQL.

A migration never changes once released: a new version adds a function to the end of MIGRATIONS.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    func,
    insert,
    inspect,
    select,
)

from penstock.catalog.errors import CatalogError

__all__ = [
    "FUNCTIONS",
    "LEASES",
    "MIGRATIONS",
    "OBJECTS",
    "PLACES_SINCE",
    "SCHEMA_VERSION",
    "STOP_REQUESTS",
    "is_foreign",
    "migrate",
    "version_of",
]

_METADATA = MetaData()

PLACES_SINCE = 2
"""The version of a store from which on it holds catalogs and databases."""

SCHEMA_VERSION = Table(
    "penstock_schema_version",
    _METADATA,
    # one row a migration: two processes that raise the version at once cannot both commit
    Column("version", Integer, primary_key=True, autoincrement=False),
)
OBJECTS = Table(
    "penstock_objects",
    _METADATA,
    # one space of names for tables and views, as in Flink
    Column("catalog_name", String(255), primary_key=True),
    Column("database_name", String(255), primary_key=True),
    Column("object_name", String(255), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("definition", Text, nullable=False),  # JSON, see codec.py
)
LEASES = Table(
    "penstock_leases",
    _METADATA,
    Column("pipeline", String(512), primary_key=True),
    Column("fence", BigInteger, nullable=False),
    Column("token", String(64), nullable=False),  # empty: given back; the row stays for its fence
    Column("host", String(255), nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("boot_id", String(255), nullable=False),
    Column("started", BigInteger, nullable=True),
    Column("since_ms", BigInteger, nullable=False),  # epoch ms by the database's clock
    Column("heartbeat_ms", BigInteger, nullable=False),  # as above
)

FUNCTIONS = Table(
    "penstock_functions",
    _METADATA,
    # a space of names of their own, as in Flink; names are in lower case
    Column("catalog_name", String(255), primary_key=True),
    Column("database_name", String(255), primary_key=True),
    Column("function_name", String(255), primary_key=True),
    Column("definition", Text, nullable=False),  # JSON, see function.py
)


CATALOGS = Table(
    "penstock_catalogs",
    _METADATA,
    Column("catalog_name", String(255), primary_key=True),
    Column("definition", Text, nullable=False),  # JSON, see codec.py
)
DATABASES = Table(
    "penstock_databases",
    _METADATA,
    # default databases are there without a row, until they are altered
    Column("catalog_name", String(255), primary_key=True),
    Column("database_name", String(255), primary_key=True),
    Column("definition", Text, nullable=False),  # JSON, see codec.py
)

STOP_REQUESTS = Table(
    "penstock_stop_requests",
    _METADATA,
    Column("pipeline", String(512), primary_key=True),
    # of the grant that is asked to end: a later runner of the pipeline is not meant
    Column("fence", BigInteger, nullable=False),
)


def _create_first_tables(connection: Connection) -> None:
    _METADATA.create_all(connection, tables=[OBJECTS, LEASES])


def _create_places(connection: Connection) -> None:
    _METADATA.create_all(connection, tables=[CATALOGS, DATABASES])


def _create_functions(connection: Connection) -> None:
    _METADATA.create_all(connection, tables=[FUNCTIONS, STOP_REQUESTS])


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _create_first_tables,
    _create_places,
    _create_functions,
)


def version_of(connection: Connection) -> int:
    """Give the version of the store, 0 for one that holds nothing of ours. Raises CatalogError for a newer one."""
    if not inspect(connection).has_table(SCHEMA_VERSION.name):
        return 0
    version = connection.scalar(select(func.max(SCHEMA_VERSION.c.version))) or 0
    if version > len(MIGRATIONS):
        raise CatalogError(
            f"the catalog was written by a newer Penstock (its version is {version}, this one knows "
            f"{len(MIGRATIONS)})",
            hint="upgrade Penstock, or name another catalog; this one was not changed",
        )
    return version


def is_foreign(connection: Connection) -> bool:
    """Tell whether a store holds tables, but none of ours."""
    names = inspect(connection).get_table_names()
    return bool(names) and SCHEMA_VERSION.name not in names


def migrate(connection: Connection) -> bool:
    """Bring the store up to date within the transaction of `connection`. Tells whether there was anything to do."""
    version = version_of(connection)
    SCHEMA_VERSION.create(connection, checkfirst=True)
    for number, migration in enumerate(MIGRATIONS[version:], start=version + 1):
        migration(connection)
        connection.execute(insert(SCHEMA_VERSION).values(version=number))
    return version < len(MIGRATIONS)
