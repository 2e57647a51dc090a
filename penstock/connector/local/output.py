"""What a local job hands to its consumer: Arrow batches through a bounded queue, which is its backpressure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Condition

import pyarrow as pa

__all__ = ["Emission", "Output"]

CAPACITY = 4
"""Batches that wait for the consumer before readers wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """Rows of one split, in its order, by `reader`.

    `watermark_ms` is the reader's watermark behind these rows (epoch ms, None before the first); the job's is the
    lowest of its readers'.
    """

    reader: int
    split_id: str
    batch: pa.RecordBatch
    watermark_ms: int | None


class Output:
    """A bounded queue from the readers to the consumer. Any thread."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._changed = Condition()
        self._waiting: deque[Emission] = deque()
        self._capacity = capacity
        self._closed = False

    @property
    def has_room(self) -> bool:
        """Whether a `put` would not wait now."""
        with self._changed:
            return self._closed or len(self._waiting) < self._capacity

    def put(self, emission: Emission) -> bool:
        """Wait for room and add rows; False once it is closed, when no consumer will take them."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._waiting) < self._capacity)
            if self._closed:
                return False
            self._waiting.append(emission)
            self._changed.notify_all()
            return True

    def take(self, timeout_s: float) -> Emission | None:
        """Return the next rows; waits up to `timeout_s` for some. None when none came or none can come any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting, timeout_s)
            if not self._waiting:
                return None
            emission = self._waiting.popleft()
            self._changed.notify_all()
            return emission

    def close(self) -> None:
        """Refuse new elements and end all waits; present elements can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
