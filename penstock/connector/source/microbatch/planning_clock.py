"""The wall clock of planning, for future timestamps: a sudden step is ignored until it is confirmed.

Readings are passed in, together with those of a monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_STEP_MS = 60_000
"""How far the wall clock may be from where it should be by the steady clock: what time servers correct in a step."""

CONFIRMED_AFTER_MS = 10_000
"""How long a clock has to show another time before it is believed to have been set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A step of the wall clock that is not believed yet: where it went, and when that was first seen."""

    offset_ms: int
    seen_ms: int


class PlanningClock:
    """Follows the wall clock. One thread.

    It does not go back by small steps, so that a record which was accepted is accepted again. A step of more than
    `LARGEST_STEP_MS`, forward or back, is refused until the clock has kept to it for `CONFIRMED_AFTER_MS`; meanwhile
    time advances by the steady clock. A wrong reading is forgotten with the next right one.
    """

    def __init__(self) -> None:
        self._at_ms: int | None = None
        self._steady_ms = 0
        self._step: _Step | None = None

    def read(self, *, wall_ms: int, steady_ms: int, logged_ms: int | None) -> int:
        """Return the time (epoch ms). `logged_ms` is that of the batch before, by whatever process planned it.

        A logged time that is far ahead of the wall clock was a wrong reading, and does not count. The first reading of
        a process is believed: nothing tells it from a pause of the pipeline. To doubt it would refuse good records
        after each long one, and in runs that are shorter than `CONFIRMED_AFTER_MS` always.
        """
        if self._at_ms is None:
            self._at_ms = wall_ms
            if logged_ms is not None and 0 < logged_ms - wall_ms <= LARGEST_STEP_MS:
                self._at_ms = logged_ms
            self._steady_ms = steady_ms
            return self._at_ms
        before_ms = self._at_ms
        expected_ms = before_ms + steady_ms - self._steady_ms
        if not self._believes(wall_ms, steady_ms, expected_ms):
            self._at_ms = expected_ms
        elif expected_ms - wall_ms > LARGEST_STEP_MS:
            self._at_ms = wall_ms  # it was set back
        else:
            self._at_ms = max(wall_ms, before_ms)
        self._steady_ms = steady_ms
        return self._at_ms

    def _believes(self, wall_ms: int, steady_ms: int, expected_ms: int) -> bool:
        if abs(wall_ms - expected_ms) <= LARGEST_STEP_MS:
            self._step = None
            return True
        offset_ms = wall_ms - steady_ms
        if self._step is None or abs(offset_ms - self._step.offset_ms) > LARGEST_STEP_MS:
            self._step = _Step(offset_ms=offset_ms, seen_ms=steady_ms)
        if steady_ms - self._step.seen_ms < CONFIRMED_AFTER_MS:
            return False
        self._step = None
        return True
