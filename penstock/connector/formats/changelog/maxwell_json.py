"""The format `maxwell-json`: changes as Maxwell's daemon writes them, with Flink's options, rules and metadata.

`insert` is +I, `update` is -U and +U, `delete` is -D. Flink's MaxwellJsonDecodingFormat and
MaxwellJsonDeserializationSchema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import types as t
from penstock.catalog.options.option import Resolved
from penstock.connector.formats.changelog.canal_envelope import CanalEnvelopeDecoder, CanalLayout
from penstock.connector.formats.changelog.change_format import ChangeFormat
from penstock.connector.formats.changelog.decoder import Operation
from penstock.connector.formats.changelog.envelopes import STRING, MetadataField, instants
from penstock.connector.formats.contract import Decoder, Fields
from penstock.connector.formats.json.options import JsonSettings

__all__ = ["MaxwellJsonFormat"]

_NAMES = t.ArrayType(element=STRING)
_LAYOUT = CanalLayout(
    operation="type",
    operations={
        "insert": Operation.INSERT,
        "update": Operation.UPDATE,
        "delete": Operation.DELETE,
    },
    lists=False,
    unknown="DDL and bootstraps ('bootstrap-insert') are not read, as in Flink: have Maxwell write them elsewhere",
)
MS_IN_S = 1000
LAST_S = 1 << 42
"""Past it, ms would not fit."""


def _of_seconds(seconds: pa.Array) -> pa.Array:
    near = pc.and_(pc.less(seconds, LAST_S), pc.greater(seconds, -LAST_S))
    return instants(pc.multiply(pc.if_else(near, seconds, None), MS_IN_S))


class MaxwellJsonFormat(ChangeFormat):
    """The format `maxwell-json`."""

    identifier = "maxwell-json"
    facts: ClassVar[Mapping[str, MetadataField]] = {
        "database": MetadataField(type=STRING, path=("database",), read_as=STRING),
        "table": MetadataField(type=STRING, path=("table",), read_as=STRING),
        "primary-key-columns": MetadataField(
            type=_NAMES, path=("primary_key_columns",), read_as=_NAMES
        ),
        "ingestion-timestamp": MetadataField(
            type=t.TimestampLtzType(precision=3),
            path=("ts",),
            read_as=t.BigIntType(),
            column=_of_seconds,
        ),
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
        return CanalEnvelopeDecoder(fields, facts, _LAYOUT, settings)
