"""The WITH clause of a filesystem table as one checked, typed value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.catalog.errors import OptionError
from penstock.catalog.options import Option, Resolved, resolve
from penstock.connector.bad_record_options import (
    BAD_RECORD_OPTIONS,
    BadRecordSettings,
    read_bad_record_settings,
)
from penstock.connector.filesystem import options as o
from penstock.connector.filesystem.location import Location, locate
from penstock.connector.java_pattern import java_pattern
from penstock.connector.watermark_options import (
    WATERMARK_OPTIONS,
    WatermarkSettings,
    read_watermark_settings,
)

__all__ = ["FilesystemSettings", "read_settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemSettings:
    """What the WITH clause of a filesystem table says, checked.

    `monitor_interval_ms` is None for a scan that lists once and ends. `path_pattern` is for whole absolute paths.
    `default_partition` is what a folder's name says in the place of NULL.
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
