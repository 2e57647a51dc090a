"""Counts the rows that each sink of one query was given, each batch once however often it is run."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

__all__ = ["SinkCounts"]

KEPT_BATCHES = 1_000
"""Batches that are kept apart: only the last can be replayed, and who asks for one is never so far behind."""


class SinkCounts:
    """Rows by sink and batch. Written by the thread that runs batches, read from any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._batches: dict[int, Mapping[str, int]] = {}
        self._before: dict[str, int] = {}

    def add(self, batch_id: int, rows: Mapping[str, int]) -> None:
        """Take the counts of a batch, in the place of those of an earlier run of it."""
        with self._lock:
            self._batches[batch_id] = dict(rows)
            while len(self._batches) > KEPT_BATCHES:
                oldest = self._batches.pop(min(self._batches))
                self._before = _sum(self._before, oldest)

    def of(self, batch_id: int) -> Mapping[str, int]:
        """Give the counts of a batch; empty for one that was not counted."""
        with self._lock:
            return self._batches.get(batch_id, {})

    def total(self) -> Mapping[str, int]:
        """Give the sums over all batches."""
        with self._lock:
            total = self._before
            for rows in self._batches.values():
                total = _sum(total, rows)
            return total


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
