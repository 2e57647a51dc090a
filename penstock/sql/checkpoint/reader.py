"""Read what a checkpoint directory holds without starting anything; a damaged one is refused.

Local folders need no Hadoop. Spark itself ignores some damage: without `metadata` it assigns the query a new id, under
which sinks would write a replayed batch again; without `offsets` it starts new under the old id, by which sinks would
drop new rows. `CheckpointFiles` is the access to files; `directory.py` has the one for Hadoop's file systems.
"""

from __future__ import annotations

import json
import os
import re
import stat
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from penstock.catalog.errors import ConfigError, StateMismatchError
from penstock.connector.dead_letters.table import STAGING
from penstock.connector.source.state import SourceState, decode_state
from penstock.connector.urls import split_url
from penstock.sql.checkpoint.fingerprint import START_OVER_HINTS, QueryFingerprint

SHAPE_FILE = "penstock-query.json"

METADATA, OFFSETS, COMMITS, STATE = "metadata", "offsets", "commits", "state"

_SINK_FOLDERS = ("kafka-sinks", "maintained", "keyed")
"""The folders in which Kafka sinks (`sink_state.py`) and incremental queries keep state: `operators/query.py`, and
`keyed/runtime/run.py` for keyed operators.
"""

LOG_VERSION = "v1"
"""First line of Spark's offset and commit logs (OffsetSeqLog, CommitLog) as this Spark writes them."""

_VERSION = re.compile(r"v\d{1,6}")

MOST_BYTES = 64 << 20
"""A file of a checkpoint that is larger is none: the largest, offsets of many splits, have some megabytes."""

MOST_READS = 5
"""How often a checkpoint that goes on meanwhile is read again: a batch takes longer than reading does."""

NO_OFFSET = "-"
"""What Spark writes for a source that has given nothing yet (OffsetSeqLog)."""


T = TypeVar("T")


class CheckpointFiles(Protocol):
    """The files of one checkpoint directory, by their paths inside it."""

    @property
    def location(self) -> str:
        """The directory, as messages name it."""

    def names(self, folder: str) -> Sequence[str]:
        """List what is in a folder ("" is the directory itself); empty where there is none.

        Raises StateMismatchError for one that cannot be read.
        """

    def text(self, path: str) -> str | None:
        """Read a file; None where there is none. Raises StateMismatchError for one that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCheckpoint:
    """A whole checkpoint: `planned` is the last batch whose offsets are written, `committed` the last that is done.

    `offsets` are those that batch `planned` ends at, one a source in the query's order: the state of a split source,
    Spark's own JSON for another, None for a source that has given nothing.
    """

    shape: QueryFingerprint
    query_id: str | None = None
    planned: int | None = None
    committed: int | None = None
    offsets: tuple[SourceState | str | None, ...] = ()

    @property
    def next_batch(self) -> int:
        """The batch that a start runs first."""
        return 0 if self.committed is None else self.committed + 1

    @property
    def replays(self) -> bool:
        """Whether that batch was planned before, and will read the same again."""
        return self.planned is not None and self.planned != self.committed


def damaged_error(location: str, file: str, why: str) -> StateMismatchError:
    """Make the error for a file of a checkpoint that is not as it was written."""
    return StateMismatchError(
        f"the checkpoint {location} is damaged: {file} {why}",
        hint="restore the file from a copy of the checkpoint; or " + "; or ".join(START_OVER_HINTS),
    )


def read_checkpoint(files: CheckpointFiles) -> SavedCheckpoint | None:
    """Read a checkpoint; None where there is none. Raises StateMismatchError, naming the file, for a damaged one."""
    there = set(files.names(""))
    planned, committed = _last(files, OFFSETS), _last(files, COMMITS)
    if not there & {SHAPE_FILE, METADATA, STATE} and planned is None and committed is None:
        return None
    _check_present(files, there, planned, committed)
    if planned is None:
        _check_never_ran(files, there)
    shape = _shape(files)
    query_id = _query_id(files) if METADATA in there else None
    if planned is None:
        return SavedCheckpoint(shape=shape, query_id=query_id)
    if planned > 0:  # Spark begins a replayed batch where the one before it ends
        read_offsets(files, planned - 1, len(shape.sources))
    if committed is not None:
        _log(files, f"{COMMITS}/{committed}")
    return SavedCheckpoint(
        shape=shape,
        query_id=query_id,
        planned=planned,
        committed=committed,
        offsets=read_offsets(files, planned, len(shape.sources)),
    )


def read_beside(files: CheckpointFiles, read: Callable[[CheckpointFiles], T]) -> T:
    """Read a checkpoint that another process may be writing: what only looks damaged, as it goes on, is read again.

    Raises StateMismatchError for one that is damaged.
    """
    for _ in range(MOST_READS):
        before = (_last(files, OFFSETS), _last(files, COMMITS))
        try:
            return read(files)
        except StateMismatchError:
            if before == (_last(files, OFFSETS), _last(files, COMMITS)):
                raise
    return read(files)


def _last(files: CheckpointFiles, folder: str) -> int | None:
    return max((int(name) for name in files.names(folder) if name.isdecimal()), default=None)


def _check_present(
    files: CheckpointFiles, there: set[str], planned: int | None, committed: int | None
) -> None:
    """Refuse a checkpoint in which a file is missing that others refer to."""
    missing = None
    if SHAPE_FILE not in there:
        missing = SHAPE_FILE
    elif METADATA not in there and (planned is not None or committed is not None):
        missing = METADATA
    elif planned is None and (committed is not None or STATE in there):
        missing = f"{OFFSETS}/{committed or 0}"
    elif planned is not None and (committed or 0) > planned:
        missing = f"{OFFSETS}/{committed}"
    elif planned is not None and (-1 if committed is None else committed) < planned - 1:
        missing = f"{COMMITS}/{planned - 1}"
    if missing is not None:
        raise damaged_error(files.location, missing, "is missing")


def _check_never_ran(files: CheckpointFiles, there: set[str]) -> None:
    """Refuse a checkpoint that has no batch, but traces of one.

    Spark makes the folders of its logs, empty, before it writes `metadata`; the others come with a batch.
    """
    signs = [folder for folder in _SINK_FOLDERS if folder in there]
    signs += [
        f"{STAGING}/{table}/{batch}"
        for table in files.names(STAGING)
        for batch in files.names(f"{STAGING}/{table}")
        if batch.isdecimal()
    ]
    for folder in (OFFSETS, COMMITS):
        if METADATA in there and folder not in there:
            raise damaged_error(files.location, folder, "is missing")
    if signs:
        raise damaged_error(
            files.location, f"{OFFSETS}/0", f"is missing, though the query wrote {signs[0]}"
        )


def read_shape(files: CheckpointFiles) -> QueryFingerprint | None:
    """Read what a checkpoint was made for; None where it is unreadable, which is reported on resumption."""
    try:
        return None if files.text(SHAPE_FILE) is None else _shape(files)
    except StateMismatchError:
        return None


def _shape(files: CheckpointFiles) -> QueryFingerprint:
    text = _required(files, SHAPE_FILE)
    value = _object(files, SHAPE_FILE, text)
    try:
        return QueryFingerprint.from_value(value)
    except StateMismatchError as error:
        raise error.within(f"{files.location}/{SHAPE_FILE}") from None
    except (KeyError, TypeError) as error:
        raise damaged_error(files.location, SHAPE_FILE, "does not hold what it should") from error


def _query_id(files: CheckpointFiles) -> str:
    value = _object(files, METADATA, _required(files, METADATA))
    if not isinstance(value.get("id"), str):
        raise damaged_error(files.location, METADATA, "holds no id of the query")
    return str(value["id"])


def read_offsets(
    files: CheckpointFiles, batch: int, sources: int
) -> tuple[SourceState | str | None, ...]:
    """Read what a batch ends at, as `SavedCheckpoint.offsets`. Raises StateMismatchError."""
    path = f"{OFFSETS}/{batch}"
    return _offsets(files, path, _log(files, path)[1:], sources)


def read_planned(
    files: CheckpointFiles, batch: int, sources: int
) -> tuple[int, tuple[SourceState | str | None, ...]]:
    """Read the time of a batch, in ms since the epoch, and what it ends at.

    The time is what CURRENT_TIMESTAMP is in it. Raises StateMismatchError.
    """
    path = f"{OFFSETS}/{batch}"
    metadata, *lines = _log(files, path)
    time = json.loads(metadata).get("batchTimestampMs")
    if not isinstance(time, int):
        raise damaged_error(files.location, path, "does not hold the time of its batch")
    return time, _offsets(files, path, lines, sources)


def _offsets(
    files: CheckpointFiles, path: str, lines: Sequence[str], sources: int
) -> tuple[SourceState | str | None, ...]:
    if len(lines) < sources:
        raise damaged_error(
            files.location, path, f"holds {len(lines)} offsets of {sources} sources"
        )
    return tuple(_offset(files, path, line) for line in lines)


def _offset(files: CheckpointFiles, path: str, line: str) -> SourceState | str | None:
    if line == NO_OFFSET:
        return None
    try:
        value = json.loads(line)
        return decode_state(value) if isinstance(value, dict) and "splits" in value else line
    except StateMismatchError as error:
        raise error.within(f"{files.location}/{path}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged_error(files.location, path, "holds an offset that cannot be read") from error


def _log(files: CheckpointFiles, path: str) -> list[str]:
    """Read a file of Spark's logs: its lines after the version, of which the first is JSON."""
    text = _required(files, path)
    version, *lines = text.splitlines() or [""]
    if not version:
        raise damaged_error(files.location, path, "is empty")
    if version != LOG_VERSION:
        # a page shows this: what it begins with stays out, as the file may be another one by a link
        shown = version if _VERSION.fullmatch(version) else "something else"
        why = f"begins with {shown} and not with the version {LOG_VERSION!r} that this Spark writes"
        raise damaged_error(files.location, path, why)
    if not lines:
        raise damaged_error(files.location, path, "was cut: nothing follows its version")
    _object(files, path, lines[0])
    return lines


def _required(files: CheckpointFiles, path: str) -> str:
    text = files.text(path)
    if text is None:
        raise damaged_error(files.location, path, "is missing")
    return text


def _object(files: CheckpointFiles, path: str, text: str) -> dict[str, Any]:
    if not text.strip():
        raise damaged_error(files.location, path, "is empty")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise damaged_error(files.location, path, "was cut or is not what was written") from error
    if not isinstance(value, dict):
        raise damaged_error(files.location, path, "does not hold what it should")
    return value


CHANGED = "is not what its .crc file says: one of the two was changed"

_CRC_VERSION = b"crc\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFiles:
    """The files below `location`."""

    location: str

    def names(self, folder: str) -> Sequence[str]:
        """List what is in a folder; empty where there is none. Raises StateMismatchError."""
        directory = self.folder / folder
        try:
            return sorted(each.name for each in directory.iterdir()) if directory.is_dir() else []
        except FileNotFoundError:
            return []  # removed meanwhile
        except OSError as error:
            raise damaged_error(
                self.location, folder or "the folder", f"cannot be read: {error.strerror}"
            ) from error

    def text(self, path: str) -> str | None:
        """Read a file; None where there is none. Raises StateMismatchError."""
        file = self.folder / path
        try:
            content = _content(file, self.folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            why = error.strerror or error
            raise damaged_error(self.location, path, f"cannot be read: {why}") from error
        if not _is_whole(content, file.with_name(f".{file.name}.crc")):
            raise damaged_error(self.location, path, CHANGED)
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise damaged_error(self.location, path, "cannot be read: it is not UTF-8") from error

    def written_ms(self, path: str) -> int | None:
        """Return when a file was written (epoch ms); None where there is none."""
        try:
            return (self.folder / path).stat().st_mtime_ns // 1_000_000
        except OSError:
            return None  # the pipeline goes on, and clears its log

    @property
    def folder(self) -> Path:
        """The folder; the location may be a `file:` URL of it."""
        url = split_url(self.location)
        return Path(self.location if url is None else f"/{url[1].lstrip('/')}")


def _content(file: Path, checkpoint: Path) -> bytes:
    """Read a file of a checkpoint. Raises OSError, also for what is no file, is large, or leads out of the checkpoint.

    Whoever may write into a checkpoint could have the page of another user open what a link names, or wait at a pipe.
    """
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(checkpoint)):
        raise OSError(None, "it leads out of the checkpoint")
    # O_NONBLOCK: a pipe would be waited for before it is seen to be one
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(None, "it is no regular file")
        if found.st_size > MOST_BYTES:
            raise OSError(None, f"it has more than {MOST_BYTES:,} bytes")
        return opened.read(MOST_BYTES)


def _is_whole(content: bytes, sums: Path) -> bool:
    """Compare a file with Hadoop's checksums of it (ChecksumFileSystem), where there are any."""
    try:
        known = _content(sums, sums.parent)
    except OSError:
        return True  # as Hadoop has it
    size = int.from_bytes(known[4:8], "big")
    if known[:4] != _CRC_VERSION or size < 1:
        return True  # as above
    chunks = (content[at : at + size] for at in range(0, len(content), size))
    return known[8:] == b"".join(zlib.crc32(chunk).to_bytes(4, "big") for chunk in chunks)


def write_new(path: str, text: str) -> None:
    """Write a file that is not there yet, whole, and the folders above it. Raises ConfigError."""
    file = Path(path)
    beside = file.with_name(f".{file.name}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
