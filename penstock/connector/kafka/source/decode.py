"""Records to Arrow batches: value, key and metadata columns side by side, one batch for each split of a fetch.

In an upsert topic a value replaces the row of its key, and a tombstone deletes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.catalog.model.table import Column, MetadataColumn, Schema
from penstock.catalog.model.types import LogicalType
from penstock.catalog.options.option import Resolved
from penstock.connector.arrow import arrow_field, cast_metadata
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.formats import Decoded, Decoder
from penstock.connector.formats.contract import Where
from penstock.connector.formats.decoders import (
    ReadsNatively,
    batch_of,
    collecting_errors,
    takes_lines,
)
from penstock.connector.formats.values import present as values_there
from penstock.connector.formats.values import take
from penstock.connector.kafka.client.draining import Fields
from penstock.connector.kafka.client.native import native_package
from penstock.connector.kafka.source.records import (
    FetchedRecords,
    bad_records,
    by_split,
    metadata_array,
)
from penstock.connector.kafka.table.fields import (
    Field,
    FormatChoice,
    Projection,
    TableFormats,
    format_metadata_key,
)
from penstock.connector.source.records import BadRecord, RawRecord

Rows: TypeAlias = npt.NDArray[np.int64]


class Tombstones(Enum):
    """The row of a record without a value: one that deletes its key, or none."""

    DELETE = auto()
    LEAVE_OUT = auto()


class UpsertDecoder:
    """A Decoder of UPDATE_AFTER rows, and of DELETE rows in which every column is NULL."""

    def __init__(self, decoder: Decoder, tombstones: Tombstones) -> None:
        """`decoder` never sees a tombstone: of some formats that would be a row."""
        self._decoder = decoder
        self._tombstones = tombstones

    def gathering(self) -> UpsertDecoder:
        """Return a decoder that lists bad records and raises for none (`CollectsErrors`)."""
        return UpsertDecoder(collecting_errors(self._decoder), self._tombstones)

    def decode(self, values: Sequence[bytes | None], where: Where) -> Decoded:
        """Decode one batch, see Decoder."""
        there = values_there(values)
        if there.all():
            decoded = self._decoder.decode(values, where)
            kinds = np.full(decoded.batch.num_rows, RowKind.UPDATE_AFTER, np.int8)
            return replace(decoded, kinds=kinds)
        present, gone = np.flatnonzero(there), np.flatnonzero(~there)
        decoded = self._decoder.decode(
            take(values, present), lambda index: where(int(present[index]))
        )
        deleted = gone if self._tombstones is Tombstones.DELETE else gone[:0]
        return _among(decoded, present, deleted)


def _among(decoded: Decoded, present: Rows, deleted: Rows) -> Decoded:
    """Insert a row for each deletion among the rows of the values that are `present`, in the order of the records."""
    count = decoded.batch.num_rows
    kept = present if decoded.kept is None else present[decoded.kept]
    records = np.concatenate([kept, deleted])
    order = np.argsort(records, kind="stable")
    is_deletion = order >= count
    rows = pa.array(np.where(is_deletion, 0, order), mask=is_deletion)
    schema = pa.schema([field.with_nullable(True) for field in decoded.batch.schema])
    arrays = [column.take(rows) for column in decoded.batch.columns]
    kinds = np.where(is_deletion, RowKind.DELETE, RowKind.UPDATE_AFTER).astype(np.int8)
    return Decoded(
        batch=batch_of(arrays, schema, len(order)),
        kept=records[order],
        skipped=decoded.skipped,
        kinds=kinds,
        bad=tuple(replace(bad, index=int(present[bad.index])) for bad in decoded.bad),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecords:
    """Rows by split id, splits without rows left out; `skipped` as the formats count it.

    `origins` maps the rows of each split to the records; holding it keeps them in memory. `bad` are the records of
    each split that were left out, where the decoder leaves them out.
    """

    batches: tuple[tuple[str, pa.RecordBatch], ...]
    skipped: int
    origins: Mapping[str, DecodedOrigins] = field(default_factory=dict, repr=False)
    bad: Mapping[str, Sequence[BadRecord]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedOrigins:
    """The RowOrigins of one split: its rows begin with row `begin` of the fetch; `rows` are the records of those."""

    records: FetchedRecords
    rows: Rows | None
    begin: int

    def of(self, rows: Sequence[int]) -> Sequence[RawRecord]:
        """Return the records of rows, by their index in the split's batch."""
        in_fetch = [self.begin + row for row in rows]
        return [self.records.raw(i if self.rows is None else int(self.rows[i])) for i in in_fetch]


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyOrValue:
    """The key or the value: its decoder and the columns it fills. `metadata` are (offered, declared) types of some.

    `lines`: the decoder is best given values with a newline behind each.
    """

    decoder: Decoder
    columns: tuple[str, ...]
    metadata: Mapping[str, tuple[LogicalType, LogicalType]]
    time_zone: str
    lines: bool

    def gathering(self) -> _KeyOrValue:
        return replace(self, decoder=collecting_errors(self.decoder))

    def arrays(self, decoded: Decoded, rows: Rows | None) -> dict[str, pa.Array]:
        arrays = decoded.batch.columns
        if rows is not None:
            indices = pa.array(rows)
            arrays = [array.take(indices) for array in arrays]
        named = dict(zip(self.columns, arrays, strict=True))
        return named | {
            name: cast_metadata(named[name], offered, declared, self.time_zone)
            for name, (offered, declared) in self.metadata.items()
        }


class KafkaRecordDecoder:
    """Decodes fetches into the columns asked for. Decodes nothing else: no columns, no decoding."""

    def __init__(
        self,
        columns: Sequence[str],
        schema: Schema,
        projection: Projection,
        formats: TableFormats,
        resolved: Resolved,
        *,
        tombstones: Tombstones | None = None,
        leaves_out_bad: bool = False,
        time_zone: str = "UTC",
    ) -> None:
        """`columns` may name ROW_KIND. `tombstones` is set where records are upserts by their keys.

        `leaves_out_bad`: bad records yield no rows and are listed, else the first one raises. `time_zone` is the
        session's, for metadata.
        """
        wanted = [schema.column(name) for name in columns if name != ROW_KIND]
        metadata = [c for c in wanted if isinstance(c, MetadataColumn)]
        of_value = {c: key for c in metadata if (key := format_metadata_key(c.metadata_key))}
        self._metadata = [c for c in metadata if c not in of_value]
        in_value, in_key = _shares(columns, projection, keys_first=tombstones is not None)
        self._time_zone = time_zone
        self._value = _part(in_value, formats.value, resolved, of_value, time_zone)
        if tombstones is not None:
            decoder = UpsertDecoder(self._value.decoder, tombstones)
            self._value = replace(self._value, decoder=decoder)
        # a key format without wanted columns still says which records have a key, and only those give rows
        self._key = _part(in_key, formats.key, resolved) if formats.key is not None else None
        if leaves_out_bad:
            self._value = self._value.gathering()
            self._key = self._key.gathering() if self._key is not None else None
        # a deletion has no more than its key, whatever the columns say
        may_lack = self._value.columns if tombstones is not None else ()
        self._schema = _schema(columns, wanted, may_lack)
        self.reads = _fields(
            self._metadata,
            keys=self._key is not None,
            raw=leaves_out_bad,
            lines=self._value.lines,
        )

    def decode(self, records: FetchedRecords) -> DecodedRecords:
        """Decode the records of one fetch. Raises BadRecordError naming topic, partition and offset."""
        values = self._value.decoder.decode(records.values(), records.where)
        rows, of_value, skipped = values.kept, None, values.skipped
        bad = bad_records(records, values.bad)
        if self._key is None:
            arrays = self._value.arrays(values, None)
            length = values.batch.num_rows
        else:
            keys = self._key.decoder.decode(
                records.keys(),
                lambda index: f"key of {records.where(index)}",
            )
            bad = bad_records(records, values.bad, keys.bad)
            # a record that is bad in both is one
            skipped += keys.skipped - (len(values.bad) + len(keys.bad) - len(bad))
            rows, of_value, of_key = _join(values, keys, len(records))
            arrays = self._value.arrays(values, of_value) | self._key.arrays(keys, of_key)
            length = values.batch.num_rows if of_value is None else len(of_value)
        for column in self._metadata:
            array = metadata_array(column.metadata_key, column.type, records, self._time_zone)
            arrays[column.name] = array if rows is None else array.take(pa.array(rows))
        if ROW_KIND in self._schema.names:
            arrays[ROW_KIND] = _kinds(values, of_value)
        batch = batch_of([arrays[name] for name in self._schema.names], self._schema, length)
        batches, origins = _by_split(batch, rows, records)
        return DecodedRecords(
            batches=tuple(batches), skipped=skipped, origins=origins, bad=by_split(bad)
        )


def _fields(metadata: Sequence[MetadataColumn], *, keys: bool, raw: bool, lines: bool) -> Fields:
    """Return what is read of records; `raw`: bad ones are kept as a whole."""
    wanted = {column.metadata_key for column in metadata}
    fields = Fields(
        keys=keys,
        headers=bool(wanted & {"headers", "header-list"}),
        timestamps=bool(wanted & {"timestamp", "timestamp-type"}),
        leader_epochs="leader-epoch" in wanted,
        lines=lines,
    )
    return fields.with_raw() if raw else fields


def _shares(
    columns: Sequence[str], projection: Projection, *, keys_first: bool
) -> tuple[list[Field], list[Field]]:
    """Return which of the columns come from the value, and which from the key; one that is in both comes once."""
    in_value = [field for field in projection.value if field.column in columns]
    in_key = [field for field in projection.key if field.column in columns]
    taken = {field.column for field in (in_key if keys_first else in_value)}
    if keys_first:
        return [field for field in in_value if field.column not in taken], in_key
    return in_value, [field for field in in_key if field.column not in taken]


def _part(
    fields: Sequence[Field],
    choice: FormatChoice,
    resolved: Resolved,
    metadata: Mapping[MetadataColumn, str] = MappingProxyType({}),
    time_zone: str = "UTC",
) -> _KeyOrValue:
    """Make the decoder of key or value; `metadata` are columns of the format by its names for them."""
    decoder = choice.format.decoder(
        [(field.name, field.type) for field in fields],
        resolved,
        prefix=choice.prefix,
        metadata=tuple(metadata.values()),
    )
    package = native_package()
    if package is not None and isinstance(decoder, ReadsNatively):
        decoder = decoder.natively(package)
    names = (*(field.column for field in fields), *(column.name for column in metadata))
    return _KeyOrValue(
        decoder=decoder,
        columns=names,
        metadata={
            column.name: (choice.format.metadata[key], column.type)
            for column, key in metadata.items()
        },
        time_zone=time_zone,
        lines=takes_lines(decoder),
    )


def _schema(columns: Sequence[str], wanted: Sequence[Column], may_lack: Sequence[str]) -> pa.Schema:
    """Return the schema of the rows, in which the columns of `may_lack` may be NULL."""
    fields = {c.name: arrow_field(c.name, _type_of(c.type)) for c in wanted}
    fields |= {name: fields[name].with_nullable(True) for name in may_lack}
    fields[ROW_KIND] = pa.field(ROW_KIND, pa.int8(), nullable=False)
    return pa.schema([fields[name] for name in columns])


def _kinds(values: Decoded, rows: Rows | None) -> pa.Array:
    """Return the kinds of rows, those of their values."""
    kinds = values.kinds
    if kinds is None:
        kinds = np.zeros(values.batch.num_rows, np.int8)
    return pa.array(kinds if rows is None else kinds[rows], pa.int8())


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
    batch: pa.RecordBatch, rows: Rows | None, records: FetchedRecords
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
