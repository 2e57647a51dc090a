"""The options of jdbc tables as data: Flink's (JdbcConnectorOptions), with its defaults where not said otherwise."""

from __future__ import annotations

from typing import Any

from penstock.catalog.options import (
    BOOLEAN,
    DURATION,
    INT,
    LONG,
    STRING,
    Option,
    optional,
)

__all__ = [
    "COMPATIBLE_MODE",
    "CONNECT_TIMEOUT",
    "DRIVER",
    "MAX_RETRIES",
    "MAX_ROWS",
    "OPTIONS",
    "PARALLELISM",
    "PASSWORD",
    "TABLE_NAME",
    "URL",
    "USERNAME",
]

URL = Option(
    key="url",
    type=STRING,
    default="",
    doc="the database: jdbc:postgresql://host:5432/database, or jdbc:sqlite:folder/file.db",
    required=True,
)
TABLE_NAME = Option(
    key="table-name",
    type=STRING,
    default="",
    doc="the table in the database, or schema.table; it has to be there",
    required=True,
)
DRIVER: Option[str | None] = optional(
    STRING, "driver", "Java's class of the driver; checked against the URL, the driver is Python's"
)
COMPATIBLE_MODE: Option[str | None] = optional(
    STRING, "compatible-mode", "how a database behaves that is like another"
)
USERNAME: Option[str | None] = optional(STRING, "username", "user of the database")
PASSWORD: Option[str | None] = Option(
    key="password", type=STRING, default=None, doc="the user's password", secret=True
)
CONNECT_TIMEOUT = Option(
    key="connection.max-retry-timeout",
    type=DURATION,
    default=60_000,
    doc="how long a connection is waited for, in whole seconds",
)
MAX_ROWS = Option(
    key="sink.buffer-flush.max-rows",
    type=INT,
    default=5_000,
    doc="rows sent together (Flink: 100); they are seen when the micro-batch is committed",
)
MAX_RETRIES = Option(
    key="sink.max-retries",
    type=INT,
    default=3,
    doc="how often the transaction of a batch is tried again after the connection was lost, or a deadlock",
)
PARALLELISM: Option[int | None] = optional(
    INT, "sink.parallelism", "connections of a batch: 1, as a batch is one transaction"
)
_READING: tuple[Option[Any], ...] = (
    optional(STRING, "scan.partition.column", "of reading"),
    optional(INT, "scan.partition.num", "of reading"),
    optional(LONG, "scan.partition.lower-bound", "of reading"),
    optional(LONG, "scan.partition.upper-bound", "of reading"),
    optional(INT, "scan.fetch-size", "of reading"),
    optional(BOOLEAN, "scan.auto-commit", "of reading"),
    optional(STRING, "lookup.cache", "of lookups"),
    optional(LONG, "lookup.partial-cache.max-rows", "of lookups"),
    optional(DURATION, "lookup.partial-cache.expire-after-write", "of lookups"),
    optional(DURATION, "lookup.partial-cache.expire-after-access", "of lookups"),
    optional(BOOLEAN, "lookup.partial-cache.cache-missing-key", "of lookups"),
    optional(INT, "lookup.max-retries", "of lookups"),
)
OPTIONS: tuple[Option[Any], ...] = (
    Option(key="connector", type=STRING, default="", doc="'jdbc'", required=True),
    URL,
    TABLE_NAME,
    DRIVER,
    COMPATIBLE_MODE,
    USERNAME,
    PASSWORD,
    CONNECT_TIMEOUT,
    MAX_ROWS,
    optional(
        DURATION,
        "sink.buffer-flush.interval",
        "accepted for Flink's sake: rows do not wait, a micro-batch is written at once",
    ),
    MAX_RETRIES,
    PARALLELISM,
    *_READING,
)
