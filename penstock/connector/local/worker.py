"""The worker thread: everything that may block on the outside world, one call at a time.

A planner is not thread-safe, so all its calls come here: what the coordinator schedules, making splits, looking up
extents.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from penstock.connector.local.clock import Clock

__all__ = ["Worker"]

Done = Callable[[Any, Exception | None], None]


@dataclass(order=True, slots=True)
class _Call:
    due_ms: int
    number: int
    work: Callable[[], Any] = field(compare=False)
    done: Done = field(compare=False)
    every_ms: int | None = field(compare=False, default=None)


class Worker:
    """Runs calls when they are due, in order of time. `done` is told on this thread what came of each."""

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._calls: list[_Call] = []
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
            _Call(
                due_ms=self._clock.now_ms() + delay_ms,
                number=next(self._numbers),
                work=work,
                done=done,
                every_ms=every_ms,
            )
        )

    def close(self, last: Callable[[], None], timeout_s: float) -> bool:
        """Drop what has not begun, run `last` and end; waits up to `timeout_s` for it, and tells whether it ended.

        A call that is under way cannot be interrupted: `last` then runs when that call comes back.
        """
        with self._changed:
            self._calls.clear()
            self._closing = last
            self._changed.notify_all()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _add(self, call: _Call) -> None:
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

    def _next(self) -> _Call | None:
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
