"""The checkpoints that lie in a project's folder, as `<dir>/<pipeline>/<sink>`; read as files, without an engine.

The directory is the project's `execution.checkpointing.dir`; one that is a URL is not looked into.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import ConfigError, StateMismatchError
from penstock.connector.source.state import SourceState
from penstock.connector.urls import is_url
from penstock.sql.checkpoint.identity import IDENTITY, read_identity
from penstock.sql.checkpoint.plan_record import read_plan
from penstock.sql.checkpoint.read_cache import READS
from penstock.sql.checkpoint.reader import (
    METADATA,
    OFFSETS,
    SHAPE_FILE,
    LocalFiles,
    SavedCheckpoint,
    read_beside,
    read_checkpoint,
)
from penstock.sql.incremental.describe import FOLDER as RECOMPUTED
from penstock.sql.incremental.keyed.files.manifest import FOLDER as KEYED
from penstock.sql.incremental.keyed.files.manifest import (
    OperatorStateSize,
    newest_manifest,
    state_sizes,
)
from penstock.sql.script.project import find_project
from penstock.sql.settings import CHECKPOINT_DIR

_ASIDE = ".set-aside-"

_RUNNERS = ((KEYED, "keyed operators"), (RECOMPUTED, "spark"))
"""The folders of the states of stages, by what runs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatus:
    """The content of a checkpoint: batches from 0, times in epoch ms. `problem` where it is DAMAGED.

    `stages_run_by`: "keyed operators" or "spark", None for a query without stages that keep state.
    """

    status: str
    planned: int | None = None
    committed: int | None = None
    planned_ms: int | None = None
    watermark_ms: int | None = None
    stages_run_by: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFolder:
    """A checkpoint's folder, by the names that stand in it; one of an earlier version by those of its path."""

    pipeline: str
    sink: str
    path: str

    def look(self) -> CheckpointStatus:
        """Read what it says."""
        files = LocalFiles(location=self.path)
        try:
            saved = read_beside(files, read_checkpoint)
        except StateMismatchError as error:
            return CheckpointStatus(status="DAMAGED", problem=error.message)
        if saved is None or saved.planned is None:
            return CheckpointStatus(status="NEW")
        return CheckpointStatus(
            status="OK",
            planned=saved.planned,
            committed=saved.committed,
            planned_ms=files.written_ms(f"{OFFSETS}/{saved.planned}"),
            watermark_ms=_watermark(saved),
            stages_run_by=next((by for folder, by in _RUNNERS if files.names(folder)), None),
        )

    def operator_states(self) -> Sequence[OperatorStateSize]:
        """Read how much keyed operators keep; nothing where that cannot be read, which a `look` tells."""
        try:
            manifest = read_beside(LocalFiles(location=self.path), newest_manifest)
        except StateMismatchError:
            return ()
        return () if manifest is None else state_sizes(manifest)

    def bounds(self) -> Mapping[str, str]:
        """Read what bounds the state of each stage, by the plan that the query was started with last."""
        plan = read_plan(LocalFiles(location=self.path))
        operators = () if plan is None else plan.operators
        return {
            stage: each.bound
            for each in operators
            if each.bound is not None
            for stage in each.stages
        }


Unread = Callable[[str], None]
"""Takes what of a project's folder cannot be read, and why: the rest is returned all the same."""


def _skipped(_: str) -> None:
    """Leave out what cannot be read without a word."""


def checkpoint_folders(
    project: Path, *, settings: Mapping[str, str] | None = None, unread: Unread = _skipped
) -> Iterator[CheckpointFolder]:
    """Return the checkpoints of a project, sorted; none where its directory is a URL.

    `settings` are the project's; None reads its file. Raises ConfigError for a file that is wrong.
    """
    if settings is None:
        settings = find_project(project).settings
    base = settings.get(CHECKPOINT_DIR.key) or CHECKPOINT_DIR.default
    assert base is not None, "it has a default"
    if is_url(base):
        return
    for pipeline in _folders(project / base, unread):
        for sink in _folders(pipeline, unread):
            if _ASIDE not in sink.name:
                yield _folder(pipeline.name, sink)


def checkpoints_at(location: str) -> tuple[CheckpointFolder, ...]:
    """Return the checkpoint at a path, or those in the folders below it, two deep, as pipelines and sinks are.

    Raises ConfigError where there is none, and for what is no folder that can be read here.
    """
    if is_url(location) and not location.startswith("file:"):
        raise ConfigError(
            f"the checkpoint {location} is not on this machine",
            hint="copy it, or mount it, and name the folder; `penstock jobs` where its catalog is shows what runs",
        )
    root = LocalFiles(location=location).folder.absolute()
    if not root.is_dir():
        what = "is no folder" if root.exists() else "is not there"
        raise ConfigError(f"the checkpoint {root} {what}", hint=_OF_CHECKPOINTS)
    problems: list[str] = []
    try:
        found = [root] if _is_checkpoint(root) else [*_checkpoints_below(root, problems.append)]
    except StateMismatchError as error:
        raise ConfigError(f"the checkpoint {root} cannot be read: {error}") from error
    if not found and problems:
        raise ConfigError(problems[0])
    if not found:
        raise ConfigError(f"{root} holds no checkpoint", hint=_OF_CHECKPOINTS)
    return tuple(_folder(each.parent.name, each) for each in found)


_OF_CHECKPOINTS = (
    "name the folder of one query, .penstock/checkpoints/PIPELINE/SINK of a project unless its "
    "'execution.checkpointing.dir' says another, or a folder of such"
)


def _is_checkpoint(folder: Path) -> bool:
    return bool({SHAPE_FILE, METADATA, IDENTITY} & {*LocalFiles(location=str(folder)).names("")})


def _checkpoints_below(root: Path, unread: Unread) -> Iterator[Path]:
    for first in _folders(root, unread):
        if _is_checkpoint(first):
            yield first
        else:
            yield from (each for each in _folders(first, unread) if _is_checkpoint(each))


def _folder(pipeline: str, sink: Path) -> CheckpointFolder:
    try:
        identity = READS.read(LocalFiles(location=str(sink)), read_identity)
    except StateMismatchError:
        identity = None  # a look at it says what is wrong
    if identity is None:
        return CheckpointFolder(pipeline=pipeline, sink=sink.name, path=str(sink))
    return CheckpointFolder(pipeline=identity.pipeline, sink=identity.query, path=str(sink))


def _folders(folder: Path, unread: Unread) -> list[Path]:
    """List the folders in a folder; none of one that is not there, or that is removed meanwhile."""
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if not entry.name.startswith(".")]
            return sorted(folder / entry.name for entry in found if _is_folder(entry, unread))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        unread(f"the folder {folder} cannot be read: {error.strerror}")
        return []


def _is_folder(entry: os.DirEntry[str], unread: Unread) -> bool:
    try:
        if not entry.is_dir():
            return False
        entry.name.encode()
    except OSError as error:
        unread(f"{entry.path!a} cannot be read: {error.strerror}")
        return False
    except UnicodeEncodeError:
        # none of ours, whose names are text
        unread(f"the folder {entry.path!a} is left out: its name is not UTF-8")
        return False
    return True


def _watermark(saved: SavedCheckpoint) -> int | None:
    """Return the lowest watermark of the tables that have one."""
    states = [state for state in saved.offsets if isinstance(state, SourceState)]
    return min((s.watermark_ms for s in states if s.watermark_ms is not None), default=None)
