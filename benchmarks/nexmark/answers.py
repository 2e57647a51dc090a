"""What a query's result is in the end, as a digest that two engines can be compared by.

A result is a topic of JSON. Rows that are only appended count as a bag; of a result with a key the last row of each key
counts, and none where that is a tombstone. Columns that hang on how ties are broken are left out. Numbers are equal by
value, times by instant, whatever digits they are written with.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
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


def make_topic(bootstrap: str, topic: str) -> None:
    """Make a topic of one partition, which keeps the order of changes."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(TIMEOUT_S)


def read_answer(bootstrap: str, topic: str, query: Query) -> Answer:
    """Read a result from its topic."""
    return answer_of(_records(bootstrap, topic), query)


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


def _records(bootstrap: str, topic: str) -> Iterator[Record]:
    """Read a topic of one partition to its end."""
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
                yield message.key(), message.value()
    finally:
        consumer.close()
