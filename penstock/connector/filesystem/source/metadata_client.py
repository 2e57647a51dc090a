"""The metadata client of a folder of files, on the driver: lists files and their sizes, and peeks at their last lines.

The last line of a range that can be decoded is what the table's watermark is computed from at planning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from penstock.catalog.errors import BadRecordError
from penstock.connector.contract import Accept
from penstock.connector.filesystem.source.lines import (
    LineSource,
    Piece,
    find_newline,
    line_position,
    read_at,
    split_lines,
)
from penstock.connector.filesystem.source.reader import LineDecoder, open_lines
from penstock.connector.filesystem.table.location import FoundFile, TableFolder, shortened, vanished
from penstock.connector.filesystem.table.split import (
    COMPRESSED_STOP,
    FileSplit,
    codec_of,
    positions_in,
)
from penstock.connector.filesystem.table.table import FilesystemTable
from penstock.connector.formats import Decoded
from penstock.connector.source.split import Discovery, SplitOffsets

Candidates = Iterator[tuple[int, bytes]]
"""Lines from the last to the first, each with its position."""

FIRST_WINDOW_BYTES = 64 << 10
WINDOW_GROWTH = 4
MOST_BYTES = 16 << 20
"""The largest window in a plain file; all of them together read a third more."""

MOST_STREAM_BYTES = 256 << 20
"""Decompressed of one file in one peek: a second or two."""

MOST_BAD_LINES = 64
NEAR_LINES = 8
STRIDE_GROWTH = 2
"""Lines that are decoded but not accepted may be many: past so many the search continues in growing strides."""

MOST_OPEN_FILES = 64
"""Peeked at together; a process may have a thousand files open."""


def last_lines(file: Any, split: FileSplit) -> Candidates:
    """Return the lines of a plain file that begin in the split's range, from the last one on, with bounded effort."""
    first = split.start
    stop = split.size if split.stop is None else min(split.stop, split.size)
    if stop <= first:
        return
    # the last line ends at the first newline that is not before the range's last byte, or with the file
    high = find_newline(file, split, stop - 1, min(split.size, stop + MOST_BYTES))
    if high is None:
        if stop + MOST_BYTES < split.size:
            return
        high = split.size
    floor, window = max(first - 1, 0), FIRST_WINDOW_BYTES
    while window <= MOST_BYTES:
        low = max(floor, high - window)
        data = read_at(file, split, low, high - low)
        begin = 0 if low == 0 and first == 0 else data.find(b"\n") + 1
        if begin or first == low == 0:
            position = high
            for line in reversed(data[begin:].split(b"\n")):
                yield position - len(line), line.removesuffix(b"\r")
                position -= len(line) + 1
            high = low + begin - 1
        if low == floor:
            return
        window *= WINDOW_GROWTH


def last_lines_of_stream(lines: LineSource) -> Candidates:
    """Return the last lines of a compressed file, or of its beginning where it is long."""
    last: list[Piece] = []
    read = 0
    while read < MOST_STREAM_BYTES:
        piece = lines.next_piece()
        read += len(piece.data)
        # the last piece may hold less than a line can be looked for in
        last = [*last[-1:], piece]
        if piece.last:
            break
    for piece in reversed(last):
        found = split_lines(piece.data)
        for index in reversed(range(len(found))):
            yield line_position(piece, index), found[index]


def peek(
    decoder: LineDecoder,
    splits: Sequence[FileSplit],
    candidates: Callable[[FileSplit], Candidates],
    accept: Accept | None = None,
) -> Mapping[str, pa.RecordBatch]:
    """Return one row for each split that has a line to decode; see SplitMetadataClient.peek.

    Many splits are decoded together, a line of each in a round; a bad line gives way to the one before it, one that is
    not accepted to one that may be further away: there may be many of them, and any that is accepted will do.
    """
    found: dict[str, pa.RecordBatch] = {}
    looked_at = candidates if accept is None else lambda split: in_strides(candidates(split))
    for begin in range(0, len(splits), MOST_OPEN_FILES):
        together = splits[begin : begin + MOST_OPEN_FILES]
        found |= _peek_together(decoder, together, looked_at, accept)
    return found


def in_strides(lines: Candidates) -> Candidates:
    """Yield lines one after the other at first, then pass over ever more of them; the last one is given in any case."""
    yield from islice(lines, NEAR_LINES)
    stride = NEAR_LINES
    while passed := deque(islice(lines, stride), maxlen=1):
        yield passed[0]
        stride *= STRIDE_GROWTH


def _peek_together(
    decoder: LineDecoder,
    splits: Sequence[FileSplit],
    candidates: Callable[[FileSplit], Candidates],
    accept: Accept | None,
) -> dict[str, pa.RecordBatch]:
    searches = {split.split_id: islice(candidates(split), MOST_BAD_LINES) for split in splits}
    by_id = {split.split_id: split for split in splits}
    found: dict[str, pa.RecordBatch] = {}
    while searches:
        lines: dict[str, bytes] = {}
        for split_id in list(searches):
            candidate = next(searches[split_id], None)
            if candidate is None:
                del searches[split_id]
            else:
                lines[split_id] = candidate[1]
        rows = {
            split_id: decoder.complete(row, by_id[split_id])
            for split_id, row in _rows(decoder, lines).items()
        }
        for split_id in rows if accept is None or not rows else accept(rows):
            found[split_id] = rows[split_id]
            del searches[split_id]
    return found


def _rows(decoder: LineDecoder, lines: Mapping[str, bytes]) -> dict[str, pa.RecordBatch]:
    """Decode a line of each split; the last row of each that gives one."""
    if not lines:
        return {}
    split_ids = list(lines)
    try:
        decoded = decoder.decode(list(lines.values()), lambda index: f"file {split_ids[index]}")
    except BadRecordError:
        if len(lines) == 1:
            return {}
        # one bad line must not cost the others theirs
        alone = [_rows(decoder, {split_id: line}) for split_id, line in lines.items()]
        return {split_id: row for rows in alone for split_id, row in rows.items()}
    return {split_ids[record]: decoded.batch.slice(row, 1) for row, record in _records(decoded)}


def _records(decoded: Decoded) -> Iterator[tuple[int, int]]:
    """Return each row and the record it is of, in order: of a record's rows the last one wins."""
    kept = range(decoded.batch.num_rows) if decoded.kept is None else decoded.kept.tolist()
    return enumerate(kept)


_GONE = SplitOffsets(first=1 << 62, end=0)
"""The offsets of a file that differs from its listing: it is empty. Once read to its end it is not missed."""


class FileMetadataClient:
    """A SplitMetadataClient over a folder. Driver only, one thread; every method may block on I/O.

    A file is the one that was seen first under its name: what is appended later is not read. That is known as long as
    the planner exists; a start from a checkpoint sees files as they are then.
    """

    def __init__(self, table: FilesystemTable, decoder: LineDecoder) -> None:
        """Open without reading. `decoder` makes the columns that peeks return."""
        settings = table.settings
        self._settings = settings
        self._partitioning = table.partitioning
        self._decoder = decoder
        self._folder = TableFolder(settings.location)
        self._pattern = settings.path_pattern
        # never forgotten: a file that is removed and made again is not the one that was listed
        self._files: dict[str, FoundFile] = {}

    def list_splits(self) -> Discovery:
        """List the files, in reading order: by modification time, then by name.

        Empty files are left out until there is something in them. Raises UnknownObjectError where there is no
        such folder, UnsupportedError for a compression that is not known here, BadRecordError for a folder that
        names no partition.
        """
        found = sorted(filter(self._is_read, self._folder.files()), key=_reading_order)
        for file in found:
            self._files.setdefault(file.name, file)
        owner = self._settings.location.shown
        return Discovery(owners={file.name: owner for file in found}, source_ids={})

    def start_positions(
        self,
        split_ids: Sequence[str],
        *,
        first_listing: bool,  # noqa: ARG002  every file is read from its beginning
    ) -> Mapping[str, int]:
        """Return the beginning of each file."""
        return dict.fromkeys(split_ids, 0)

    def stop_positions(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """Return the end that each file had when it was listed: a monitored folder has no end, its files have."""
        files = self._known(split_ids)
        return {split_id: _positions(file) for split_id, file in files.items()}

    def extents(self, split_ids: Sequence[str]) -> Mapping[str, SplitOffsets]:
        """Return how far each file can be read; one that differs from its listing holds nothing any more."""
        found: dict[str, SplitOffsets] = {}
        for split_id, now in self._look_at(split_ids):
            if now is None:
                found[split_id] = _GONE
                continue
            known = self._files.setdefault(split_id, now)
            change = now.change_since(known.size, known.modified_ms)
            found[split_id] = (
                SplitOffsets(first=0, end=_positions(known)) if change is None else _GONE
            )
        return found

    def peek(
        self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
    ) -> Mapping[str, pa.RecordBatch]:
        """Read the last decodable line of each range; see SplitMetadataClient. Raises DataLossError
        for a changed file.
        """
        splits = [self.split(split_id, *positions) for split_id, positions in ranges.items()]
        return peek(self._decoder, splits, self._candidates, accept)

    def split(self, split_id: str, start: int, stop: int | None) -> FileSplit:
        """Make a task's split. Raises DataLossError for a file that is gone, or became too short for the range."""
        file = self._known([split_id])[split_id]
        if codec_of(file.path) is not None:
            stop = COMPRESSED_STOP if stop is None or start < stop else stop
        elif stop is not None and stop > file.size:
            raise shortened(file.path, stop, file.size)
        return FileSplit(
            split_id=split_id,
            start=start,
            stop=stop,
            path=file.path,
            size=file.size,
            modified_ms=file.modified_ms,
        )

    def lost(self, split_id: str, position: int, extent: SplitOffsets) -> Exception:  # noqa: ARG002  of the contract
        """Make the error for a file that is not as it was listed."""
        ((_, now),) = self._look_at([split_id])
        known = self._files.get(split_id)
        change = now.change_since(known.size, known.modified_ms) if now and known else None
        return change or vanished(self._folder.path_of(split_id))

    def changed(self, owner: str, known: str, found: str | None) -> Exception:  # noqa: ARG002  of the contract
        """Make the error for a missing folder; folders are not compared, files are."""
        return vanished(owner)

    def commit(self, positions: Mapping[str, int]) -> None:
        """Nothing: files are left as they are."""

    def close(self) -> None:
        """Nothing: files are open only while they are looked at."""

    def _is_read(self, file: FoundFile) -> bool:
        if self._pattern is not None and self._pattern.fullmatch(file.path) is None:
            return False
        if not (file.size and self._partitioning.holds(file.name)):
            return False
        codec_of(file.path)  # refuses a compression whose bytes would be taken for text
        return True

    def _look_at(self, split_ids: Sequence[str]) -> Iterator[tuple[str, FoundFile | None]]:
        return zip(split_ids, self._folder.look_at(split_ids), strict=True)

    def _known(self, split_ids: Sequence[str]) -> dict[str, FoundFile]:
        """Return files as they were seen first; those of an earlier process as they are now."""
        for split_id, now in self._look_at([i for i in split_ids if i not in self._files]):
            if now is None:
                raise vanished(self._folder.path_of(split_id))
            self._files[split_id] = now
        return {split_id: self._files[split_id] for split_id in split_ids}

    def _candidates(self, split: FileSplit) -> Iterator[tuple[int, bytes]]:
        if split.codec is None:
            file = self._folder.open_file(split.path)
            try:
                yield from last_lines(file, split)
            finally:
                file.close()
        else:
            lines = open_lines(self._folder, split)
            try:
                yield from last_lines_of_stream(lines)
            finally:
                lines.close()


def _reading_order(file: FoundFile) -> tuple[int, str]:
    return file.modified_ms, file.name


def _positions(file: FoundFile) -> int:
    return positions_in(file.path, file.size)
