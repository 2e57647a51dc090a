"""Makes folders that hold records, logs, keys and state: for this user alone, `.penstock` itself included."""

from __future__ import annotations

from pathlib import Path

__all__ = ["make_private_folder"]


def make_private_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, each for its owner alone. Raises OSError.

    `mkdir(parents=True, mode=0o700)` sets the last one only. A folder that is there keeps its rights.
    """
    missing = [folder, *folder.parents]
    for each in reversed([path for path in missing if not path.exists()]):
        each.mkdir(mode=0o700, exist_ok=True)
