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
    OptionScope,
    PrefixOption,
    enum_type,
    optional,
)

MIB = 1 << 20
_REFUSED = "refused in a table that is written"


CONNECTOR = Option(
    key="connector",
    type=STRING,
    default=None,
    doc="'filesystem': the files of a folder, local or of a cloud store",
    required=True,
)
PATH = Option(
    key="path",
    type=STRING,
    default="",
    doc="folder of the files, or a single file: a path relative to the project, an absolute one, or a URL",
    required=True,
)
FORMAT = Option(
    key="format",
    type=STRING,
    default="",
    doc="format of a line, or of written files",
    required=True,
)
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
PARALLELISM = optional(
    INT,
    "scan.parallelism",
    "tasks of a batch; default one per file, or for several small ones",
    flink="tasks of the source operator",
)
MAX_BYTES = Option(
    key="source.max-bytes-per-batch",
    type=MEMORY,
    default=256 * MIB,
    doc="most bytes that a batch reads; of a compressed file, which is read as a whole, a byte counts",
    flink=None,
)
SINK_PARALLELISM = optional(
    INT,
    "sink.parallelism",
    "tasks of a write; default those of the query",
    flink="tasks of the sink operator",
)
MAX_ROWS_PER_FILE = optional(
    INT,
    "sink.max-rows-per-file",
    "rows after which a task begins another file; default no limit",
    flink=None,
)
SHUFFLE_BY_PARTITION = Option(
    key="sink.shuffle-by-partition.enable",
    type=BOOLEAN,
    default=False,
    doc="whether rows of one folder go to one task, so that a batch adds one file to a folder",
)
WRITER = Option(
    key="sink.writer",
    type=enum_type("auto", "spark"),
    default="auto",
    doc="who writes the Parquet files of a stream: 'auto', the tasks that read the rows where the query takes values "
    "and conditions that they compute and the folder is one of this machine, else Spark, as EXPLAIN says; 'spark' in "
    "each case. Spark writes the other formats",
    flink=None,
)
COMMIT_TRIGGER = Option(
    key="sink.partition-commit.trigger",
    type=enum_type("process-time", "partition-time"),
    default="process-time",
    doc="what the end of a folder is known by; partition-time is refused",
    flink="partition-time, too",
)
COMMIT_DELAY = Option(
    key="sink.partition-commit.delay",
    type=DURATION,
    default=0,
    doc="how long a folder stays open before its end is made known; above 0 is refused",
    flink="above 0, too",
)
COMMIT_POLICY: Option[str | None] = optional(
    STRING,
    "sink.partition-commit.policy.kind",
    "how the end of a folder is made known: 'success-file'; default not at all",
    flink="metastore and custom, too",
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
    doc="whether written files are merged; true is refused, as a Delta table does it",
    scope=OptionScope.SINK,
    flink="files are merged before they are committed",
)
FILE_SIZE = optional(
    MEMORY,
    "sink.rolling-policy.file-size",
    f"size at which a file ends; {_REFUSED}",
    flink="in effect, with the default 128 mb",
)
ROLLING_TIMES: tuple[Option[Any], ...] = (
    optional(
        DURATION,
        "sink.rolling-policy.rollover-interval",
        f"age at which a file ends; {_REFUSED}",
        flink="in effect, with the default 30 min",
    ),
    optional(
        DURATION,
        "sink.rolling-policy.check-interval",
        f"how often ages of files are checked; {_REFUSED}",
        flink="in effect, with the default 1 min",
    ),
    optional(
        DURATION,
        "sink.rolling-policy.inactivity-interval",
        f"time without rows at which a file ends; {_REFUSED}",
        flink="in effect, with the default 30 min",
    ),
)
PARTITION_TIME: tuple[Option[Any], ...] = (
    optional(
        STRING,
        "sink.partition-commit.watermark-time-zone",
        f"time zone of the times in names of folders; {_REFUSED}",
        flink="in effect, with the default UTC",
    ),
    optional(
        STRING,
        "partition.time-extractor.kind",
        f"how the time of a folder is found; {_REFUSED}",
        scope=OptionScope.SINK,
        flink="in effect, default or custom",
    ),
    optional(
        STRING,
        "partition.time-extractor.class",
        f"Java class that finds the time of a folder; {_REFUSED}",
        scope=OptionScope.SINK,
        flink="in effect",
    ),
    optional(
        STRING,
        "partition.time-extractor.timestamp-pattern",
        f"where names of folders have the time; {_REFUSED}",
        scope=OptionScope.SINK,
        flink="in effect",
    ),
    optional(
        STRING,
        "partition.time-extractor.timestamp-formatter",
        f"how names of folders write the time; {_REFUSED}",
        scope=OptionScope.SINK,
        flink="in effect",
    ),
)
COMMIT_CLASS: tuple[Option[Any], ...] = (
    optional(
        STRING,
        "sink.partition-commit.policy.class",
        f"Java class that makes the end of a folder known; {_REFUSED}",
        flink="in effect",
    ),
    optional(
        STRING,
        "sink.partition-commit.policy.class.parameters",
        f"arguments of that class; {_REFUSED}",
        flink="in effect",
    ),
)
COMPACTION_SIZE = optional(
    MEMORY,
    "compaction.file-size",
    f"size of a merged file; {_REFUSED}",
    scope=OptionScope.SINK,
    flink="in effect, with the default of the rolling policy",
)
SINK_OPTIONS: tuple[Option[Any], ...] = (
    SINK_PARALLELISM,
    MAX_ROWS_PER_FILE,
    SHUFFLE_BY_PARTITION,
    WRITER,
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
        doc="accepted without effect: files are planned without statistics",
        flink="which statistics planning reads",
    ),
    PARALLELISM,
    MAX_BYTES,
    *SINK_OPTIONS,
)
