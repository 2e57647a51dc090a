"""Where lines begin and end: every line once, whatever the ranges and the size of pieces."""

from __future__ import annotations

import io
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.errors import BadRecordError, DataLossError
from penstock.connector.filesystem.source import lines as lines_module
from penstock.connector.filesystem.source.lines import (
    CompressedLines,
    LineSource,
    PlainLines,
    line_position,
    split_lines,
)
from penstock.connector.filesystem.table.split import COMPRESSED_STOP, FileSplit

texts = st.lists(st.sampled_from([b"a", b"\n", b"\r", b"bc", b"\r\n"]), max_size=20).map(b"".join)


def split_of(data: bytes, start: int = 0, stop: int | None = None) -> FileSplit:
    """A range of a file that holds `data`."""
    end = len(data) if stop is None else stop
    return FileSplit(split_id="a", start=start, stop=end, path="/a", size=len(data), modified_ms=0)


def plain(data: bytes, start: int = 0, stop: int | None = None, piece: int = 3) -> PlainLines:
    """The lines of a range, read a few bytes at a time."""
    file = pa.BufferReader(data)
    return PlainLines(file, split_of(data, start, stop), piece_bytes=piece)


def compressed(data: bytes, start: int = 0, piece: int = 3) -> CompressedLines:
    """The lines of a compressed file, whose decompressed bytes are `data`, from a position on."""
    split = split_of(data, start, COMPRESSED_STOP)
    return CompressedLines(io.BytesIO(data), split, piece_bytes=piece)


def read(source: LineSource) -> list[tuple[int, bytes]]:
    """All lines, each with its position."""
    found = []
    while True:
        piece = source.next_piece()
        lines = split_lines(piece.data)
        found += [(line_position(piece, index), line) for index, line in enumerate(lines)]
        if piece.last:
            return found


def expected(data: bytes) -> list[tuple[int, bytes]]:
    """The lines of a text, found the slow way."""
    found, position = [], 0
    for line in data.splitlines(keepends=True) if b"\r" not in data else _kept(data):
        found.append((position, line.removesuffix(b"\n").removesuffix(b"\r")))
        position += len(line)
    return found


def _kept(data: bytes) -> list[bytes]:
    kept = [part + b"\n" for part in data.split(b"\n")]
    kept[-1] = kept[-1][:-1]
    return [part for part in kept if part]


@given(texts, st.lists(st.integers(0, 60), max_size=5), st.integers(1, 9))
def test_any_ranges_of_a_file_give_each_line_once(data: bytes, cuts: list[int], piece: int) -> None:
    """A line belongs to the range in which its first byte lies (Hadoop's TextInputFormat)."""
    borders = [0, *sorted({cut for cut in cuts if cut < len(data)}), len(data)]
    found = [line for a, b in pairwise(borders) for line in read(plain(data, a, b, piece))]

    assert found == expected(data)


@given(texts, st.integers(0, 40), st.integers(0, 40), st.integers(1, 9))
def test_a_range_gives_the_lines_that_begin_in_it(data: bytes, a: int, b: int, piece: int) -> None:
    """Start is inclusive, stop is exclusive."""
    start, stop = min(a, b, len(data)), min(max(a, b), len(data))
    inside = [(at, line) for at, line in expected(data) if start <= at < stop]

    assert read(plain(data, start, stop, piece)) == inside


@given(texts, st.integers(1, 9))
def test_reading_goes_on_where_a_piece_ended(data: bytes, piece: int) -> None:
    """A checkpoint between any two pieces loses nothing and repeats nothing."""
    source = plain(data, piece=piece)
    first = source.next_piece()
    begin = [(line_position(first, i), line) for i, line in enumerate(split_lines(first.data))]
    rest = [] if first.last else read(plain(data, start=first.end, piece=piece))

    assert begin + rest == expected(data)


@given(texts, st.integers(1, 9))
def test_a_compressed_file_gives_the_same_lines(data: bytes, piece: int) -> None:
    """Its positions are those of decompressed bytes, and one can resume from each."""
    first = compressed(data, piece=piece).next_piece()
    begin = [(line_position(first, i), line) for i, line in enumerate(split_lines(first.data))]
    rest = [] if first.last else read(compressed(data, start=first.end, piece=piece))

    assert read(compressed(data, piece=piece)) == expected(data)
    assert begin + rest == expected(data)


@given(texts)
def test_a_piece_ends_with_a_whole_line(data: bytes) -> None:
    """But for the last line of the file, which may lack its end."""
    source = plain(data)
    while not (piece := source.next_piece()).last:
        assert piece.data.endswith(b"\n")
        assert piece.end == piece.start + len(piece.data)

    assert piece.end == len(data)


def test_what_was_appended_after_the_listing_is_not_read() -> None:
    """Not even the rest of a line that had no end then (as in Flink)."""
    split = split_of(b"a\nbb")
    source = PlainLines(pa.BufferReader(b"a\nbbbb\nc\n"), split)

    assert read(source) == [(0, b"a"), (2, b"bb")]


def test_a_file_that_became_shorter_is_an_error() -> None:
    """Its bytes are not those that were planned."""
    split = split_of(b"a\nb\nc\n")

    with pytest.raises(DataLossError, match="had 6 bytes when it was planned and now has 2"):
        read(PlainLines(pa.BufferReader(b"a\n"), split))


@pytest.mark.parametrize("make", [plain, compressed])
def test_a_line_without_an_end_is_an_error(make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no file of lines must not fill the memory; the error says where."""
    monkeypatch.setattr(lines_module, "LONGEST_LINE_BYTES", 16)

    with pytest.raises(BadRecordError, match="byte 2: a line of more than 16 bytes"):
        read(make(b"a\n" + b"b" * 100 + b"\n"))  # type: ignore[operator]
