"""The watermark of raw records at planning, before any JVM sees them: the table's expression, run by DuckDB.

DuckDB is locked down: user text runs here, and it can neither reach files nor the network nor load code.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import duckdb
import pyarrow as pa

__all__ = ["Rowtime", "evaluate"]

_connections: dict[int, duckdb.DuckDBPyConnection] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rowtime:
    """How a record's watermark is computed.

    `column` is the rowtime's name. `expression` is DuckDB SQL over `inputs`, which are columns that the source
    delivers; it gives a TIMESTAMP, or a TIMESTAMPTZ when `instant`.
    """

    column: str
    inputs: tuple[str, ...]
    expression: str
    instant: bool


def evaluate(rowtime: Rowtime, batch: pa.RecordBatch, time_zone: str) -> list[int | None]:
    """Give the watermark of each row in epoch ms, rounded down; None where it is NULL.

    A TIMESTAMP, which has no time zone, counts as UTC, as in Spark's state operators. `time_zone` is the
    session's, for conversions between the two.
    """
    connection = _connection()
    connection.execute("SET TimeZone = ?", [time_zone])
    connection.register("records", pa.Table.from_batches([batch]))
    try:
        kind = "TIMESTAMPTZ" if rowtime.instant else "TIMESTAMP"
        query = f"SELECT epoch_us(CAST(({rowtime.expression}) AS {kind})) FROM records"  # noqa: S608  a checked expression
        return [
            None if us is None else us // 1000 for (us,) in connection.execute(query).fetchall()
        ]
    finally:
        connection.unregister("records")


def _connection() -> duckdb.DuckDBPyConnection:
    """Give this process's connection: one made before a fork does not work after it."""
    connection = _connections.get(os.getpid())
    if connection is None:
        connection = duckdb.connect(
            ":memory:",
            config={
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "threads": "1",
                "memory_limit": "256MB",
            },
        )
        _connections.clear()
        _connections[os.getpid()] = connection
    return connection
