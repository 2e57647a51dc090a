"""Finds the checkpoints that a pipeline has, by its name and by the folder that earlier versions gave it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.catalog.errors import StateMismatchError
from penstock.sql.checkpoint.choice import KnownCheckpoint
from penstock.sql.checkpoint.fingerprint import QueryFingerprint
from penstock.sql.checkpoint.identity import IDENTITY, folder_name, old_folder_name, read_identity
from penstock.sql.checkpoint.reader import (
    COMMITS,
    METADATA,
    OFFSETS,
    SHAPE_FILE,
    STATE,
    CheckpointFiles,
)

OpenFiles = Callable[[str], CheckpointFiles]
"""Opens a folder, existing or not."""

SET_TABLE = "statement-set"
"""The table name of a statement set that is one query."""

_OF_SET = re.compile(rf"{SET_TABLE}(?:-\d+)?")
_SIGNS = {SHAPE_FILE, METADATA, STATE, IDENTITY, OFFSETS, COMMITS}
_ASIDE = ".set-aside-"
_NAMED = re.compile(r"'pipeline\.name'\s*=\s*'((?:[^']|'')*)'")
_MOST_FILES = (
    2_000  # SQL files of a project that are looked at for names; there are seldom a hundred
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSearch:
    """Looks below `root`, the folder of all checkpoints, for those of a project's pipelines."""

    open_files: OpenFiles
    root: str
    project: Path

    def of_pipeline(
        self, pipeline: str, *, files: Collection[str | None] = ()
    ) -> list[KnownCheckpoint]:
        """Return the checkpoints of a pipeline; `files` are those of the statements that are to run.

        Raises StateMismatchError for a damaged identity.
        """
        new, old = folder_name(pipeline), old_folder_name(pipeline)
        known = list(self._in_folder(pipeline, new, files, is_old=False))
        if old is not None and old != new and old in self.open_files(self.root).names(""):
            known += self._in_folder(pipeline, old, files, is_old=True)
        return known

    def check_undisputed(self, pipeline: str, known: KnownCheckpoint) -> None:
        """Check that a checkpoint that names no pipeline cannot be that of another. Raises StateMismatchError."""
        if known.name is not None:
            return
        others = self._namesakes(pipeline)
        if others:
            named = ", ".join(repr(name) for name in (pipeline, *others))
            raise StateMismatchError(
                f"the checkpoint {known.location} was written by an earlier version, which kept those of the pipelines "
                f"{named} in one folder: it is not known whose it is",
                hint="say which it is: `penstock checkpoint assign FILE --line N --to NAME` with the file and line of "
                f"the INSERT that wrote it, and NAME {known.folder!r}; or start over under another SET "
                "'pipeline.name' = '...'",
            )

    def _in_folder(
        self, pipeline: str, folder: str, ran: Collection[str | None], *, is_old: bool
    ) -> Iterator[KnownCheckpoint]:
        for name in self.open_files(f"{self.root}/{folder}").names(""):
            if _ASIDE in name:
                continue
            location = f"{self.root}/{folder}/{name}"
            files = self.open_files(location)
            if not is_checkpoint(files):
                continue
            known = self._known(files, name, pipeline, ran, is_old=is_old)
            if known is not None:
                yield known

    def _known(
        self,
        files: CheckpointFiles,
        folder: str,
        pipeline: str,
        ran: Collection[str | None],
        *,
        is_old: bool,
    ) -> KnownCheckpoint | None:
        identity = read_identity(files)
        if identity is not None and identity.pipeline != pipeline:
            return None
        shape = _shape(files)
        if identity is None:
            return KnownCheckpoint(
                location=files.location,
                folder=folder,
                table=_table(folder, shape),
                shape=shape,
                old_folder=is_old,
            )
        file = identity.file
        is_other = bool(ran) and file not in ran
        is_there = file is None or (self.project / file).is_file()
        alone = not any(one is not None for one in ran)
        return KnownCheckpoint(
            location=files.location,
            folder=folder,
            table=identity.table,
            name=identity.query,
            text=identity.text,
            shape=shape,
            elsewhere=is_other and is_there,
            gone=is_other and not is_there,
            by_text=alone,
            old_folder=is_old,
        )

    def _namesakes(self, pipeline: str) -> Sequence[str]:
        """Return other names of pipelines in the project's SQL files that had the same folder in earlier versions."""
        mine = old_folder_name(pipeline)
        there = set(self.open_files(self.root).names(""))

        def shared(name: str) -> bool:
            other = old_folder_name(name)
            if other is None or mine is None or name == pipeline:
                return False
            # letter case may not count there; where it does, both folders are seen
            return other == mine or (other.lower() == mine.lower() and other not in there)

        return sorted({name for name in _pipeline_names(self.project) if shared(name)})


def is_checkpoint(files: CheckpointFiles) -> bool:
    """Return whether a folder is a checkpoint."""
    return bool(_SIGNS.intersection(files.names("")))


def _pipeline_names(project: Path) -> Iterator[str]:
    found = 0
    for folder, folders, files in os.walk(project):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.endswith(".sql"):
                continue
            found += 1
            if found > _MOST_FILES:
                return
            yield Path(name).stem
            try:
                text = Path(folder, name).read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError):
                continue
            yield from (named.replace("''", "'") for named in _NAMED.findall(text))


def _shape(files: CheckpointFiles) -> QueryFingerprint | None:
    """Read the fingerprint as far as possible; faults in it are reported when a query resumes from the checkpoint."""
    try:
        value: Any = json.loads(files.text(SHAPE_FILE) or "")
        return QueryFingerprint.from_value(value)
    except (AttributeError, KeyError, TypeError, ValueError, StateMismatchError):
        return None


def _table(folder: str, shape: QueryFingerprint | None) -> str | None:
    if _OF_SET.fullmatch(folder) and (shape is None or ", " in shape.sink):
        return SET_TABLE
    return None if shape is None else shape.sink
