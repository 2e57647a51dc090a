"""Records in the files of a folder, as a topic would hold them, and their decoding by the table's own format.

Tables of Kafka are decoded by its decoder, others by the format over all columns.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.catalog.model.table import ComputedColumn, Table
from penstock.catalog.options.option import Resolved, resolve
from penstock.connector.arrow import arrow_field
from penstock.connector.contract import ReadRequest, SplitSource
from penstock.connector.formats import Decoder, Fields, Format, find_format
from penstock.connector.formats.decoders import batch_of, collecting_errors
from penstock.connector.options.bad_records import bad_record_settings
from penstock.connector.source.records import BadRecord, RawRecord, RecordsWithSplitIds, Stage

RECORDS = "records.json"
PUBLISHED = "published.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureRecord:
    """A record at `offset` of a split. `timestamp_ms` is epoch ms, None where it has none."""

    split: str
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def write_records(folder: Path, records: Sequence[FixtureRecord]) -> None:
    """Write all records of a table; none is published yet."""
    folder.mkdir(parents=True, exist_ok=True)
    values = [_to_json(record) for record in records]
    (folder / RECORDS).write_text(json.dumps(values), encoding="utf-8")
    publish(folder, {})


def read_records(folder: Path) -> tuple[FixtureRecord, ...]:
    """Read what `write_records` wrote."""
    values = json.loads((folder / RECORDS).read_text(encoding="utf-8"))
    return tuple(map(_from_json, values))


def by_split(records: Sequence[FixtureRecord]) -> dict[str, list[FixtureRecord]]:
    """Sort records by their splits, in the order of offsets."""
    found: dict[str, list[FixtureRecord]] = {}
    for record in sorted(records, key=lambda record: record.offset):
        found.setdefault(record.split, []).append(record)
    return dict(sorted(found.items()))


def publish(folder: Path, ends: Mapping[str, int]) -> None:
    """Publish the current ends of splits, exclusive; one that is not named has no records yet."""
    beside = folder / f".{PUBLISHED}"
    beside.write_text(json.dumps(ends), encoding="utf-8")
    beside.replace(folder / PUBLISHED)  # readers see the one or the other


def published(folder: Path) -> Mapping[str, int]:
    """Read what `publish` wrote last."""
    found: Mapping[str, int] = json.loads((folder / PUBLISHED).read_text(encoding="utf-8"))
    return found


def _to_json(record: FixtureRecord) -> dict[str, Any]:
    return asdict(record) | {
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }


def _from_json(value: dict[str, Any]) -> FixtureRecord:
    headers = tuple((name, _bytes(text)) for name, text in value["headers"])
    known = {"key": _bytes(value["key"]), "value": _bytes(value["value"]), "headers": headers}
    return FixtureRecord(**{**value, **known})


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


Fetched = Mapping[str, Sequence[FixtureRecord]]


class RecordDecoder(Protocol):
    """Decodes the records of a fetch, by split. Raises BadRecordError."""

    def decode(self, fetched: Fetched) -> RecordsWithSplitIds:
        """Return rows, bad records and what rows came from; positions are the reader's."""


def decoder_of(
    table: Table, source: SplitSource, request: ReadRequest, *, peeks: bool = False
) -> RecordDecoder:
    """Make the decoder of a table's records. `peeks`: for event times alone, of which deletions have none."""
    from penstock.connector.kafka.source.source import KafkaSource

    if isinstance(source, KafkaSource):
        return _KafkaDecoder(source, request, peeks=peeks)
    return _PlainDecoder(table, request)


def carrier_of(table: Table) -> tuple[Format, Resolved]:
    """Return the format that carries all columns of a table without a broker: its own where that is JSON, else JSON."""
    options = table.option_map
    json = find_format("json", option="format")
    own = options if options.get("format") == "json" else {}
    known = json.options()
    keys = {option.key for option in known}
    read = {key: value for key, value in own.items() if key in keys}
    return json, resolve(read, known, owner=f"table {table.identifier}")


class _KafkaDecoder:
    """Decodes as the connector `kafka` does: the records become its client's messages."""

    def __init__(self, source: SplitSource, request: ReadRequest, *, peeks: bool) -> None:
        from penstock.connector.kafka.source.source import KafkaSource

        assert isinstance(source, KafkaSource), "chosen by type"
        self._decoder = source.decoder(request, deletes=not peeks)

    def decode(self, fetched: Fetched) -> RecordsWithSplitIds:
        """Decode the records of a fetch."""
        from penstock.connector.kafka.client.connection import TopicPartition
        from penstock.connector.kafka.source.records import Records

        partitions = {TopicPartition.of(split): records for split, records in fetched.items()}
        messages = {
            partition: [
                _message(partition.topic, partition.partition, record) for record in records
            ]
            for partition, records in partitions.items()
        }
        decoded = self._decoder.decode(Records.of(messages))
        return RecordsWithSplitIds(
            batches=decoded.batches,
            skipped=decoded.skipped,
            origins=decoded.origins,
            bad=decoded.bad,
        )


def _message(topic: str, partition: int, record: FixtureRecord):  # type: ignore[no-untyped-def]  # noqa: ANN202
    """Make a message of Kafka's client; its type is known to `penstock.connector.kafka.client.client` alone."""
    from penstock.connector.kafka.client.client import Message

    created = 1  # CreateTime
    timestamp = (0, -1) if record.timestamp_ms is None else (created, record.timestamp_ms)
    return Message(
        topic=topic,
        partition=partition,
        offset=record.offset,
        key=record.key,
        value=record.value,
        headers=list(record.headers),
        timestamp=timestamp,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origins:
    """The RowOrigins of a split's records; `rows` are the records of its rows, None where each gives one."""

    records: Sequence[FixtureRecord]
    rows: npt.NDArray[np.int64] | None

    def of(self, rows: Sequence[int]) -> Sequence[RawRecord]:
        """Return the records of rows, by their index in the batch."""
        indices = rows if self.rows is None else [int(self.rows[row]) for row in rows]
        return [_raw(self.records[index]) for index in indices]


class _PlainDecoder:
    """Decodes records that hold every column, metadata too, as fields of one JSON object."""

    def __init__(self, table: Table, request: ReadRequest) -> None:
        wanted = [table.schema.column(name) for name in request.columns]
        columns: Fields = [(c.name, c.type) for c in wanted if not isinstance(c, ComputedColumn)]
        carrier, resolved = carrier_of(table)
        decoder: Decoder = carrier.decoder(columns, resolved)
        leaves_out = bad_record_settings(table).leaves_out
        self._decoder = collecting_errors(decoder) if leaves_out else decoder
        self._schema = pa.schema([arrow_field(name, kind) for name, kind in columns])

    def decode(self, fetched: Fetched) -> RecordsWithSplitIds:
        """Decode the records of a fetch, split by split."""
        batches, origins, bad, skipped = [], {}, {}, 0
        for split, records in fetched.items():
            decoded = self._decoder.decode(
                [record.value for record in records],
                lambda index, of=records: _where(of[index]),  # type: ignore[misc]
            )
            skipped += decoded.skipped
            if decoded.bad:
                bad[split] = [
                    BadRecord(record=_raw(records[b.index]), stage=Stage.VALUE, error=b.error)
                    for b in decoded.bad
                ]
            rows = decoded.batch
            if rows.num_rows:
                batches.append((split, batch_of(rows.columns, self._schema, rows.num_rows)))
                origins[split] = _Origins(records=records, rows=decoded.kept)
        return RecordsWithSplitIds(
            batches=tuple(batches), skipped=skipped, origins=origins, bad=bad
        )


def _where(record: FixtureRecord) -> str:
    return f"split {record.split}, position {record.offset}"


def _raw(record: FixtureRecord) -> RawRecord:
    return RawRecord(
        position=record.offset,
        key=record.key,
        value=record.value,
        where=_where(record),
        path=record.split,
        timestamp_ms=record.timestamp_ms,
    )
