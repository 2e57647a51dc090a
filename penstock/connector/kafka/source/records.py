"""The records of one fetch, their metadata as Arrow arrays, and those among them that could not be decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model.types import ArrayType, LogicalType, RowType
from penstock.connector.arrow import cast_metadata
from penstock.connector.formats.contract import BadValue
from penstock.connector.kafka.client.client import Message
from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.kafka.table.fields import METADATA_TYPES
from penstock.connector.source.records import BadRecord, RawRecord, Stage

LARGEST_MS = (2**63 - 1) // 1000 - 3 * 86_400_000
"""The largest timestamp that is distinguished, and with a minus the smallest: it is a time in every time zone."""

# org.apache.kafka.common.record.TimestampType by librdkafka's codes
_TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")


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
        headers: Any = message.headers() or ()  # the stubs say dict as well, which is for producers
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


def metadata_array(
    key: str, declared: LogicalType, records: Records, time_zone: str = "UTC"
) -> pa.Array:
    """Build one metadata column for all records, as the type that the table declares."""
    array = _BUILDERS[key](records)
    if isinstance(declared, ArrayType) and isinstance(declared.element, RowType):
        # Arrow matches fields by name, SQL by position
        names = [field.name for field in declared.element.fields]
        pairs = pa.StructArray.from_arrays(array.values.flatten(), names)
        array = pa.ListArray.from_arrays(array.offsets, pairs)
    return cast_metadata(array, METADATA_TYPES[key], declared, time_zone)


def _topic(records: Records) -> pa.Array:
    return _by_run(
        pa.array([partition.topic for partition, _ in records.runs], pa.string()), records
    )


def _partition(records: Records) -> pa.Array:
    return _by_run(
        pa.array([partition.partition for partition, _ in records.runs], pa.int32()), records
    )


def _by_run(values: pa.Array, records: Records) -> pa.Array:
    counts = [count for _, count in records.runs]
    return values.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def _offset(records: Records) -> pa.Array:
    return pa.array(
        np.fromiter(map(Message.offset, records.messages), np.int64, len(records.messages))
    )


def _timestamp(records: Records) -> pa.Array:
    # any number of 64 bits is a timestamp to a broker, and microseconds end in the year 294247
    known = np.clip(_timestamps(records)[:, 1], -LARGEST_MS, LARGEST_MS)
    return pa.array(known).cast(pa.timestamp("ms", tz="UTC"))


def _timestamp_type(records: Records) -> pa.Array:
    return pa.array(_TIMESTAMP_TYPES).take(pa.array(_timestamps(records)[:, 0]))


def _timestamps(records: Records) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    pairs = list(map(Message.timestamp, records.messages))
    return np.array(pairs, np.int64).reshape(len(pairs), 2)


def _leader_epoch(records: Records) -> pa.Array:
    return pa.array(list(map(Message.leader_epoch, records.messages)), pa.int32())


def _header_list(records: Records) -> pa.Array:
    ends, names, values = _headers(records)
    pairs = pa.StructArray.from_arrays([names, values], ["key", "value"])
    return pa.ListArray.from_arrays(ends, pairs)


def _header_map(records: Records) -> pa.Array:
    # of headers with the same name the last one counts, as in Flink's map
    unique = [dict(message.headers() or ()) for message in records.messages]
    ends = pa.array(np.cumsum([0, *map(len, unique)]), pa.int32())
    names = pa.array([name for headers in unique for name in headers], pa.string())
    values = pa.array(
        [as_bytes(value) for headers in unique for value in headers.values()], pa.binary()
    )
    return pa.MapArray.from_arrays(ends, names, values)


def _headers(records: Records) -> tuple[pa.Array, pa.Array, pa.Array]:
    # the stubs say dict as well, which is for producers
    pairs: list[Any] = [message.headers() or () for message in records.messages]
    ends = pa.array(np.cumsum([0, *map(len, pairs)]), pa.int32())
    names = pa.array([name for headers in pairs for name, _ in headers], pa.string())
    values = pa.array([as_bytes(value) for headers in pairs for _, value in headers], pa.binary())
    return ends, names, values


def as_bytes(value: str | bytes | None) -> bytes | None:
    """Return what the client has as bytes; its stubs say text as well."""
    return value.encode() if isinstance(value, str) else value


_BUILDERS: Mapping[str, Callable[[Records], pa.Array]] = {
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
    records: Records, values: Sequence[BadValue], keys: Sequence[BadValue] = ()
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
        place = TopicPartition(topic=topic, partition=partition)
        found.setdefault(place.split_id, []).append(item)
    return found
