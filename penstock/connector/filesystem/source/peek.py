"""Finds the last line of a range that can be decoded: what the table's watermark is computed from at planning.

Plain files are read backwards in growing windows. A compressed file has to be read from its beginning; past a bound
the last line read until then is taken, which only delays the watermark: any record read is a lower bound of it.
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
from penstock.connector.filesystem.source.reader import LineDecoder
from penstock.connector.filesystem.table.split import FileSplit
from penstock.connector.formats import Decoded

__all__ = ["last_lines", "last_lines_of_stream", "peek"]

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
