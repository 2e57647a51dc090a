"""The options of a Delta table, and how its path is found."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from penstock.catalog.errors import OptionError
from penstock.catalog.options import INT, STRING, Option, PrefixOption, Resolved, resolve
from penstock.catalog.table import Table

__all__ = [
    "MAX_FILES",
    "OPTIONS",
    "PATH",
    "STARTING_TIMESTAMP",
    "STARTING_VERSION",
    "resolve_options",
    "resolve_path",
    "table_properties",
]

CONNECTOR: Option[str | None] = Option(
    key="connector", type=STRING, default=None, doc="'delta'.", required=True
)
PATH: Option[str] = Option(
    key="path",
    type=STRING,
    default="",
    doc="Where the table is: a path relative to the project, or any Hadoop URL.",
    required=True,
)
STARTING_VERSION: Option[str | None] = Option(
    key="scan.starting-version",
    type=STRING,
    default=None,
    doc="The table's version that a stream starts at, inclusive, or 'latest' for what is appended from now on. "
    "Default: all that the table holds, then what is appended.",
    aliases=("startingVersion",),
)
STARTING_TIMESTAMP: Option[str | None] = Option(
    key="scan.starting-timestamp",
    type=STRING,
    default=None,
    doc="The time of the first commit that a stream reads, such as '2026-01-01 00:00:00'.",
    aliases=("startingTimestamp",),
)
MAX_FILES: Option[int | None] = Option(
    key="scan.max-files-per-batch",
    type=INT,
    default=None,
    doc="How many files a micro-batch of a stream reads at most. Default: Delta's 1000.",
    aliases=("maxFilesPerTrigger",),
)
TABLE_PROPERTIES = PrefixOption(
    prefix="delta.", doc="Delta table properties, set when the table is created."
)
OPTIONS: tuple[Option[Any] | PrefixOption, ...] = (
    CONNECTOR,
    PATH,
    STARTING_VERSION,
    STARTING_TIMESTAMP,
    MAX_FILES,
    TABLE_PROPERTIES,
)

FORGETFUL = "delta.setTransactionRetentionDuration"
"""Lets a table forget which batches of a query it holds, and so takes a replayed batch twice."""

# two letters at least: C:/data is a path of Windows
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
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
    forgetful = [key for key in table_properties(options) if key.lower() == FORGETFUL.lower()]
    if forgetful:
        raise OptionError(
            f"{owner}: with '{forgetful[0]}' the table would forget which batches it holds, and take some twice",
            hint="leave it out: appends are exactly once as long as the table remembers",
        )
    return options


def table_properties(options: Resolved) -> dict[str, str]:
    """Give the `delta.*` options, whole keys."""
    prefix = TABLE_PROPERTIES.prefix
    return {f"{prefix}{key}": value for key, value in options.prefixed(prefix).items()}


def resolve_path(path: str, project: Path) -> str:
    """Give a table's location: a Hadoop URL as it is, else a path, made absolute from the project's folder."""
    return path if _URL.match(path) else os.path.normpath(project.absolute() / path)
