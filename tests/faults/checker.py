"""Tells what is wrong with a result: rows that are lost, doubled, damaged, out of order, or never should have come.

Every record says who it is (partition and number in it) and carries the checksum of its payload, so that a result
is judged without a second run (the list of checks is that of Jepsen's queue workload).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

SHOWN = 5
"""Examples of each kind of finding in the text of a verdict."""

Identity = tuple[int, int]
"""A record's partition and its number there, from 0."""


class Row(NamedTuple):
    """A row of a result."""

    part: int
    seq: int
    payload: str
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a result has to hold: `counts[p]` records of each partition, numbered from 0.

    `aborted` were written in transactions that did not commit: nobody may see them.
    """

    counts: Mapping[int, int]
    aborted: frozenset[Identity] = frozenset()

    def __contains__(self, identity: object) -> bool:
        """Tell whether a record is to be there."""
        assert isinstance(identity, tuple)
        part, seq = identity
        return 0 <= seq < self.counts.get(part, 0) and identity not in self.aborted

    def __iter__(self) -> Iterator[Identity]:
        """Give every record that is to be there."""
        for part, count in sorted(self.counts.items()):
            yield from ((part, seq) for seq in range(count) if (part, seq) not in self.aborted)


@dataclass(slots=True, kw_only=True)
class Verdict:
    """The findings, by kind. `rows` were looked at."""

    rows: int = 0
    lost: list[Identity] = field(default_factory=list)
    doubled: list[Identity] = field(default_factory=list)
    damaged: list[Identity] = field(default_factory=list)
    reordered: list[Identity] = field(default_factory=list)
    aborted: list[Identity] = field(default_factory=list)
    unknown: list[Identity] = field(default_factory=list)

    @property
    def findings(self) -> dict[str, list[Identity]]:
        """The kinds that have any."""
        kinds = ("lost", "doubled", "damaged", "reordered", "aborted", "unknown")
        return {kind: found for kind in kinds if (found := getattr(self, kind))}

    def __str__(self) -> str:
        """Say how many of each kind, with some of them."""
        told = [
            f"{len(found)} {kind}, as {', '.join(map(str, found[:SHOWN]))}"
            for kind, found in self.findings.items()
        ]
        return f"{self.rows} rows: {'; '.join(told) or 'every record once'}"


def check(rows: Iterable[Row], expected: Expected, *, ordered: bool = False) -> Verdict:
    """Hold a result against what it has to be. `ordered`: rows of a partition come in the order of their numbers.

    A record that comes again counts as doubled and not as out of order too.
    """
    verdict = Verdict()
    seen: set[Identity] = set()
    last: dict[int, int] = {}
    for row in rows:
        verdict.rows += 1
        identity = (row.part, row.seq)
        if crc32(row.payload.encode()) != row.crc:
            verdict.damaged.append(identity)
        if identity in expected.aborted:
            verdict.aborted.append(identity)
        elif identity not in expected:
            verdict.unknown.append(identity)
        elif identity in seen:
            verdict.doubled.append(identity)
        else:
            if ordered and row.seq < last.get(row.part, -1):
                verdict.reordered.append(identity)
            last[row.part] = row.seq
        seen.add(identity)
    verdict.lost = [identity for identity in expected if identity not in seen]
    return verdict
