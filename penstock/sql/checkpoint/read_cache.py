"""Reads of checkpoints that are kept as long as the files that they read stay as they are.

For whoever looks again and again: an open status page asks each second for pipelines of which most do not run. A look
costs a `stat` of each file and folder then, in place of reading and decoding them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

from penstock.sql.checkpoint.reader import CheckpointFiles, LocalFiles

T = TypeVar("T")

MOST_ENTRIES = 1_000
"""Reads that are kept; beyond them the oldest are forgotten."""

SETTLED_NS = 2_000_000_000
"""A file is read again that was changed within this time before: file systems tell times apart by some ms only."""

_Mark = tuple[int, int, int] | None
"""When a file or folder was changed (ns), its size and its number; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marking(CheckpointFiles):
    """The files of a checkpoint, with the marks that those read had before."""

    files: LocalFiles
    marks: dict[Path, _Mark] = field(default_factory=dict)

    @property
    def location(self) -> str:
        return self.files.location

    def names(self, folder: str) -> Sequence[str]:
        self._note(self.files.folder / folder)
        return self.files.names(folder)

    def text(self, path: str) -> str | None:
        file = self.files.folder / path
        self._note(file)
        self._note(file.with_name(f".{file.name}.crc"))
        return self.files.text(path)

    def _note(self, path: Path) -> None:
        if path not in self.marks:
            self.marks[path] = _mark(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry(Generic[T]):
    value: T
    marks: Mapping[Path, _Mark]


class ReadCache:
    """Keeps what functions read of checkpoints. May be used on any thread; what is read must not be changed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[tuple[str, Callable[..., Any]], _Entry[Any]] = {}

    def read(self, files: LocalFiles, read: Callable[[CheckpointFiles], T]) -> T:
        """Return what `read` returns of the files. Raises what it raises, which is not kept."""
        key = (files.location, read)
        entry: _Entry[T] | None = self._entries.get(key)
        if entry is not None and all(_mark(path) == mark for path, mark in entry.marks.items()):
            return entry.value
        marking = _Marking(files=files)
        value = read(marking)
        settled_ns = time.time_ns() - SETTLED_NS
        with self._lock:
            self._entries.pop(key, None)
            if all(mark is None or mark[0] < settled_ns for mark in marking.marks.values()):
                self._entries[key] = _Entry(value=value, marks=marking.marks)
                if len(self._entries) > MOST_ENTRIES:
                    self._entries.pop(next(iter(self._entries)))
        return value


READS = ReadCache()
"""The reads of this process."""


def _mark(path: Path) -> _Mark:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)
