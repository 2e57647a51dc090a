"""The catalog on PostgreSQL: how it is opened, how writers queue up, which failures pass. Beside `sqlite.py`."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, select
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from penstock.catalog.errors import ConfigError
from penstock.catalog.store.deadline import DEADLINE_S

LOCK_TIMEOUT_S = 10
"""How long a writer waits for another process's transaction; ours take milliseconds."""
STATEMENT_TIMEOUT_S = 12
"""How long the server works on a statement; the wait for a lock is a part of it."""
IDLE_TIMEOUT_S = 60
"""How long the server keeps a transaction, and its locks, for a process that stands still in the midst of it."""

_CONNECTING: dict[str, int] = {
    # how long a server may take to answer at all
    "connect_timeout": 10,
    # a network that is cut is noticed within ten seconds too, whether or not something was sent
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 4,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
"""Parameters of a connection, unless the URL has others."""
_SERVER_LIMITS = {
    "lock_timeout": LOCK_TIMEOUT_S,
    "statement_timeout": STATEMENT_TIMEOUT_S,
    "idle_in_transaction_session_timeout": IDLE_TIMEOUT_S,
}

DRIVER = "postgresql+psycopg"

# "penstock" in ASCII: the advisory lock that changes of definitions queue up for, as SQLite's writers do
QUEUE = 0x70656E73746F636B

# PostgreSQL manual, appendix A: serialization_failure, deadlock_detected
PASSING = frozenset({"40001", "40P01"})
LOCK_NOT_AVAILABLE = "55P03"
# invalid_password, invalid_authorization_specification, invalid_catalog_name
STAYING = frozenset({"28P01", "28000", "3D000"})

_STAYING_WORDS = (
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
)
"""Words of a refused log-in, for which the driver gives no state."""


def open_engine(url: URL, location: str) -> Engine:
    """Make the engine. A connection is kept for the next call: making one takes longer than what we ask.

    Raises ConfigError where the driver is not installed.
    """
    if url.drivername == "postgresql":
        url = url.set(drivername=DRIVER)  # SQLAlchemy would take psycopg2
    parameters = {key: value for key, value in _CONNECTING.items() if key not in url.query}
    try:
        engine = create_engine(
            url,
            # whatever the server's default is: what waited for a lock has to see what was committed meanwhile
            isolation_level="READ COMMITTED",
            pool_size=1,
            max_overflow=20,
            pool_pre_ping=True,
            connect_args=parameters,
        )
    except ImportError as error:
        raise ConfigError(
            f"the catalog {location} needs the Python package {error.name!r}",
            hint="pip install 'psycopg[binary]'" if error.name == "psycopg" else None,
        ) from error

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> Any:
        # with psycopg, which only a catalog on PostgreSQL needs
        from penstock.catalog.store.postgres_connection import BoundedConnection

        return BoundedConnection.connect(*arguments, **_in_time(parameters))

    @event.listens_for(engine, "connect")
    def bound_waits(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            for name, seconds in _SERVER_LIMITS.items():
                cursor.execute(f"SET {name} = '{seconds}s'")
        connection.commit()

    return engine


def _in_time(parameters: Mapping[str, Any]) -> dict[str, Any]:
    left_s = DEADLINE_S.get() - time.monotonic()
    if left_s == math.inf:
        return dict(parameters)
    limit_s = max(math.ceil(left_s), 1)  # 0 would be no limit
    return {**parameters, "connect_timeout": min(int(parameters["connect_timeout"]), limit_s)}


def queue_up(connection: Connection) -> None:
    """Block other changes of definitions until the transaction ends."""
    connection.execute(select(func.pg_advisory_xact_lock(QUEUE)))


def is_passing(error: DBAPIError) -> bool:
    """Return whether the same step may succeed when it is done again: another transaction was in the way."""
    return isinstance(error, IntegrityError) or _state(error) in PASSING


def is_lock_timeout(error: DBAPIError) -> bool:
    """Return whether another transaction held a lock for longer than LOCK_TIMEOUT_S."""
    return _state(error) == LOCK_NOT_AVAILABLE


def is_away(error: DBAPIError) -> bool:
    """Return whether the server could not be reached, or the connection was lost."""
    return isinstance(error, OperationalError) and (
        error.connection_invalidated or _state(error) is None
    )


def may_pass(error: DBAPIError) -> bool:
    """Return whether a later request may succeed: the server is away, starts, has no room or is in another's hands.

    The driver has one class for these, and for a log-in that the server refuses as long as nobody changes it.
    """
    return (isinstance(error, OperationalError) and not _stays(error)) or is_passing(error)


def _stays(error: OperationalError) -> bool:
    """Return whether the server refuses the user, the password or the database."""
    state = _state(error)
    if state is not None:
        return state in STAYING
    return any(words in str(error.orig) for words in _STAYING_WORDS)


def _state(error: DBAPIError) -> str | None:
    state: str | None = getattr(error.orig, "sqlstate", None)
    return state
