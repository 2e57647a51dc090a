"""The formats `debezium-json` and `ogg-json`: changes as Debezium and Oracle GoldenGate write them.

Their envelopes hold the whole row before and after each change. Options, rules and metadata are Flink's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import types as t
from penstock.catalog.options.option import BOOLEAN, Option, OptionScope, Resolved
from penstock.connector.formats.changelog.decoder import (
    EnvelopeDecoder,
    EnvelopeRows,
    Operation,
    Operations,
    change_rows,
    images,
)
from penstock.connector.formats.changelog.envelopes import (
    STRING,
    STRINGS,
    ChangeFormat,
    Envelope,
    EnvelopeReader,
    Envelopes,
    Fault,
    MetadataField,
    instants,
    missing_image,
    row_of,
    unknown_operation,
)
from penstock.connector.formats.contract import Decoder, Fields
from penstock.connector.formats.json.columns import read_timestamps
from penstock.connector.formats.json.options import JsonSettings

BEFORE, AFTER = "before", "after"
REPLICA_IDENTITY = "a table of PostgreSQL needs ALTER TABLE ... REPLICA IDENTITY FULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumLayout:
    """The layout of an envelope. `operations` are the values of the field `operation`; `payload`: see Envelope.

    `unknown` returns the hint for a record whose operation is none of them.
    """

    operation: str
    operations: Mapping[str, Operation]
    payload: str | None = None
    unknown: Callable[[bytes], str] = lambda _: "read topics that hold changes of rows only"


class DebeziumEnvelopeDecoder(EnvelopeDecoder):
    """A Decoder of such envelopes."""

    def __init__(
        self,
        fields: Fields,
        facts: Mapping[str, MetadataField],
        layout: DebeziumLayout,
        settings: JsonSettings,
    ) -> None:
        """`facts` are the metadata columns behind those of `fields`, by name."""
        row = row_of(fields)
        envelope = Envelope(
            images=[(BEFORE, row), (AFTER, row)],
            operation=layout.operation,
            facts=tuple(facts.values()),
            payload=layout.payload,
        )
        reader = EnvelopeReader(envelope, settings)
        super().__init__(reader, fields, facts, layout.operation, layout.operations)
        self._width = len(fields)
        self._layout = layout

    def _rows(
        self, envelopes: Envelopes, operations: Operations, values: Sequence[bytes | None]
    ) -> EnvelopeRows:
        del values
        rows = change_rows(operations)
        before, after = envelopes.columns[BEFORE], envelopes.columns[AFTER]
        columns = [images(before.field(i), after.field(i), rows) for i in range(self._width)]
        return EnvelopeRows(envelopes=rows.events, kinds=rows.kinds, columns=columns)

    def _faults(
        self, envelopes: Envelopes, operations: Operations, values: Sequence[bytes | None]
    ) -> list[Fault]:
        texts = envelopes.columns[self._layout.operation]
        no_before = np.asarray(envelopes.columns[BEFORE].is_null())
        no_after = np.asarray(envelopes.columns[AFTER].is_null())
        needs_before = np.isin(operations, (Operation.UPDATE, Operation.DELETE))
        needs_after = np.isin(operations, (Operation.INSERT, Operation.UPDATE))
        return [
            unknown_operation(
                operations == Operation.UNKNOWN,
                texts,
                self._layout.operation,
                self._layout.operations,
                lambda i: self._layout.unknown(values[envelopes.records[i]] or b""),
            ),
            missing_image(needs_before & no_before, texts, BEFORE, lambda _: REPLICA_IDENTITY),
            missing_image(needs_after & no_after, texts, AFTER),
        ]


_INSTANT = t.TimestampLtzType(precision=3)
_DEBEZIUM_OPERATIONS = {
    "c": Operation.INSERT,
    "r": Operation.INSERT,
    "u": Operation.UPDATE,
    "d": Operation.DELETE,
}


class DebeziumJsonFormat(ChangeFormat):
    """The format `debezium-json`."""

    identifier = "debezium-json"
    facts: ClassVar[Mapping[str, MetadataField]] = {
        "schema": MetadataField(type=STRING, path=("schema",), read_as=STRING, outside=True),
        "ingestion-timestamp": MetadataField(
            type=_INSTANT, path=("ts_ms",), read_as=t.BigIntType(), column=instants
        ),
        "source.timestamp": MetadataField(
            type=_INSTANT, path=("source", "ts_ms"), read_as=STRING, column=instants
        ),
        "source.database": MetadataField(type=STRING, path=("source", "db"), read_as=STRING),
        "source.schema": MetadataField(type=STRING, path=("source", "schema"), read_as=STRING),
        "source.table": MetadataField(type=STRING, path=("source", "table"), read_as=STRING),
        "source.properties": MetadataField(type=STRINGS, path=("source",), read_as=STRINGS),
    }

    def own_options(self, base: str) -> tuple[Option[Any], ...]:
        """Return the options of this format only."""
        return (_schema_include(base),)

    def make_decoder(
        self,
        fields: Fields,
        facts: Mapping[str, MetadataField],
        settings: JsonSettings,
        resolved: Resolved,
        base: str,
    ) -> Decoder:
        """Make a decoder; with schema-include, of what is inside of `payload`."""
        include = _schema_include(base)
        layout = DebeziumLayout(
            operation="op",
            operations=_DEBEZIUM_OPERATIONS,
            payload="payload" if resolved.get(include) else None,
            unknown=lambda value: _hint(value, include),
        )
        return DebeziumEnvelopeDecoder(fields, facts, layout, settings)


def _schema_include(base: str) -> Option[bool]:
    return Option(
        key=f"{base}schema-include",
        type=BOOLEAN,
        default=False,
        doc="Whether records hold their schema beside the payload (value.converter.schemas.enable of Kafka Connect).",
        scope=OptionScope.SOURCE,
    )


def _hint(value: bytes, include: Option[bool]) -> str:
    """Return what a record without a known operation may mean."""
    if b'"payload"' in value:
        return f"the record seems to hold its schema: set '{include.key}' = 'true'"
    return (
        f"records without their schema need '{include.key}' = 'false'; truncations and messages (op 't', 'm') are "
        "no changes of rows: leave them out with 'skipped.operations' of the Debezium connector"
    )


_OGG_OPERATIONS = {"I": Operation.INSERT, "U": Operation.UPDATE, "D": Operation.DELETE}
_NO_CHANGE = "a truncation ('T') is no change of a row: leave it out in GoldenGate, and empty the target by hand"


def _times(texts: pa.Array) -> pa.Array:
    """Return instants of texts: date and time of UTC, or epoch ms; NULL where it is neither."""
    written = pc.replace_substring_regex(texts, r"^(.{10})[ T](.*?)Z?$", r"\1 \2Z")
    values, marked = read_timestamps(written, JsonSettings().standard, instant=True)
    return pc.coalesce(
        pc.if_else(pa.array(marked), None, values), instants(texts).cast(values.type)
    )


def _time(field: str, precision: int) -> MetadataField:
    logical = t.TimestampLtzType(precision=precision)
    return MetadataField(type=logical, path=(field,), read_as=STRING, column=_times)


_NAMES = t.ArrayType(element=STRING)


class OggJsonFormat(ChangeFormat):
    """The format `ogg-json`."""

    identifier = "ogg-json"
    facts: ClassVar[Mapping[str, MetadataField]] = {
        "table": MetadataField(type=STRING, path=("table",), read_as=STRING),
        "primary-keys": MetadataField(type=_NAMES, path=("primary_keys",), read_as=_NAMES),
        "ingestion-timestamp": _time("current_ts", 6),
        "event-timestamp": _time("op_ts", 6),
        "current_ts": _time("current_ts", 3),
        "op_ts": _time("op_ts", 3),
        "source.properties": MetadataField(type=STRINGS, path=("source",), read_as=STRINGS),
    }

    def make_decoder(
        self,
        fields: Fields,
        facts: Mapping[str, MetadataField],
        settings: JsonSettings,
        resolved: Resolved,
        base: str,
    ) -> Decoder:
        """Make a decoder."""
        del resolved, base
        layout = DebeziumLayout(
            operation="op_type", operations=_OGG_OPERATIONS, unknown=lambda _: _NO_CHANGE
        )
        return DebeziumEnvelopeDecoder(fields, facts, layout, settings)
