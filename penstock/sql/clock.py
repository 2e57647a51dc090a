"""The clock of running jobs: the only place of `sql` that reads the time of a job or waits for it to pass.

Also how a span of time is written.
"""

from __future__ import annotations

import time
from threading import Event
from typing import Protocol

_SECOND_MS, _MINUTE_MS, _HOUR_MS, _DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000

# Linux's monotonic clock stands still while the machine is suspended, and a lease does not
_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """Tells the time and waits; tests pass one whose time they move themselves."""

    def now_ms(self) -> int:
        """Return the wall-clock time in epoch ms."""

    def monotonic_ms(self) -> int:
        """Return the time since some moment, in ms: it is never set, and advances while the machine sleeps."""

    def wait(self, event: Event, timeout_ms: int) -> bool:
        """Wait until `event` is set, at most `timeout_ms`. Returns whether it is set."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return the wall-clock time in epoch ms."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return the time since some moment, in ms: it is never set, and on Linux advances while the machine sleeps."""
        if _BOOT_CLOCK is None:
            return time.monotonic_ns() // 1_000_000
        return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000

    def wait(self, event: Event, timeout_ms: int) -> bool:
        """Wait until `event` is set, at most `timeout_ms`. Returns whether it is set."""
        return event.wait(timeout_ms / 1000)


def duration_text(duration_ms: int) -> str:
    """A span of time in its two largest units: `850 ms`, `12.3 s`, `4 min 5 s`, `3 h 2 min`, `12 d 4 h`."""
    if duration_ms < _SECOND_MS:
        return f"{max(duration_ms, 0)} ms"
    if duration_ms < _MINUTE_MS:
        return f"{duration_ms / _SECOND_MS:.1f}".removesuffix(".0") + " s"
    if duration_ms < _HOUR_MS:
        return _two_units(duration_ms, _MINUTE_MS, "min", _SECOND_MS, "s")
    if duration_ms < _DAY_MS:
        return _two_units(duration_ms, _HOUR_MS, "h", _MINUTE_MS, "min")
    return _two_units(duration_ms, _DAY_MS, "d", _HOUR_MS, "h")


def _two_units(duration_ms: int, large_ms: int, large: str, small_ms: int, small: str) -> str:
    whole, rest = divmod(duration_ms, large_ms)
    part = rest // small_ms
    return f"{whole} {large} {part} {small}" if part else f"{whole} {large}"
