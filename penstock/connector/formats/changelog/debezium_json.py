"""The format `debezium-json`: changes as Debezium writes them, with Flink's options, rules and metadata.

`c` (insert) and `r` (snapshot) are +I, `u` is -U and +U, `d` is -D. Flink's DebeziumJsonFormatFactory,
DebeziumJsonDecodingFormat and DebeziumJsonDeserializationSchema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from penstock.catalog.model import types as t
from penstock.catalog.options.option import BOOLEAN, Option, Resolved
from penstock.connector.formats.changelog.change_format import ChangeFormat
from penstock.connector.formats.changelog.debezium_envelope import (
    DebeziumEnvelopeDecoder,
    DebeziumLayout,
)
from penstock.connector.formats.changelog.decoder import Operation
from penstock.connector.formats.changelog.envelopes import STRING, STRINGS, MetadataField, instants
from penstock.connector.formats.contract import Decoder, Fields
from penstock.connector.formats.json.options import JsonSettings

__all__ = ["DebeziumJsonFormat"]

_INSTANT = t.TimestampLtzType(precision=3)
_OPERATIONS = {
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
            operations=_OPERATIONS,
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
    )


def _hint(value: bytes, include: Option[bool]) -> str:
    """Return what a record without a known operation may mean."""
    if b'"payload"' in value:
        return f"the record seems to hold its schema: set '{include.key}' = 'true'"
    return (
        f"records without their schema need '{include.key}' = 'false'; truncations and messages (op 't', 'm') are "
        "no changes of rows: leave them out with 'skipped.operations' of the Debezium connector"
    )
