"""The options of a Delta table, and how its path is found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from penstock.catalog.options import INT, STRING, Option, PrefixOption
from penstock.catalog.table import Table

__all__ = [
    "MAX_FILES",
    "OPTIONS",
    "PATH",
    "STARTING_TIMESTAMP",
    "STARTING_VERSION",
    "TABLE_PROPERTIES",
    "resolve_path",
]

CONNECTOR: Option[str] = Option(
    key="connector", type=STRING, default=None, doc="'delta'.", required=True
)
PATH: Option[str] = Option(
    key="path",
    type=STRING,
    default=None,
    doc="Where the table is: a path relative to the project, or any Hadoop URL.",
    required=True,
)
STARTING_VERSION: Option[str | None] = Option(
    key="scan.starting-version",
    type=STRING,
    default=None,
    doc="Version of the table that a stream starts at, or 'latest'. Default: the whole table first.",
)
STARTING_TIMESTAMP: Option[str | None] = Option(
    key="scan.starting-timestamp",
    type=STRING,
    default=None,
    doc="Time that a stream starts at, such as '2024-01-01 00:00:00'.",
)
MAX_FILES: Option[int | None] = Option(
    key="scan.max-files-per-batch",
    type=INT,
    default=None,
    doc="Files that a micro-batch reads at most (Delta: maxFilesPerTrigger, 1000).",
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

_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:/")


def resolve_path(table: Table, project: Path) -> str:
    """Give the table's location; a path without a scheme is relative to the project."""
    path = table.option_map[PATH.key]
    return path if _URL.match(path) else str((project / path).absolute())
