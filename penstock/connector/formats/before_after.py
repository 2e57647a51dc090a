"""Decodes envelopes that hold a whole row before and after each change: those of Debezium and GoldenGate.

Flink's DebeziumJsonDeserializationSchema and OggJsonDeserializationSchema, whose rules are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.connector.arrow import arrow_schema
from penstock.connector.formats.change_rows import (
    Operation,
    Operations,
    change_rows,
    images,
    operations_of,
)
from penstock.connector.formats.contract import Decoded, Fields, Where
from penstock.connector.formats.envelopes import (
    Envelope,
    EnvelopeReader,
    Envelopes,
    Fact,
    Fault,
    missing_image,
    row_of,
    unknown_operation,
)
from penstock.connector.formats.json_options import JsonSettings
from penstock.connector.formats.without_columns import batch_of

__all__ = ["BeforeAfterDecoder", "BeforeAfterLayout"]

BEFORE, AFTER = "before", "after"
REPLICA_IDENTITY = "a table of PostgreSQL needs ALTER TABLE ... REPLICA IDENTITY FULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeAfterLayout:
    """Where an envelope has what. `operations` are the values of the field `operation`; `payload`: see Envelope.

    `unknown` gives the hint for a record whose operation is none of them.
    """

    operation: str
    operations: Mapping[str, Operation]
    payload: str | None = None
    unknown: Callable[[bytes], str] = lambda _: "read topics that hold changes of rows only"


class BeforeAfterDecoder:
    """A Decoder of such envelopes. What tells nothing of a row, a tombstone, gives none and is not counted."""

    def __init__(
        self,
        fields: Fields,
        facts: Mapping[str, Fact],
        layout: BeforeAfterLayout,
        settings: JsonSettings,
    ) -> None:
        """`facts` are the metadata columns behind those of `fields`, by name."""
        row = row_of(fields)
        self._envelope = Envelope(
            images=[(BEFORE, row), (AFTER, row)],
            operation=layout.operation,
            facts=tuple(facts.values()),
            payload=layout.payload,
        )
        self._width = len(fields)
        self._layout = layout
        self._reader = EnvelopeReader(self._envelope, settings)
        self._schema = arrow_schema([*fields, *((name, fact.type) for name, fact in facts.items())])

    def gathering(self) -> BeforeAfterDecoder:
        """Give a decoder that lists bad records and raises for none (`Gathers`)."""
        gathers = copy(self)
        gathers._reader = self._reader.gathering()  # noqa: SLF001  of this class
        return gathers

    def decode(self, values: Sequence[bytes | None], where: Where) -> Decoded:
        """Decode one batch, see Decoder."""
        envelopes = self._reader.read(values, where)
        operations = operations_of(
            envelopes.columns[self._layout.operation], self._layout.operations
        )
        faults = self._faults(envelopes, operations, values)
        found = self._reader.sort_out(envelopes, faults, values, where)
        rows = change_rows(np.where(found.good, operations, np.int8(Operation.NOTHING)))
        before, after = envelopes.columns[BEFORE], envelopes.columns[AFTER]
        arrays = [images(before.field(i), after.field(i), rows) for i in range(self._width)]
        of_rows = pa.array(rows.events)
        arrays += [envelopes.fact(fact).take(of_rows) for fact in self._envelope.facts]
        return Decoded(
            batch=batch_of(arrays, self._schema, len(rows.events)),
            kept=envelopes.records[rows.events],
            skipped=found.skipped,
            kinds=rows.kinds,
            bad=found.bad,
        )

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
