"""Records as columns are those records as messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.kafka.source.column_records import ColumnRecords
from penstock.connector.kafka.source.records import Records

some_bytes = st.none() | st.binary(max_size=5)
record = st.fixed_dictionaries(
    {
        "key": some_bytes,
        "value": some_bytes,
        "timestamp": st.sampled_from([(0, -1), (1, 1_700_000_000_000), (2, 5)]),
        "headers": st.lists(st.tuples(st.sampled_from("abß"), some_bytes), max_size=3),
    }
)


@given(
    parts=st.lists(st.lists(record, min_size=1, max_size=5), min_size=1, max_size=3),
    lines=st.booleans(),
)
def test_columns_tell_what_messages_tell(parts: list[list[dict[str, Any]]], *, lines: bool) -> None:
    """Of one partition, and of several in one fetch; of lines, and of values as they are."""
    places = [TopicPartition("t", number) for number in range(len(parts))]
    by_message = Records.of(
        {
            place: [
                Message(topic="t", partition=place.partition, offset=7 + 2 * n, **one)
                for n, one in enumerate(records)
            ]
            for place, records in zip(places, parts, strict=True)
        }
    )
    drained = [columns(records, lines=lines) for records in parts]
    by_column = ColumnRecords.of(dict(zip(places, drained, strict=True)), lines=lines)

    assert by_column.runs == by_message.runs
    assert len(by_column) == len(by_message)
    assert list(by_column.values()) == list(by_message.values())
    assert list(by_column.keys()) == list(by_message.keys())
    assert by_column.offsets() == by_message.offsets()
    assert np.array_equal(by_column.timestamps(), by_message.timestamps())
    assert by_column.leader_epochs() == pa.nulls(len(by_message), pa.int32())
    assert by_column.headers() == by_message.headers()
    for index in range(len(by_message)):
        assert by_column.where(index) == by_message.where(index)
        assert by_column.raw(index) == by_message.raw(index)


def test_a_name_of_a_header_need_not_be_text() -> None:
    """Any producer can write it: it stops no query, and reads as with Java's client."""
    part = columns([{"key": None, "value": b"v", "timestamp": (0, -1), "headers": [("a", b"1")]}])
    part.headers.names = pa.array([b"a\xffb"], pa.binary())
    records = ColumnRecords.of({TopicPartition("t", 0): part}, lines=True)

    assert records.headers()[1].to_pylist() == ["a\ufffdb"]
    assert records.raw(0).headers == (("a\ufffdb", b"1"),)


def columns(records: list[dict[str, Any]], *, lines: bool = True) -> Any:
    """Records of one partition as they are drained."""
    end = b"\n" if lines else b""
    values = [None if r["value"] is None else r["value"] + end for r in records]
    pairs = [pair for r in records for pair in r["headers"]]
    return SimpleNamespace(
        values=pa.array(values, pa.binary()),
        keys=pa.array([r["key"] for r in records], pa.binary()),
        offsets=pa.array([7 + 2 * n for n in range(len(records))], pa.int64()),
        timestamps=pa.array([r["timestamp"][1] for r in records], pa.int64()),
        timestamp_types=pa.array([r["timestamp"][0] for r in records], pa.uint8()),
        leader_epochs=pa.array([-1] * len(records), pa.int32()),
        headers=SimpleNamespace(
            ends=pa.array(np.cumsum([0, *(len(r["headers"]) for r in records)]), pa.int32()),
            names=pa.array([name.encode() for name, _ in pairs], pa.binary()),
            values=pa.array([value for _, value in pairs], pa.binary()),
        ),
        last_offset=7,
        last_leader_epoch=None,
    )
