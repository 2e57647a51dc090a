"""The outside of the simulations: the splits of a table as lists of event times that grow. No connector in sight."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.scheduler import Run

__all__ = ["Content", "Outside"]

SHORTEST_SILENCE_MS = 200
"""Shorter than any idle timeout that is drawn."""


@dataclass(slots=True, kw_only=True)
class Content:
    """What a split holds: position i has a record of event time times[i] (ms), or none (a control or a bad record).

    Records at `timeless` positions are delivered without an event time (NULL).
    `first` is where the startup mode begins, `stop` where a bounded scan ends. Time runs `pace_ms` a record,
    `grown_ms` is when it last got longer, `woke_ms` when it last did so after a silence.
    """

    first: int = 0
    stop: int | None = None
    next_ms: int = 0
    pace_ms: int = 100
    grown_ms: int = 0
    woke_ms: int = 0
    times: list[int | None] = field(default_factory=list)
    timeless: set[int] = field(default_factory=set)

    def positions(self, start: int, stop: int) -> list[int]:
        """Give the positions in [start, stop) that have a record."""
        return [i for i in range(start, min(stop, len(self.times))) if self.times[i] is not None]

    def highest(self, start: int, stop: int) -> int | None:
        """Give the highest event time in [start, stop)."""
        known = (self.time(i) for i in self.positions(start, stop))
        return max((time for time in known if time is not None), default=None)

    def time(self, position: int) -> int | None:
        """Give the event time of a record; None for NULL."""
        return None if position in self.timeless else self.times[position]


@dataclass(slots=True)
class Outside:
    """All splits of one table. `disorder_ms` bounds how far a record may be behind one before it, but for late ones.

    `timeless_percent` of the records have no event time.

    The next `away` calls of planners and `broken` fetches fail. `published` is the progress as the outside was told.
    """

    run: Run
    disorder_ms: int
    late_percent: float = 3.0
    timeless_percent: float = 0.0
    splits: dict[str, Content] = field(default_factory=dict)
    away: int = 0
    broken: int = 0
    published: dict[str, int] = field(default_factory=dict)

    def calm(self) -> None:
        """Fail no more."""
        self.away = self.broken = 0

    def add(self, content: Content) -> str:
        """Make a new split."""
        split_id = f"topic-{len(self.splits)}"
        self.splits[split_id] = content
        return split_id

    def grow(self, split_id: str, count: int) -> None:
        """Write records."""
        content, chance = self.splits[split_id], self.run.random.random
        if self.run.now_ms - content.grown_ms > SHORTEST_SILENCE_MS:
            content.woke_ms = self.run.now_ms
        content.grown_ms = self.run.now_ms
        for _ in range(count):
            content.next_ms += int(chance() * 2 * content.pace_ms)
            kind = chance() * 100
            if kind < self.late_percent:
                content.times.append(
                    max(0, content.next_ms - int(chance() * 20 * self.disorder_ms))
                )
            elif kind < 10:
                content.times.append(None)
            else:
                content.times.append(max(0, content.next_ms - int(chance() * self.disorder_ms)))
                if kind > 100 - self.timeless_percent:
                    content.timeless.add(len(content.times) - 1)
