"""The consumer whose records come in columns, drained by `penstock-native` without a Python object each.

Its partitions give their records to a queue of the package; the client's own queue still has callbacks, and errors of
no partition. All else is as with `KafkaConsumer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Protocol

import pyarrow as pa

from penstock.connector.kafka.client.connection import (
    Connection,
    Displaced,
    EndOfPartition,
    Event,
    Start,
    TopicPartition,
)
from penstock.connector.kafka.client.consumer import KafkaConsumer
from penstock.connector.kafka.client.native import give_up, native_package

FETCH_BYTES = 64 << 20
"""A fetch ends with the record that reaches it: more bytes at a time are read no faster."""

SETTLED_S = 1.0
"""How long the end of an assignment is waited for."""

MOST_SERVED = 100
"""Errors of no partition that are taken a call; there are hardly ever two."""

DEFAULT_CLIENT_ID = "rdkafka"
"""That of librdkafka."""


class HeaderColumns(Protocol):
    """Headers of records: those of record i are from `ends[i]` to before `ends[i + 1]`."""

    ends: pa.Int32Array
    names: pa.BinaryArray
    values: pa.BinaryArray


class RecordColumns(Protocol):
    """Records of one partition; what was not asked for is None. As `lines`, each value ends with a newline of its own.

    `last_offset` and `last_leader_epoch` are of the last record that came, which may lie behind the range's end.
    """

    values: pa.BinaryArray
    offsets: pa.Int64Array
    keys: pa.BinaryArray | None
    timestamps: pa.Int64Array | None
    timestamp_types: pa.UInt8Array | None
    leader_epochs: pa.Int32Array | None
    headers: HeaderColumns | None
    last_offset: int | None
    last_leader_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """What is read of records besides values and offsets. `lines`: values have a newline behind each."""

    keys: bool = False
    headers: bool = False
    timestamps: bool = False
    leader_epochs: bool = False
    lines: bool = True

    def with_raw(self) -> Fields:
        """Add what a RawRecord has."""
        return replace(self, keys=True, headers=True, timestamps=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainedColumns:
    """Records by partition, for each that was asked for; and what else happened meanwhile.

    With `Displaced` there are none: they come again, behind those that were displaced.
    """

    columns: Mapping[TopicPartition, RecordColumns]
    events: tuple[Event, ...]


class DrainingConsumer(KafkaConsumer):
    """A KafkaConsumer with `drain` in the place of `consume`."""

    def __init__(self, connection: Connection, package: ModuleType) -> None:
        """Raise the package's UnusableError where it cannot drain this client."""
        super().__init__(connection)
        self._package = package
        client_id = self.settings().get("client.id") or DEFAULT_CLIENT_ID
        try:
            self._queue = package.RecordQueue(self._consumer, client_id=client_id)
        except package.UnusableError:
            super().close()
            raise

    def assign(self, starts: Sequence[Start]) -> None:
        """Read these partitions from these offsets and no others; what was fetched before is dropped."""
        partitions = [start.partition for start in starts]
        self.unassign()
        self.settle(partitions)
        self._queue.redirect(partitions)
        super().assign(starts)

    def settle(self, partitions: Sequence[TopicPartition]) -> None:
        """Wait for the end of reading, but not for long: what comes elsewhere is read again.

        A control record of an assignment that is over may give a partition a position that nothing takes back.
        """
        self.settles_within(partitions, SETTLED_S)

    def add(self, starts: Sequence[Start]) -> None:
        """Read these partitions too."""
        partitions = [start.partition for start in starts]
        self.settle(partitions)
        self._queue.redirect(partitions, add=True)
        super().add(starts)

    def drain(
        self,
        ranges: Mapping[TopicPartition, tuple[int, int | None]],
        limit: int,
        timeout_s: float,
        fields: Fields,
    ) -> DrainedColumns:
        """Drain up to `limit` records of ranges [first, end); returns when there are as many or the time is over.

        It also returns at an event. Raises MemoryError, after which the consumer is to be closed.
        """
        wanted = [
            self._package.Range(
                topic=partition.topic, partition=partition.partition, begin=first, end=end
            )
            for partition, (first, end) in ranges.items()
        ]
        drained = self._queue.drain(
            wanted,
            records=limit,
            limit_bytes=FETCH_BYTES,
            timeout_s=timeout_s,
            keys=fields.keys,
            headers=fields.headers,
            timestamps=fields.timestamps,
            leader_epochs=fields.leader_epochs,
            lines=fields.lines,
        )
        served = self.consume(MOST_SERVED, 0)
        if served.messages or any(isinstance(event, EndOfPartition) for event in served.events):
            # what was drained may lie behind them, so that its positions would pass over them
            return DrainedColumns(columns={}, events=(Displaced(),))
        partitions = list(ranges)
        events: list[Event] = []
        for event in drained.events:
            if event.range is not None:
                found = self._event_of_code(
                    event.code, event.text, partitions[event.range], event.offset
                )
                events += [] if found is None else [found]
        return DrainedColumns(
            columns=dict(zip(partitions, drained.parts, strict=True)),
            events=(*events, *served.events),
        )

    def close(self) -> None:
        """End the client; its queue goes first."""
        self._queue.close()
        super().close()


def open_consumer(connection: Connection) -> KafkaConsumer:
    """Return a consumer that reads whole ranges: one that drains them natively, where that can be."""
    package = native_package()
    if package is not None:
        try:
            return DrainingConsumer(connection, package)
        except package.UnusableError as error:
            give_up(str(error))
    return KafkaConsumer(connection)
