"""A filesystem table as one picklable value: options, format, columns and partitions, checked against each other.

Values of partition columns stand in the names of folders, as in `day=2026-01-31/hour=7` (PartitionPathUtils).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.catalog.errors import BadRecordError, DefinitionError, OptionError, UnsupportedError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quote
from penstock.catalog.model.table import PhysicalColumn, Schema, Table
from penstock.catalog.options.option import Option, Resolved, resolve
from penstock.connector.arrow import arrow_type
from penstock.connector.changelog import ChangelogMode
from penstock.connector.checks import check_metadata_column
from penstock.connector.filesystem.table import options as o
from penstock.connector.filesystem.table.location import Location, locate
from penstock.connector.filesystem.table.split import METADATA_TYPES
from penstock.connector.formats import Format, find_format
from penstock.connector.jvm.java_pattern import java_pattern
from penstock.connector.options.bad_records import (
    BAD_RECORD_OPTIONS,
    BadRecordSettings,
    check_against_format,
    read_bad_record_settings,
)
from penstock.connector.options.watermark import (
    WATERMARK_OPTIONS,
    WatermarkSettings,
    read_watermark_settings,
)

_TYPES = (
    t.CharType,
    t.VarCharType,
    t.BooleanType,
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.FloatType,
    t.DoubleType,
    t.DateType,
    t.TimestampType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The columns whose values are in the path, and what stands there for NULL. No columns: not partitioned."""

    columns: tuple[PhysicalColumn, ...]
    default_name: str

    def holds(self, name: str) -> bool:
        """Return whether a file, by its name inside the table's folder, is in a partition.

        Files above the partitions' folders are in none, and are not read, as in Flink. Raises BadRecordError for
        a folder that names no partition.
        """
        folders = name.split("/")[:-1]
        if len(folders) < len(self.columns):
            return False
        self.texts(name)
        return True

    def texts(self, name: str) -> dict[str, str]:
        """Return the values in a file's name as text, by column. Raises BadRecordError."""
        folders = name.split("/")[:-1][: len(self.columns)]
        pairs = [folder.partition("=") for folder in folders]
        found = {_unescaped(key): _unescaped(value) for key, _, value in pairs}
        if set(found) != {column.name for column in self.columns} or "" in found.values():
            expected = "/".join(f"{column.name}=..." for column in self.columns)
            raise BadRecordError(
                f"file {name} is not in a partition: the table's files are in {expected}/",
                hint="correct the folder's name, or leave the file out with 'source.path.regex-pattern'",
            )
        return found

    def value(self, column: PhysicalColumn, name: str) -> pa.Scalar:
        """Return the value of a partition column for the rows of a file. Raises BadRecordError."""
        text = self.texts(name)[column.name]
        target = arrow_type(column.type)
        if text == self.default_name:
            if not column.type.nullable:
                raise BadRecordError(
                    f"file {name}: partition column {quote(column.name)} is {column.type}, and the folder says NULL",
                    hint="declare the column without NOT NULL",
                )
            return pa.scalar(None, target)
        try:
            return pa.scalar(text, pa.string()).cast(target)
        except pa.ArrowInvalid:
            raise BadRecordError(
                f"file {name}: '{text}' is no value of partition column {quote(column.name)} {column.type}",
                hint="correct the folder's name, or declare the column as STRING",
            ) from None


def partitioning_of(table: Table, default_name: str) -> Partitioning:
    """Find a table's partition columns. Raises DefinitionError for one that a path cannot fill."""
    owner = f"table {table.identifier}"
    physical = {column.name: column for column in table.schema.physical}
    for name in table.partition_keys:
        column = physical.get(name)
        if column is None:
            raise DefinitionError(
                f"{owner} is PARTITIONED BY {quote(name)}, which is not a physical column"
            )
        if not isinstance(column.type, _TYPES):
            raise DefinitionError(
                f"{owner} is PARTITIONED BY {quote(name)}, which has type {column.type}",
                hint="names of folders give texts, whole and floating numbers, BOOLEAN, DATE and TIMESTAMP",
            )
    columns = tuple(physical[name] for name in table.partition_keys)
    return Partitioning(columns=columns, default_name=default_name)


def _unescaped(text: str) -> str:
    """Read %XX as one character, as Flink writes it: of ASCII only, the rest is never escaped."""
    head, *parts = text.split("%")
    return head + "".join(_character(part) for part in parts)


def _character(part: str) -> str:
    digits = part[:2]
    if len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
        return chr(int(digits, 16)) + part[2:]
    return f"%{part}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemSettings:
    """The WITH clause of a filesystem table, checked.

    `monitor_interval_ms` is None for a scan that lists once and ends. `path_pattern` is for whole absolute paths.
    `default_partition` is NULL in a folder's name.
    """

    location: Location
    monitor_interval_ms: int | None
    path_pattern: re.Pattern[str] | None
    parallelism: int | None
    max_bytes_per_batch: int
    default_partition: str
    watermark: WatermarkSettings
    bad_records: BadRecordSettings
    resolved: Resolved = field(repr=False)


def read_settings(
    options: Mapping[str, str], formats: Sequence[Option[Any]], *, owner: str, project: Path
) -> FilesystemSettings:
    """Read a WITH clause; `formats` are the options of the table's format. No I/O. Raises OptionError."""
    resolved = resolve(
        options, [*o.OPTIONS, *WATERMARK_OPTIONS, *BAD_RECORD_OPTIONS, *formats], owner=owner
    )
    path, pattern = resolved.get(o.PATH), resolved.get(o.PATH_PATTERN)
    if not path.strip():
        raise OptionError(f"{owner}: option '{o.PATH.key}' is empty", hint=o.PATH.doc)
    interval_ms = resolved.get(o.MONITOR_INTERVAL)
    if interval_ms is not None and interval_ms <= 0:
        raise OptionError(
            f"{owner}: option '{o.MONITOR_INTERVAL.key}' must be more than nothing",
            hint="leave it out to list the files once",
        )
    return FilesystemSettings(
        location=locate(path, project, owner=owner),
        monitor_interval_ms=interval_ms,
        path_pattern=None
        if pattern is None
        else java_pattern(
            pattern, what=f"{owner}: '{o.PATH_PATTERN.key}'", hint=o.PATH_PATTERN.doc
        ),
        parallelism=resolved.at_least_one(o.PARALLELISM, owner=owner),
        max_bytes_per_batch=resolved.at_least_one(o.MAX_BYTES, owner=owner),
        default_partition=resolved.get(o.DEFAULT_PARTITION),
        watermark=read_watermark_settings(resolved, owner=owner, connector="filesystem"),
        bad_records=read_bad_record_settings(resolved, owner=owner),
        resolved=resolved,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemTable:
    """What a table's definition says of its files. The format decodes single lines."""

    schema: Schema
    settings: FilesystemSettings
    partitioning: Partitioning
    format: Format = field(repr=False)

    @property
    def skips_bad_records(self) -> bool:
        """Whether what cannot be decoded is left out, by the format or by `bad-records`."""
        by_format = self.format.skips_bad_records(self.settings.resolved)
        return by_format or self.settings.bad_records.leaves_out


def read_table(table: Table, project: Path) -> FilesystemTable:
    """Check a definition, without I/O. Raises OptionError, DefinitionError."""
    owner = f"table {table.identifier}"
    options = table.option_map
    # a missing format is among the missing options, all named at once
    name = options.get(o.FORMAT.key)
    found = None if name is None else find_format(name, option=o.FORMAT.key)
    formats = () if found is None else found.options()
    settings = read_settings(options, formats, owner=owner, project=project)
    assert found is not None, "the option 'format' is required"
    partitioning = partitioning_of(table, settings.default_partition)
    in_lines = [
        (column.name, column.type)
        for column in table.schema.physical
        if column.name not in table.partition_keys
    ]
    _check_insert_only(found, owner)
    found.check(in_lines, settings.resolved)
    check_against_format(
        settings.resolved, owner=owner, format_skips=found.skips_bad_records(settings.resolved)
    )
    for column in table.schema.metadata:
        check_metadata_column(column, METADATA_TYPES, owner=owner, connector="filesystem")
    return FilesystemTable(
        schema=table.schema, settings=settings, partitioning=partitioning, format=found
    )


def _check_insert_only(found: Format, owner: str) -> None:
    if found.changes is not ChangelogMode.INSERT_ONLY:
        raise UnsupportedError(
            f"{owner}: files of changes in the format '{found.identifier}' are not supported by 'filesystem'",
            hint="read changes from a topic, with 'connector' = 'kafka'; or the envelopes themselves, with "
            "'format' = 'json' and columns such as after ROW<...>",
        )
