"""Names of the folders of state tables, and what a table takes, read without an engine."""

from __future__ import annotations

import json
from collections.abc import Iterable

from penstock.catalog.errors import StateMismatchError
from penstock.sql.checkpoint.reader import CheckpointFiles

FILES = "_files.json"
"""The files of a folder with their sizes in bytes. Spark's reader ignores names that begin with `_`."""

BATCH, BASE = "batch=", "base="


def folder_ids(names: Iterable[str], prefix: str) -> list[int]:
    """Return the batches of the folders whose names begin so."""
    found = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return [int(text) for text in found if text.isdecimal()]


def stage_bytes(files: CheckpointFiles, folder: str, stage: str) -> int | None:
    """Return what the state tables of a stage take, in bytes: the newest base and the batches since.

    `folder` is that of all state tables in the checkpoint. None where that is not known: nothing is there, or is being
    written or removed now.
    """
    tables = [name for name in files.names(folder) if name.startswith(f"{stage}-")]
    sizes = [_table_bytes(files, f"{folder}/{name}") for name in tables]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _table_bytes(files: CheckpointFiles, table: str) -> int | None:
    names = files.names(table)
    bases = sorted(folder_ids(names, BASE), reverse=True)
    base, base_bytes = -1, 0
    for number in bases:  # the newest may not be whole yet
        size = _folder_bytes(files, f"{table}/{BASE}{number}")
        if size is not None:
            base, base_bytes = number, size
            break
    batches = [number for number in folder_ids(names, BATCH) if number > base]
    found = [_folder_bytes(files, f"{table}/{BATCH}{number}") for number in batches]
    whole = [size for size in found if size is not None]
    return base_bytes + sum(whole) if whole or base >= 0 else None


def _folder_bytes(files: CheckpointFiles, folder: str) -> int | None:
    try:
        sizes: dict[str, int] = json.loads(files.text(f"{folder}/{FILES}") or "")
        return sum(sizes.values())
    except (StateMismatchError, ValueError, AttributeError, TypeError):
        return None
