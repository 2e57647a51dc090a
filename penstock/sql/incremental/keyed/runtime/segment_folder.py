"""The segments of a bucket on the local disk of the executor, for lookups in rows that are only added.

Each has the rows of some consecutive state files, and small ones become one, so that there are few. A file of JSON says
up to which state file they go. Any worker takes them up, adds to them and removes them: one that is not there, or not
whole, makes them begin anew from the state files. For the thread that runs a task.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import duckdb
import numpy as np
import pyarrow as pa

from penstock.sql.incremental.keyed.files.manifest import BucketFiles, BucketId, StateFile
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime.merged_rows import lasting_rows
from penstock.sql.incremental.keyed.runtime.row_segments import RowSegment, RowSegments
from penstock.sql.incremental.keyed.tables import positional

MOST_SEGMENTS = 8
"""Small segments of a bucket from which on some become one: a lookup searches each."""

MOST_BYTES = 128 << 20
"""Bytes in memory of a segment that is made: as many are in memory at once, twice where some become one."""

_MAPPED = 512
"""Segments that a process keeps mapped; those of folders that were not used for longest are mapped again."""

_PROGRESS, _END, _HASH = "segments.json", ".arrow", "hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentedBucket:
    """The state of a bucket: its files as of the batch before, and the folder of its segments on this machine."""

    files: StateFiles
    bucket: BucketId
    stored: BucketFiles
    folder: Path
    layout: KeyedLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class _SegmentFile:
    """A segment of the folder: its file, and what is known of it without reading that."""

    name: str
    rows: int
    bytes: int
    ends: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Progress:
    """The segments of a bucket, which have the rows of all state files up to `last`; `epoch` is that of the files."""

    last: str = ""
    epoch: int = 0
    entries: tuple[_SegmentFile, ...] = ()


class _Mapped:
    """The segments that a process has mapped, by folder and name: a name has one content."""

    def __init__(self) -> None:
        self._folders: OrderedDict[Path, dict[str, RowSegment]] = OrderedDict()

    def get(self, folder: Path, name: str) -> RowSegment | None:
        """Return one that is mapped."""
        return self._folders.get(folder, {}).get(name)

    def put(self, folder: Path, name: str, segment: RowSegment) -> None:
        """Keep one."""
        self._folders.setdefault(folder, {})[name] = segment
        self._folders.move_to_end(folder)
        while len(self._folders) > 1 and sum(map(len, self._folders.values())) > _MAPPED:
            self._folders.popitem(last=False)

    def retain(self, folder: Path, names: Collection[str]) -> None:
        """Let those of a folder go that are not among `names`: where others removed them, they still take room."""
        segments = self._folders.pop(folder, {})
        self._folders[folder] = {name: of for name, of in segments.items() if name in names}


_processes: dict[int, _Mapped] = {}


def _mapped() -> _Mapped:
    return _processes.setdefault(os.getpid(), _Mapped())


class SegmentFolder:
    """The folder of the segments of a bucket."""

    def __init__(self, of: SegmentedBucket, ended: int | None = None) -> None:
        self._of = of
        self._layout = of.layout
        self._folder = of.folder
        self._ended = ended
        self._schema = positional(of.layout)
        self._form = f"1 {duckdb.__version__} {list(of.layout.key)} {self._schema}"

    def open(self) -> RowSegments:
        """Return all rows of the state files. Raises StateMismatchError for a missing or damaged one."""
        try:
            segments = self._advanced(self._read_progress())
        except (OSError, ValueError, pa.ArrowException):
            # what is not there, or not whole
            segments = self._advanced(_Progress())
        return RowSegments(segments, self._layout)

    def add(self, file: StateFile, rows: pa.Table) -> None:
        """Keep the rows of a file that was written: the next batch looks for them, where its manifest names it."""
        if rows.nbytes <= MOST_BYTES:
            # a full disk: they are read from the file
            with suppress(OSError):
                self._write(RowSegment.of(rows, self._layout), file.name)

    def _advanced(self, known: _Progress) -> list[RowSegment]:
        """Return the segments with those of the files that they lack, and tell others of them."""
        stored = self._of.stored
        names = [file.name for file in stored.files]
        if known.epoch != stored.epoch or known.last not in names:
            known = _Progress()
        missing = stored.files[names.index(known.last) + 1 :] if known.last else stored.files
        segments = [(entry, self._opened(entry)) for entry in known.entries]
        used = {entry.name for entry in known.entries}
        _mapped().retain(self._folder, used | {f"{file.name}{_END}" for file in missing})
        if not missing:
            return [segment for _, segment in segments]
        added: list[tuple[_SegmentFile | None, RowSegment]] = [*segments, *self._missing(missing)]
        added = [one for one in added if not self._is_over(one[1])]
        made = self._few(added)
        self._publish(made, stored, begun=not known.last)
        return [segment for _, segment in made]

    def _is_over(self, segment: RowSegment) -> bool:
        return self._ended is not None and segment.ends is not None and segment.ends <= self._ended

    def _missing(
        self, files: Iterable[StateFile]
    ) -> Iterator[tuple[_SegmentFile | None, RowSegment]]:
        """Return segments of the rows of files: those that a task has left as it wrote the file, and new ones."""
        waiting: list[pa.Table] = []
        size = 0
        for file in files:
            left = self._left(file)
            if left is not None:
                yield left
                continue
            for part in self._of.files.read(self._of.bucket, file, self._schema):
                for rows in _pieces(part):
                    if size + rows.nbytes > MOST_BYTES:
                        yield from self._made(waiting)
                        waiting, size = [], 0
                    waiting.append(rows)
                    size += rows.nbytes
        yield from self._made(waiting)

    def _left(self, file: StateFile) -> tuple[_SegmentFile, RowSegment] | None:
        with suppress(OSError, ValueError, pa.ArrowException):
            path = self._folder / f"{file.name}{_END}"
            entry = _SegmentFile(
                name=path.name, rows=file.rows, bytes=path.stat().st_size, ends=file.ends
            )
            return entry, self._opened(entry)
        return None

    def _made(self, parts: Sequence[pa.Table]) -> Iterator[tuple[None, RowSegment]]:
        rows = lasting_rows(
            self._layout, pa.concat_tables([self._schema.empty_table(), *parts]), self._ended
        )
        if rows.num_rows:
            yield None, RowSegment.of(rows, self._layout)

    def _few(
        self, added: Sequence[tuple[_SegmentFile | None, RowSegment]]
    ) -> list[tuple[_SegmentFile | None, RowSegment]]:
        """Make one segment of the newest small ones, where there are many.

        From the newest backwards, for as long as one has at most twice the rows of all behind it.
        """
        small = [n for n, (_, one) in enumerate(added) if 2 * one.rows.nbytes <= MOST_BYTES]
        if len(small) < MOST_SEGMENTS:
            return list(added)
        chosen: list[int] = []
        rows = size = 0
        for n in reversed(small):
            one = added[n][1].rows
            if chosen and (one.num_rows > 2 * rows or size + one.nbytes > MOST_BYTES):
                break
            chosen, rows, size = [n, *chosen], rows + one.num_rows, size + one.nbytes
        if len(chosen) < 2:
            return list(added)
        merged = self._merged([added[n][1] for n in chosen])
        rest = [one for n, one in enumerate(added) if n not in chosen]
        return [*rest, *([] if merged is None else [(None, merged)])]

    def _merged(self, segments: Sequence[RowSegment]) -> RowSegment | None:
        hashes = np.concatenate([one.hashes for one in segments])
        hashed = pa.Table.from_batches([one.rows for one in segments]).append_column(
            _HASH, pa.array(hashes)
        )
        lasting = lasting_rows(self._layout, hashed, self._ended)
        if not lasting.num_rows:
            return None
        hashes = lasting.column(_HASH).to_numpy()
        return RowSegment.of(lasting.drop_columns([_HASH]), self._layout, hashes)

    def _publish(
        self,
        made: list[tuple[_SegmentFile | None, RowSegment]],
        stored: BucketFiles,
        *,
        begun: bool,
    ) -> None:
        """Write segments that have no file, and which there are; remove others. Of a full disk they are not kept."""
        with suppress(OSError):
            removes = begun
            for n, (entry, segment) in enumerate(made):
                if entry is None:
                    removes = True
                    made[n] = self._write(segment, uuid4().hex)
            entries = tuple(entry for entry, _ in made if entry is not None)
            self._write_progress(
                _Progress(last=stored.files[-1].name, epoch=stored.epoch, entries=entries)
            )
            if removes:
                named = {entry.name for entry in entries} | {_PROGRESS}
                for path in self._folder.iterdir():
                    if path.name not in named:
                        path.unlink(missing_ok=True)
                _mapped().retain(self._folder, named)

    def _opened(self, entry: _SegmentFile) -> RowSegment:
        """Map a segment. Raises OSError, ValueError or ArrowException for one that is not as it was written."""
        path = self._folder / entry.name
        known = _mapped().get(self._folder, entry.name)
        if known is not None:
            return known
        if path.stat().st_size != entry.bytes:
            raise ValueError(f"{path} is not whole")
        with pa.memory_map(str(path)) as content:
            found = pa.ipc.open_file(content)
            if (found.schema.metadata or {}).get(b"form") != self._form.encode():
                raise ValueError(f"{path} has rows of another form")
            batch = found.get_batch(0)
        columns = [batch.column(n) for n in range(len(self._schema))]
        segment = RowSegment(
            rows=pa.RecordBatch.from_arrays(columns, schema=self._schema),
            hashes=batch.column(len(self._schema)).to_numpy(),
            ends=entry.ends,
        )
        if segment.rows.num_rows != entry.rows:
            raise ValueError(f"{path} has other rows")
        _mapped().put(self._folder, entry.name, segment)
        return segment

    def _write(self, segment: RowSegment, name: str) -> tuple[_SegmentFile, RowSegment]:
        """Write a segment, whole or not at all, and map it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{name}{_END}"
        hashed = pa.RecordBatch.from_arrays(
            [*segment.rows.columns, pa.array(segment.hashes)],
            schema=self._schema.append(pa.field(_HASH, pa.uint64())).with_metadata(
                {"form": self._form}
            ),
        )
        temporary = path.with_suffix(f".{uuid4().hex[:8]}")
        try:
            with pa.ipc.new_file(str(temporary), hashed.schema) as file:
                file.write_batch(hashed)
            size = temporary.stat().st_size
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        entry = _SegmentFile(
            name=path.name, rows=len(segment.hashes), bytes=size, ends=segment.ends
        )
        return entry, self._opened(entry)

    def _read_progress(self) -> _Progress:
        """Read which segments there are. Raises OSError or ValueError where that is not known."""
        value = json.loads((self._folder / _PROGRESS).read_text())
        try:
            entries = tuple(
                _SegmentFile(name=name, rows=rows, bytes=size, ends=ends)
                for name, rows, size, ends in value["segments"]
            )
            return _Progress(last=value["last"], epoch=value["epoch"], entries=entries)
        except (KeyError, TypeError) as error:
            raise ValueError("another file") from error

    def _write_progress(self, progress: _Progress) -> None:
        entries = [[of.name, of.rows, of.bytes, of.ends] for of in progress.entries]
        value = {"last": progress.last, "epoch": progress.epoch, "segments": entries}
        temporary = self._folder / f"{_PROGRESS}.{uuid4().hex[:8]}"
        temporary.write_text(json.dumps(value))
        temporary.replace(self._folder / _PROGRESS)


def _pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """Cut rows into pieces of a bounded size."""
    count = max(1, rows.num_rows * MOST_BYTES // max(rows.nbytes, 1))
    for start in range(0, rows.num_rows, count):
        yield rows.slice(start, count)
