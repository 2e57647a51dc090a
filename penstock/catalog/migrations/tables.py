"""The store's own tables as they are now, the version of a store, and the versions of Penstock that may use it.

Plain SQLAlchemy, no dialect's own SQL. A new store is made at once; an older one is changed by `versions/`, step by
step; tests hold the two together.
The version is one plain query where a store is up to date: every transaction asks.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    insert,
    inspect,
    select,
)
from sqlalchemy.exc import OperationalError, ProgrammingError

from penstock.catalog.errors import CatalogError

METADATA = MetaData()

HEAD = 7
"""The version of a store that is up to date: the number of the last file in `versions/`."""
MIN_READER = 4
"""The oldest Penstock, by its HEAD, that may use a store that is up to date.

Steps add tables, and columns that may be left out, so that it stays. Where one cannot, this becomes its number: from
the upgrade on older processes refuse the store, and their pipelines stop.
"""
LEASES_SINCE = 1
"""The version of a store from which on pipelines have leases."""
NAMESPACES_SINCE = 2
"""The version of a store from which on it holds catalogs and databases."""
FUNCTIONS_SINCE = 3
"""The version of a store from which on it holds functions."""
STOP_REQUESTS_SINCE = 3
"""The version of a store from which on pipelines may be asked to stop."""
VERSIONS_SINCE = 4
"""The version of a store from which on its definitions have versions and a history."""
SECRETS_SINCE = 4
"""The version of a store from which on it holds secrets."""
STEPS_SINCE = 5
"""The first version of a store whose version and lowest reader are recorded separately."""
JOB_STATES_SINCE = 5
"""The first version of a store with job reports."""
LEFT_OUT_SINCE = 6
"""The first version of a store whose job reports have the rows that were left out."""
SENTENCE_SINCE = 7
"""The first version of a store whose job reports have a sentence."""

STEP = Table(
    "penstock_alembic_step",
    METADATA,
    # one row, kept by Alembic: the number of the last file of `versions/` that was applied, as 0005
    Column("version_num", String(32), primary_key=True),
)
LOWEST_READER = Table(
    "penstock_alembic_version",
    METADATA,
    # one row: the MIN_READER of the store. The Penstock of version 4 takes it for the store's version, and goes on
    Column("version_num", String(32), primary_key=True),
)
LEGACY_VERSION = Table(
    "penstock_schema_version",
    METADATA,
    # what stores had up to version 3; a row 4 has the Penstock of that time refuse the store in words
    Column("version", Integer, primary_key=True, autoincrement=False),
)


def _version() -> Column[int]:
    # grows with each change of the name, over drops too
    return Column("version", BigInteger, nullable=False, server_default="1")


OBJECTS = Table(
    "penstock_objects",
    METADATA,
    # one space of names for tables and views, as in Flink
    Column("catalog_name", String(255), primary_key=True),
    Column("database_name", String(255), primary_key=True),
    Column("object_name", String(255), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("definition", Text, nullable=False),  # JSON, see codec.py
    _version(),
)
FUNCTIONS = Table(
    "penstock_functions",
    METADATA,
    # a space of names of their own, as in Flink; names are in lower case
    Column("catalog_name", String(255), primary_key=True),
    Column("database_name", String(255), primary_key=True),
    Column("function_name", String(255), primary_key=True),
    Column("definition", Text, nullable=False),  # JSON, see function.py
    _version(),
)
CATALOGS = Table(
    "penstock_catalogs",
    METADATA,
    Column("catalog_name", String(255), primary_key=True),
    Column("definition", Text, nullable=False),  # JSON, see codec.py
    _version(),
)
DATABASES = Table(
    "penstock_databases",
    METADATA,
    # default databases are there without a row, until they are altered
    Column("catalog_name", String(255), primary_key=True),
    Column("database_name", String(255), primary_key=True),
    Column("definition", Text, nullable=False),  # JSON, see codec.py
    _version(),
)
HISTORY = Table(
    "penstock_history",
    METADATA,
    Column(
        "change_id",
        # the only type that SQLite counts up by itself
        BigInteger().with_variant(Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
    ),
    # what was changed; a database has no object's name, a catalog no database's either
    Column("catalog_name", String(255), nullable=False),
    Column("database_name", String(255), nullable=False),
    Column("object_name", String(255), nullable=False),
    Column("kind", String(16), nullable=False),  # table, view, function, database, catalog
    Column("action", String(16), nullable=False),  # create, replace, rename, drop
    Column("version", BigInteger, nullable=False),  # the one that the change made
    Column("changed_ms", BigInteger, nullable=False),  # epoch ms by the database's clock
    Column("changed_by", String(512), nullable=False),  # user@host
    Column("process", BigInteger, nullable=False),  # its id on that host
    Column("before", Text, nullable=True),  # JSON of the definition, null for what was created
    Column("after", Text, nullable=True),  # JSON of the definition, null for what was dropped
    # the new name of what was renamed
    Column("to_catalog", String(255), nullable=True),
    Column("to_database", String(255), nullable=True),
    Column("to_object", String(255), nullable=True),
    # tables and views share their names, so this also holds between the two
    UniqueConstraint(
        "catalog_name",
        "database_name",
        "object_name",
        "kind",
        "version",
        name="penstock_history_version",
    ),
    Index("penstock_history_to", "to_catalog", "to_database", "to_object"),
)
LEASES = Table(
    "penstock_leases",
    METADATA,
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
STOP_REQUESTS = Table(
    "penstock_stop_requests",
    METADATA,
    Column("pipeline", String(512), primary_key=True),
    # of the grant that is asked to end: a later runner of the pipeline is not meant
    Column("fence", BigInteger, nullable=False),
)
JOB_STATES = Table(
    "penstock_job_states",
    METADATA,
    Column("pipeline", String(512), primary_key=True),
    # of the grant whose holder says so: nothing of it holds for a later runner
    Column("fence", BigInteger, nullable=False),
    Column("status", String(16), nullable=False),
    Column("restarts", BigInteger, nullable=False),
    Column("last_error", Text, nullable=True),
    Column("waiting_for", Text, nullable=True),
    Column("waiting_since_ms", BigInteger, nullable=True),  # epoch ms by the runner's clock
    Column("changed_ms", BigInteger, nullable=False),  # epoch ms by the database's clock
    # null: of a runner that does not count them
    Column("late_rows", BigInteger, nullable=True),
    Column("bad_records", BigInteger, nullable=True),
    # null: of a runner that does not say it
    Column("sentence", Text, nullable=True),
)
SECRETS = Table(
    "penstock_secrets",
    METADATA,
    Column("secret_name", String(255), primary_key=True),
    Column("value", Text, nullable=False),  # encrypted
    Column("key_id", String(64), nullable=False),  # of the key that it is encrypted with
    Column("created_ms", BigInteger, nullable=False),  # epoch ms by the database's clock
    Column("changed_ms", BigInteger, nullable=False),  # as above
)


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


def create_store(connection: Connection) -> bool:
    """Make the tables of an up-to-date store, within the transaction of `connection`, which no other process does.

    Returns False where there is a store, which stays as it is. Raises as `version_of`.
    """
    if legacy_version(connection):
        return False
    names = inspect(connection).get_table_names()
    absent = [table for table in METADATA.sorted_tables if table.name not in names]
    METADATA.create_all(connection, tables=absent, checkfirst=False)
    connection.execute(insert(STEP).values(version_num=f"{HEAD:04}"))
    connection.execute(insert(LOWEST_READER).values(version_num=f"{MIN_READER:04}"))
    connection.execute(insert(LEGACY_VERSION).values(version=LEGACY_HEAD + 1))
    return True


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
