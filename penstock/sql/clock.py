"""The clock of running jobs: the only place of `sql` that reads the time of a job or waits for it to pass."""

from __future__ import annotations

import time
from threading import Event
from typing import Protocol

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
