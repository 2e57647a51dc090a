"""The options of filesystem tables as data: Flink's (FileSystemConnectorOptions) with its defaults, and ours.

Read and checked together in `settings`. Those that only writing needs are known and have no effect.
"""

from __future__ import annotations

from typing import Any

from penstock.catalog.options import (
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

__all__ = [
    "CONNECTOR",
    "DEFAULT_PARTITION",
    "FORMAT",
    "MAX_BYTES",
    "MONITOR_INTERVAL",
    "OPTIONS",
    "PARALLELISM",
    "PATH",
    "PATH_PATTERN",
    "SINK_OPTIONS",
]

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
SINK_OPTIONS: tuple[Option[Any], ...] = (
    optional(INT, "sink.parallelism", "tasks of a write"),
    optional(MEMORY, "sink.rolling-policy.file-size", "size of a written file"),
    optional(DURATION, "sink.rolling-policy.rollover-interval", "age of a written file"),
    optional(DURATION, "sink.rolling-policy.check-interval", "how often ages are looked at"),
    optional(DURATION, "sink.rolling-policy.inactivity-interval", "silence that ends a file"),
    optional(BOOLEAN, "sink.shuffle-by-partition.enable", "whether rows are sorted into folders"),
    optional(STRING, "sink.partition-commit.trigger", "what a folder's end is told by"),
    optional(DURATION, "sink.partition-commit.delay", "how long a folder stays open"),
    optional(STRING, "sink.partition-commit.watermark-time-zone", "zone of the folders' times"),
    optional(STRING, "sink.partition-commit.policy.kind", "how a folder's end is made known"),
    optional(STRING, "sink.partition-commit.policy.class", "class that does so"),
    optional(STRING, "sink.partition-commit.policy.class.parameters", "what it is made with"),
    optional(STRING, "sink.partition-commit.success-file.name", "file that marks the end"),
    optional(STRING, "partition.time-extractor.kind", "how a folder's time is found"),
    optional(STRING, "partition.time-extractor.class", "class that does so"),
    optional(STRING, "partition.time-extractor.timestamp-pattern", "where the time stands"),
    optional(STRING, "partition.time-extractor.timestamp-formatter", "how the time is written"),
    optional(BOOLEAN, "auto-compaction", "whether written files are merged"),
    optional(MEMORY, "compaction.file-size", "size of a merged file"),
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
