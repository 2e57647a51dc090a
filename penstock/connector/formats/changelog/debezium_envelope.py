"""Decode envelopes with the whole row before and after each change: Debezium and GoldenGate.

Flink's DebeziumJsonDeserializationSchema and OggJsonDeserializationSchema, whose rules are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.connector.formats.changelog.decoder import (
    EnvelopeDecoder,
    EnvelopeRows,
    Operation,
    Operations,
    change_rows,
    images,
)
from penstock.connector.formats.changelog.envelopes import (
    Envelope,
    EnvelopeReader,
    Envelopes,
    Fault,
    MetadataField,
    missing_image,
    row_of,
    unknown_operation,
)
from penstock.connector.formats.contract import Fields
from penstock.connector.formats.json.options import JsonSettings

__all__ = ["DebeziumEnvelopeDecoder", "DebeziumLayout"]

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
