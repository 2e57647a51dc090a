"""A filesystem table as one picklable value: options, format, columns and partitions, checked against each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.catalog.errors import OptionError, UnsupportedError
from penstock.catalog.model.table import Schema, Table
from penstock.catalog.options.option import Option, Resolved, resolve
from penstock.connector.changelog import ChangelogMode
from penstock.connector.column_checks import check_metadata_column
from penstock.connector.filesystem.table import options as o
from penstock.connector.filesystem.table.location import Location, locate
from penstock.connector.filesystem.table.partitions import Partitioning, partitioning_of
from penstock.connector.filesystem.table.split import METADATA_TYPES
from penstock.connector.formats import Format, find_format
from penstock.connector.java_pattern import java_pattern
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

__all__ = ["FilesystemSettings", "FilesystemTable", "read_settings", "read_table"]


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
