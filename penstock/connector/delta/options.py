"""The options of Delta tables as checked values: the target's path, reading, schema evolution, file maintenance.

`DeltaTarget` is where a table is and how it is declared, known without Spark; `table.py` opens it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.catalog.errors import OptionError, StateMismatchError
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import (
    BOOLEAN,
    DURATION,
    INT,
    LIST,
    MEMORY,
    STRING,
    Option,
    OptionScope,
    PrefixOption,
    Resolved,
    enum_type,
    resolve,
)
from penstock.catalog.options.redaction import redact


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTarget:
    """Where the rows of `table` are. `properties` are the `delta.*` options, `clustering` the columns to cluster by."""

    table: Table
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)
    clustering: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The location for messages: keys inside a URL are not shown."""
        return redact({"path": self.location})["path"]

    def mismatch(self, what: str, hint: str | None = None) -> StateMismatchError:
        """Make the error for a table that is not the declared one."""
        return StateMismatchError(
            f"the Delta table at {self.shown} is not the declared table {self.table.identifier}: {what}",
            hint=hint
            or "declare the table as it is, change it with Spark's ALTER TABLE, or set another 'path'",
        )


_MIB = 1 << 20

_PREFIX = "spark.databricks.delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMaintenance:
    """What is asked for; None leaves it to Delta, or undone."""

    target_file_bytes: int | None = None
    auto_compaction: bool | None = None
    optimize_interval_ms: int | None = None

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of a session that writes once or optimizes (DeltaSQLConf)."""
        if self.target_file_bytes is None:
            return {}
        size = str(self.target_file_bytes)
        return {
            f"{_PREFIX}.optimizeWrite.enabled": "true",
            f"{_PREFIX}.optimizeWrite.binSize": f"{self.target_file_bytes // _MIB}m",
            f"{_PREFIX}.optimize.maxFileSize": size,
            # larger ones would be rewritten each time
            f"{_PREFIX}.optimize.minFileSize": size,
            f"{_PREFIX}.autoCompact.maxFileSize": size,
        }

    @property
    def stream_settings(self) -> dict[str, str]:
        """Return the settings of a session that writes batch after batch.

        Where compaction is Delta's own (`compaction.py`), it compacts after each 50 small files (AutoCompact), and at
        a process's first commit into a table whose files it does not know (`writer.count_for_compaction`). The list
        of a table's files is in no checksum of a commit: Delta would compute it by jobs of Spark in each batch behind
        a compaction.
        """
        settings = self.settings | {f"{_PREFIX}.allFilesInCrc.enabled": "false"}
        if self.auto_compaction is None:
            return settings
        enabled = str(self.auto_compaction).lower()
        return settings | {f"{_PREFIX}.autoCompact.enabled": enabled}


CONNECTOR: Option[str | None] = Option(
    key="connector",
    type=STRING,
    default=None,
    doc="'delta': a Delta table, which is made where it is not there.",
    required=True,
    flink=None,
)

PATH: Option[str] = Option(
    key="path",
    type=STRING,
    default="",
    doc="Where the table is: a path relative to the project, or any Hadoop URL.",
    required=True,
    flink=None,
)

STARTING_VERSION: Option[str | None] = Option(
    key="scan.starting-version",
    type=STRING,
    default=None,
    doc="The table's version that a stream starts at, inclusive, or 'latest' for what is appended from now on. "
    "Default: all that the table holds, then what is appended.",
    aliases=("startingVersion",),
    flink=None,
)

STARTING_TIMESTAMP: Option[str | None] = Option(
    key="scan.starting-timestamp",
    type=STRING,
    default=None,
    doc="The time of the first commit that a stream reads, such as '2026-01-01 00:00:00'.",
    aliases=("startingTimestamp",),
    flink=None,
)

MAX_FILES: Option[int | None] = Option(
    key="scan.max-files-per-batch",
    type=INT,
    default=None,
    doc="How many files a micro-batch of a stream reads at most. Default: Delta's 1000.",
    aliases=("maxFilesPerTrigger",),
    flink=None,
)

SCHEMA_EVOLUTION: Option[str] = Option(
    key="sink.schema-evolution",
    type=enum_type("fail", "add-columns"),
    default="fail",
    doc="What happens at the start of a run when the table lacks declared columns: 'fail', or 'add-columns'. Types are "
    "never changed.",
    flink=None,
)

TARGET_FILE_SIZE: Option[int | None] = Option(
    key="sink.target-file-size",
    type=MEMORY,
    default=None,
    doc="How large files are to become, '1 mb' or more: small ones of a commit are gathered by a shuffle before they "
    "are written (Delta's optimized write), and OPTIMIZE cuts its files so. Default: a file for each task that "
    "writes, and 1 GiB from OPTIMIZE.",
    flink=None,
)

WRITER: Option[str] = Option(
    key="sink.writer",
    type=enum_type("auto", "spark"),
    default="auto",
    doc="Who writes the files of a stream: 'auto', the tasks that read the rows where the query takes values and "
    "conditions that they compute and the table has nothing that only Spark's writer keeps, else Spark, as EXPLAIN "
    "says; 'spark' in each case. With a PRIMARY KEY 'auto' has tasks write the rows and delete those before by their "
    "positions, where the table has deletion vectors; 'spark' merges (docs/exactly-once.md).",
    flink=None,
)

AUTO_COMPACTION: Option[bool] = Option(
    key="auto-compaction",
    type=BOOLEAN,
    default=True,
    doc="Whether a streaming query puts small files together when 50 of them are in a partition: beside its batches, "
    "without a job of Spark. Delta's auto compaction does it where rows are "
    "merged, 'sink.target-file-size' is set, or the table has what only Spark's writer keeps (docs/exactly-once.md). "
    "'delta.autoOptimize.autoCompact' has the last word.",
    scope=OptionScope.SINK,
    flink=None,
)

OPTIMIZE_INTERVAL: Option[int | None] = Option(
    key="sink.optimize.interval",
    type=DURATION,
    default=None,
    doc="How often small files are put together by OPTIMIZE, between two micro-batches and at most this often, such as "
    "'1 h'. Default: never.",
    flink=None,
)

CLUSTERING_COLUMNS: Option[tuple[str, ...]] = Option(
    key="clustering.columns",
    type=LIST,
    default=(),
    doc="One to four columns, separated by ';', by whose values OPTIMIZE lays out the rows (liquid clustering), set "
    "when the table is created.",
    scope=OptionScope.SINK,
    flink=None,
)

TABLE_PROPERTIES = PrefixOption(
    prefix="delta.",
    doc="Delta table properties, set when the table is created.",
    scope=OptionScope.SINK,
    flink=None,
)

OPTIONS: tuple[Option[Any] | PrefixOption, ...] = (
    CONNECTOR,
    PATH,
    STARTING_VERSION,
    STARTING_TIMESTAMP,
    MAX_FILES,
    SCHEMA_EVOLUTION,
    TARGET_FILE_SIZE,
    WRITER,
    AUTO_COMPACTION,
    OPTIMIZE_INTERVAL,
    CLUSTERING_COLUMNS,
    TABLE_PROPERTIES,
)

MIN_FILE_SIZE = 1 << 20
"""Bytes; Delta's setting counts in MiB."""

APPEND_ONLY = "delta.appendonly"

AUTO_COMPACT = "delta.autooptimize.autocompact"

DELETION_VECTORS = "delta.enabledeletionvectors"

CHANGE_DATA_FEED = "delta.enablechangedatafeed"

CHECKPOINT_INTERVAL = "delta.checkpointinterval"

COMMITS_TO_CHECKPOINT = "1000"
"""Commits between two checkpoints that a writer's commit asks for, of a table that is made here and does not say.

At each of these Delta computes the state of the table by three jobs in the batch, for its statistics. Behind batches
checkpoints are written more often (`compaction.py`), so readers read fewer small files of the log.
"""

FORGETFUL = "delta.setTransactionRetentionDuration"
"""Lets a table forget which batches of a query it holds, and so takes a replayed batch twice."""

_VERSION = re.compile(r"[0-9]+|latest")


def resolve_options(table: Table) -> Resolved:
    """Parse and check a table's options. Raises OptionError."""
    owner = f"table {table.identifier}"
    options = resolve(table.option_map, OPTIONS, owner=owner)
    if not options.get(PATH).strip():
        raise OptionError(f"{owner}: option 'path' is empty", hint=PATH.doc)
    version = options.get(STARTING_VERSION)
    if version is not None and options.get(STARTING_TIMESTAMP) is not None:
        raise OptionError(
            f"{owner}: '{STARTING_VERSION.key}' and '{STARTING_TIMESTAMP.key}' exclude each other"
        )
    if version is not None and not _VERSION.fullmatch(version.strip().lower()):
        raise OptionError(
            f"{owner}: option '{STARTING_VERSION.key}' = '{version}' is no version of a table",
            hint=STARTING_VERSION.doc,
        )
    limit = options.get(MAX_FILES)
    if limit is not None and limit < 1:
        raise OptionError(
            f"{owner}: option '{MAX_FILES.key}' must be at least 1", hint=MAX_FILES.doc
        )
    _check_writing(options, table, owner)
    forgetful = [key for key in table_properties(options) if key.lower() == FORGETFUL.lower()]
    if forgetful:
        raise OptionError(
            f"{owner}: with '{forgetful[0]}' the table would forget which batches it holds, and take some twice",
            hint="leave it out: appends are exactly once as long as the table remembers",
        )
    return options


def compacts(options: Resolved) -> bool | None:
    """Return whether commits are to compact small files; None where the table's own property says so."""
    if any(key.lower() == AUTO_COMPACT for key in table_properties(options)):
        return None
    return options.get(AUTO_COMPACTION)


def _check_writing(options: Resolved, table: Table, owner: str) -> None:
    size = options.get(TARGET_FILE_SIZE)
    if size is not None and size < MIN_FILE_SIZE:
        raise OptionError(
            f"{owner}: option '{TARGET_FILE_SIZE.key}' must be at least 1 mb",
            hint=TARGET_FILE_SIZE.doc,
        )
    if options.get(OPTIMIZE_INTERVAL) == 0:
        raise OptionError(
            f"{owner}: option '{OPTIMIZE_INTERVAL.key}' must be more than 0",
            hint=OPTIMIZE_INTERVAL.doc,
        )
    properties = {key.lower(): value for key, value in table_properties(options).items()}
    if table.schema.primary_key is not None and properties.get(APPEND_ONLY, "").lower() == "true":
        raise OptionError(
            f"{owner} has a PRIMARY KEY, so rows are updated, and 'delta.appendOnly' forbids that",
            hint="leave one of the two out",
        )


def table_properties(options: Resolved) -> dict[str, str]:
    """Return the `delta.*` options, whole keys."""
    prefix = TABLE_PROPERTIES.prefix
    return {f"{prefix}{key}": value for key, value in options.prefixed(prefix).items()}
