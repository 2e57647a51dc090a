"""The records of one fetch, their metadata as Arrow arrays, and those among them that could not be decoded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import methodcaller
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa

from penstock.catalog.errors import BadRecordError
from penstock.catalog.model.types import ArrayType, LogicalType, RowType
from penstock.connector.arrow import cast_metadata
from penstock.connector.formats.contract import BadValue
from penstock.connector.kafka.client.client import Message
from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.kafka.table.fields import METADATA_TYPES
from penstock.connector.source.records import BadRecord, RawRecord, Stage

logger = logging.getLogger(__name__)

LARGEST_MS = (2**63 - 1) // 1000 - 3 * 86_400_000
"""The largest timestamp that is distinguished, and with a minus the smallest: it is a time in every time zone."""

_HEADERS: Callable[[Message], Any] = methodcaller("headers")

# org.apache.kafka.common.record.TimestampType by librdkafka's codes
_TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")


class FetchedRecords(Protocol):
    """Records of a fetch: `Records` of messages, or `ColumnRecords`."""

    @property
    def runs(self) -> tuple[tuple[TopicPartition, int], ...]:
        """The partitions and how many records each has, in their order."""

    def __len__(self) -> int: ...

    def values(self) -> Sequence[bytes | None]:
        """Return the values."""

    def keys(self) -> Sequence[bytes | None]:
        """Return the keys."""

    def offsets(self) -> pa.Array:
        """Return the offsets."""

    def timestamps(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Return (type, ms) of each record."""

    def leader_epochs(self) -> pa.Array:
        """Return the leader epochs."""

    def headers(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return where each record's headers begin, their names and values."""

    def where(self, index: int) -> str:
        """Name a record in an error."""

    def raw(self, index: int) -> RawRecord:
        """Return a record as the broker has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records of a fetch, those of one partition in a run: `runs` are (partition, number of records)."""

    messages: Sequence[Message]
    runs: tuple[tuple[TopicPartition, int], ...]

    @classmethod
    def of(cls, gathered: Mapping[TopicPartition, Sequence[Message]]) -> Records:
        """Concatenate the records of several partitions."""
        runs = tuple((partition, len(messages)) for partition, messages in gathered.items())
        if len(gathered) == 1:
            (messages,) = gathered.values()
            return cls(messages=messages, runs=runs)
        return cls(messages=[m for messages in gathered.values() for m in messages], runs=runs)

    def __len__(self) -> int:
        return len(self.messages)

    def values(self) -> Sequence[bytes | None]:
        """Return the values."""
        values: Any = list(map(Message.value, self.messages))
        return cast("list[bytes | None]", values)  # the stubs say text as well

    def keys(self) -> Sequence[bytes | None]:
        """Return the keys."""
        keys: Any = list(map(Message.key, self.messages))
        return cast("list[bytes | None]", keys)

    def offsets(self) -> pa.Array:
        """Return the offsets."""
        return pa.array(np.fromiter(map(Message.offset, self.messages), np.int64, len(self)))

    def timestamps(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Return (type, ms) of each record."""
        pairs = list(map(Message.timestamp, self.messages))
        return np.array(pairs, np.int64).reshape(len(pairs), 2)

    def leader_epochs(self) -> pa.Array:
        """Return the leader epochs."""
        return pa.array(list(map(Message.leader_epoch, self.messages)), pa.int32())

    def headers(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return where each record's headers begin, their names and values."""
        pairs = [self._headers(index) for index in range(len(self))]
        ends = pa.array(np.cumsum([0, *map(len, pairs)]), pa.int32())
        names = pa.array([name for headers in pairs for name, _ in headers], pa.string())
        values = [as_bytes(value) for headers in pairs for _, value in headers]
        return ends, names, pa.array(values, pa.binary())

    def where(self, index: int) -> str:
        """Name a record in an error."""
        message = self.messages[index]
        return (
            f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
        )

    def raw(self, index: int) -> RawRecord:
        """Return a record as the broker has it."""
        message = self.messages[index]
        offset = message.offset()
        assert offset is not None, "a record has an offset"
        kind, timestamp_ms = message.timestamp()
        try:
            headers = self._headers(index)
        except BadRecordError as error:
            logger.warning("%s; the record is kept without its headers", error)
            headers = ()
        return RawRecord(
            position=offset,
            key=as_bytes(message.key()),
            value=as_bytes(message.value()),
            where=self.where(index),
            topic=message.topic(),
            partition=message.partition(),
            timestamp_ms=timestamp_ms if kind else None,
            headers=tuple((name, as_bytes(value)) for name, value in headers),
        )

    def _headers(self, index: int) -> Sequence[tuple[str, Any]]:
        """Return the headers of a record. Raises BadRecordError where the client cannot give them."""
        try:
            # not called directly: some interpreters pass over an error that comes with a result
            (found,) = map(_HEADERS, (self.messages[index],))
        except SystemError as error:
            raise BadRecordError(
                f"{self.where(index)}: the name of a header is not UTF-8, and the Kafka client does not give it",
                hint="install penstock-native, which reads such names as Java's client does; or leave out the "
                "metadata columns 'headers' and 'header-list'",
            ) from error
        return found or ()


def metadata_array(
    key: str, declared: LogicalType, records: FetchedRecords, time_zone: str = "UTC"
) -> pa.Array:
    """Build one metadata column for all records, as the type that the table declares."""
    array = _BUILDERS[key](records)
    if isinstance(declared, ArrayType) and isinstance(declared.element, RowType):
        # Arrow matches fields by name, SQL by position
        names = [field.name for field in declared.element.fields]
        pairs = pa.StructArray.from_arrays(array.values.flatten(), names)
        array = pa.ListArray.from_arrays(array.offsets, pairs)
    return cast_metadata(array, METADATA_TYPES[key], declared, time_zone)


def _topic(records: FetchedRecords) -> pa.Array:
    return _by_run(
        pa.array([partition.topic for partition, _ in records.runs], pa.string()), records
    )


def _partition(records: FetchedRecords) -> pa.Array:
    return _by_run(
        pa.array([partition.partition for partition, _ in records.runs], pa.int32()), records
    )


def _by_run(values: pa.Array, records: FetchedRecords) -> pa.Array:
    counts = [count for _, count in records.runs]
    return values.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def _offset(records: FetchedRecords) -> pa.Array:
    return records.offsets()


def _timestamp(records: FetchedRecords) -> pa.Array:
    # any number of 64 bits is a timestamp to a broker, and microseconds end in the year 294247
    known = np.clip(records.timestamps()[:, 1], -LARGEST_MS, LARGEST_MS)
    return pa.array(known).cast(pa.timestamp("ms", tz="UTC"))


def _timestamp_type(records: FetchedRecords) -> pa.Array:
    return pa.array(_TIMESTAMP_TYPES).take(pa.array(records.timestamps()[:, 0]))


def _leader_epoch(records: FetchedRecords) -> pa.Array:
    return records.leader_epochs()


def _header_list(records: FetchedRecords) -> pa.Array:
    ends, names, values = records.headers()
    pairs = pa.StructArray.from_arrays([names, values], ["key", "value"])
    return pa.ListArray.from_arrays(ends, pairs)


def _header_map(records: FetchedRecords) -> pa.Array:
    # of headers with the same name the last one counts, as in Flink's map
    ends, names, values = records.headers()
    pairs = list(zip(names.to_pylist(), values.to_pylist(), strict=True))
    unique = [dict(pairs[begin:end]) for begin, end in pairwise(ends.to_pylist())]
    return pa.MapArray.from_arrays(
        pa.array(np.cumsum([0, *map(len, unique)]), pa.int32()),
        pa.array([name for headers in unique for name in headers], pa.string()),
        pa.array([value for headers in unique for value in headers.values()], pa.binary()),
    )


def as_bytes(value: str | bytes | None) -> bytes | None:
    """Return what the client has as bytes; its stubs say text as well."""
    return value.encode() if isinstance(value, str) else value


_BUILDERS: Mapping[str, Callable[[FetchedRecords], pa.Array]] = {
    "topic": _topic,
    "partition": _partition,
    "headers": _header_map,
    "header-list": _header_list,
    "leader-epoch": _leader_epoch,
    "offset": _offset,
    "timestamp": _timestamp,
    "timestamp-type": _timestamp_type,
}


def bad_records(
    records: FetchedRecords, values: Sequence[BadValue], keys: Sequence[BadValue] = ()
) -> list[BadRecord]:
    """Return the bad records in order. One that is bad in both counts once, by its value."""
    found = {bad.index: (Stage.KEY, bad.error) for bad in keys}
    found |= {bad.index: (Stage.VALUE, bad.error) for bad in values}
    return [
        BadRecord(record=records.raw(index), stage=stage, error=error)
        for index, (stage, error) in sorted(found.items())
    ]


def by_split(bad: Sequence[BadRecord]) -> Mapping[str, Sequence[BadRecord]]:
    """Return the bad records of each split."""
    found: dict[str, list[BadRecord]] = {}
    for item in bad:
        topic, partition = item.record.topic, item.record.partition
        assert topic is not None, "a record of Kafka is of a topic"
        assert partition is not None, "and of a partition"
        topic_partition = TopicPartition(topic=topic, partition=partition)
        found.setdefault(topic_partition.split_id, []).append(item)
    return found
