"""Where a query's checkpoint is, by its names alone: different names give different directories."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from penstock.catalog.definitions.contract import DEFAULT_DATABASE
from penstock.catalog.model.identifier import Identifier
from penstock.connector.urls import is_url

__all__ = [
    "checkpoint_location",
    "checkpoint_root",
    "folder_name",
    "old_folder_name",
    "refresh_name",
]

_SIMPLE = re.compile(r"[a-z0-9_-][a-z0-9_.-]*", re.ASCII)

_LONGEST_SIMPLE = 150

_LONGEST_SLUG = 40

_DIGITS = 32

_DIGEST = re.compile(rf"(?:^|-)[0-9a-f]{{{_DIGITS}}}$")

_ASIDE = ".set-aside-"

_RESERVED = frozenset({"dead-letter-topics"})
"""What lies beside the pipelines in the folder of checkpoints (`sql/runner/dead_letters.py`)."""


def checkpoint_root(base: str, project: Path) -> str:
    """Return the folder of all checkpoints; a base without a scheme is relative to the project."""
    return (base if is_url(base) else str(project / base)).rstrip("/")


def checkpoint_location(base: str, project: Path, pipeline: str, sink: str) -> str:
    """Return `<base>/<pipeline>/<sink>`; a base without a scheme is relative to the project."""
    return f"{checkpoint_root(base, project)}/{folder_name(pipeline)}/{folder_name(sink)}"


def folder_name(name: str) -> str:
    """Write a name as a folder's: another name has another folder, also where letter case does not count.

    A short name of lower-case ASCII letters, digits, `_`, `-` and `.` is its own folder. Any other is its readable
    part, and 128 bits of its SHA-256; no name of the first kind ends so. Neither leaves its parent folder.
    """
    if _is_simple(name):
        return name
    slug = re.sub(r"[^a-z0-9_-]+", "_", name.lower(), flags=re.ASCII)[:_LONGEST_SLUG]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{slug or '_'}-{digest}"


def old_folder_name(name: str) -> str | None:
    """Write a name as earlier versions did, where several names had one folder; None where it led elsewhere."""
    old = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
    return None if old in {"", ".", ".."} else old


def _is_simple(name: str) -> bool:
    return (
        _SIMPLE.fullmatch(name) is not None
        and len(name) <= _LONGEST_SIMPLE
        and not name.endswith(".")  # some file systems leave it out
        and _DIGEST.search(name) is None
        and _ASIDE not in name
        and name not in _RESERVED
    )


def refresh_name(table: Identifier) -> str:
    """Name the query by its table; tables of other databases are distinguished."""
    here = table.database == DEFAULT_DATABASE
    return table.name if here else f"{table.database}.{table.name}"
