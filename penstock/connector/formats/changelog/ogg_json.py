"""The format `ogg-json`: changes as Oracle GoldenGate writes them, with Flink's options and rules.

`I` is +I, `U` is -U and +U, `D` is -D; `T`, a truncation, is no change of a row and a bad record, as in Flink's
OggJsonDeserializationSchema. Of metadata there is what Flink's documentation lists and what its OggJsonDecodingFormat
has; GoldenGate writes times as texts, which that class cannot read, so texts (of UTC) and epoch ms are both taken
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import types as t
from penstock.catalog.options.option import Resolved
from penstock.connector.formats.changelog.change_format import ChangeFormat
from penstock.connector.formats.changelog.debezium_envelope import (
    DebeziumEnvelopeDecoder,
    DebeziumLayout,
)
from penstock.connector.formats.changelog.decoder import Operation
from penstock.connector.formats.changelog.envelopes import STRING, STRINGS, MetadataField, instants
from penstock.connector.formats.contract import Decoder, Fields
from penstock.connector.formats.json.options import JsonSettings
from penstock.connector.formats.json.time_columns import read_timestamps

__all__ = ["OggJsonFormat"]

_OPERATIONS = {"I": Operation.INSERT, "U": Operation.UPDATE, "D": Operation.DELETE}
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
            operation="op_type", operations=_OPERATIONS, unknown=lambda _: _NO_CHANGE
        )
        return DebeziumEnvelopeDecoder(fields, facts, layout, settings)
