"""The files of the segments of a bucket, and the file of JSON that names them, on the local disk of the executor.

Each is written whole or not at all, under a name that no other content has, with a checksum behind its rows. A process
maps it once, and reads all of it then, unless it wrote it. For the thread that runs a task.
"""

from __future__ import annotations

import json
import os
import zlib
from collections import OrderedDict, defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import duckdb
import pyarrow as pa

from penstock.sql.incremental.keyed.files.manifest import BucketFiles, StateFile
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime.row_segments import RowSegment
from penstock.sql.incremental.keyed.tables import positional

_MAPPED = 512
"""Segments that a process keeps mapped; those of folders that were not used for longest are mapped again.

Linux lets a process have 65,530 mappings.
"""

_PROGRESS, _END, _HASH = "segments.json", ".arrow", "hash"

_CHECKSUM_BYTES = 4
"""Of the CRC-32 of all before it: 4 GB/s."""

NOT_WHOLE = (OSError, ValueError, pa.ArrowException)
"""Errors of what is not there, or not as it was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """A segment and its file: what is known of it without reading that. `size`: bytes of its rows in memory."""

    name: str
    rows: int
    bytes: int
    size: int
    ends: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentProgress:
    """The segments of a bucket, which have the rows of all state files up to the last of `files`.

    `files` are as the bucket had them then: names, and by when the rows of each have ended; `epoch` is theirs.
    `ended`: up to which time rows may lack that have ended, in microseconds; None: none does.
    """

    files: tuple[tuple[str, int | None], ...] = ()
    epoch: int = 0
    ended: int | None = None
    entries: tuple[SegmentFile, ...] = ()

    def missing(self, stored: BucketFiles, ended: int | None) -> tuple[StateFile, ...] | None:
        """Return the files whose rows the segments lack; None: they may have rows of others.

        What is before a file that both have is the same, also where it was merged since. Files of the segments behind
        it are not there where their rows have ended, by `ended`; any other may be of what the checkpoint that was put
        back has not done.
        """
        names = [file.name for file in stored.files]
        if self.epoch != stored.epoch:
            return None
        for name, ends in reversed(self.files):
            if name in names:
                return stored.files[names.index(name) + 1 :]
            if ended is None or ends is None or ends > ended:
                return None
        return None


class MappedSegments:
    """The segments that a process has mapped, by folder and name: a name has one content."""

    def __init__(self) -> None:
        self._folders: OrderedDict[Path, dict[str, RowSegment]] = OrderedDict()
        self._checked: defaultdict[Path, set[str]] = defaultdict(set)

    def is_checked(self, folder: Path, name: str) -> bool:
        """Return whether one was mapped before, or written by this process."""
        return name in self._checked[folder]

    def names(self, folder: Path) -> frozenset[str]:
        """List those of a folder."""
        return frozenset(self._folders.get(folder, ()))

    def get(self, folder: Path, name: str) -> RowSegment | None:
        """Return one that is mapped."""
        return self._folders.get(folder, {}).get(name)

    def put(self, folder: Path, name: str, segment: RowSegment) -> None:
        """Keep one."""
        self._checked[folder].add(name)
        self._folders.setdefault(folder, {})[name] = segment
        self._folders.move_to_end(folder)
        while len(self._folders) > 1 and sum(map(len, self._folders.values())) > _MAPPED:
            self._folders.popitem(last=False)
        own = self._folders[folder]
        while len(own) > _MAPPED:
            del own[next(iter(own))]

    def retain(self, folder: Path, names: Collection[str]) -> None:
        """Let those of a folder go that are not among `names`: where others removed them, they still take room."""
        segments = self._folders.pop(folder, {})
        self._folders[folder] = {name: of for name, of in segments.items() if name in names}
        self._checked[folder].intersection_update(names)

    def forget(self, below: Path, *, but: Path) -> None:
        """Let those of folders below one go, but for those below another one."""
        for folder in [*self._folders, *self._checked]:
            if below in folder.parents and but not in folder.parents:
                self._folders.pop(folder, None)
                self._checked.pop(folder, None)


_processes: dict[int, MappedSegments] = {}


def mapped_segments() -> MappedSegments:
    """Return what this process has mapped."""
    return _processes.setdefault(os.getpid(), MappedSegments())


def left_name(file: StateFile) -> str:
    """Return the name of the segment of a state file, which the task that writes that leaves beside."""
    return f"{file.name}{_END}"


class StoredSegments:
    """The files in the folder of a bucket."""

    def __init__(self, folder: Path, layout: KeyedLayout) -> None:
        self._folder = folder
        self._schema = positional(layout)
        self._form = f"3 {duckdb.__version__} {list(layout.key)} {self._schema}"

    def open(self, entry: SegmentFile) -> RowSegment:
        """Map a segment. Raises one of NOT_WHOLE for one that is not as it was written."""
        known = mapped_segments().get(self._folder, entry.name)
        if known is not None:
            return known
        return self._mapped(
            entry, is_checked=mapped_segments().is_checked(self._folder, entry.name)
        )

    def _mapped(self, entry: SegmentFile, *, is_checked: bool) -> RowSegment:
        path = self._folder / entry.name
        if path.stat().st_size != entry.bytes:
            raise ValueError(f"{path} is not whole")
        with pa.memory_map(str(path)) as content:
            end = entry.bytes - _CHECKSUM_BYTES
            if not is_checked and content.read_at(_CHECKSUM_BYTES, end) != _checksum(content, end):
                raise ValueError(f"{path} is not as it was written")
            found = pa.ipc.open_file(content, footer_offset=end)
            metadata = found.schema.metadata or {}
            if metadata.get(b"form") != self._form.encode():
                raise ValueError(f"{path} has rows of another form")
            batch = found.get_batch(0)
        columns = [batch.column(n) for n in range(len(self._schema))]
        segment = RowSegment(
            rows=pa.RecordBatch.from_arrays(columns, schema=self._schema),
            hashes=batch.column(len(self._schema)).to_numpy(),
            ends=entry.ends,
            times=_times(metadata[b"times"]),
        )
        if segment.rows.num_rows != entry.rows:
            raise ValueError(f"{path} has other rows")
        mapped_segments().put(self._folder, entry.name, segment)
        return segment

    def left(self, file: StateFile) -> SegmentFile | None:
        """Return the segment that a task has left beside a state file, None without one that is whole."""
        path = self._folder / left_name(file)
        with suppress(*NOT_WHOLE):
            size = path.stat().st_size
            entry = SegmentFile(name=path.name, rows=file.rows, bytes=size, size=0, ends=file.ends)
            return _sized(entry, self.open(entry))
        return None

    def write(self, segment: RowSegment, name: str) -> SegmentFile:
        """Write a segment, and map it. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{name}{_END}"
        hashed = pa.RecordBatch.from_arrays(
            [*segment.rows.columns, pa.array(segment.hashes)],
            schema=self._schema.append(pa.field(_HASH, pa.uint64())).with_metadata(
                {"form": self._form, "times": json.dumps(segment.times)}
            ),
        )
        temporary = path.with_suffix(f".{uuid4().hex[:8]}")
        try:
            with pa.ipc.new_file(str(temporary), hashed.schema) as file:
                file.write_batch(hashed)
            with pa.memory_map(str(temporary)) as content, temporary.open("ab") as end:
                end.write(_checksum(content, content.size()))
            size = temporary.stat().st_size
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        entry = SegmentFile(
            name=path.name, rows=len(segment.hashes), bytes=size, size=0, ends=segment.ends
        )
        return _sized(entry, self._mapped(entry, is_checked=True))

    def retain(self, names: Collection[str]) -> None:
        """Let mapped segments go that are not among `names`."""
        mapped_segments().retain(self._folder, names)

    def remove(self, names: Collection[str]) -> None:
        """Remove files, where the system lets us."""
        for name in names:
            with suppress(OSError):
                (self._folder / name).unlink()
        self.retain(mapped_segments().names(self._folder).difference(names))

    def remove_others(self, names: Collection[str]) -> None:
        """Remove what is there beside the segments `names` and what names them, where the system lets us."""
        there: list[str] = []
        with suppress(OSError):
            there = [path.name for path in self._folder.iterdir()]
        self.remove({*there} - {*names, _PROGRESS})
        self.retain(names)

    def read_progress(self) -> SegmentProgress:
        """Read which segments there are. Raises OSError or ValueError where that is not known."""
        value = json.loads((self._folder / _PROGRESS).read_text())
        try:
            entries = tuple(
                SegmentFile(name=name, rows=rows, bytes=written, size=size, ends=ends)
                for name, rows, written, size, ends in value["segments"]
            )
            return SegmentProgress(
                files=tuple((name, ends) for name, ends in value["files"]),
                epoch=value["epoch"],
                ended=value["ended"],
                entries=entries,
            )
        except (KeyError, TypeError) as error:
            raise ValueError("another file") from error

    def write_progress(self, progress: SegmentProgress) -> bool:
        """Write which segments there are; False where that is not possible, as on a full disk."""
        entries = [[of.name, of.rows, of.bytes, of.size, of.ends] for of in progress.entries]
        value = {
            "files": progress.files,
            "epoch": progress.epoch,
            "ended": progress.ended,
            "segments": entries,
        }
        temporary = self._folder / f"{_PROGRESS}.{uuid4().hex[:8]}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(value))
            temporary.replace(self._folder / _PROGRESS)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            return False
        return True


def _checksum(content: pa.MemoryMappedFile, end: int) -> bytes:
    return zlib.crc32(content.read_buffer(end)).to_bytes(_CHECKSUM_BYTES, "big")


def _times(text: bytes) -> tuple[int, int] | None:
    bounds = json.loads(text)
    return None if bounds is None else (bounds[0], bounds[1])


def _sized(entry: SegmentFile, segment: RowSegment) -> SegmentFile:
    return SegmentFile(
        name=entry.name,
        rows=entry.rows,
        bytes=entry.bytes,
        size=segment.rows.nbytes,
        ends=entry.ends,
    )
