"""The format `canal-json`: changes as Alibaba's Canal writes them, with Flink's options, rules and metadata.

Of every row in `data`, `INSERT` is +I, `UPDATE` -U and +U, `DELETE` -D; `CREATE`, which is DDL, has no row, and other
DDL is a bad record. Flink's CanalJsonFormatFactory, CanalJsonDecodingFormat and CanalJsonDeserializationSchema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from penstock.catalog.model import types as t
from penstock.catalog.options.option import STRING as TEXT
from penstock.catalog.options.option import Option, Resolved, optional
from penstock.connector.formats.changelog.canal_envelope import CanalEnvelopeDecoder, CanalLayout
from penstock.connector.formats.changelog.change_format import ChangeFormat
from penstock.connector.formats.changelog.decoder import Operation
from penstock.connector.formats.changelog.envelopes import STRING, MetadataField, instants
from penstock.connector.formats.changelog.schema_filter import SchemaFilterDecoder
from penstock.connector.formats.contract import Decoder, Fields
from penstock.connector.formats.json.options import JsonSettings
from penstock.connector.java_pattern import java_pattern

__all__ = ["CanalJsonFormat"]

_INSTANT = t.TimestampLtzType(precision=3)
_NAMES = t.ArrayType(element=STRING)
_TYPES = t.MapType(key=STRING, value=t.IntType())
_LAYOUT = CanalLayout(
    operation="type",
    operations={
        "INSERT": Operation.INSERT,
        "UPDATE": Operation.UPDATE,
        "DELETE": Operation.DELETE,
        "CREATE": Operation.NOTHING,
    },
    lists=True,
    unknown="DDL other than CREATE is not read, as in Flink; 'canal.instance.filter.query.ddl' = 'true' of Canal "
    "leaves it out",
)


class CanalJsonFormat(ChangeFormat):
    """The format `canal-json`."""

    identifier = "canal-json"
    facts: ClassVar[Mapping[str, MetadataField]] = {
        "database": MetadataField(type=STRING, path=("database",), read_as=STRING),
        "table": MetadataField(type=STRING, path=("table",), read_as=STRING),
        "sql-type": MetadataField(type=_TYPES, path=("sqlType",), read_as=_TYPES),
        "pk-names": MetadataField(type=_NAMES, path=("pkNames",), read_as=_NAMES),
        "ingestion-timestamp": MetadataField(
            type=_INSTANT, path=("ts",), read_as=t.BigIntType(), column=instants
        ),
        "event-timestamp": MetadataField(
            type=_INSTANT, path=("es",), read_as=t.BigIntType(), column=instants
        ),
    }

    def own_options(self, base: str) -> tuple[Option[Any], ...]:
        """Return the options of this format only."""
        return (_include(base, "database"), _include(base, "table"))

    def make_decoder(
        self,
        fields: Fields,
        facts: Mapping[str, MetadataField],
        settings: JsonSettings,
        resolved: Resolved,
        base: str,
    ) -> Decoder:
        """Make a decoder of the records of the databases and tables that the options include."""
        decoder = CanalEnvelopeDecoder(fields, facts, _LAYOUT, settings)
        included = {
            field: pattern
            for field in ("database", "table")
            if (pattern := _pattern(resolved, _include(base, field))) is not None
        }
        return SchemaFilterDecoder(decoder, included) if included else decoder


def _include(base: str, field: str) -> Option[str | None]:
    return optional(
        TEXT,
        f"{base}{field}.include",
        f"Java regular expression for the whole name of the {field} whose changes are read; default every one.",
    )


def _pattern(resolved: Resolved, option: Option[str | None]) -> re.Pattern[str] | None:
    text = resolved.get(option)
    return None if text is None else java_pattern(text, what=f"'{option.key}'", hint=option.doc)
