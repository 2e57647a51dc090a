"""The options of filesystem tables as data: Flink's (FileSystemConnectorOptions) with its defaults, and ours.

Read and checked together in `settings`. Those that only writing needs have no effect on a scan;
`filesystem/sink/target.py` acts on them or refuses them.
"""

from __future__ import annotations

from typing import Any

from penstock.catalog.options.option import (
    BOOLEAN,
    DURATION,
    INT,
    MEMORY,
    STRING,
    Option,
    PrefixOption,
    enum_type,
    optional,
)

MIB = 1 << 20


CONNECTOR = Option(key="connector", type=STRING, default=None, doc="'filesystem'", required=True)
PATH = Option(
    key="path",
    type=STRING,
    default="",
    doc="folder of the files, or a single file: a path relative to the project, an absolute one, or a URL",
    required=True,
)
FORMAT = Option(key="format", type=STRING, default="", doc="format of a line", required=True)
DEFAULT_PARTITION = Option(
    key="partition.default-name",
    type=STRING,
    default="__DEFAULT_PARTITION__",
    doc="what the name of a folder says in the place of NULL",
)
MONITOR_INTERVAL: Option[int | None] = Option(
    key="source.monitor-interval",
    type=DURATION,
    default=None,
    doc="how often new files are looked for; without it the files are listed once, and the scan has an end",
)
PATH_PATTERN: Option[str | None] = Option(
    key="source.path.regex-pattern",
    type=STRING,
    default=None,
    doc="Java regular expression for the whole absolute path of a file, as in '/data/.*[.]json'",
)
PARALLELISM = optional(INT, "scan.parallelism", "tasks of a batch; default one per file")
MAX_BYTES = Option(
    key="source.max-bytes-per-batch",
    type=MEMORY,
    default=256 * MIB,
    doc="read limit of a batch; of a compressed file, which is read as a whole, a byte counts "
    "(Penstock's own option)",
)
SINK_PARALLELISM = optional(INT, "sink.parallelism", "tasks of a write; default those of the query")
MAX_ROWS_PER_FILE = optional(
    INT,
    "sink.max-rows-per-file",
    "rows after which a task begins another file (Penstock's own option); default no limit",
)
SHUFFLE_BY_PARTITION = Option(
    key="sink.shuffle-by-partition.enable",
    type=BOOLEAN,
    default=False,
    doc="whether rows of one folder go to one task, so that a batch adds one file to a folder",
)
COMMIT_TRIGGER = Option(
    key="sink.partition-commit.trigger",
    type=enum_type("process-time", "partition-time"),
    default="process-time",
    doc="what a folder's end is told by",
)
COMMIT_DELAY = Option(
    key="sink.partition-commit.delay",
    type=DURATION,
    default=0,
    doc="how long a folder stays open",
)
COMMIT_POLICY: Option[str | None] = optional(
    STRING,
    "sink.partition-commit.policy.kind",
    "how a folder's end is made known: 'success-file'; default not at all",
)
SUCCESS_FILE = Option(
    key="sink.partition-commit.success-file.name",
    type=STRING,
    default="_SUCCESS",
    doc="empty file that marks a folder as complete",
)
AUTO_COMPACTION = Option(
    key="auto-compaction",
    type=BOOLEAN,
    default=False,
    doc="whether written files are merged",
)
FILE_SIZE = optional(MEMORY, "sink.rolling-policy.file-size", "size of a written file")
ROLLING_TIMES: tuple[Option[Any], ...] = (
    optional(DURATION, "sink.rolling-policy.rollover-interval", "age of a written file"),
    optional(DURATION, "sink.rolling-policy.check-interval", "how often ages are looked at"),
    optional(DURATION, "sink.rolling-policy.inactivity-interval", "silence that ends a file"),
)
PARTITION_TIME: tuple[Option[Any], ...] = (
    optional(STRING, "sink.partition-commit.watermark-time-zone", "zone of the folders' times"),
    optional(STRING, "partition.time-extractor.kind", "how a folder's time is found"),
    optional(STRING, "partition.time-extractor.class", "class that does so"),
    optional(STRING, "partition.time-extractor.timestamp-pattern", "where the time stands"),
    optional(STRING, "partition.time-extractor.timestamp-formatter", "how the time is written"),
)
COMMIT_CLASS: tuple[Option[Any], ...] = (
    optional(STRING, "sink.partition-commit.policy.class", "class that makes it known"),
    optional(STRING, "sink.partition-commit.policy.class.parameters", "what it is made with"),
)
COMPACTION_SIZE = optional(MEMORY, "compaction.file-size", "size of a merged file")
SINK_OPTIONS: tuple[Option[Any], ...] = (
    SINK_PARALLELISM,
    MAX_ROWS_PER_FILE,
    SHUFFLE_BY_PARTITION,
    COMMIT_TRIGGER,
    COMMIT_DELAY,
    COMMIT_POLICY,
    SUCCESS_FILE,
    AUTO_COMPACTION,
    FILE_SIZE,
    *ROLLING_TIMES,
    *PARTITION_TIME,
    *COMMIT_CLASS,
    COMPACTION_SIZE,
)
OPTIONS: tuple[Option[Any] | PrefixOption, ...] = (
    CONNECTOR,
    PATH,
    FORMAT,
    DEFAULT_PARTITION,
    MONITOR_INTERVAL,
    PATH_PATTERN,
    Option(
        key="source.report-statistics",
        type=enum_type("ALL", "NONE"),
        default="ALL",
        doc="accepted for Flink's sake",
    ),
    PARALLELISM,
    MAX_BYTES,
    *SINK_OPTIONS,
)
