"""Records to Arrow batches: value, key and metadata columns side by side, one batch for each split of a fetch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.catalog.options import Resolved
from penstock.catalog.schema import MetadataColumn, Schema
from penstock.catalog.types import LogicalType
from penstock.connector.arrow import arrow_schema
from penstock.connector.formats import Decoded, Decoder
from penstock.connector.formats.without_columns import rows_without_columns
from penstock.connector.kafka.client import Message
from penstock.connector.kafka.fields import Field, FormatChoice, Projection, TableFormats
from penstock.connector.kafka.records import Records, as_bytes, metadata_array
from penstock.connector.source.records import RawRecord

__all__ = ["DecodedRecords", "RecordDecoder"]

Rows: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecords:
    """Rows by split id, splits without rows left out; `skipped` as the formats count it.

    `origins` leads from the rows of each split to the records; who keeps it keeps the records.
    """

    batches: tuple[tuple[str, pa.RecordBatch], ...]
    skipped: int
    origins: Mapping[str, DecodedOrigins] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedOrigins:
    """The RowOrigins of one split: its rows begin with row `begin` of the fetch; `rows` are the records of those."""

    records: Records
    rows: Rows | None
    begin: int

    def of(self, rows: Sequence[int]) -> Sequence[RawRecord]:
        """Give the records of rows, by their index in the split's batch."""
        in_fetch = [self.begin + row for row in rows]
        return [self._record(i if self.rows is None else int(self.rows[i])) for i in in_fetch]

    def _record(self, index: int) -> RawRecord:
        message = self.records.messages[index]
        offset = message.offset()
        assert offset is not None, "a record has an offset"
        return RawRecord(
            position=offset,
            key=as_bytes(message.key()),
            value=as_bytes(message.value()),
            where=self.records.where(index),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The key or the value: its decoder and the columns it fills."""

    decoder: Decoder
    columns: tuple[str, ...]

    def arrays(self, decoded: Decoded, rows: Rows | None) -> dict[str, pa.Array]:
        arrays = decoded.batch.columns
        if rows is not None:
            indices = pa.array(rows)
            arrays = [array.take(indices) for array in arrays]
        return dict(zip(self.columns, arrays, strict=True))


class RecordDecoder:
    """Decodes fetches into the columns asked for. Decodes nothing else: no columns, no decoding."""

    def __init__(
        self,
        columns: Sequence[str],
        schema: Schema,
        projection: Projection,
        formats: TableFormats,
        resolved: Resolved,
    ) -> None:
        wanted = [schema.column(name) for name in columns]
        self._metadata = [c for c in wanted if isinstance(c, MetadataColumn)]
        in_value = [field for field in projection.value if field.column in columns]
        taken = {field.column for field in in_value}
        in_key = [
            field
            for field in projection.key
            if field.column in columns and field.column not in taken
        ]
        self._value = _part(in_value, formats.value, resolved)
        # a key format without wanted columns still says which records have a key, and only those give rows
        self._key = _part(in_key, formats.key, resolved) if formats.key is not None else None
        self._schema: pa.Schema = arrow_schema([(c.name, _type_of(c.type)) for c in wanted])

    def decode(self, records: Records) -> DecodedRecords:
        """Decode the records of one fetch. Raises BadRecordError naming topic, partition and offset."""
        values = self._value.decoder.decode(
            list(map(Message.value, records.messages)), records.where
        )
        rows, skipped = values.kept, values.skipped
        if self._key is None:
            arrays = self._value.arrays(values, None)
            length = values.batch.num_rows
        else:
            keys = self._key.decoder.decode(
                list(map(Message.key, records.messages)),
                lambda index: f"key of {records.where(index)}",
            )
            skipped += keys.skipped
            rows, of_value, of_key = _join(values, keys, len(records.messages))
            arrays = self._value.arrays(values, of_value) | self._key.arrays(keys, of_key)
            length = values.batch.num_rows if of_value is None else len(of_value)
        for column in self._metadata:
            array = metadata_array(column.metadata_key, column.type, records)
            arrays[column.name] = array if rows is None else array.take(pa.array(rows))
        batches, origins = _by_split(self._assemble(arrays, length), rows, records)
        return DecodedRecords(batches=tuple(batches), skipped=skipped, origins=origins)

    def _assemble(self, arrays: dict[str, pa.Array], length: int) -> pa.RecordBatch:
        if not len(self._schema):
            return rows_without_columns(length)
        return pa.RecordBatch.from_arrays(
            [arrays[name] for name in self._schema.names], schema=self._schema
        )


def _part(fields: Sequence[Field], choice: FormatChoice, resolved: Resolved) -> _Part:
    decoder = choice.format.decoder(
        [(field.name, field.type) for field in fields], resolved, prefix=choice.prefix
    )
    return _Part(decoder=decoder, columns=tuple(field.column for field in fields))


def _type_of(logical: LogicalType | None) -> LogicalType:
    assert logical is not None, "a computed column is not read from records"
    return logical


def _join(
    values: Decoded, keys: Decoded, records: int
) -> tuple[Rows | None, Rows | None, Rows | None]:
    """Pair the rows of values and keys of the same record (each with each, as Flink does).

    Gives the record of each pair, its row among the values and its row among the keys; None is one to one.
    """
    if values.kept is None and keys.kept is None:
        return None, None, None
    every = np.arange(records)
    of_values = every if values.kept is None else values.kept
    of_keys = every if keys.kept is None else keys.kept
    begins = np.searchsorted(of_keys, of_values, "left")
    counts = np.searchsorted(of_keys, of_values, "right") - begins
    value_rows = np.repeat(np.arange(len(of_values)), counts)
    within = np.arange(len(value_rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    key_rows = np.repeat(begins, counts) + within
    return of_values[value_rows], value_rows, key_rows


def _by_split(
    batch: pa.RecordBatch, rows: Rows | None, records: Records
) -> tuple[list[tuple[str, pa.RecordBatch]], dict[str, DecodedOrigins]]:
    """Cut a fetch's rows where the next split begins; no data is copied."""
    batches, origins, begin = [], {}, 0
    if len(records.runs) == 1:
        row_ends = [batch.num_rows]
    else:
        record_ends = np.cumsum([count for _, count in records.runs])
        found = record_ends if rows is None else np.searchsorted(rows, record_ends, "left")
        row_ends = list(map(int, found))
    for (partition, _), end in zip(records.runs, row_ends, strict=True):
        if end > begin:
            batches.append((partition.split_id, batch.slice(begin, end - begin)))
            origins[partition.split_id] = DecodedOrigins(records=records, rows=rows, begin=begin)
        begin = end
    return batches, origins
