"""Encode rows of a test as records, as a producer would have written them: formats, keys, changelog envelopes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa

from penstock.catalog.errors import DefinitionError, InputError, Span, UnsupportedError
from penstock.catalog.model.table import MetadataColumn, Table
from penstock.catalog.model.types import LogicalType, TimestampLtzType
from penstock.connector.arrow import arrow_type, cast_metadata
from penstock.connector.changelog import ChangelogMode, RowKind
from penstock.connector.contract import SplitSource
from penstock.connector.formats.json.options import (
    TimestampStandard,
    envelope_settings,
    json_settings,
)
from penstock.connector.kafka.source.source import KafkaSource
from penstock.connector.kafka.table.fields import Field, FormatChoice
from penstock.connector.kafka.table.settings import TopicList
from penstock.connector.testing.decode import FixtureRecord, carrier_of
from penstock.connector.testing.values import InputRow, read_cells, read_value


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """Write an object of JSON values."""
    return json.dumps(value, ensure_ascii=False).encode()


def json_value(value: Any, standard: TimestampStandard) -> Any:
    """Return a value of `read_value` as one that `json` writes."""
    match value:
        case datetime():
            return _timestamp(value, standard)
        case date() | time():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"  # a number of JSON would lose digits on its way through Python's
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case list():
            return [json_value(each, standard) for each in value]
        case dict():
            return {_key(k, standard): json_value(v, standard) for k, v in value.items()}
    return value


def _key(value: Any, standard: TimestampStandard) -> str:
    found = json_value(value, standard)
    return found if isinstance(found, str) else json.dumps(found)


def _timestamp(value: datetime, standard: TimestampStandard) -> str:
    text = value.replace(tzinfo=None).isoformat(sep=standard.separator, timespec="microseconds")
    if standard.offset:
        return f"{text}+00:00"
    return text if value.tzinfo is None else f"{text}Z"


Image = Mapping[str, Any] | None


def _debezium(before: Image, after: Image) -> dict[str, Any]:
    operation = "c" if before is None else "d" if after is None else "u"
    return {"before": before, "after": after, "op": operation}


def _ogg(before: Image, after: Image) -> dict[str, Any]:
    operation = "I" if before is None else "D" if after is None else "U"
    return {"before": before, "after": after, "op_type": operation}


def _canal(before: Image, after: Image) -> dict[str, Any]:
    operation = "INSERT" if before is None else "DELETE" if after is None else "UPDATE"
    changed = [before] if before is not None and after is not None else None
    return {"data": [after if after is not None else before], "old": changed, "type": operation}


def _maxwell(before: Image, after: Image) -> dict[str, Any]:
    operation = "insert" if before is None else "delete" if after is None else "update"
    changed = before if before is not None and after is not None else None
    return {"data": after if after is not None else before, "old": changed, "type": operation}


_ENVELOPES: Mapping[str, Callable[[Image, Image], dict[str, Any]]] = {
    "debezium-json": _debezium,
    "ogg-json": _ogg,
    "canal-json": _canal,
    "maxwell-json": _maxwell,
}


class KafkaEncoder:
    """Writes records of one table (`Encoder`)."""

    def __init__(self, table: Table, source: KafkaSource) -> None:
        self._table = table
        self._source = source
        subscription = source.table.settings.subscription
        first = subscription.topics[0] if isinstance(subscription, TopicList) else None
        self._topic = first or table.identifier.name

    @property
    def pairs_updates(self) -> bool:
        """In an envelope an update is one record."""
        return self._source.changes is ChangelogMode.ALL

    def split_of(self, row: InputRow) -> str:
        """Name the partition: $split is its number, or topic-number. Raises DefinitionError."""
        split = row.split or "0"
        if split.isdecimal():
            return f"{self._topic}-{split}"
        topic, _, number = split.rpartition("-")
        if not (topic and number.isdecimal()):
            raise DefinitionError(
                f"$split {split!r} is no partition",
                hint="give its number, or topic-number: orders-3",
            )
        return split

    def record(self, row: InputRow, before: InputRow | None) -> tuple[bytes | None, bytes | None]:
        """Return key and value of a row's record."""
        self._check_kind(row, before)
        if row.raw is not None and not row.cells:
            return None, None
        formats, projection = self._source.table.formats, self._source.table.projection
        cells = read_cells(self._table, row, metadata=False)
        key = None
        if formats.key is not None:
            key = self._bytes(formats.key, projection.key, cells)
        if self._source.table.upserts and row.kind is RowKind.DELETE:
            return key, None
        envelope = _ENVELOPES.get(formats.value.format.identifier)
        if envelope is None:
            return key, self._bytes(formats.value, projection.value, cells)
        image = self._object(formats.value, projection.value, cells)
        if row.kind is RowKind.DELETE:
            return key, json_bytes(self._wrapped(envelope(image, None)))
        earlier = None
        if before is not None:
            old = read_cells(self._table, before, metadata=False)
            earlier = self._object(formats.value, projection.value, old)
        return key, json_bytes(self._wrapped(envelope(earlier, image)))

    def _check_kind(self, row: InputRow, before: InputRow | None) -> None:
        name, kind = self._table.identifier.name, row.kind
        if kind not in self._source.changes.kinds:
            raise UnsupportedError(
                f"a row of table {name} cannot be {kind.short}: its records are {self._source.changes}",
                hint="kinds are: " + ", ".join(k.short for k in sorted(self._source.changes.kinds)),
            )
        if self.pairs_updates and (kind is RowKind.UPDATE_AFTER) != (before is not None):
            raise DefinitionError(
                f"an update of table {name} is one record with the row before and after it",
                hint="give the row with $kind: -U, and right after it the one with $kind: +U",
            )

    def _wrapped(self, envelope: dict[str, Any]) -> dict[str, Any]:
        choice = self._source.table.formats.value
        key = f"{choice.prefix}{choice.format.identifier}.schema-include"
        if self._source.table.settings.resolved.values.get(key):
            return {"schema": {}, "payload": envelope}
        return envelope

    def _bytes(
        self, choice: FormatChoice, fields: Sequence[Field], cells: Mapping[str, Any]
    ) -> bytes | None:
        """Write the fields of a key or value in its format. Raises UnsupportedError."""
        if choice.format.identifier == "json":
            return json_bytes(self._object(choice, fields, cells))
        if choice.format.identifier == "raw" and len(fields) == 1:
            return self._raw(fields[0], cells.get(fields[0].column))
        raise UnsupportedError(
            f"a test cannot write records of the format '{choice.format.identifier}'",
            hint="give the bytes of each record as $raw",
        )

    def _raw(self, field: Field, value: Any) -> bytes | None:
        match value:
            case None | bytes():
                return value
            case str():
                return value.encode()
        raise UnsupportedError(
            f"a test writes texts and bytes in the format 'raw', not {field.type} (column '{field.column}')",
            hint="give the bytes of each record as $raw",
        )

    def _object(
        self, choice: FormatChoice, fields: Sequence[Field], cells: Mapping[str, Any]
    ) -> dict[str, Any]:
        standard = self._standard(choice)
        # as a producer would: a column that the test says nothing of is not in the record
        return {f.name: json_value(cells[f.column], standard) for f in fields if f.column in cells}

    def _standard(self, choice: FormatChoice) -> TimestampStandard:
        resolved = self._source.table.settings.resolved
        if choice.format.identifier == "json":
            return json_settings(resolved, choice.prefix).standard
        return envelope_settings(resolved, f"{choice.prefix}{choice.format.identifier}.").standard


class Encoder(Protocol):
    """Makes records of the rows of one table."""

    def split_of(self, row: InputRow) -> str:
        """Name the split of a row. Raises DefinitionError."""

    def record(self, row: InputRow, before: InputRow | None) -> tuple[bytes | None, bytes | None]:
        """Return key and value of a row's record; `before` is the row as it was before an update.

        Raises DefinitionError, UnsupportedError.
        """

    @property
    def pairs_updates(self) -> bool:
        """Whether -U and +U are one record."""


def encoder_of(table: Table, source: SplitSource) -> Encoder:
    """Make the encoder of a table. `source` is that of its own connector."""
    from penstock.connector.kafka.source.source import KafkaSource

    if isinstance(source, KafkaSource):
        return KafkaEncoder(table, source)
    return _PlainEncoder(table, source.metadata_types)


def make_records(
    encoder: Encoder, rows: Sequence[tuple[InputRow, Span]], ends: Mapping[str, int]
) -> list[FixtureRecord]:
    """Make the records of rows that follow those up to `ends`. Raises InputError with the row's place."""
    ends = dict(ends)
    records: list[FixtureRecord] = []
    before: dict[str, InputRow] = {}
    for row, span in rows:
        try:
            split = encoder.split_of(row)
            if encoder.pairs_updates and row.kind is RowKind.UPDATE_BEFORE:
                before[split] = row
                continue
            record = _record(encoder, row, before.pop(split, None), split, ends.get(split, 0))
        except InputError as error:
            error.span = error.span or span
            raise
        ends[split] = record.offset + 1
        records.append(record)
    return records


def _record(
    encoder: Encoder, row: InputRow, before: InputRow | None, split: str, next_offset: int
) -> FixtureRecord:
    offset = next_offset if row.offset is None else row.offset
    if offset < next_offset:
        raise DefinitionError(
            f"$offset {offset} of split {split} comes after {next_offset - 1}",
            hint="offsets of a split only grow",
        )
    key, value = encoder.record(row, before)
    return FixtureRecord(
        split=split,
        offset=offset,
        key=row.key if row.key is not None else key,
        value=row.raw if row.raw is not None else value,
        timestamp_ms=_epoch_ms(row.timestamp),
        headers=row.headers,
    )


def _epoch_ms(text: str | None) -> int | None:
    if text is None:
        return None
    found: datetime = read_value(text, TimestampLtzType(precision=3))
    return int(found.timestamp() * 1000)


class _PlainEncoder:
    """Writes all columns, metadata too, as fields of one JSON object."""

    pairs_updates = False

    def __init__(self, table: Table, metadata_types: Mapping[str, LogicalType]) -> None:
        self._table = table
        self._metadata_types = metadata_types
        _, resolved = carrier_of(table)
        self._standard = json_settings(resolved, "").standard

    def split_of(self, row: InputRow) -> str:
        """A split is named as the test likes."""
        return row.split or "0"

    def record(self, row: InputRow, before: InputRow | None) -> tuple[bytes | None, bytes | None]:
        """Return the value; there are no keys."""
        del before
        if row.kind is not RowKind.INSERT:
            raise UnsupportedError(
                f"table {self._table.identifier.name} has no changes, so no row of it is {row.kind.short}"
            )
        cells = self._defaults(row) | read_cells(self._table, row, metadata=True)
        return None, json_bytes({k: json_value(v, self._standard) for k, v in cells.items()})

    def _defaults(self, row: InputRow) -> dict[str, Any]:
        """Return metadata of a file that the row says nothing of."""
        split = self.split_of(row)
        instant = read_value(row.timestamp or "1970-01-01", TimestampLtzType(precision=3))
        known = {"file.path": split, "file.name": split.rpartition("/")[2], "file.size": 0}
        known["file.modification-time"] = instant
        metadata = self._table.schema.metadata
        return {
            c.name: _cast(known[c.metadata_key], self._metadata_types[c.metadata_key], c)
            for c in metadata
            if c.metadata_key in known
        }


def _cast(value: Any, offered: LogicalType, column: MetadataColumn) -> Any:
    """Return metadata of a file as the type that the table declares; an instant in UTC."""
    array = pa.array([value], arrow_type(offered))
    return cast_metadata(array, offered, column.type, "UTC")[0].as_py()
