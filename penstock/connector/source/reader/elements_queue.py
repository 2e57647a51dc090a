"""The bounded queue between fetchers and their source reader, and the signal that elements are available.

Flink's FutureCompletingBlockingQueue, except that a full queue never blocks the producer: `put` returns False,
and a callback follows when there is room, so that one fetcher serves threads and simulations without threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from penstock.connector.source.records import RecordsWithSplitIds

__all__ = ["QUEUE_CAPACITY", "ElementsQueue"]

QUEUE_CAPACITY = 2
"""Fetches that wait for the reader (Flink: source.reader.element.queue.capacity): decoding and delivering overlap."""


class ElementsQueue:
    """Fetches on their way to one source reader. Any thread may put; one thread polls and waits."""

    def __init__(self, capacity: int = QUEUE_CAPACITY) -> None:
        assert capacity > 0, "a queue without room passes nothing on"
        self._capacity = capacity
        self._elements: deque[RecordsWithSplitIds] = deque()
        self._waiting: list[Callable[[], None]] = []
        self._failure: BaseException | None = None
        self._news = False
        self._changed = threading.Condition()

    def offer(self, element: RecordsWithSplitIds, on_room: Callable[[], None]) -> bool:
        """Put an element and notify the reader; False when full, and then `on_room` is called once there is room."""
        with self._changed:
            if len(self._elements) >= self._capacity:
                if on_room not in self._waiting:
                    self._waiting.append(on_room)
                return False
            self._elements.append(element)
            self._tell()
            return True

    def poll(self) -> RecordsWithSplitIds | None:
        """Remove and return the oldest element, None when there is none; never waits. Raises what a fetcher failed
        with.

        Only a poll that finds nothing ends the availability: earlier notifications are checked after it.
        """
        with self._changed:
            if self._failure is not None:
                raise self._failure
            if not self._elements:
                self._news = False
                return None
            element = self._elements.popleft()
            waiting, self._waiting = self._waiting, []
        for on_room in waiting:
            on_room()
        return element

    def fail(self, error: BaseException) -> None:
        """Make every later poll raise `error`; the first failure counts."""
        with self._changed:
            if self._failure is None:
                self._failure = error
            self._tell()

    def notify_available(self) -> None:
        """Notify the reader of a change other than of the queue: a fetcher is idle, the last split came."""
        with self._changed:
            self._tell()

    def wait_available(self, timeout_s: float) -> bool:
        """Wait until a poll may find something, at most `timeout_s` seconds; whether it may."""
        with self._changed:
            return self._changed.wait_for(lambda: self._news, timeout_s)

    @property
    def empty(self) -> bool:
        """Whether no element waits."""
        with self._changed:
            return not self._elements

    def _tell(self) -> None:
        self._news = True
        self._changed.notify_all()
