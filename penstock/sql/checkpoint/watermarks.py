"""The watermarks of a batch: how far the event time of every source was before it, and is with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.connector.source.state import MAX_WATERMARK_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeSpan:
    """The event time that a batch passes, in epoch ms: up to `before_ms` rows are late, up to `now_ms` they are
    complete.

    Both bounds are inclusive (Flink: no row at or below the watermark will come). None: there is no watermark.
    """

    before_ms: int | None
    now_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermarks:
    """The watermarks of a query's sources in their order, epoch ms, before a batch and with it; None: there is none.

    They come from the offsets that Spark wrote before the batch, so that they are the same on a replay.
    """

    before_ms: Sequence[int | None]
    now_ms: Sequence[int | None]

    def span(self, sources: Iterable[int]) -> EventTimeSpan:
        """Return what the lowest of some sources' watermarks passes."""
        indices = tuple(sources)
        return EventTimeSpan(
            before_ms=_lowest([self.before_ms[index] for index in indices]),
            now_ms=_lowest([self.now_ms[index] for index in indices]),
        )


ALL_READ = EventTimeSpan(before_ms=None, now_ms=MAX_WATERMARK_MS)
"""That of tables with an end, all of whose rows are in one batch."""


def _lowest(watermarks: Sequence[int | None]) -> int | None:
    known = [watermark for watermark in watermarks if watermark is not None]
    return min(known) if len(known) == len(watermarks) else None
