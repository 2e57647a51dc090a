"""The options of jdbc tables as data: Flink's (JdbcConnectorOptions), with its defaults where not said otherwise."""

from __future__ import annotations

from typing import Any

from penstock.catalog.options.option import (
    BOOLEAN,
    DURATION,
    INT,
    LONG,
    STRING,
    Option,
    enum_type,
    optional,
)

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
    STRING,
    "driver",
    "Java's class of the driver, which is checked against the URL; the driver is Python's",
    flink="the class that is loaded",
)
COMPATIBLE_MODE: Option[str | None] = optional(
    STRING,
    "compatible-mode",
    "refused where it is set: the URL says what the database is",
    flink="how a database behaves that is like another",
)
USERNAME: Option[str | None] = Option(
    key="username",
    type=STRING,
    default=None,
    doc="user of the database; needs 'password'",
    references=True,
)
PASSWORD: Option[str | None] = Option(
    key="password",
    type=STRING,
    default=None,
    doc="password of the user",
    secret=True,
    references=True,
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
    doc="rows that are sent together; they are seen when the micro-batch is committed",
    flink="the default is 100, and rows are seen as they are sent",
)
MAX_RETRIES = Option(
    key="sink.max-retries",
    type=INT,
    default=3,
    doc="how often the transaction of a batch is tried again after the connection was lost, or a deadlock",
)
PARALLELISM: Option[int | None] = optional(
    INT,
    "sink.parallelism",
    "connections of a batch, of which there is one: a batch is one transaction",
    flink="tasks of the sink operator",
)
PARTITION_COLUMN: Option[str | None] = optional(
    STRING, "scan.partition.column", "a column of whole numbers that tells the tasks' rows apart"
)
PARTITION_NUM: Option[int | None] = optional(
    INT, "scan.partition.num", "how many tasks read the table, each over a connection of its own"
)
PARTITION_LOWER: Option[int | None] = optional(
    LONG, "scan.partition.lower-bound", "lowest value that is read, inclusive"
)
PARTITION_UPPER: Option[int | None] = optional(
    LONG, "scan.partition.upper-bound", "highest value that is read, inclusive"
)
FETCH_SIZE = Option(
    key="scan.fetch-size",
    type=INT,
    default=0,
    doc="rows that are fetched together, as one Arrow batch; 0 leaves it to the connector",
)
LOOKUP_CACHE = Option(
    key="lookup.cache",
    type=enum_type("NONE", "PARTIAL"),
    default="NONE",
    doc="what is remembered of the rows that a lookup join asked for: PARTIAL keeps them from batch to batch",
)
LOOKUP_MAX_ROWS: Option[int | None] = optional(
    LONG,
    "lookup.partial-cache.max-rows",
    "rows remembered in each worker process of Spark's; what was not used for longest goes first",
)
LOOKUP_AFTER_WRITE: Option[int | None] = optional(
    DURATION,
    "lookup.partial-cache.expire-after-write",
    "how long rows are used without asking again",
)
LOOKUP_AFTER_ACCESS: Option[int | None] = optional(
    DURATION,
    "lookup.partial-cache.expire-after-access",
    "how long rows are kept that nothing looks up",
)
LOOKUP_MISSING = Option(
    key="lookup.partial-cache.cache-missing-key",
    type=BOOLEAN,
    default=True,
    doc="whether it is remembered, too, that a key has no rows",
)
LOOKUP_RETRIES = Option(
    key="lookup.max-retries",
    type=INT,
    default=3,
    doc="how often rows are asked for again after the connection was lost, or a deadlock",
)
_READING: tuple[Option[Any], ...] = (
    PARTITION_COLUMN,
    PARTITION_NUM,
    PARTITION_LOWER,
    PARTITION_UPPER,
    FETCH_SIZE,
    optional(
        BOOLEAN,
        "scan.auto-commit",
        "accepted without effect: a partition is read in one transaction",
        flink="whether each statement is a transaction",
    ),
    LOOKUP_CACHE,
    LOOKUP_MAX_ROWS,
    LOOKUP_AFTER_WRITE,
    LOOKUP_AFTER_ACCESS,
    LOOKUP_MISSING,
    LOOKUP_RETRIES,
)
OPTIONS: tuple[Option[Any], ...] = (
    Option(
        key="connector",
        type=STRING,
        default="",
        doc="'jdbc': a table of a database, PostgreSQL or SQLite",
        required=True,
    ),
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
        "accepted without effect: rows do not wait, a micro-batch is written at once",
        flink="how long rows wait to be sent",
    ),
    MAX_RETRIES,
    PARALLELISM,
    *_READING,
)
