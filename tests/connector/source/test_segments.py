"""A list in files that never change: few files, each read as it was written or refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.coordinator.pull import SeenSplits
from penstock.connector.source.segments import Segment, SegmentName, appended, read_segments

CHAIN = "0123456789abcdef"


class Memory:
    """A folder of files in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.written = 0
        self.shown = "memory"

    def new_chain(self) -> str:
        return CHAIN

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def write(self, new: Sequence[Segment], current: Sequence[Segment]) -> None:
        assert set(new) <= set(current)
        for segment in new:
            self.files[str(segment.name)] = segment.content
            self.written += len(segment.content)


def add(segments: tuple[Segment, ...], text: str, kind: str = "text") -> tuple[Segment, ...]:
    """Add the letters of a text."""
    return appended(segments, chain=CHAIN, kind=kind, count=len(text), content=text.encode())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("abc", min_size=1, max_size=40), min_size=1, max_size=60))
def test_the_files_together_are_the_list_and_few(parts: list[str]) -> None:
    """In order; each has at least four times the entries of the next one, and a serial of its own."""
    segments: tuple[Segment, ...] = ()
    serials: set[int] = set()
    for part in parts:
        segments = add(segments, part)
        assert segments[-1].name.serial not in serials
        serials.add(segments[-1].name.serial)

    counts = [segment.name.count for segment in segments]
    assert b"".join(s.content for s in segments) == "".join(parts).encode()
    assert counts == [len(segment.content) for segment in segments]
    assert all(a >= 4 * b for a, b in pairwise(counts))
    assert len(segments) <= log(sum(counts), 4) + 1


def test_entries_of_two_kinds_are_in_files_of_their_own() -> None:
    """Hashes of an older checkpoint have another length."""
    segments = add(add(add((), "ab", "old"), "c"), "d")

    assert [(s.name.kind, s.content) for s in segments] == [("old", b"ab"), ("text", b"cd")]


def test_a_name_is_read_as_it_was_written() -> None:
    """And what else lies in the folder is none."""
    (segment,) = add((), "abc")

    assert SegmentName.parse(str(segment.name)) == segment.name
    for other in ("", ".crc", f"{segment.name}.tmp", f".{segment.name}.1f.tmp", "_driver"):
        assert SegmentName.parse(other) is None


def test_a_file_that_is_not_there_is_refused_by_name() -> None:
    """Read as nothing seen, it would give every row again."""
    (segment,) = add((), "abc")

    with pytest.raises(StateMismatchError, match=f"memory/{segment.name} is not there"):
        read_segments(Memory(), [str(segment.name)])


@pytest.mark.parametrize("content", [b"", b"ab", b"abd", b"abcc"])
def test_a_damaged_file_is_refused_by_name(content: bytes) -> None:
    """Shorter, longer, or of the same length."""
    (segment,) = add((), "abc")
    files = Memory()
    files.files[str(segment.name)] = content

    with pytest.raises(StateMismatchError, match=f"memory/{segment.name} is damaged") as caught:
        read_segments(files, [str(segment.name)])

    assert "put the whole checkpoint folder back" in str(caught.value.hint)


def test_a_file_of_an_unknown_kind_is_refused() -> None:
    """Of a later version."""
    with pytest.raises(StateMismatchError, match="of a kind that is not known here"):
        SeenSplits.in_files(add((), "abc"))


def test_an_entry_is_written_some_forty_times_in_its_life() -> None:
    """One file at a time is the worst case; what is joined costs little all the same."""
    files, seen = Memory(), SeenSplits()
    for number in range(3_000):
        segments = seen.segments_with([f"file-{number}"], chain=CHAIN)
        files.write([s for s in segments if s not in seen.segments], segments)
        seen.keep([f"file-{number}"], segments)

    assert files.written < 40 * 16 * 3_000
    assert len(str(seen.snapshot())) < 700
