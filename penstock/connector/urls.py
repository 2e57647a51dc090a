"""Tells URLs of file systems from paths. No I/O, and nothing heavy is loaded: checks without an engine use it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from penstock.catalog.model.table import Table

# two letters at least: C:/data is a path of Windows
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/.*)", re.DOTALL)


def is_url(location: str) -> bool:
    """Return whether a text is a URL, as Hadoop defines it, rather than a path."""
    return _URL.fullmatch(location) is not None


def is_remote(location: str) -> bool:
    """Return whether a text is a URL of an object store or a cluster, rather than a path or a `file:` URL."""
    found = split_url(location)
    return found is not None and found[0] != "file"


def split_url(location: str) -> tuple[str, str] | None:
    """Return the scheme in small letters and what follows its colon; None for a path."""
    found = _URL.fullmatch(location)
    return None if found is None else (found[1].lower(), found[2])


def local_path(location: str) -> str:
    """Return the path of a folder of this machine, given as one or as a `file:` URL."""
    found = split_url(location)
    return location if found is None else "/" + found[1].lstrip("/")


def resolve_path(path: str, project: Path) -> str:
    """Return a URL as it is, and a path made absolute from the project's folder."""
    return path if is_url(path) else os.path.normpath(project.absolute() / path)


def table_folder(table: Table, key: str, project: Path) -> str | None:
    """Return where the option `key` of a table leads; None for a table without it."""
    path = table.option_map.get(key)
    return resolve_path(path, project) if path else None
