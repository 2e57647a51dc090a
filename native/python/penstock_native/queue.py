"""A queue of records: partitions give theirs to it in place of the consumer's own queue, and it is drained.

The consumer's queue also carries callbacks, which must run inside calls of confluent-kafka; this one does not.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock_native.client import Client, handle_of, open_client
from penstock_native.library import (
    Bytes,
    DrainedView,
    EventView,
    Memory,
    PartView,
    RangeView,
    RequestView,
    array_of,
    buffer_of,
)

__all__ = ["Drained", "Event", "Headers", "Part", "Range", "RecordQueue"]

# flags of `src/drain.rs`
_KEYS, _HEADERS, _TIMESTAMPS, _LEADER_EPOCHS, _LINES = (1 << bit for bit in range(5))

MOST_BYTES = 1 << 30
"""A drain of so many bytes and one record more is still below 2 GiB, where Arrow's offsets end."""

_BINARY, _INT32, _INT64, _UINT8 = pa.binary(), pa.int32(), pa.int64(), pa.uint8()


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Offsets of one partition, from `begin` to before `end`; None: without an end."""

    topic: str
    partition: int
    begin: int
    end: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """Headers of records, one behind the other: those of record i are from `ends[i]` to before `ends[i + 1]`."""

    ends: pa.Int32Array
    names: pa.BinaryArray
    values: pa.BinaryArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Records of one range; what was not asked for is None.

    `last_offset` and `last_leader_epoch` are of the last record that came, which may lie behind the range's end;
    None: none came.
    """

    values: pa.BinaryArray
    offsets: pa.Int64Array
    keys: pa.BinaryArray | None
    timestamps: pa.Int64Array | None
    timestamp_types: pa.UInt8Array | None
    leader_epochs: pa.Int32Array | None
    headers: Headers | None
    last_offset: int | None
    last_leader_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An error of librdkafka, or the end of a partition. `range` is the position of its range; None: of none."""

    range: int | None
    code: int
    partition: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """A part for each range that was given, in their order, and events that came with the records or after them."""

    parts: tuple[Part, ...]
    events: tuple[Event, ...]


class RecordQueue:
    """The records of one consumer's partitions. One thread at a time, as the consumer. Not for a forked child."""

    def __init__(self, consumer: object, *, client_id: str) -> None:
        """`consumer` is confluent-kafka's, with that `client.id`. Raises UnusableError."""
        self._client: Client = open_client()
        self._handle = handle_of(consumer, client_id)
        self._consumer = consumer  # must not end before the queue
        self._queue: int | None = self._client.librdkafka.rd_kafka_queue_new(self._handle)
        self._partitions: dict[tuple[str, int], int] = {}
        self._process, self._this_process = os.getpid(), os.getpid

    def __del__(self) -> None:
        # records in the queue would let the end of the consumer wait for ever; a child has none of the threads
        if getattr(self, "_queue", None) is not None and self._this_process() == self._process:
            self.close()

    def redirect(self, partitions: Iterable[tuple[str, int]], *, add: bool = False) -> None:
        """Let partitions give their records to this queue from now on. Comes before each assignment of them.

        `add`: those of before do so, too.
        """
        librdkafka = self._client.librdkafka
        before = self._partitions
        # kept: librdkafka forgets partitions that nobody uses
        self._partitions = {
            (topic, partition): librdkafka.rd_kafka_queue_get_partition(
                self._handle, topic.encode(), partition
            )
            for topic, partition in partitions
        }
        if add:
            self._partitions = before | self._partitions
        self._forward()
        kept = set(self._partitions.values())
        for found in before.values():
            if found not in kept:
                librdkafka.rd_kafka_queue_destroy(found)

    def _forward(self) -> None:
        """Forward all partitions, with what they hold already.

        The end of an earlier assignment takes that back, whenever librdkafka comes to it.
        """
        for partition in self._partitions.values():
            self._client.librdkafka.rd_kafka_queue_forward(partition, self._queue)

    def drain(
        self,
        ranges: Sequence[Range],
        *,
        records: int,
        limit_bytes: int,
        timeout_s: float,
        keys: bool = False,
        headers: bool = False,
        timestamps: bool = False,
        leader_epochs: bool = False,
        lines: bool = False,
    ) -> Drained:
        """Drain up to `records` of the ranges; returns when there are as many or the time is over, or at an event.

        `limit_bytes`: no record is begun once values, keys and headers have as many. `lines`: each value ends with a
        newline of its own. Raises MemoryError: then records are lost, and the consumer has to be assigned again.
        """
        assert self._queue is not None, "a closed queue has no records"
        assert 0 < limit_bytes <= MOST_BYTES, "a limit that Arrow's offsets can hold"
        wanted = (keys and _KEYS) | (headers and _HEADERS) | (timestamps and _TIMESTAMPS)
        wanted |= (leader_epochs and _LEADER_EPOCHS) | (lines and _LINES)
        views = (RangeView * len(ranges))(
            *(
                RangeView(r.topic.encode(), r.partition, r.begin, -1 if r.end is None else r.end)
                for r in ranges
            )
        )
        request = RequestView(records, limit_bytes, max(0, round(timeout_s * 1000)), wanted)
        view = DrainedView()
        self._forward()
        failed = self._client.library.penstock_native_drain(
            self._client.functions, self._handle, self._queue, views, len(views), request, view
        )
        if failed:
            raise MemoryError("no memory for the records of a fetch")
        memory = Memory(self._client.library.penstock_native_free, view.owner)
        return Drained(
            parts=tuple(_part(view.parts[i], memory, wanted) for i in range(view.part_count)),
            events=tuple(_event(view.events[i]) for i in range(view.event_count)),
        )

    def close(self) -> None:
        """Give the queue back. The consumer is closed after this."""
        librdkafka = self._client.librdkafka
        self._forward()
        queue, self._queue = self._queue, None
        partitions, self._partitions = self._partitions, {}
        for found in partitions.values():
            librdkafka.rd_kafka_queue_destroy(found)
        if queue is not None:
            librdkafka.rd_kafka_queue_destroy(queue)


def _part(view: PartView, memory: Memory, wanted: int) -> Part:
    count = view.count
    headers = None
    if wanted & _HEADERS:
        headers = Headers(
            ends=_numbers(view.header_ends, _INT32, count + 1, memory),
            names=array_of(view.header_names, _BINARY, memory),
            values=array_of(view.header_values, _BINARY, memory),
        )
    timed = wanted & _TIMESTAMPS
    came = view.last_offset >= 0
    return Part(
        values=array_of(view.values, _BINARY, memory),
        offsets=_numbers(view.offsets, _INT64, count, memory),
        keys=array_of(view.keys, _BINARY, memory) if wanted & _KEYS else None,
        timestamps=_numbers(view.timestamps, _INT64, count, memory) if timed else None,
        timestamp_types=_numbers(view.timestamp_types, _UINT8, count, memory) if timed else None,
        leader_epochs=_numbers(view.leader_epochs, _INT32, count, memory)
        if wanted & _LEADER_EPOCHS
        else None,
        headers=headers,
        last_offset=view.last_offset if came else None,
        last_leader_epoch=view.last_leader_epoch if came and view.last_leader_epoch >= 0 else None,
    )


def _event(view: EventView) -> Event:
    text = ctypes.string_at(view.text.data, view.text.size) if view.text.size else b""
    return Event(
        range=None if view.range < 0 else view.range,
        code=view.code,
        partition=view.partition,
        offset=view.offset,
        text=text.decode("utf-8", "replace"),
    )


def _numbers(view: Bytes, kind: pa.DataType, count: int, memory: Memory) -> Any:
    return pa.Array.from_buffers(kind, count, [None, buffer_of(view, memory)], 0)
