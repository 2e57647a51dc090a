"""The target of a filesystem sink as one checked value: folder, format, partitions and options of writing.

Files are written by Spark's writers, under Flink's names of options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.catalog.errors import DefinitionError, OptionError, UnsupportedError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quote
from penstock.catalog.model.table import Schema, Table
from penstock.catalog.options.option import (
    BOOLEAN,
    STRING,
    Option,
    OptionScope,
    Resolved,
    enum_type,
    optional,
)
from penstock.connector.filesystem.table import options as o
from penstock.connector.filesystem.table.location import is_hidden
from penstock.connector.filesystem.table.table import partitioning_of, read_settings
from penstock.connector.formats import Fields, find_format

WRITTEN_ONLY = ("csv", "orc", "parquet")
"""Formats that are not read here."""

# a TIMESTAMP in json; an instant ends with Z in all of them
_TIMES = {
    "SQL": "yyyy-MM-dd HH:mm:ss.SSSSSS",
    "ISO-8601": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ISO-8601-WITH-OFFSET": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
}
_ZONE = "'Z'"
_DELIMITER = Option(
    key="csv.field-delimiter",
    type=STRING,
    default=",",
    doc="the one character between two values",
    scope=OptionScope.SINK,
)
_QUOTE = Option(
    key="csv.quote-character",
    type=STRING,
    default='"',
    doc="the one character around a value that needs it",
    scope=OptionScope.SINK,
)
_NO_QUOTE = Option(
    key="csv.disable-quote-character",
    type=BOOLEAN,
    default=False,
    doc="whether values are never quoted; true is refused, as a value with a delimiter would become two",
    scope=OptionScope.SINK,
    flink="true, too",
)
_ESCAPE: Option[str | None] = optional(
    STRING,
    "csv.escape-character",
    "the one character before a quote inside of a value; default: the quote is doubled",
    scope=OptionScope.SINK,
)
_NULL = Option(
    key="csv.null-literal",
    type=STRING,
    default="",
    doc="the text that is written for NULL",
    scope=OptionScope.SINK,
)
_OF_READING = "accepted without effect: files of csv are written only"
_READING = (
    optional(
        BOOLEAN,
        "csv.allow-comments",
        _OF_READING,
        scope=OptionScope.SINK,
        flink="an option of reading",
    ),
    optional(
        BOOLEAN,
        "csv.ignore-parse-errors",
        _OF_READING,
        scope=OptionScope.SINK,
        flink="an option of reading",
    ),
)
PARQUET_CODEC: Option[str | None] = optional(
    enum_type("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4", "LZ4_RAW"),
    "parquet.compression",
    "how written files are compressed; default SNAPPY",
    scope=OptionScope.SINK,
)
_ORC_CODEC: Option[str | None] = optional(
    enum_type("NONE", "SNAPPY", "ZLIB", "LZ4", "ZSTD"),
    "orc.compress",
    "how written files are compressed; default ZSTD",
    scope=OptionScope.SINK,
)
_OPTIONS: Mapping[str, tuple[Option[Any], ...]] = {
    "csv": (_DELIMITER, _QUOTE, _NO_QUOTE, _ESCAPE, _NULL, *_READING),
    "parquet": (PARQUET_CODEC,),
    "orc": (_ORC_CODEC,),
}
_NEVER = (t.TimeType, t.IntervalYearMonthType, t.IntervalDaySecondType)
_NESTED = (t.ArrayType, t.MapType, t.MultisetType, t.RowType)
_BYTES = (t.BinaryType, t.VarBinaryType)
_TEXTS = (t.CharType, t.VarCharType)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat:
    """A data source of Spark that writes files, with its options."""

    source: str
    options: Mapping[str, str]


def written_formats() -> Mapping[str, tuple[Option[Any], ...]]:
    """Return the formats that are written only, with their options."""
    return _OPTIONS


def written_options(name: str) -> tuple[Option[Any], ...]:
    """Return the options of a format that is written only."""
    return _OPTIONS[name]


def file_format(name: str, fields: Fields, resolved: Resolved, *, owner: str) -> FileFormat:
    """Choose the writer of `fields`, the columns inside the files.

    Raises OptionError, DefinitionError, UnsupportedError.
    """
    for column, logical in fields:
        _refuse_type(column, logical, _NEVER, f"{owner}: the format '{name}'")
    writers: Mapping[str, Callable[[Fields, Resolved, str], FileFormat]] = {
        "csv": _csv,
        "json": _json,
        "orc": _orc,
        "parquet": _parquet,
        "raw": _raw,
    }
    writer = writers.get(name)
    if writer is None:
        raise UnsupportedError(
            f"{owner}: files of the format '{name}' cannot be written",
            hint=f"formats that can are: {', '.join(writers)}",
        )
    return writer(fields, resolved, owner)


def _json(fields: Fields, resolved: Resolved, owner: str) -> FileFormat:  # noqa: ARG001  of its kind
    values = resolved.values
    time = _TIMES[values.get("json.timestamp-format.standard", "SQL")]
    return FileFormat(
        source="json",
        options={
            "timestampNTZFormat": time,
            "timestampFormat": time.removesuffix(_ZONE) + _ZONE,
            "timeZone": "UTC",
            "ignoreNullFields": str(values.get("json.encode.ignore-null-fields", False)).lower(),
        },
    )


def _csv(fields: Fields, resolved: Resolved, owner: str) -> FileFormat:
    for column, logical in fields:
        _refuse_type(column, logical, (*_NESTED, *_BYTES), f"{owner}: the format 'csv'")
    if resolved.get(_NO_QUOTE):
        raise UnsupportedError(
            f"{owner}: '{_NO_QUOTE.key}' is not supported when writing",
            hint="a value with a delimiter would become two; only values that need it are quoted",
        )
    delimiter, mark = resolved.get(_DELIMITER), resolved.get(_QUOTE)
    # Flink unescapes Java's \t, which people write for tabs
    delimiter = "\t" if delimiter == "\\t" else delimiter
    escape = resolved.get(_ESCAPE) or mark
    for option, text in ((_DELIMITER, delimiter), (_QUOTE, mark), (_ESCAPE, escape)):
        if len(text) != 1:
            raise OptionError(f"{owner}: option '{option.key}' is not one character: '{text}'")
    time = _TIMES["SQL"]
    return FileFormat(
        source="csv",
        options={
            "sep": delimiter,
            "quote": mark,
            "escape": escape,
            "nullValue": resolved.get(_NULL),
            "timestampNTZFormat": time,
            "timestampFormat": time + _ZONE,
            "timeZone": "UTC",
            # values are written as they are
            "ignoreLeadingWhiteSpace": "false",
            "ignoreTrailingWhiteSpace": "false",
        },
    )


def _parquet(fields: Fields, resolved: Resolved, owner: str) -> FileFormat:  # noqa: ARG001  of its kind
    return FileFormat(source="parquet", options=_compression(resolved.get(PARQUET_CODEC)))


def _orc(fields: Fields, resolved: Resolved, owner: str) -> FileFormat:  # noqa: ARG001  of its kind
    return FileFormat(source="orc", options=_compression(resolved.get(_ORC_CODEC)))


def _raw(fields: Fields, resolved: Resolved, owner: str) -> FileFormat:
    charset = str(resolved.values.get("raw.charset", "UTF-8"))
    if not all(isinstance(logical, _TEXTS) for _, logical in fields) or charset.upper() != "UTF-8":
        raise UnsupportedError(
            f"{owner}: the format 'raw' writes lines of text in UTF-8 only",
            hint="convert the column to STRING, or use another format",
        )
    return FileFormat(source="text", options={})


def _compression(codec: str | None) -> Mapping[str, str]:
    return {} if codec is None else {"compression": codec.lower()}


def _refuse_type(
    column: str, logical: t.LogicalType, kinds: tuple[type[t.LogicalType], ...], owner: str
) -> None:
    for part in t.parts_of(logical):
        if isinstance(part, kinds):
            raise DefinitionError(
                f"{owner} cannot write column {quote(column)}: it has no type {part}",
                hint="convert it to a STRING or a BIGINT",
            )


_HIDDEN = ("_", ".")

_BATCH_ENDS_FILES = (
    "a file ends with its micro-batch: leave the option out, bound files with "
    f"'{o.MAX_ROWS_PER_FILE.key}', and batches by SET 'execution.checkpointing.interval' or the "
    "source's read limit"
)

_ONLY_PROCESS_TIME = (
    "'process-time' without a delay works: a folder's success file is written with each batch that "
    "adds to the folder"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """How files are written. `success_file` is None where folders are not committed.

    `by_tasks`: the tasks that read rows may write the Parquet files of a stream, else Spark does.
    """

    parallelism: int | None = None
    max_rows_per_file: int | None = None
    shuffle_by_partition: bool = False
    success_file: str | None = None
    by_tasks: bool = True


def read_sink_options(resolved: Resolved, *, partitioned: bool, owner: str) -> SinkOptions:
    """Read them. Raises OptionError, and UnsupportedError for what is not done here."""
    _refuse_set(resolved, (o.FILE_SIZE, *o.ROLLING_TIMES), owner, _BATCH_ENDS_FILES)
    _refuse_set(resolved, o.PARTITION_TIME, owner, _ONLY_PROCESS_TIME)
    _refuse_set(resolved, o.COMMIT_CLASS, owner, "use the policy 'success-file'")
    compacting = "write fewer files: 'sink.parallelism', 'sink.shuffle-by-partition.enable', longer batches; or use "
    compacting += "a 'delta' table, which OPTIMIZE compacts"
    _refuse_set(resolved, (o.COMPACTION_SIZE,), owner, compacting)
    if resolved.get(o.AUTO_COMPACTION):
        raise _unsupported(owner, f"'{o.AUTO_COMPACTION.key}' = 'true'", compacting)
    if resolved.get(o.COMMIT_TRIGGER) != "process-time":
        trigger = f"'{o.COMMIT_TRIGGER.key}' = 'partition-time'"
        raise _unsupported(owner, trigger, _ONLY_PROCESS_TIME)
    if resolved.get(o.COMMIT_DELAY):
        raise _unsupported(owner, f"'{o.COMMIT_DELAY.key}' above 0", _ONLY_PROCESS_TIME)
    return SinkOptions(
        parallelism=resolved.at_least_one(o.SINK_PARALLELISM, owner=owner),
        max_rows_per_file=resolved.at_least_one(o.MAX_ROWS_PER_FILE, owner=owner),
        shuffle_by_partition=resolved.get(o.SHUFFLE_BY_PARTITION),
        success_file=_success_file(resolved, partitioned=partitioned, owner=owner),
        by_tasks=resolved.get(o.WRITER) != "spark",
    )


def _success_file(resolved: Resolved, *, partitioned: bool, owner: str) -> str | None:
    kinds = resolved.get(o.COMMIT_POLICY)
    if kinds is None:
        return None
    for kind in (each.strip() for each in kinds.split(",")):
        if kind in ("metastore", "custom"):
            raise _unsupported(
                owner, f"the commit policy '{kind}'", "use the policy 'success-file'"
            )
        if kind != "success-file":
            raise OptionError(
                f"{owner}: option '{o.COMMIT_POLICY.key}' = '{kinds}' names no policy",
                hint=o.COMMIT_POLICY.doc,
            )
    if not partitioned:
        raise OptionError(
            f"{owner}: option '{o.COMMIT_POLICY.key}' is for folders, and the table is not PARTITIONED BY any column"
        )
    name = resolved.get(o.SUCCESS_FILE)
    if not name.startswith(_HIDDEN) or "/" in name:
        raise OptionError(
            f"{owner}: option '{o.SUCCESS_FILE.key}' = '{name}' would be read as one of the table's files",
            hint="its name begins with '_' or '.', and has no '/'",
        )
    return name


def _refuse_set(
    resolved: Resolved, options: Iterable[Option[Any]], owner: str, instead: str
) -> None:
    for option in options:
        if resolved.is_set(option):
            raise _unsupported(owner, f"'{option.key}'", instead)


def _unsupported(owner: str, what: str, instead: str) -> UnsupportedError:
    return UnsupportedError(f"{owner}: {what} is not supported when writing", hint=instead)


# Hadoop's names of file systems where they are not pyarrow's
_HADOOP_SCHEMES = {"s3": "s3a", "gcs": "gs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    """The definition of the files to write. `root` is a Hadoop URL or an absolute path, `shown` for messages.

    `default_partition` is NULL in a folder's name.
    """

    owner: str
    schema: Schema
    root: str = field(repr=False)
    shown: str
    format: FileFormat
    partition_keys: tuple[str, ...]
    default_partition: str
    options: SinkOptions


def is_written_only(table: Table) -> bool:
    """Return whether the table's format is one that is not read here."""
    return table.option_map.get(o.FORMAT.key) in WRITTEN_ONLY


def read_target(table: Table, project: Path) -> FileTarget:
    """Check a definition for writing, without I/O. Raises OptionError, DefinitionError, UnsupportedError."""
    owner = f"table {table.identifier}"
    options = table.option_map
    name = options.get(o.FORMAT.key)
    if name in WRITTEN_ONLY:
        formats = written_options(name)
    else:
        formats = () if name is None else find_format(name, option=o.FORMAT.key).options()
    settings = read_settings(options, formats, owner=owner, project=project)
    assert name is not None, "the option 'format' is required"
    partitioning = partitioning_of(table, settings.default_partition)
    _check_columns(table, owner)
    fields = [
        (column.name, column.type)
        for column in table.schema.physical
        if column.name not in table.partition_keys
    ]
    scheme, colon, rest = settings.location.text.partition("://")
    return FileTarget(
        owner=owner,
        schema=table.schema,
        root=f"{_HADOOP_SCHEMES.get(scheme, scheme)}{colon}{rest}".rstrip("/") or "/",
        shown=settings.location.shown,
        format=file_format(name, fields, settings.resolved, owner=owner),
        partition_keys=table.partition_keys,
        default_partition=settings.default_partition,
        options=read_sink_options(
            settings.resolved, partitioned=bool(partitioning.columns), owner=owner
        ),
    )


def _check_columns(table: Table, owner: str) -> None:
    for column in table.schema.metadata:
        if not column.virtual:
            raise DefinitionError(
                f"{owner}: metadata column {quote(column.name)} cannot be written: files have it by themselves",
                hint="declare it METADATA VIRTUAL",
            )
    for name in table.partition_keys:
        if is_hidden(name):
            raise UnsupportedError(
                f"{owner} is PARTITIONED BY {quote(name)}, whose folders nobody would read",
                hint="folders that begin with '_' or '.' are taken for unfinished; choose another name",
            )
    if len(table.partition_keys) == len(table.schema.physical):
        raise DefinitionError(
            f"{owner} is PARTITIONED BY all of its columns", hint="leave one to be stored in files"
        )
