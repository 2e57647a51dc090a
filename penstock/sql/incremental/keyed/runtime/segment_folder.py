"""The segments of a bucket on the local disk of the executor, for lookups in rows that are only added.

Each has the rows of some consecutive state files, and small ones become one, so that there are few. A file of JSON says
which state files they have. Any worker takes them up, adds to them and removes them (`segment_files.py`): one that
is not there, or not whole, makes them begin anew from the state files. For the thread that runs a task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa

from penstock.sql.incremental.keyed.files.manifest import BucketFiles, BucketId, StateFile
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime.merged_rows import lasting_rows
from penstock.sql.incremental.keyed.runtime.row_segments import RowSegment, RowSegments
from penstock.sql.incremental.keyed.runtime.segment_files import (
    NOT_WHOLE,
    SegmentFile,
    SegmentProgress,
    StoredSegments,
    left_name,
)
from penstock.sql.incremental.keyed.tables import positional

MOST_SEGMENTS = 8
"""Small segments of a bucket from which on some become one: a lookup searches each."""

MOST_BYTES = 128 << 20
"""Bytes in memory of a segment that is made: twice as many are in memory at once, until it is written and mapped."""

_HASH = "hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentedBucket:
    """The state of a bucket: its files as of the batch before, and the folder of its segments on this machine."""

    files: StateFiles
    bucket: BucketId
    stored: BucketFiles
    folder: Path
    layout: KeyedLayout


def is_segment(rows: pa.Table) -> bool:
    """Return whether rows of a file that is written are few enough for a segment."""
    return bool(rows.nbytes <= MOST_BYTES)


class SegmentFolder:
    """The folder of the segments of a bucket."""

    def __init__(self, of: SegmentedBucket, ended: int | None = None) -> None:
        self._of = of
        self._layout = of.layout
        self._ended = ended
        self._schema = positional(of.layout)
        self._files = StoredSegments(of.folder, of.layout)
        self._segments: dict[str, RowSegment] = {}
        """Those in use, by name: mapped ones, and where the disk is full such that have no file."""
        self._new: list[str] = []
        """Names of files that nothing names yet."""
        self._drops = False
        """Rows that ended were left out of segments."""
        self._is_open = False

    def open(self) -> RowSegments:
        """Return all rows of the state files. Raises StateMismatchError for a missing or damaged one.

        Raises OSError for one that could not be read, which leaves the segments as they are: the task is tried again.
        """
        try:
            known = self._known()
        except NOT_WHOLE:
            known = SegmentProgress()
        entries = self._advanced(known)
        self._is_open = True
        return RowSegments([self._segment(entry) for entry in entries], self._layout)

    def add(self, file: StateFile, rows: pa.Table) -> None:
        """Keep the rows of a file that was written, a segment, for the next batch, whose manifest may name the file.

        Of a state that is written and not looked up, the segments that are left become few as they do in lookups.
        """
        # a full disk: they are read from the file
        with suppress(OSError):
            if self._is_open or self._follows():
                self._files.write(RowSegment.of(rows, self._layout), file.name)

    def _follows(self) -> bool:
        """Take up the segments that earlier batches left, without reading a state file.

        Returns whether it is worth leaving more: where many are not there the next lookup reads the state files, and
        what there is would only take room until then.
        """
        try:
            known = self._of_bucket(self._files.read_progress())
        except NOT_WHOLE:
            known = SegmentProgress()
        missing = self._missing(known)
        left: list[SegmentFile] = []
        for file in missing:
            entry = self._left(file)
            if entry is None:
                break
            left.append(entry)
        # what lacks rows for now is used again once a batch has the time of before, as one behind a start does not
        if len(left) == len(missing) and not self._lacks_rows(known):
            with suppress(*NOT_WHOLE):
                self._advanced(known, left)
                return True
        if len(missing) < MOST_SEGMENTS:
            return True
        self._files.remove_others(())
        return False

    def _segment(self, entry: SegmentFile) -> RowSegment:
        """Return the rows of a segment. Raises one of NOT_WHOLE for a file that is not as it was written."""
        if entry.name not in self._segments:
            self._segments[entry.name] = self._files.open(entry)
        return self._segments[entry.name]

    def _left(self, file: StateFile) -> SegmentFile | None:
        """Return the segment that was left beside a state file, if it is whole; in use: others may remove its file."""
        with suppress(*NOT_WHOLE):
            entry = self._files.left(file)
            if entry is not None:
                self._segment(entry)
            return entry
        return None

    def _known(self) -> SegmentProgress:
        """Return which segments there are, all of them whole; none where they are of other files, or lack rows.

        Raises one of NOT_WHOLE.
        """
        known = self._of_bucket(self._files.read_progress())
        if self._lacks_rows(known):
            return SegmentProgress()
        for entry in known.entries:
            self._segment(entry)
        return known

    def _of_bucket(self, known: SegmentProgress) -> SegmentProgress:
        """Return segments, none where they have rows of other files than the bucket."""
        is_known = known.missing(self._of.stored, self._ended) is not None
        return known if is_known else SegmentProgress()

    def _lacks_rows(self, known: SegmentProgress) -> bool:
        """Return whether rows were left out that have not ended: a checkpoint of an earlier time was put back."""
        return known.ended is not None and (self._ended is None or self._ended < known.ended)

    def _missing(self, known: SegmentProgress) -> tuple[StateFile, ...]:
        """Return the state files whose rows segments lack."""
        missing = known.missing(self._of.stored, self._ended)
        return self._of.stored.files if missing is None else missing

    def _advanced(
        self, known: SegmentProgress, left: Iterable[SegmentFile] | None = None
    ) -> list[SegmentFile]:
        """Return the segments with those of the files that they lack, and tell others of them.

        `left` are those of these files, where they are known.
        """
        missing = self._missing(known)
        before = {*(of.name for of in known.entries), *map(left_name, missing)}
        self._files.retain(before)
        if not missing:
            return list(known.entries)
        try:
            added = [*known.entries, *(self._of_files(missing) if left is None else left)]
            lasting = [one for one in added if not self._is_over(one)]
            self._drops |= len(lasting) < len(added)
            entries = self._few(lasting)
        except BaseException:
            # the next attempt makes them again
            self._files.remove(self._new)
            raise
        self._publish(known, entries, before)
        self._new.clear()
        return entries

    def _is_over(self, entry: SegmentFile) -> bool:
        return self._ended is not None and entry.ends is not None and entry.ends <= self._ended

    def _of_files(self, files: Iterable[StateFile]) -> Iterator[SegmentFile]:
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

    def _made(self, parts: Sequence[pa.Table]) -> Iterator[SegmentFile]:
        rows = self._lasting(pa.concat_tables([self._schema.empty_table(), *parts]))
        if rows.num_rows:
            yield self._written(RowSegment.of(rows, self._layout))

    def _lasting(self, rows: pa.Table) -> pa.Table:
        """Leave out the rows that have ended."""
        lasting = lasting_rows(self._layout, rows, self._ended)
        self._drops |= lasting.num_rows < rows.num_rows
        return lasting

    def _written(self, segment: RowSegment) -> SegmentFile:
        """Write a segment that is in memory, and map it; of a full disk it stays there."""
        name = uuid4().hex
        with suppress(OSError):
            entry = self._files.write(segment, name)
            self._new.append(entry.name)
            self._segment(entry)
            return entry
        self._segments[name] = segment
        size, count = segment.rows.nbytes, segment.rows.num_rows
        return SegmentFile(name=name, rows=count, bytes=0, size=size, ends=segment.ends)

    def _few(self, added: list[SegmentFile]) -> list[SegmentFile]:
        """Make one segment of the newest small ones, where there are many.

        From the newest backwards, for as long as one has at most twice the rows of all behind it.
        """
        small = [n for n, one in enumerate(added) if 2 * one.size <= MOST_BYTES]
        if len(small) < MOST_SEGMENTS:
            return added
        chosen: list[int] = []
        rows = size = 0
        for n in reversed(small):
            one = added[n]
            if chosen and (one.rows > 2 * rows or size + one.size > MOST_BYTES):
                break
            chosen, rows, size = [n, *chosen], rows + one.rows, size + one.size
        if len(chosen) < 2:
            return added
        merged = self._merged([self._segment(added[n]) for n in chosen])
        rest = [one for n, one in enumerate(added) if n not in chosen]
        return [*rest, *([] if merged is None else [self._written(merged)])]

    def _merged(self, segments: Sequence[RowSegment]) -> RowSegment | None:
        hashes = np.concatenate([one.hashes for one in segments])
        hashed = pa.Table.from_batches([one.rows for one in segments]).append_column(
            _HASH, pa.array(hashes)
        )
        lasting = self._lasting(hashed)
        if not lasting.num_rows:
            return None
        hashes = lasting.column(_HASH).to_numpy()
        return RowSegment.of(lasting.drop_columns([_HASH]), self._layout, hashes)

    def _publish(
        self, known: SegmentProgress, entries: Sequence[SegmentFile], before: Collection[str]
    ) -> None:
        """Write which segments there are, and remove others; of a full disk those stay that were there `before`."""
        stored, names = self._of.stored, {entry.name for entry in entries}
        progress = SegmentProgress(
            files=tuple((file.name, file.ends) for file in stored.files),
            epoch=stored.epoch,
            ended=self._ended if self._drops else known.ended,
            entries=tuple(entries),
        )
        if not all(entry.bytes for entry in entries) or not self._files.write_progress(progress):
            self._files.remove_others(before)
        elif not known.files or not names.issuperset(before):
            self._files.remove_others(names)


def _pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """Cut rows into pieces of a bounded size."""
    count = max(1, rows.num_rows * MOST_BYTES // max(rows.nbytes, 1))
    for start in range(0, rows.num_rows, count):
        yield rows.slice(start, count)
