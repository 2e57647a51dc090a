"""The catalog on PostgreSQL: how it is opened, how writers queue up, which failures pass. Beside `sqlite_file.py`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, select
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from penstock.catalog.errors import ConfigError

__all__ = ["LOCK_TIMEOUT_S", "is_away", "is_lock_timeout", "is_passing", "open_engine", "queue_up"]

LOCK_TIMEOUT_S = 10
"""How long a writer waits for another process's transaction; ours take milliseconds."""
CONNECT_TIMEOUT_S = 10
"""How long a server may take to answer at all, unless the URL says `connect_timeout`."""

DRIVER = "postgresql+psycopg"

# "penstock" in ASCII: the advisory lock that changes of definitions queue up for, as SQLite's writers do
QUEUE = 0x70656E73746F636B

# PostgreSQL manual, appendix A: serialization_failure, deadlock_detected
PASSING = frozenset({"40001", "40P01"})
LOCK_NOT_AVAILABLE = "55P03"


def open_engine(url: URL, location: str) -> Engine:
    """Make the engine. A connection is kept for the next call: making one takes longer than what we ask.

    Raises ConfigError where the driver is not installed.
    """
    if url.drivername == "postgresql":
        url = url.set(drivername=DRIVER)  # SQLAlchemy would take psycopg2
    given = url.query.get("connect_timeout")
    try:
        engine = create_engine(
            url,
            # whatever the server's default is: what waited for a lock has to see what was committed meanwhile
            isolation_level="READ COMMITTED",
            pool_size=1,
            max_overflow=20,
            pool_pre_ping=True,
            connect_args={} if given else {"connect_timeout": CONNECT_TIMEOUT_S},
        )
    except ImportError as error:
        raise ConfigError(
            f"the catalog {location} needs the Python package {error.name!r}",
            hint="pip install 'psycopg[binary]'" if error.name == "psycopg" else None,
        ) from error

    @event.listens_for(engine, "connect")
    def bound_waits(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'")
        connection.commit()

    return engine


def queue_up(connection: Connection) -> None:
    """Let nobody else change definitions until the transaction ends."""
    connection.execute(select(func.pg_advisory_xact_lock(QUEUE)))


def is_passing(error: DBAPIError) -> bool:
    """Tell whether the same step may succeed when it is done again: another transaction was in the way."""
    return isinstance(error, IntegrityError) or _state(error) in PASSING


def is_lock_timeout(error: DBAPIError) -> bool:
    """Tell whether another transaction held a lock for longer than LOCK_TIMEOUT_S."""
    return _state(error) == LOCK_NOT_AVAILABLE


def is_away(error: DBAPIError) -> bool:
    """Tell whether the server could not be reached, or the connection was lost."""
    return isinstance(error, OperationalError) and (
        error.connection_invalidated or _state(error) is None
    )


def _state(error: DBAPIError) -> str | None:
    state: str | None = getattr(error.orig, "sqlstate", None)
    return state
