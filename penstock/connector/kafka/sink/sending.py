"""From Arrow batches of records to calls of the producer, in a task. Columns that are not there mean nothing set.

Columns: `key` and `value` BINARY; perhaps `timestamp` (epoch ms), `headers`, `topic`, the row kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.kafka.sink.client import RecordProducer

__all__ = ["Destination", "last_changes"]

_OF_A_RECORD = ("key", "value", "timestamp", "headers")
BY_KEY = -1
"""What the client takes for "choose the partition yourself"."""


@dataclass(slots=True, kw_only=True)
class Destination:
    """Where a task's records go. `topic` is None where a column says it; `fixed` numbers a task that writes to one
    partition of each topic.
    """

    topic: str | None
    fixed: int | None
    _partitions: dict[str, int] = field(default_factory=dict)

    def send(self, producer: RecordProducer, chunks: Iterator[pa.RecordBatch]) -> int:
        """Send the records, those of a topic in their order; returns how many. `producer.flush` has to follow."""
        rows = 0
        for chunk in chunks:
            for topic, part in self._by_topic(chunk):
                self._send(producer, topic, part)
            rows += chunk.num_rows
        return rows

    def _by_topic(self, chunk: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self.topic is not None:
            yield self.topic, chunk
            return
        topics = chunk.column("topic")
        for topic in pc.unique(topics).to_pylist():
            yield topic, chunk.filter(pc.equal(topics, topic))

    def _send(self, producer: RecordProducer, topic: str, part: pa.RecordBatch) -> None:
        if not part.num_rows:
            return
        partition = self._partition(producer, topic)
        names = [name for name in _OF_A_RECORD if name in part.schema.names]
        # no record has a header in most batches of a table that could have some
        if "headers" in names and part.column("headers").null_count == part.num_rows:
            names.remove("headers")
        records = part.select(names).to_pylist()
        if "headers" not in names:
            producer.send(topic, records, part.nbytes, partition)
            return
        for record in records:
            pairs = record.pop("headers")
            if pairs:
                record["headers"] = [(pair["key"], pair["value"]) for pair in pairs]
            if record.get("timestamp", 0) is None:
                del record["timestamp"]
        producer.send_with_headers(topic, records, part.nbytes, partition)

    def _partition(self, producer: RecordProducer, topic: str) -> int:
        if self.fixed is None:
            return BY_KEY
        if topic not in self._partitions:
            self._partitions[topic] = producer.partitions(topic)
        return self.fixed % self._partitions[topic]


def last_changes(chunks: Iterator[pa.RecordBatch], *, only_last: bool) -> Iterator[pa.RecordBatch]:
    """Leave out what an upsert topic does not need of changes that come sorted by key.

    That is every row as it was before an update, unless it is the last change of its key: then the row is gone.
    With `only_last` it is all but the last change of each key.
    """
    held: pa.RecordBatch | None = None
    for chunk in chunks:
        if not chunk.num_rows:
            continue
        rows = chunk if held is None else pa.concat_batches([held, chunk])
        # whether a row is its key's last is known when the next one is seen
        ready, held = rows.slice(0, rows.num_rows - 1), rows.slice(rows.num_rows - 1)
        keys = rows.column("key")
        yield _kept(ready, pc.not_equal(ready.column("key"), keys.slice(1)), only_last=only_last)
    if held is not None:
        yield _kept(held, pa.array([True]), only_last=only_last)


def _kept(rows: pa.RecordBatch, last: pa.BooleanArray, *, only_last: bool) -> pa.RecordBatch:
    if only_last or ROW_KIND not in rows.schema.names:
        return rows.filter(last) if only_last else rows
    stays = pc.not_equal(rows.column(ROW_KIND), RowKind.UPDATE_BEFORE.value)
    return rows.filter(pc.or_(stays, last))
