"""The local executor's clock: the only place here that asks for the time."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SteadyClock"]


class Clock(Protocol):
    """Tells the time for intervals and silence; tests pass one whose time they move themselves."""

    def now_ms(self) -> int:
        """Give the time since some moment, in ms; it never steps back."""


class SteadyClock:
    """The machine's steady clock."""

    def now_ms(self) -> int:
        """Give the time since some moment, in ms."""
        return time.monotonic_ns() // 1_000_000
