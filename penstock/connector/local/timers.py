"""What the coordinator's thread does at intervals: when each is due next, and what is due now."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from penstock.connector.local.clock import Clock

__all__ = ["Timers"]


@dataclass(order=True, slots=True)
class _Timer:
    due_ms: int
    number: int
    act: Callable[[], None] = field(compare=False)
    every_ms: int | None = field(compare=False)


class Timers:
    """Timers of one thread, which asks for `due` ones whenever it wakes. The first is due after one interval."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: list[_Timer] = []
        self._numbers = count()

    def every(self, interval_ms: int, act: Callable[[], None]) -> None:
        """Do `act` every `interval_ms`; intervals that were slept through are not made up for."""
        self._push(interval_ms, act, interval_ms)

    def after(self, delay_ms: int, act: Callable[[], None]) -> None:
        """Do `act` once."""
        self._push(delay_ms, act, None)

    @property
    def wait_s(self) -> float | None:
        """Time until the next is due, in seconds; None when there is none."""
        if not self._timers:
            return None
        return max(self._timers[0].due_ms - self._clock.now_ms(), 0) / 1000

    def due(self) -> Iterator[Callable[[], None]]:
        """Give what is due now, in order."""
        now_ms = self._clock.now_ms()
        while self._timers and self._timers[0].due_ms <= now_ms:
            timer = heapq.heappop(self._timers)
            if timer.every_ms is not None:
                self._push(timer.every_ms, timer.act, timer.every_ms)
            yield timer.act

    def _push(self, delay_ms: int, act: Callable[[], None], every_ms: int | None) -> None:
        due_ms = self._clock.now_ms() + delay_ms
        heapq.heappush(
            self._timers,
            _Timer(due_ms=due_ms, number=next(self._numbers), act=act, every_ms=every_ms),
        )
