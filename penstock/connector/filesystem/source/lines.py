r"""Split files into lines: reads large pieces of whole lines, which are taken apart afterwards.

A line ends with \n; a \r before it is not part of it (Flink's LineBytesInputFormat). The last line of a file
may lack its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from penstock.connector.filesystem.table.location import (
    corrupt,
    explained,
    line_too_long,
    shortened,
)
from penstock.connector.filesystem.table.split import FileSplit

PIECE_BYTES = 8 << 20
"""Large enough that the cost per call vanishes, small enough to decode while the next piece is read."""

LONGEST_LINE_BYTES = 256 << 20
SEARCH_BYTES = 64 << 10
"""Read to find where a line begins or ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Whole lines that follow one another, the first beginning at `start`; the next line begins at `end`.

    `last` says that the range is at its end; `end` is then the range's stop.
    """

    data: bytes
    start: int
    end: int
    last: bool


class LineSource(Protocol):
    """A range of a file, read piece after piece."""

    def next_piece(self) -> Piece:
        """Read on. Not called after the last piece. May block on I/O."""

    def close(self) -> None:
        """Close the file."""


def split_lines(data: bytes) -> list[bytes]:
    """Split a piece into its lines."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    lines = data.split(b"\n")
    # what follows the last newline is a line only where there is something
    if not lines[-1]:
        lines.pop()
    elif lines[-1].endswith(b"\r"):
        lines[-1] = lines[-1][:-1]
    return lines


def line_position(piece: Piece, index: int) -> int:
    """Return the position at which a line of a piece begins."""
    (position,) = line_positions(piece, [index])
    return position


def line_positions(piece: Piece, indices: Sequence[int]) -> list[int]:
    """Return the positions at which lines of a piece begin."""
    newlines = np.flatnonzero(np.frombuffer(piece.data, np.uint8) == ord("\n"))
    return [piece.start + (int(newlines[index - 1]) + 1 if index else 0) for index in indices]


class PlainLines:
    """The lines of a plain file that begin in the split's range."""

    def __init__(self, file: Any, split: FileSplit, *, piece_bytes: int = PIECE_BYTES) -> None:
        """Read nothing yet. `file` is a pyarrow NativeFile; `piece_bytes` is exceeded by longer lines only."""
        self._file = file
        self._split = split
        self._piece_bytes = piece_bytes
        self._stop = split.size if split.stop is None else min(split.stop, split.size)
        self._position: int | None = None

    def next_piece(self) -> Piece:
        """Read on. Raises DataLossError for a file that became shorter, BadRecordError for an endless line."""
        start = self._first_line() if self._position is None else self._position
        if start >= self._stop:
            return Piece(data=b"", start=start, end=self._stop, last=True)
        size = self._piece_bytes
        while True:
            data = self._read(start, size)
            rest = self._stop - 1 - start
            # the range's last line ends with the first newline that is not before the range's last byte
            cut = data.find(b"\n", rest) + 1 if rest < len(data) else 0
            if cut or start + len(data) == self._split.size:
                return Piece(
                    data=data[:cut] if cut else data, start=start, end=self._stop, last=True
                )
            cut = data.rfind(b"\n") + 1
            if cut:
                self._position = start + cut
                return Piece(data=data[:cut], start=start, end=start + cut, last=False)
            if size >= LONGEST_LINE_BYTES:
                raise line_too_long(self._split.path, start, LONGEST_LINE_BYTES)
            size *= 2

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _first_line(self) -> int:
        """Find the first line that begins in the range: one that began before it belongs to another range."""
        if self._split.start == 0:
            return 0
        newline = find_newline(self._file, self._split, self._split.start - 1, self._stop)
        return self._stop if newline is None else newline + 1

    def _read(self, start: int, size: int) -> bytes:
        return read_at(self._file, self._split, start, min(size, self._split.size - start))


class CompressedLines:
    """The lines of a compressed file from the split's start on, in decompressed bytes, to the file's end."""

    def __init__(self, stream: Any, split: FileSplit, *, piece_bytes: int = PIECE_BYTES) -> None:
        """Open without reading. `stream` returns decompressed bytes."""
        self._stream = stream
        self._split = split
        self._piece_bytes = piece_bytes
        self._position = 0
        self._left = b""

    def next_piece(self) -> Piece:
        """Read on. Raises BadRecordError for a damaged file or an endless line."""
        self._skip_to_start()
        parts, size = [self._left], len(self._left)
        while True:
            data = self._read(self._piece_bytes)
            parts.append(data)
            size += len(data)
            if not data or b"\n" in data:
                break
            if size >= LONGEST_LINE_BYTES:
                raise line_too_long(self._split.path, self._position, LONGEST_LINE_BYTES)
        joined, start = b"".join(parts), self._position
        if not data:
            # as planning counts: past the one position that a compressed file is wide
            return Piece(data=joined, start=start, end=1, last=True)
        cut = joined.rfind(b"\n") + 1
        self._left = joined[cut:]
        self._position = start + cut
        return Piece(data=joined[:cut], start=start, end=self._position, last=False)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _skip_to_start(self) -> None:
        while self._position < self._split.start:
            skipped = self._read(min(self._piece_bytes, self._split.start - self._position))
            if not skipped:
                raise shortened(self._split.path, self._split.start, self._position)
            self._position += len(skipped)

    def _read(self, size: int) -> bytes:
        with explained(self._split.path):
            try:
                data: bytes = self._stream.read(size)
            except OSError as error:
                # what the decompression complains about comes from no system call
                if error.errno is None:
                    raise corrupt(self._split.path, str(error)) from error
                raise
        return data


def find_newline(file: Any, split: FileSplit, begin: int, end: int) -> int | None:
    """Return the position of the first newline in [begin, end)."""
    while begin < end:
        data = read_at(file, split, begin, min(SEARCH_BYTES, end - begin))
        found = data.find(b"\n")
        if found >= 0:
            return begin + found
        begin += len(data)
    return None


def read_at(file: Any, split: FileSplit, begin: int, size: int) -> bytes:
    """Read exactly `size` bytes. Raises DataLossError where the file has fewer now."""
    with explained(split.path):
        data: bytes = file.read_at(size, begin)
    if len(data) < size:
        raise shortened(split.path, split.size, begin + len(data))
    return data
