"""Building blocks of a job's threads: mailbox (Flink's mailbox model), timers, the worker for blocking calls, clock.

No other module of the local executor asks for the time.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from threading import Condition
from typing import Any, Generic, Protocol, TypeVar


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


T = TypeVar("T")


class Mailbox(Generic[T]):
    """Unbounded, as its senders are few and send rarely; what is many goes through the bounded output."""

    def __init__(self) -> None:
        self._arrived = Condition()
        self._messages: deque[T] = deque()

    def post(self, message: T) -> None:
        """Add a message. Any thread; never blocks."""
        with self._arrived:
            self._messages.append(message)
            self._arrived.notify()

    def take(self, timeout_s: float | None = 0.0) -> T | None:
        """Return the next message; waits for one up to `timeout_s` (None: without end). None when none came."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._messages, timeout_s)
            return self._messages.popleft() if self._messages else None


@dataclass(order=True, slots=True)
class _Timer:
    due_ms: int
    number: int
    act: Callable[[], None] = field(compare=False)
    every_ms: int | None = field(compare=False)


class Timers:
    """Timers of one thread, which asks for `due` ones whenever it wakes. The first is due after one interval."""

    def __init__(self, clock: IntervalClock) -> None:
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
        """Return what is due now, in order."""
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


Done = Callable[[Any, Exception | None], None]


@dataclass(order=True, slots=True)
class _TimedCall:
    due_ms: int
    number: int
    work: Callable[[], Any] = field(compare=False)
    done: Done = field(compare=False)
    every_ms: int | None = field(compare=False, default=None)


class Worker:
    """Runs calls when they are due, in order of time. `done` receives the outcome of each, on this thread."""

    def __init__(self, clock: IntervalClock, name: str) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._calls: list[_TimedCall] = []
        self._numbers = count()
        self._closing: Callable[[], None] | None = None
        self._busy = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a call is under way or overdue: the outside world was asked and has not answered yet."""
        with self._changed:
            due = self._calls and self._calls[0].due_ms <= self._clock.now_ms()
            return self._busy or bool(due)

    def call(
        self,
        work: Callable[[], Any],
        done: Done,
        *,
        delay_ms: int = 0,
        every_ms: int | None = None,
    ) -> None:
        """Run `work` after `delay_ms`, then every `every_ms`, whatever came of it (FLINK-32362). Any thread."""
        self._add(
            _TimedCall(
                due_ms=self._clock.now_ms() + delay_ms,
                number=next(self._numbers),
                work=work,
                done=done,
                every_ms=every_ms,
            )
        )

    def close(self, last: Callable[[], None], timeout_s: float) -> bool:
        """Drop what has not begun, run `last` and end; waits up to `timeout_s` for it, and returns whether it ended.

        A running call cannot be interrupted: `last` then runs when that call returns.
        """
        with self._changed:
            self._calls.clear()
            self._closing = last
            self._changed.notify_all()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _add(self, call: _TimedCall) -> None:
        with self._changed:
            if self._closing is None:
                heapq.heappush(self._calls, call)
                self._changed.notify_all()

    def _run(self) -> None:
        while (call := self._next()) is not None:
            result, failure = None, None
            try:
                result = call.work()
            except Exception as error:  # noqa: BLE001  whoever asked is told
                failure = error
            call.done(result, failure)
            if call.every_ms is not None:
                # late or not, the next one is due an interval after this one was: never two at a time
                call.due_ms = max(call.due_ms + call.every_ms, self._clock.now_ms())
                self._add(call)
        assert self._closing is not None, "only a close ends the thread"
        self._closing()

    def _next(self) -> _TimedCall | None:
        """Wait for a call that is due; None when the worker closes."""
        with self._changed:
            self._busy = False
            while self._closing is None:
                wait_s = None
                if self._calls:
                    wait_s = (self._calls[0].due_ms - self._clock.now_ms()) / 1000
                    if wait_s <= 0:
                        self._busy = True
                        return heapq.heappop(self._calls)
                self._changed.wait(wait_s)
            return None
