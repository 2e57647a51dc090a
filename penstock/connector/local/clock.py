"""The local executor's clock: the only place here that asks for the time."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["IntervalClock", "SteadyClock", "wall_clock_ms"]


class IntervalClock(Protocol):
    """Tells the time for intervals and silence; tests pass one whose time they move themselves."""

    def now_ms(self) -> int:
        """Return the time since some moment, in ms; it never steps back."""


class SteadyClock:
    """The machine's steady clock."""

    def now_ms(self) -> int:
        """Return the time since some moment, in ms."""
        return time.monotonic_ns() // 1_000_000


def wall_clock_ms() -> int:
    """Return the machine's wall clock, epoch ms, for what is compared with event time; it may step back."""
    return time.time_ns() // 1_000_000
