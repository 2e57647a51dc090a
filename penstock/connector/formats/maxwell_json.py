"""The format `maxwell-json`: changes as Maxwell's daemon writes them, with Flink's options, rules and metadata.

`insert` gives +I, `update` gives -U and +U, `delete` gives -D. Flink's MaxwellJsonDecodingFormat and
MaxwellJsonDeserializationSchema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog import types as t
from penstock.catalog.options import Resolved
from penstock.connector.formats.change_format import ChangeFormat
from penstock.connector.formats.change_rows import Operation
from penstock.connector.formats.contract import Decoder, Fields
from penstock.connector.formats.data_old import DataOldDecoder, DataOldLayout
from penstock.connector.formats.envelopes import STRING, Fact, instants
from penstock.connector.formats.json_options import JsonSettings

__all__ = ["MaxwellJsonFormat"]

_NAMES = t.ArrayType(element=STRING)
_LAYOUT = DataOldLayout(
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
    facts: ClassVar[Mapping[str, Fact]] = {
        "database": Fact(type=STRING, path=("database",), read_as=STRING),
        "table": Fact(type=STRING, path=("table",), read_as=STRING),
        "primary-key-columns": Fact(type=_NAMES, path=("primary_key_columns",), read_as=_NAMES),
        "ingestion-timestamp": Fact(
            type=t.TimestampLtzType(precision=3),
            path=("ts",),
            read_as=t.BigIntType(),
            column=_of_seconds,
        ),
    }

    def make_decoder(
        self,
        fields: Fields,
        facts: Mapping[str, Fact],
        settings: JsonSettings,
        resolved: Resolved,
        base: str,
    ) -> Decoder:
        """Make a decoder."""
        del resolved, base
        return DataOldDecoder(fields, facts, _LAYOUT, settings)
