"""The consumer: reads assigned partitions from given offsets, and returns obstacles as values.

Consumers are kept between reads: connecting and finding leaders costs more than a small batch.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from penstock.connector.kafka.client.client import DENIED, GONE, REQUEST_TIMEOUT_S, KafkaClient
from penstock.connector.kafka.client.connection import (
    Connection,
    Denied,
    EndOfPartition,
    Event,
    Fetched,
    OffsetUnavailable,
    Start,
    TopicPartition,
    TopicUnknown,
)

_END = KafkaError._PARTITION_EOF  # noqa: SLF001  a public code, whatever its name
# with auto.offset.reset=error the client reports these in place of jumping elsewhere
_UNAVAILABLE = {
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._LOG_TRUNCATION,  # noqa: SLF001
}


log = logging.getLogger(__name__)

SETTLE_S = 0.001
"""Between two looks at positions; the client needs less to end reading, unless the machine is busy."""


class GarbageCollection:
    """Python's collection of cycles of objects, which threads may pause for the time of a fetch. Any thread.

    It looks at young objects whenever 700 more were made. Messages are such objects; all of them are needed, and none
    is in a cycle: to look takes as long as the client needs to make them.
    """

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(
            before=self._hold, after_in_parent=self._release, after_in_child=self._go_on
        )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Collect nothing in here, and until no other thread is in here."""
        with self._lock:
            self._pauses += 1
            if self._pauses == 1:
                self._was_on = gc.isenabled()
                gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1
                if not self._pauses and self._was_on:
                    gc.enable()

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._pauses = 0
        self._was_on = False

    def _hold(self) -> None:
        """Let no thread begin or end a pause while the process forks."""
        self._lock.acquire()

    def _release(self) -> None:
        self._lock.release()

    def _go_on(self) -> None:
        """Collect again in a child, in which the threads that paused it are not."""
        if self._pauses and self._was_on:
            gc.enable()
        self._begin()


GARBAGE_COLLECTION = GarbageCollection()


class KafkaConsumer(KafkaClient):
    """Reads assigned partitions. One thread at a time."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._consumer: Consumer = self.make(Consumer)
        self._met: set[str] = set()
        self._unknown: list[TopicUnknown] = []

    def assign(self, starts: Sequence[Start]) -> None:
        """Read these partitions from these offsets and no others; what was fetched before is dropped."""
        self._last_error = None
        self._meet(starts)
        self._consumer.assign(list(map(_client_partition, starts)))

    def add(self, starts: Sequence[Start]) -> None:
        """Read these partitions too."""
        self.settle([start.partition for start in starts])
        self._meet(starts)
        self._consumer.incremental_assign(list(map(_client_partition, starts)))

    def remove(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these; what was fetched of them is dropped.

        There is no pause here: librdkafka keeps a partition paused over the next assign.
        """
        self._consumer.incremental_unassign([ClientPartition(*p) for p in partitions])

    def consume(self, limit: int, timeout_s: float) -> Fetched:
        """Consume up to `limit` records; returns when there are as many or the time is over.

        Errors that may pass are kept as `last_error`.
        """
        messages = self._consumer.consume(limit, timeout_s)
        if self._unknown:
            unknown, self._unknown = self._unknown, []
            return Fetched(
                messages=[m for m in messages if m.error() is None], events=tuple(unknown)
            )
        if not any(map(Message.error, messages)):
            return Fetched(messages=messages)
        failed = [m for m in messages if m.error() is not None]
        events = tuple(event for event in map(self._event_of, failed) if event is not None)
        return Fetched(messages=[m for m in messages if m.error() is None], events=events)

    def positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the next offset of each partition, gaps passed included; those not begun are absent."""
        found = self._consumer.position([ClientPartition(*p) for p in partitions])
        return {TopicPartition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}

    def unassign(self) -> None:
        """Read nothing for now."""
        self._consumer.unassign()

    def settle(self, partitions: Sequence[TopicPartition]) -> None:
        """Wait until partitions that are not assigned have no position: the client ends reading on its own thread.

        Until then `positions` has those of before, by which a range that is read again would be at its end.
        """
        if not self.settles_within(partitions, REQUEST_TIMEOUT_S):
            raise self.unavailable("end of an assignment", REQUEST_TIMEOUT_S)

    def settles_within(self, partitions: Sequence[TopicPartition], timeout_s: float) -> bool:
        """Wait until partitions have no position; False where one still has after the time."""
        give_up_s = time.monotonic() + timeout_s
        while self.positions(partitions):
            if time.monotonic() > give_up_s:
                return False
            # `consume` would take records of the partitions that are assigned
            threading.Event().wait(SETTLE_S)
        return True

    def close(self) -> None:
        """Return the connection to its pool."""
        self._consumer.close()

    def _meet(self, starts: Sequence[Start]) -> None:
        """Request the leaders of topics that are new to this client: by itself it takes a second.

        The next `consume` reports a topic that does not exist; by itself the client waits for it.
        """
        self._unknown.clear()
        for topic in {start.partition.topic for start in starts} - self._met:
            try:
                found = self._consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic]
            except KafkaException as failure:
                self._last_error = failure.args[0]
                continue  # the read that follows has its own deadline
            if found.error is None:
                self._met.add(topic)
            elif found.error.code() in GONE:
                mine = [start.partition for start in starts if start.partition.topic == topic]
                self._unknown += [TopicUnknown(partition=partition) for partition in mine]

    def _event_of(self, message: Message) -> Event | None:
        error = message.error()
        topic, partition = message.topic(), message.partition()
        assert error is not None, "only failed messages are events"
        where = TopicPartition(topic or "", -1 if partition is None else partition)
        return self._event(error, where, message.offset() or 0)

    def _event_of_code(
        self, code: int, reason: str, where: TopicPartition, offset: int
    ) -> Event | None:
        return self._event(KafkaError(code, reason), where, offset)

    def _event(self, error: KafkaError, where: TopicPartition, offset: int) -> Event | None:
        if error.code() == _END:
            return EndOfPartition(partition=where, offset=offset)
        self._last_error = error
        if error.code() in _UNAVAILABLE:
            return OffsetUnavailable(partition=where, reason=error.str())
        if error.code() in GONE:
            return TopicUnknown(partition=where)
        # the client looks for the group, but reading needs no rights on it
        denied = error.code() in DENIED - {KafkaError.GROUP_AUTHORIZATION_FAILED}
        return Denied(reason=error.str()) if denied else None


def _client_partition(start: Start) -> ClientPartition:
    if start.leader_epoch is None:
        return ClientPartition(*start.partition, start.offset)
    return ClientPartition(*start.partition, start.offset, leader_epoch=start.leader_epoch)


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

    def lend(
        self,
        connection: Connection,
        make: Callable[[Connection], KafkaConsumer] = KafkaConsumer,
    ) -> KafkaConsumer:
        """Return a rested consumer of this connection, or a new one. Raises OptionError if there can be none."""
        with self._lock:
            found = next((r for r in self._resting if r.consumer.connection == connection), None)
            if found is not None:
                self._resting.remove(found)
            stale = self._take_stale()
        _close(stale)
        if found is None:
            log.debug("process %d opens a consumer: none of its connection rests", os.getpid())
            return make(connection)
        return found.consumer

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
# as the interpreter ends, it frees consumers in any order: one whose queue is still held waits for it without end
atexit.register(CONSUMERS.clear)
