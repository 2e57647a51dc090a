"""Records whose key or value cannot be decoded: left out one by one, each with its reason, all accounted for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.catalog.errors import BadRecordError
from penstock.connector.contract import ReadRequest
from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.kafka.source.decode import DecodedRecords, KafkaRecordDecoder
from penstock.connector.kafka.source.records import Records
from penstock.connector.source.records import Stage
from tests.connector.kafka.tables import kafka_source

KEYED = {
    "format": None,
    "value.format": "json",
    "key.format": "raw",
    "key.fields": "k",
    "value.fields-include": "EXCEPT_KEY",
}
GOOD_KEY, BAD_KEY = b"\0" * 8, b"short"
GOOD, BAD = b'{"id": 1}', b"rubbish"
record_kinds = st.tuples(st.sampled_from([GOOD_KEY, BAD_KEY]), st.sampled_from([GOOD, BAD, None]))


def decoder(policy: str) -> KafkaRecordDecoder:
    """The decoder of a task, for keys of eight bytes and values in JSON."""
    source = kafka_source({**KEYED, "bad-records": policy}, columns={"k": "BIGINT", "id": "BIGINT"})
    return source.decoder(ReadRequest(columns=("k", "id")))


def decode(kinds: Sequence[Sequence[tuple[bytes, bytes | None]]], policy: str) -> DecodedRecords:
    """Decode a fetch: the records of each partition, from offset 100 on."""
    gathered = {
        TopicPartition("a-topic", partition): [
            Message(topic="a-topic", partition=partition, offset=100 + i, key=key, value=value)
            for i, (key, value) in enumerate(records)
        ]
        for partition, records in enumerate(kinds)
        if records
    }
    return decoder(policy).decode(Records.of(gathered))


@settings(deadline=None)
@given(kinds=st.lists(st.lists(record_kinds, max_size=6), min_size=1, max_size=3))
def test_every_record_is_a_row_or_left_out(
    kinds: list[list[tuple[bytes, bytes | None]]],
) -> None:
    """Read = rows + bad + tombstones, by partition; one that is bad in both is one, by its value."""
    if not any(kinds):
        return
    decoded = decode(kinds, "skip")
    rows = {split_id: batch.num_rows for split_id, batch in decoded.batches}

    for partition, records in enumerate(kinds):
        split_id = f"a-topic-{partition}"
        bad = [(b.record.position - 100, b.stage) for b in decoded.bad.get(split_id, ())]
        assert rows.get(split_id, 0) == records.count((GOOD_KEY, GOOD))
        assert bad == [
            (i, Stage.VALUE if value == BAD else Stage.KEY)
            for i, (key, value) in enumerate(records)
            if value == BAD or key == BAD_KEY
        ]


def test_a_bad_record_is_kept_as_the_broker_has_it() -> None:
    """Bytes, headers and time; the reason says nothing that is kept beside it."""
    headers = [("h", b"1"), ("h", None)]
    message = Message(
        topic="a-topic",
        partition=0,
        offset=7,
        key=GOOD_KEY,
        value=BAD,
        headers=headers,
        timestamp=(1, 5),
    )
    decoded = decoder("dead-letter").decode(Records.of({TopicPartition("a-topic", 0): [message]}))
    ((split_id, (bad,)),) = decoded.bad.items()

    assert split_id == "a-topic-0"
    assert (bad.record.topic, bad.record.partition, bad.record.position) == ("a-topic", 0, 7)
    assert (bad.record.key, bad.record.value) == (GOOD_KEY, BAD)
    assert (bad.record.headers, bad.record.timestamp_ms) == (tuple(headers), 5)
    assert bad.error.startswith("it is not valid JSON")
    assert decoded.skipped == 1


def test_by_default_the_first_one_fails() -> None:
    """It is named."""
    with pytest.raises(BadRecordError, match="partition 0, offset 101"):
        decode([[(GOOD_KEY, GOOD), (GOOD_KEY, BAD)]], "fail")


@pytest.mark.parametrize(
    ("value_format", "columns", "lines"),
    [("json", ("v",), True), ("json", (), False), ("raw", ("v",), False), ("raw", (), False)],
)
@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_lines_are_read_for_formats_that_parse_them(
    value_format: str, columns: tuple[str, ...], policy: str, *, lines: bool
) -> None:
    """Of other values a newline would have to be cut off again."""
    source = kafka_source({"format": value_format, "bad-records": policy}, columns={"v": "STRING"})

    assert source.decoder(ReadRequest(columns=columns)).reads.lines == lines
