"""Starts the streaming queries of this process one after the other: each has Python processes, a second of CPU each.

Spark gives each source's process ten seconds to connect back, and no option changes that. Started at once, those of
many queries share the cores until all of them are late; the late ones continue loading and make the next attempt
worse.
"""

from __future__ import annotations

import logging
import random
from contextlib import contextmanager
from threading import Event, Lock
from typing import TYPE_CHECKING

from penstock.sql.clock import Clock, SystemClock
from penstock.sql.errors.spark import SlowStartError, translate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql.streaming.query import StreamingQuery


log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often a start is tried when its Python process connects too late."""
PAUSE_MS = 2_000
"""The pause before the second attempt, doubled before each further one; up to half of it is added by chance."""

_POLL_MS = 20
_LOOK_S = 0.1
"""How often a waiting query checks whether it may still start."""
_LONGEST_MS = 120_000
"""How long a start may keep the others waiting: twelve sources that are all late."""
_INITIALIZING = "Initializing"
"""How Spark's status begins until the Python processes of all sources are there (StreamExecution)."""


class StoppedBeforeStartError(Exception):
    """The query was asked to stop while it waited for its turn; it was not started."""


class StartQueue:
    """The queries that are starting, of which one has its turn. Safe to use from any thread."""

    def __init__(
        self, clock: Clock | None = None, chance: Callable[[], float] = random.random
    ) -> None:
        self._clock = clock or SystemClock()
        self._chance = chance
        self._turn = Lock()
        self._lock = Lock()
        self._starting = 0

    def start(
        self,
        start: Callable[[], StreamingQuery],
        *,
        check: Callable[[], None] = lambda: None,
        stop: Event | None = None,
    ) -> StreamingQuery:
        """Call `start` when it is its turn, and wait until the query's sources have started. Blocks.

        `check` raises where the query may no longer start: it is called while others have the turn, however long they
        take, and again just before `start`. Raises StoppedBeforeStartError once `stop` is set; SlowStartError where
        their Python processes connected too late at every attempt; any other failure is the query's, or that of
        `start`.
        """
        stop = stop or Event()
        most = self._count(1)
        try:
            for attempt in range(1, ATTEMPTS + 1):
                with self._in_turn(check, stop):
                    query = start()
                    self._await_sources(query, stop)
                most = max(most, self._count(0))
                if not _came_too_late(query):
                    return query
                if attempt < ATTEMPTS:
                    log.warning("%s; trying again", _short_of_cpu(attempt, most))
                    self._pause(attempt, stop)
            raise SlowStartError(
                _short_of_cpu(ATTEMPTS, most),
                hint="run fewer queries in one process, or give it more CPU",
            )
        finally:
            self._count(-1)

    @contextmanager
    def _in_turn(self, check: Callable[[], None], stop: Event) -> Iterator[None]:
        while not self._turn.acquire(timeout=_LOOK_S):
            _look(check, stop)
        try:
            _look(check, stop)  # the wait may have outlasted the lease
            yield
        finally:
            self._turn.release()

    def _count(self, change: int) -> int:
        with self._lock:
            self._starting += change
            return self._starting

    def _await_sources(self, query: StreamingQuery, stop: Event) -> None:
        """Wait for them; one that is to stop is left to its watcher."""
        deadline_ms = self._clock.monotonic_ms() + _LONGEST_MS
        while query.isActive and str(query.status["message"]).startswith(_INITIALIZING):
            if self._clock.monotonic_ms() > deadline_ms or self._clock.wait(stop, _POLL_MS):
                return

    def _pause(self, attempt: int, stop: Event) -> None:
        pause_ms = PAUSE_MS * 2 ** (attempt - 1)
        self._clock.wait(stop, round(pause_ms * (1 + self._chance() / 2)))


_QUEUE = StartQueue()


def start_in_turn(
    start: Callable[[], StreamingQuery],
    *,
    check: Callable[[], None] = lambda: None,
    stop: Event | None = None,
) -> StreamingQuery:
    """Start a query of this process when no other one is starting. As `StartQueue.start`."""
    return _QUEUE.start(start, check=check, stop=stop)


def _look(check: Callable[[], None], stop: Event) -> None:
    if stop.is_set():
        raise StoppedBeforeStartError
    check()


def _came_too_late(query: StreamingQuery) -> bool:
    error = None if query.isActive else query.exception()
    return error is not None and isinstance(translate(error), SlowStartError)


def _short_of_cpu(attempts: int, starting: int) -> str:
    """Return the error with the numbers of attempts and of queries that started or waited for their turn."""
    tried = "" if attempts == 1 else f" in {attempts} attempts"
    others = "" if starting == 1 else f", and {starting} queries were starting"
    return f"the machine is short of CPU: a Python worker of Spark did not start within 10 s{tried}{others}"
