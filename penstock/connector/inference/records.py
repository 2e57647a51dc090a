"""From records of JSON, plain or of changes, or of bytes without fields, to columns, event time and its disorder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn, PrimaryKey
from penstock.catalog.options.option import resolve
from penstock.connector.formats import find_format
from penstock.connector.formats.contract import Fields
from penstock.connector.formats.decoders import collecting_errors
from penstock.connector.formats.json.options import json_options, json_settings
from penstock.connector.inference.event_time import RowtimeCandidate, rowtime_candidates
from penstock.connector.inference.inferred_table import InferredColumn
from penstock.connector.inference.sample import (
    Sample,
    SampledSplit,
    Shape,
    Shapes,
    listed,
    parse_json,
    shapes_of,
)
from penstock.connector.inference.value_types import STRING, FieldSeen, infer_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEnvelope:
    """A format of changes: the fields by which its records are known, and those that hold rows.

    `payload`: the envelope is inside of that field, beside its schema (`schema-include` of debezium-json).
    """

    format: str
    known_by: frozenset[str]
    images: tuple[str, ...]
    payload: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    keys: str | None = None

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record is of this format."""
        inside = self._inside(record)
        return inside is not None and self.known_by <= inside.keys()

    def rows(self, record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Return the whole rows in a record: what `old` of Canal and Maxwell holds is a part of one."""
        inside = self._inside(record) or {}
        for image in self.images:
            held = inside.get(image)
            yield from (row for row in (held if isinstance(held, list) else [held]) if _is_row(row))

    def key_names(self, record: Mapping[str, Any]) -> list[str]:
        """Return the columns of the primary key, where a record names them."""
        inside = self._inside(record) or {}
        named = inside.get(self.keys) if self.keys is not None else None
        return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []

    def _inside(self, record: Mapping[str, Any]) -> Mapping[str, Any] | None:
        inside = record if self.payload is None else record.get(self.payload)
        return inside if isinstance(inside, dict) else None


_ENVELOPES = (
    ChangeEnvelope(
        format="debezium-json",
        known_by=frozenset({"before", "after", "op"}),
        images=("before", "after"),
    ),
    ChangeEnvelope(
        format="debezium-json",
        known_by=frozenset({"before", "after", "op"}),
        images=("before", "after"),
        payload="payload",
        options=(("debezium-json.schema-include", "true"),),
    ),
    ChangeEnvelope(
        format="canal-json",
        known_by=frozenset({"data", "old", "type", "isDdl"}),
        images=("data",),
        keys="pkNames",
    ),
    ChangeEnvelope(
        format="maxwell-json",
        known_by=frozenset({"data", "type", "database", "table"}),
        images=("data",),
        keys="primary_key_columns",
    ),
    ChangeEnvelope(
        format="ogg-json",
        known_by=frozenset({"op_type", "table"}),
        images=("before", "after"),
        keys="primary_keys",
    ),
)
_MOST = 0.9


def detect_envelope(records: Sequence[Mapping[str, Any]]) -> ChangeEnvelope | None:
    """Find the format of changes that nearly all records are of; None where they are plain rows."""
    for envelope in _ENVELOPES:
        fitting = sum(envelope.fits(record) for record in records)
        if records and fitting >= len(records) * _MOST:
            return envelope
    return None


def envelope_of(name: str, records: Sequence[Mapping[str, Any]]) -> ChangeEnvelope | None:
    """Return the envelope of a format that was named, in the variant that fits most records; None for `json`."""
    variants = [each for each in _ENVELOPES if each.format == name]
    return max(variants, key=lambda each: sum(map(each.fits, records)), default=None)


def _is_row(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and bool(value)


_STANDARDS = ("SQL", "ISO-8601", "ISO-8601-WITH-OFFSET")

_SOME = 0.5
"""Below this share a format that was asked for is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredRecords:
    """What the values of a sample say. `options` are `format` and those of the format.

    `candidates` may be event time, the best first; none for changes of rows. `bad_records` cannot be read.
    `remarks` are for people.
    """

    format: str
    columns: tuple[InferredColumn, ...]
    options: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...] = ()
    candidates: tuple[RowtimeCandidate, ...] = ()
    bad_records: int = 0
    primary_key: PrimaryKey | None = None

    @property
    def bad_record_options(self) -> tuple[tuple[str, str], ...]:
        """Keep bad records aside where there are some: else the first one fails every query."""
        return (("bad-records", "dead-letter"),) if self.bad_records else ()

    @property
    def fields(self) -> Fields:
        """The physical columns."""
        columns = (each.column for each in self.columns)
        return [(each.name, each.type) for each in columns if isinstance(each, PhysicalColumn)]


def infer_records(sample: Sample, asked: str | None) -> InferredRecords:
    """Infer from the values of a sample that has some; `asked` is a format, None to find it out.

    Raises DefinitionError where no format, or not the one asked for, fits most records.
    """
    shapes = shapes_of(sample.values)
    if asked == "raw":
        return _raw(shapes)
    if asked is None and shapes.share(Shape.JSON) < _MOST:
        return _other_than_json(shapes, sample)
    if asked is not None and shapes.share(Shape.JSON) < _SOME:
        raise DefinitionError(
            f"the records of {sample.origin} are not of the format '{asked}': {shapes.text}",
            hint="leave --format out, or take the records as they are with --format raw",
        )
    return _json(sample, asked)


def _other_than_json(shapes: Shapes, sample: Sample) -> InferredRecords:
    if shapes.share(Shape.FRAMED) >= _MOST:
        raise DefinitionError(
            f"the records of {sample.origin} are {Shape.FRAMED}, which no format here reads yet",
            hint="--format raw keeps them as BYTES; the schema as a table: "
            "penstock catalog infer registry+http://HOST:8081/subjects/NAME",
        )
    texts = (shapes.share(shape) for shape in (Shape.TEXT, Shape.DELIMITED))
    if sum(texts) >= _MOST or shapes.share(Shape.BYTES) >= _MOST:
        return _raw(shapes)
    raise DefinitionError(
        f"the records of {sample.origin} are of several kinds: {shapes.text}",
        hint="choose one with --format json, whose other records are bad ones, or --format raw",
    )


def _raw(shapes: Shapes) -> InferredRecords:
    is_text = not (shapes.counts[Shape.BYTES] or shapes.counts[Shape.FRAMED])
    kind = STRING if is_text else t.VarBinaryType(length=t.MAX_LENGTH)
    remarks = [f"The records are {shapes.text}."]
    if shapes.share(Shape.DELIMITED) >= _MOST:
        remarks.append(
            "No format here reads delimited text yet: each record is one STRING, to be taken apart with "
            "SPLIT_INDEX(message, ',', 0) and CAST."
        )
    column = PhysicalColumn(name="message", type=kind)
    return InferredRecords(
        format="raw",
        columns=(InferredColumn(column=column, remark="the whole value"),),
        options=(("format", "raw"),),
        remarks=tuple(remarks),
    )


# --- JSON ---


def _json(sample: Sample, asked: str | None) -> InferredRecords:
    records = _objects(sample.values)
    envelope = detect_envelope(records) if asked is None else envelope_of(asked, records)
    objects = records
    if envelope is not None:
        objects = [row for record in records for row in envelope.rows(record)]
    if not objects:
        raise DefinitionError(
            f"the records of {sample.origin} hold no object with fields",
            hint="a format of changes wants its envelopes; --format json takes objects as they are",
        )
    name = "json" if envelope is None else envelope.format
    standard, fields, notes = _best_standard(objects)
    options = [("format", name)]
    if standard != _STANDARDS[0]:
        options.append((f"{name}.timestamp-format.standard", standard))
    options += [] if envelope is None else envelope.options
    inferred = InferredRecords(
        format=name,
        columns=tuple(_inferred_column(each) for each in fields),
        options=tuple(options),
        remarks=notes,
        primary_key=_primary_key(envelope, records, fields),
    )
    return _with_decoded(inferred, sample)


def _objects(values: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the objects of all values; a record that is an array holds several (as Flink reads it)."""
    found: list[dict[str, Any]] = []
    for value in values:
        try:
            parsed = parse_json(value)
        except ValueError:
            continue  # the table's format will tell, with the record's place
        elements = parsed if isinstance(parsed, list) else [parsed]
        found += [each for each in elements if isinstance(each, dict)]
    return found


def _best_standard(
    objects: Sequence[dict[str, Any]],
) -> tuple[str, list[FieldSeen], tuple[str, ...]]:
    """Choose the way of writing timestamps that makes most columns timestamps: a table has one."""
    best: tuple[str, list[FieldSeen], tuple[str, ...]] | None = None
    most = -1
    for name in _STANDARDS:
        key = "json.timestamp-format.standard"
        resolved = resolve({key: name}, json_options(""), owner="discovery")
        fields, notes = infer_fields(objects, json_settings(resolved, "").standard)
        timestamps = sum(each.decided.timestamps for each in fields)
        if timestamps > most:
            best, most = (name, fields, notes), timestamps
    assert best is not None, "there are standards"
    return best


def _inferred_column(seen: FieldSeen) -> InferredColumn:
    column = PhysicalColumn(name=seen.name, type=seen.decided.type)
    return InferredColumn(column=column, remark=f"{seen.decided.reason}; {seen.presence}")


def _primary_key(
    envelope: ChangeEnvelope | None,
    records: Sequence[Mapping[str, Any]],
    fields: Sequence[FieldSeen],
) -> PrimaryKey | None:
    if envelope is None:
        return None
    names = next((found for record in records if (found := envelope.key_names(record))), [])
    known = {each.name for each in fields}
    return PrimaryKey(columns=tuple(names)) if names and set(names) <= known else None


# --- the sample as the table would read it ---


def _with_decoded(inferred: InferredRecords, sample: Sample) -> InferredRecords:
    batches: list[pa.RecordBatch] = []
    bad: list[str] = []
    empty = 0
    for split in sample.splits:
        batch, wrong, nothing = _decode(inferred, split)
        batches.append(batch)
        bad += wrong
        empty += nothing
    remarks = list(inferred.remarks)
    if bad:
        remarks.append(
            f"Could not be read: {len(bad):,} of {sample.size:,} records ({listed(bad)})."
        )
        if len(bad) * 2 > sample.size:
            raise DefinitionError(
                f"more than half of the records of {sample.origin} cannot be read as "
                f"'{inferred.format}': {listed(bad)}",
                hint="choose another --format, or take the records as they are with --format raw",
            )
    if empty:
        remarks.append(
            f"Without a value: {empty:,} of {sample.size:,} records (tombstones). If a record replaces the one before "
            "with the same key, use the connector 'upsert-kafka'."
        )
    candidates: Sequence[RowtimeCandidate] = ()
    if inferred.format == "json":
        candidates = rowtime_candidates(inferred.fields, batches)
    return replace(
        inferred,
        remarks=tuple(remarks),
        candidates=tuple(candidates),
        bad_records=len(bad),
    )


def _decode(
    inferred: InferredRecords, split: SampledSplit
) -> tuple[pa.RecordBatch, list[str], int]:
    """Decode a split; returns its rows, the bad records with their errors, and the number of
    records without a value.
    """
    chosen = find_format(inferred.format)
    options = {key: value for key, value in inferred.options if key != "format"}
    resolved = resolve(options, chosen.options(""), owner="discovery")
    decoder = collecting_errors(chosen.decoder(inferred.fields, resolved))
    values = list(split.values)
    decoded = decoder.decode(values, split.where)
    bad = [f"{split.where(each.index)}: {each.error}" for each in decoded.bad]
    empty = int(np.sum([not value for value in values]))
    return decoded.batch, bad, empty
