"""DuckDB as the expression engine over Arrow batches, with file and network access switched off.

Owns no data. `event_time/rowtime` evaluates watermark expressions with it, the JSON format inspects JSON texts.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.catalog.errors import UnsupportedError

if TYPE_CHECKING:
    import duckdb

__all__ = ["CalculationError", "query", "query_tables"]

MEMORY_LIMIT = "512MB"

_LOCKED_DOWN: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": MEMORY_LIMIT,
    # no files, no network, no spilling, no code from elsewhere, no Python variables read as tables
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "temp_directory": "",
    "python_enable_replacements": False,
}

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d))?(?::?([0-5]\d))?", re.ASCII)


class CalculationError(Exception):
    """DuckDB could not run the query, for whatever reason it names: a mistake in it, values, memory."""


class _Session:
    """A connection of one process and time zone; one query at a time."""

    def __init__(self, time_zone: str) -> None:
        import duckdb

        self._lock = threading.Lock()
        # DuckDB is loaded where it is first needed: most processes of a query never calculate
        self._error = duckdb.Error
        self._connection = duckdb.connect(":memory:", config=_LOCKED_DOWN)
        zone = _duckdb_zone(time_zone).replace("'", "''")
        try:
            self._connection.execute(f"SET GLOBAL TimeZone = '{zone}'")
        except duckdb.Error as error:
            raise UnsupportedError(
                f"the time zone {time_zone!r} is not known at planning",
                hint="use a name such as 'Europe/Berlin' or an offset such as '+02:00'",
            ) from error
        self._connection.execute("SET lock_configuration = true")

    def query(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        with self._lock:
            for name, table in tables.items():
                self._connection.register(name, table)
            try:
                relation: duckdb.DuckDBPyRelation = self._connection.sql(sql)
                return relation.to_arrow_table()
            except self._error as error:
                raise CalculationError(str(error)) from error
            finally:
                for name in tables:
                    self._connection.unregister(name)


# Keyed by process: a connection does not survive a fork. The parent's entries stay, as closing them in a child
# would wait for threads that are not there.
_sessions: dict[tuple[int, str], _Session] = {}


def query(sql: str, records: pa.Table, *, time_zone: str = "UTC") -> pa.Table:
    """Run `sql` over the one table `records`. `time_zone` is Spark's spelling of the session's time zone.

    Raises UnsupportedError for a time zone that DuckDB does not know, CalculationError for what is wrong with `sql`.
    """
    return query_tables(sql, {"records": records}, time_zone=time_zone)


def query_tables(sql: str, tables: Mapping[str, pa.Table], *, time_zone: str = "UTC") -> pa.Table:
    """Run `sql` over several tables by name, and else as `query`. Raises as it does."""
    key = (os.getpid(), time_zone)
    session = _sessions.get(key)
    if session is None:
        session = _sessions.setdefault(key, _Session(time_zone))
    return session.query(sql, tables)


def _duckdb_zone(time_zone: str) -> str:
    """Spell an offset as ICU's GMT+hh:mm: DuckDB reads others not at all, or as whole hours only."""
    if time_zone == "Z":
        return "UTC"
    offset = _OFFSET.fullmatch(time_zone)
    if offset is None:
        return time_zone
    sign, hours, minutes, seconds = offset.groups()
    text = f"GMT{sign}{int(hours):02}:{minutes or '00'}"
    return f"{text}:{seconds}" if seconds and seconds != "00" else text
