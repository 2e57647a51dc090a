"""Consumers kept between reads: connecting and finding leaders costs more than a small batch.

Each process has its own (a forked child begins empty) and lends each consumer to one reader at a time. A consumer that
is idle for IDLE_S is closed at the next lend or return.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field

from penstock.connector.kafka.client.connection import Connection
from penstock.connector.kafka.client.consumer import KafkaConsumer

__all__ = ["CONSUMERS", "ConsumerPool"]

IDLE_S = 60.0
"""As long as Spark keeps an idle worker process."""

MOST_KEPT = 8
"""Each may hold queued.max.messages.kbytes while it reads, and a connection with its threads while it rests."""


@dataclass(frozen=True, slots=True)
class _Resting:
    consumer: KafkaConsumer
    since_s: float


@dataclass(slots=True)
class ConsumerPool:
    """Lends consumers by connection."""

    _resting: list[_Resting] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def lend(self, connection: Connection) -> KafkaConsumer:
        """Return a rested consumer of this connection, or a new one. Raises OptionError if there can be none."""
        with self._lock:
            found = next((r for r in self._resting if r.consumer.connection == connection), None)
            if found is not None:
                self._resting.remove(found)
            stale = self._take_stale()
        _close(stale)
        return KafkaConsumer(connection) if found is None else found.consumer

    def give_back(self, consumer: KafkaConsumer) -> None:
        """Return a working consumer to the pool; close a broken one instead."""
        consumer.unassign()
        with self._lock:
            self._resting.append(_Resting(consumer, time.monotonic()))
            stale = self._take_stale()
        _close(stale)

    def clear(self) -> None:
        """Close what rests."""
        with self._lock:
            stale, self._resting = self._resting, []
        _close(stale)

    def forget(self) -> None:
        """Drop what a parent process left, unclosed: its threads are not here."""
        self._resting = []
        self._lock = threading.Lock()

    def _take_stale(self) -> list[_Resting]:
        oldest = time.monotonic() - IDLE_S
        kept = [r for r in self._resting[-MOST_KEPT:] if r.since_s >= oldest]
        stale = [r for r in self._resting if r not in kept]
        self._resting = kept
        return stale


def _close(stale: list[_Resting]) -> None:
    for resting in stale:
        resting.consumer.close()


CONSUMERS = ConsumerPool()
os.register_at_fork(after_in_child=CONSUMERS.forget)
