"""Follows what a query waits for: looks once a second, and writes the beginning and the end of an outage to the log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connector.outage import Outage
    from penstock.sql.run.clock import Clock

__all__ = ["OutageWatch"]

log = logging.getLogger(__name__)

LOOK_MS = 1_000


class OutageWatch:
    """What the sources of the query into `sink` wait for. One thread looks, any other may read `current`."""

    def __init__(self, find: Callable[[], Outage | None], clock: Clock, sink: str) -> None:
        self._find = find
        self._clock = clock
        self._sink = sink
        self._looked_ms: int | None = None
        self.current: Outage | None = None

    def look(self) -> None:
        """Look again, unless it was done a moment ago."""
        now_ms = self._clock.monotonic_ms()
        if self._looked_ms is not None and now_ms - self._looked_ms < LOOK_MS:
            return
        self._looked_ms = now_ms
        before, self.current = self.current, self._find()
        if before is None and self.current is not None:
            log.warning("%s: waiting for %s", self._sink, self.current)
        elif before is not None and self.current is None:
            seconds = max(self._clock.now_ms() - before.since_ms, 0) / 1000
            log.warning("%s: %s answers again, after %.0f s", self._sink, before.what, seconds)
