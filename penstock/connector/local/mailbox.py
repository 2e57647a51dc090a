"""A thread's mailbox: messages in the order they were posted, taken by its owner alone (Flink's mailbox)."""

from __future__ import annotations

from collections import deque
from threading import Condition
from typing import Generic, TypeVar

__all__ = ["Mailbox"]

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
        """Take the next message; wait for one up to `timeout_s` (None: without end). None when none came."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._messages, timeout_s)
            return self._messages.popleft() if self._messages else None
