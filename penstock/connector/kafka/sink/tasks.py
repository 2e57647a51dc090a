"""The functions that tasks run: Spark calls them with the Arrow batches of a partition (mapInArrow).

Each returns one row that reports its work. Penstock's errors travel as text that the driver parses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from penstock.connector.kafka.client.connection import Connection, TopicPartition
from penstock.connector.kafka.sink.client import RecordProducer
from penstock.connector.kafka.sink.protocol import (
    BatchCommit,
    Destination,
    SlotNames,
    SlotWriter,
    last_changes,
)
from penstock.connector.kafka.sink.records import SLOT
from penstock.connector.spark.errors import readable_by_spark

REPORT = "slot INT, rows BIGINT, written BOOLEAN"
_REPORT = pa.schema([("slot", pa.int32()), ("rows", pa.int64()), ("written", pa.bool_())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How records leave a task. `by_key`: they come sorted by key, and `only_last` of each key are written."""

    connection: Connection = field(repr=False)
    topic: str | None
    fixed: bool
    by_key: bool = False
    only_last: bool = False

    def records(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return what is to be sent of a task's rows."""
        return last_changes(batches, only_last=self.only_last) if self.by_key else batches

    def destination(self, task: int) -> Destination:
        """Return where the records of a task go."""
        return Destination(topic=self.topic, fixed=task if self.fixed else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """What the slots of a batch have in common."""

    names: SlotNames
    timeout_ms: int
    partition: TopicPartition
    batch_id: int
    first_batch: int
    digest: str
    sparse: bool = False

    def claim(self, slot: int) -> BatchCommit:
        """Return what a slot claims to write."""
        return BatchCommit(
            slot=self.names.slot(slot),
            batch_id=self.batch_id,
            first_batch=self.first_batch,
            digest=self.digest,
            sparse=self.sparse,
        )


def transactions_text(transactions: Transactions) -> str:
    """Write what the tasks of a batch are told; `read_transactions` is the inverse."""
    return json.dumps(asdict(transactions))


def read_transactions(text: str) -> Transactions:
    """Read what `transactions_text` wrote."""
    value = json.loads(text)
    return Transactions(
        **{
            **value,
            "names": SlotNames(**value["names"]),
            "partition": TopicPartition(*value["partition"]),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTask:
    """A task of an exactly-once write."""

    writing: Writing
    transactions: Transactions


def write_slot(batches: Iterator[pa.RecordBatch], *, task: SlotTask) -> Iterator[pa.RecordBatch]:
    """Write one slot of a batch, or find that it is written. The partition's number is the slot's."""
    slot, shared = _task(), task.transactions
    writer = SlotWriter(
        connection=task.writing.connection,
        timeout_ms=shared.timeout_ms,
        partition=shared.partition,
        claim=shared.claim(slot),
    )
    with readable_by_spark():
        rows = writer.write(
            task.writing.records(_checked(batches, slot)), task.writing.destination(slot)
        )
    for _ in batches:  # Spark does not reuse a process that left rows unread
        pass
    yield _report(slot, rows or 0, written=rows is not None)


def write_plainly(
    batches: Iterator[pa.RecordBatch], *, writing: Writing
) -> Iterator[pa.RecordBatch]:
    """Write a partition's records without a transaction; ends when the broker has them all."""
    task = _task()
    with readable_by_spark():
        producer = RecordProducer(writing.connection, who=f"task {task}")
        try:
            rows = writing.destination(task).send(producer, writing.records(batches))
            producer.flush()
        finally:
            producer.drop()
    yield _report(task, rows, written=True)


def _task() -> int:
    context = TaskContext.get()
    assert context is not None, "runs in a task"
    return context.partitionId()


def _checked(batches: Iterator[pa.RecordBatch], slot: int) -> Iterator[pa.RecordBatch]:
    """Hold Spark to it that a partition is a slot: a merged partition would write rows under another's marker."""
    for batch in batches:
        slots = pc.min_max(batch.column(SLOT)).as_py()
        assert batch.num_rows == 0 or (slots["min"], slots["max"]) == (slot, slot), (
            f"partition {slot} has rows of slots {slots}"
        )
        yield batch


def _report(slot: int, rows: int, *, written: bool) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([value]).cast(f.type)
            for value, f in zip((slot, rows, written), _REPORT, strict=True)
        ],
        schema=_REPORT,
    )
