"""Search the offset up to which a split may be read under an alignment limit, by peeks.

Pure: names the next range to peek at, and receives the result. Records of a split are only roughly in order of event
time. Guarantee: the record before the offset, and every peeked record below it, is within the limit; records in
between may exceed it by the disorder of the split.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["MOST_ROUNDS", "OffsetSearch"]

MOST_ROUNDS = 24
"""Peeks of one search: twelve halvings between twelve interpolations; the best cut so far is taken then."""


@dataclass(slots=True, kw_only=True)
class OffsetSearch:
    """A search in one split between two ends (exclusive positions): `low` keeps the limit, `high` does not.

    `low_ms` is the highest watermark known below `low`, None where there is none; `high_ms` that of the record
    before `high`. A cut whose watermark is above `enough_ms` is taken without looking further. All in epoch ms.
    """

    low: int
    low_ms: int | None
    high: int
    high_ms: int
    limit_ms: int
    enough_ms: int
    rounds: int = 0
    _start: int = field(init=False)
    _probe: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        assert self.low < self.high, "there is something to search in"
        assert self.high_ms > self.limit_ms, "the end to begin with is too far"
        assert self.low_ms is None or self.low_ms <= self.limit_ms, "the start is within the limit"
        self._start = self.low

    @property
    def settled(self) -> bool:
        """Whether `low` is the answer."""
        near = self.low_ms is not None and self.low_ms > self.enough_ms
        return self.next_waits or near or self.rounds >= MOST_ROUNDS

    @property
    def next_waits(self) -> bool:
        """Whether the record at `low` itself is known to be above the limit."""
        return self.high - self.low == 1

    def next_range(self) -> tuple[int, int]:
        """Return the next range [from, to) whose last record is to be peeked at."""
        assert not self.settled, "the search has its answer"
        self._probe = min(max(self._guess(), self.low + 1), self.high - 1)
        return self.low, self._probe

    def learn(self, watermark_ms: int | None) -> None:
        """Apply the watermark of that record; None where the range has no record with one."""
        self.rounds += 1
        if watermark_ms is not None and watermark_ms > self.limit_ms:
            self.high, self.high_ms = self._probe, watermark_ms
            return
        self.low = self._probe
        if watermark_ms is not None:
            self.low_ms = watermark_ms if self.low_ms is None else max(self.low_ms, watermark_ms)

    def _guess(self) -> int:
        unknown = self.low_ms is None and self.rounds == 0
        unmoved = self.low == self._start and self.rounds == 1
        if unknown or unmoved:
            # perhaps nothing fits at all
            return self.low + 1
        if self.low_ms is None or self.rounds % 2:
            return (self.low + self.high) // 2
        aim_ms = (self.limit_ms + self.enough_ms) // 2
        part_ms = max(0, aim_ms - self.low_ms)
        return self.low + (self.high - self.low) * part_ms // (self.high_ms - self.low_ms)
