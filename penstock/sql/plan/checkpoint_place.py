"""Where a query's checkpoint is, by its names alone. No engine, no I/O."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.connector.urls import is_url

__all__ = ["checkpoint_location", "safe_name"]


def checkpoint_location(base: str, project: Path, pipeline: str, sink: str) -> str:
    """Give `<base>/<pipeline>/<sink>`; a base without a scheme is relative to the project."""
    root = base if is_url(base) else str(project / base)
    return f"{root.rstrip('/')}/{safe_name(pipeline)}/{safe_name(sink)}"


def safe_name(name: str) -> str:
    """Write a name as a folder's: other characters than those of plain words become underscores."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
