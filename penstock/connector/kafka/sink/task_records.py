"""The records of a reading task: rows become keys and values column by column, and are sent as the sink sends them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.errors import SinkError
from penstock.connector.file_output import FileColumn, TaskRecords
from penstock.connector.formats.contract import ColumnEncoding, Encode
from penstock.connector.fragments import fill_column
from penstock.connector.kafka.sink.client import RecordProducer
from penstock.connector.kafka.sink.protocol import Destination, SlotAttempt, SlotWriter
from penstock.connector.kafka.sink.tasks import Transactions, Writing
from penstock.connector.kafka.table.fields import Field, FormatChoice, KafkaTable


def open_records(
    encoder: RecordEncoder, writing: Writing, task: int, transactions: Transactions | None
) -> TaskRecords:
    """Open the records of a task, in a transaction where there are some. Raises as `SlotWriter.write`."""
    if transactions is None:
        return PlainRecords(encoder, writing, task)
    return SlotRecords(encoder, writing, task, transactions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _EncodedPart:
    """The key or the value of records: its columns in their order, and what makes bytes of them."""

    name: str
    columns: tuple[str, ...]
    encode: Encode


class RecordEncoder:
    """Makes the records of rows, as columns named `key`, `value` and `timestamp`."""

    def __init__(self, table: KafkaTable, columns: Sequence[FileColumn], *, owner: str) -> None:
        self._owner = owner
        self._columns = columns
        self._parts = [_part("value", table.projection.value, table.formats.value, table)]
        if table.formats.key is not None:
            self._parts.append(_part("key", table.projection.key, table.formats.key, table))
        filled = {column.name for column in columns if column.source is not None}
        times = (c.name for c in table.schema.metadata if c.name in filled)
        self._time = next(times, None)

    def records(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records of rows. Raises SinkError for a row that the table does not take."""
        values = {column.name: self._values(column, rows) for column in self._columns}
        made: dict[str, pa.Array] = {
            part.name: part.encode([values[name] for name in part.columns], rows.num_rows)
            for part in self._parts
        }
        if self._time is not None:
            made["timestamp"] = self._epoch_ms(values, self._time)
        return pa.RecordBatch.from_pydict(made)

    def _values(self, column: FileColumn, rows: pa.RecordBatch) -> pa.Array:
        found = fill_column(column, rows, owner=self._owner)
        if column.required and found.null_count:
            raise SinkError(
                f"{self._owner} does not take a row: column {column.name} is NOT NULL, and the query gives NULL",
                hint="filter such rows out, or declare the column without NOT NULL",
            )
        return found

    def _epoch_ms(self, values: Mapping[str, pa.Array], name: str) -> pa.Array:
        """Return epoch ms; NULL leaves it to the client, which takes 0 for that, too."""
        # whole milliseconds, downwards before 1970, too
        floored = pc.floor_temporal(values[name], unit="millisecond")
        found = floored.cast(pa.int64())
        ms = pc.divide(found, 1000)
        least = pc.min(ms).as_py()
        if least is not None and least <= 0:
            raise SinkError(
                f"{self._owner} does not take a row: column {name}: the timestamp of a record has to be after "
                "1970-01-01T00:00:00Z",
                hint="filter such rows out, or leave the column out of the INSERT",
            )
        return ms


def _part(
    name: str, fields: Sequence[Field], choice: FormatChoice, table: KafkaTable
) -> _EncodedPart:
    assert isinstance(choice.format, ColumnEncoding), "as it was decided"
    named, resolved = [(field.name, field.type) for field in fields], table.settings.resolved
    return _EncodedPart(
        name=name,
        columns=tuple(field.column for field in fields),
        encode=choice.format.encoder(named, resolved, prefix=choice.prefix),
    )


class PlainRecords(TaskRecords):
    """Records without a transaction; they last when the broker has them all."""

    def __init__(self, encoder: RecordEncoder, writing: Writing, task: int) -> None:
        self._encoder = encoder
        self._destination: Destination = writing.destination(task)
        self._task = task
        self._producer = RecordProducer(writing.connection, who=f"task {task}")

    def write(self, rows: pa.RecordBatch) -> None:
        """Send the records of rows."""
        self._destination.send(self._producer, _once(self._encoder.records(rows)))

    def finish(self) -> str:
        """Wait until the broker has all records; returns the number of the task."""
        self._producer.flush()
        return str(self._task)

    def close(self) -> None:
        """Drop the producer, with what was not sent."""
        self._producer.drop()


class SlotRecords(TaskRecords):
    """A slot's records of a batch, in one transaction; where the slot has the batch already, they are passed over."""

    def __init__(
        self, encoder: RecordEncoder, writing: Writing, slot: int, transactions: Transactions
    ) -> None:
        self._encoder = encoder
        self._destination: Destination = writing.destination(slot)
        self._slot = slot
        self._attempt = SlotAttempt(
            SlotWriter(
                connection=writing.connection,
                timeout_ms=transactions.timeout_ms,
                partition=transactions.partition,
                claim=transactions.claim(slot),
            )
        )
        try:
            self._writes = self._attempt.begin()
        except BaseException:
            self._attempt.drop()
            raise

    def write(self, rows: pa.RecordBatch) -> None:
        """Send the records of rows."""
        if self._writes:
            self._attempt.send(_once(self._encoder.records(rows)), self._destination)

    def finish(self) -> str:
        """Commit the records with the marker; returns the number of the slot."""
        if self._writes:
            self._attempt.commit()
        return str(self._slot)

    def close(self) -> None:
        """Abort what is not committed."""
        self._attempt.abort()
        self._attempt.drop()


def _once(records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    yield records
