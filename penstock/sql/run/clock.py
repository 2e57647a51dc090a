"""The clock of running jobs: the only place of `sql/run` that asks the time or waits for it to pass."""

from __future__ import annotations

import time
from threading import Event
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Tells the time and waits; tests pass one whose time they move themselves."""

    def now_ms(self) -> int:
        """Give the wall-clock time in epoch ms."""

    def wait(self, event: Event, timeout_ms: int) -> bool:
        """Wait until `event` is set, at most `timeout_ms`. Tells whether it is set."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Give the wall-clock time in epoch ms."""
        return time.time_ns() // 1_000_000

    def wait(self, event: Event, timeout_ms: int) -> bool:
        """Wait until `event` is set, at most `timeout_ms`. Tells whether it is set."""
        return event.wait(timeout_ms / 1000)
