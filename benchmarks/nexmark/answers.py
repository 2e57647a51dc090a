"""What a query's result is in the end, as a digest that two engines can be compared by.

A result is a topic of JSON. Rows that are only appended count as a bag; of a result with a key the last row of each key
counts, and none where that is a tombstone. Columns that hang on how ties are broken are left out. Numbers are equal by
value, times by instant, whatever digits they are written with.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks.nexmark.queries import Query

TIMEOUT_S = 60.0
"""For one answer of the broker."""
FETCH = 20_000
WAIT_S = 0.2
SETTLED_S = 5.0
"""A result to which nothing is added for so long is looked at."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?\Z")

Record = tuple[bytes | None, bytes | None]
"""Key and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The number of rows, the sum of their digests, and the records that it took."""

    rows: int
    digest: int
    records: int

    def same(self, other: Answer) -> bool:
        """Whether it is the same result, by however many records."""
        return (self.rows, self.digest) == (other.rows, other.digest)


def make_topic(
    bootstrap: str, topic: str, *, partitions: int = 1, config: Mapping[str, str] = {}
) -> None:
    """Make a topic; one of one partition keeps the order of changes."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, partitions, 1, config=dict(config))
    for future in admin.create_topics([new]).values():
        future.result(TIMEOUT_S)


def delete_topics(bootstrap: str, topics: Sequence[str]) -> None:
    """Delete topics that are read."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics(list(topics)).values():
        future.result(TIMEOUT_S)


def await_answer(
    bootstrap: str, topic: str, query: Query, expected: Answer, within_s: float
) -> Answer:
    """Wait until a result that grows is the expected one, and no more comes; returns it as it is then."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-end"})
    deadline = time.monotonic() + within_s
    newest, since, is_read = -1, time.monotonic(), False
    try:
        while time.monotonic() < deadline:
            offsets = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)
            assert offsets is not None, "it waits for the broker"
            if offsets[1] != newest:
                newest, since, is_read = offsets[1], time.monotonic(), False
            elif not is_read and time.monotonic() - since >= SETTLED_S:
                found, is_read = read_answer(bootstrap, topic, query), True
                if found.same(expected):
                    return found
            time.sleep(WAIT_S)
    finally:
        consumer.close()
    return read_answer(bootstrap, topic, query)


def read_answer(bootstrap: str, topic: str, query: Query) -> Answer:
    """Read a result from its topic."""
    return answer_of(((key, value) for key, value, _ in timed_records(bootstrap, topic)), query)


def answer_of(records: Iterator[Record], query: Query) -> Answer:
    """Sum a result up."""
    count, rows, total = 0, 0, 0
    last: dict[bytes, int] = {}
    for key, value in records:
        count += 1
        if query.key:
            assert key is not None, f"a record of {query.name} has no key"
            name = _digest(json.loads(key), query.key).to_bytes(16)
            if value is None:
                last.pop(name, None)
            else:
                last[name] = _digest(json.loads(value, parse_float=Decimal), query.determined)
        elif value is not None:
            rows += 1
            total += _digest(json.loads(value, parse_float=Decimal), query.determined)
    if query.key:
        rows, total = len(last), sum(last.values())
    return Answer(rows=rows, digest=total % (1 << 128), records=count)


def _digest(row: Mapping[str, Any], columns: tuple[str, ...]) -> int:
    text = "\x1f".join(_normal(row.get(name)) for name in columns)
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest())


def _normal(value: Any) -> str:
    match value:
        case None:
            return "\x00"
        case bool() | dict() | list():
            return json.dumps(value)
        case int() | Decimal():
            return format(Decimal(value).normalize(), "f")
        case str() if _TIME.match(value):
            # times without a zone are of UTC
            return (
                datetime.fromisoformat(value)
                .replace(tzinfo=None)
                .isoformat(timespec="microseconds")
            )
    return str(value)


def timed_records(bootstrap: str, topic: str) -> Iterator[tuple[bytes | None, bytes | None, int]]:
    """Read a topic of one partition to its end: key, value and time of each record, in ms."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-answer",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            # it waits for as many messages, or for the whole time
            messages = consumer.consume(FETCH, WAIT_S)
            if messages:
                deadline = time.monotonic() + TIMEOUT_S
            elif time.monotonic() > deadline:
                raise TimeoutError(f"the broker gave nothing of {topic} for {TIMEOUT_S:.0f} s")
            for message in messages:
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  a public code
                    return
                if error is not None:
                    raise RuntimeError(f"{topic}: {error}")
                yield message.key(), message.value(), message.timestamp()[1]
    finally:
        consumer.close()
