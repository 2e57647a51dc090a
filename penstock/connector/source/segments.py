"""A list that only grows, in files that never change: a checkpoint names its files, however long it gets.

Additions make a file of their own, and files at the end that are small beside what follows are merged with it: a list
of n entries has at most log4(n) + 1 files (9 of a hundred thousand, 12 of ten million), and an entry is written some
forty times in its life. A file's name describes its content:

    3f0c9a41d2e87b55-17-hash16-1024-5d41402abc4b2a76b9719d911017c592
    chain            |  kind   |    hash of the content
                     serial    number of entries
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from penstock.catalog.errors import StateMismatchError

GROWTH = 4
"""A file is not merged while it has so many times the entries of the next one."""

_NAME = re.compile(
    r"(?P<chain>[0-9a-f]{16})-(?P<serial>\d+)-(?P<kind>[a-z0-9]+)-(?P<count>\d+)-(?P<digest>[0-9a-f]{32})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentName:
    """The parts of a file's name.

    A chain is the history of one list, from one checkpoint to the next; a restart from an older checkpoint makes
    another file under the same serial. Nothing of a chain is named again by later checkpoints once one of them names
    files of a higher serial and not it: that is when it may be removed.
    """

    chain: str
    serial: int
    kind: str
    count: int
    digest: str

    def __str__(self) -> str:
        return f"{self.chain}-{self.serial}-{self.kind}-{self.count}-{self.digest}"

    @classmethod
    def parse(cls, text: str) -> SegmentName | None:
        """Parse a name; None for one of another kind of file."""
        found = _NAME.fullmatch(text)
        if found is None:
            return None
        return cls(
            chain=found["chain"],
            serial=int(found["serial"]),
            kind=found["kind"],
            count=int(found["count"]),
            digest=found["digest"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of the list: a file."""

    name: SegmentName
    content: bytes


class SegmentFiles(Protocol):
    """The folder beside a checkpoint. Everything may block, and raises SinkError where the storage fails."""

    @property
    def shown(self) -> str:
        """How messages name the folder."""

    def new_chain(self) -> str:
        """Return the name of a new chain: sixteen hexadecimal digits that no other has."""

    def read(self, name: str) -> bytes | None:
        """Read a file; None where there is none."""

    def write(self, new: Sequence[Segment], current: Sequence[Segment]) -> None:
        """Write files, which are on the disk afterwards; `current` is the whole list with them."""


def appended(
    segments: Sequence[Segment], *, chain: str, kind: str, count: int, content: bytes
) -> tuple[Segment, ...]:
    """Return the list with `count` more entries at its end. Entries of two kinds are not joined."""
    kept = list(segments)
    while kept and kept[-1].name.kind == kind and kept[-1].name.count < GROWTH * count:
        last = kept.pop()
        count += last.name.count
        content = last.content + content
    name = SegmentName(
        chain=chain,
        serial=1 + max((segment.name.serial for segment in segments), default=0),
        kind=kind,
        count=count,
        digest=_digest(content),
    )
    return (*kept, Segment(name=name, content=content))


def read_segments(files: SegmentFiles, names: Sequence[str]) -> tuple[Segment, ...]:
    """Read the list of a checkpoint. Raises StateMismatchError for a file that is not there or not as it was."""
    return tuple(_read(files, text) for text in names)


def _read(files: SegmentFiles, text: str) -> Segment:
    name = SegmentName.parse(text)
    if name is None:
        raise _broken(f"the checkpoint names a file that no version of Penstock wrote: {text}")
    content = files.read(text)
    if content is None:
        raise _broken(f"{files.shown}/{text} is not there: it says which files were read")
    if _digest(content) != name.digest:
        raise _broken(f"{files.shown}/{text} is damaged: it says which files were read")
    return Segment(name=name, content=content)


def _broken(what: str) -> StateMismatchError:
    return StateMismatchError(
        what,
        hint="put the whole checkpoint folder back from a copy, this file included; "
        "--from-scratch starts over and reads every file again",
    )


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
