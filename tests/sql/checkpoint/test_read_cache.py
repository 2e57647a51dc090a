"""Reads of a checkpoint that are kept while its files stay as they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.sql.checkpoint.read_cache import ReadCache
from penstock.sql.checkpoint.reader import CheckpointFiles, LocalFiles, damaged_error

LONG_AGO_NS = 1_700_000_000_000_000_000


class Reader:
    """Reads the last file of a folder, and counts how often."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self, files: CheckpointFiles) -> str | None:
        """Return its text."""
        self.reads += 1
        names = files.names("offsets")
        return files.text(f"offsets/{names[-1]}") if names else None


def write(file: Path, text: str, at_ns: int = LONG_AGO_NS) -> None:
    """Write a file that looks as if it were old, and its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    for each in (file, file.parent):
        os.utime(each, ns=(at_ns, at_ns))


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    """A checkpoint of one batch."""
    write(tmp_path / "offsets" / "0", "first")
    return LocalFiles(location=str(tmp_path))


def test_what_did_not_change_is_read_once(files: LocalFiles) -> None:
    """By each function for itself."""
    cache, reader, another = ReadCache(), Reader(), Reader()

    assert [cache.read(files, reader) for _ in range(3)] == ["first"] * 3
    assert cache.read(files, another) == "first"
    assert (reader.reads, another.reads) == (1, 1)


def test_another_file_and_another_content_are_read(files: LocalFiles) -> None:
    """A folder with a new file, one that is written anew, one that is gone: each is seen at the next look."""
    cache, reader = ReadCache(), Reader()
    folder = files.folder / "offsets"
    seen = [cache.read(files, reader)]
    write(folder / "1", "second", LONG_AGO_NS + 1_000_000)
    seen += [cache.read(files, reader), cache.read(files, reader)]
    (folder / "1").write_text("changed", encoding="utf-8")
    os.utime(folder / "1", ns=(LONG_AGO_NS + 2_000_000, LONG_AGO_NS + 2_000_000))
    seen += [cache.read(files, reader), cache.read(files, reader)]
    (folder / "1").unlink()
    seen += [cache.read(files, reader)]

    assert seen == ["first", "second", "second", "changed", "changed", "first"]
    assert reader.reads == 4


def test_what_was_changed_just_now_is_not_kept(files: LocalFiles) -> None:
    """Another change within the same tick of the file system's clock could not be told from it."""
    cache, reader = ReadCache(), Reader()
    (files.folder / "offsets" / "1").write_text("new", encoding="utf-8")

    assert [cache.read(files, reader) for _ in range(2)] == ["new"] * 2
    assert reader.reads == 2


def test_a_failure_is_not_kept(files: LocalFiles) -> None:
    """Nor what was read before it."""
    cache = ReadCache()
    problems = ["was cut", None]

    def read(found: CheckpointFiles) -> str | None:
        if (problem := problems.pop(0)) is not None:
            raise damaged_error(found.location, "offsets/0", problem)
        return found.text("offsets/0")

    with pytest.raises(StateMismatchError, match="was cut"):
        cache.read(files, read)
    assert cache.read(files, read) == "first"
