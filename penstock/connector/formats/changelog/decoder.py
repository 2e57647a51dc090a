"""Decode envelopes to changes of rows: one row for INSERT and DELETE, two rows for UPDATE.

Records are filtered by two or three of their fields (schema, table) before anything else is decoded.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.arrow import arrow_schema
from penstock.connector.changelog import RowKind
from penstock.connector.formats.changelog.envelopes import (
    STRING,
    EnvelopeReader,
    Envelopes,
    Fault,
    MetadataField,
)
from penstock.connector.formats.contract import Decoded, Decoder, Fields, Where
from penstock.connector.formats.decoders import batch_of, collecting_errors
from penstock.connector.formats.json.decoder import JsonDecoder
from penstock.connector.formats.json.lines import Mask
from penstock.connector.formats.json.options import JsonSettings
from penstock.connector.formats.values import take


class Operation(IntEnum):
    """What an event says happened to a row. UNKNOWN: not said, or nothing that is known; NOTHING: to no row."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    UNKNOWN = 3
    NOTHING = 4


Operations = npt.NDArray[np.int8]
"""Values of Operation, one an event."""

# by operation: how many rows it gives, and the kind of the first of them
_ROWS = np.array([1, 2, 1, 0, 0])

_FIRST = np.array([RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.DELETE, 0, 0], np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRows:
    """Rows to make: of which event each is, whether it is the image after the event or before, and its RowKind."""

    events: npt.NDArray[np.int64]
    after: npt.NDArray[np.bool_]
    kinds: npt.NDArray[np.int8]


def operations_of(texts: pa.Array, names: Mapping[str, Operation]) -> Operations:
    """Read operations by their names; what has no name there is UNKNOWN."""
    codes = np.array([*names.values(), Operation.UNKNOWN], np.int8)
    found = pc.index_in(texts, pa.array(list(names), pa.string()))
    indexes: npt.NDArray[np.int32] = np.asarray(found.fill_null(len(names)))
    return codes[indexes]


def change_rows(operations: Operations) -> ChangeRows:
    """Return the rows of events, in their order; the row before an update comes before the row after it."""
    events = np.repeat(np.arange(len(operations)), _ROWS[operations])
    second = np.zeros(len(events), np.bool_)
    second[1:] = events[1:] == events[:-1]
    of_rows = operations[events]
    kinds = np.where(second, np.int8(RowKind.UPDATE_AFTER), _FIRST[of_rows])
    return ChangeRows(events=events, after=second | (of_rows == Operation.INSERT), kinds=kinds)


def images(before: pa.Array, after: pa.Array, rows: ChangeRows) -> pa.Array:
    """Make a column of the rows from its values before and after each event."""
    if len(rows.events) == len(after) and rows.after.all():  # a snapshot: inserts only
        return after
    chosen = rows.events + len(before) * rows.after
    return pa.concat_arrays([before, after]).take(pa.array(chosen))


Indexes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeRows:
    """The rows of a batch: the envelope that each is of, its RowKind, and the columns of the fields."""

    envelopes: Indexes
    kinds: npt.NDArray[np.int8]
    columns: Sequence[pa.Array]


class EnvelopeDecoder(ABC):
    """A Decoder of changes. A record without a row, such as a tombstone or DDL, is skipped and not counted."""

    def __init__(
        self,
        reader: EnvelopeReader,
        fields: Fields,
        facts: Mapping[str, MetadataField],
        operation: str,
        operations: Mapping[str, Operation],
    ) -> None:
        """`facts` are the metadata columns behind those of `fields`, `operations` the values of field `operation`."""
        self._reader = reader
        self._facts = tuple(facts.values())
        self._operation = operation
        self._operations = operations
        self._schema = arrow_schema([*fields, *((name, fact.type) for name, fact in facts.items())])

    def gathering(self) -> Self:
        """Return a decoder that lists bad records and raises for none (`CollectsErrors`)."""
        gathers = copy(self)
        gathers._reader = self._reader.gathering()  # noqa: SLF001  of this class
        return gathers

    def decode(self, values: Sequence[bytes | None], where: Where) -> Decoded:
        """Decode one batch, see Decoder."""
        envelopes = self._reader.read(values, where)
        operations = operations_of(envelopes.columns[self._operation], self._operations)
        faults = self._faults(envelopes, operations, values)
        found = self._reader.sort_out(envelopes, faults, values, where)
        good = np.where(found.good, operations, np.int8(Operation.NOTHING))
        rows = self._rows(envelopes, good, values)
        taken = pa.array(rows.envelopes)
        facts = [envelopes.fact(fact).take(taken) for fact in self._facts]
        return Decoded(
            batch=batch_of([*rows.columns, *facts], self._schema, len(rows.envelopes)),
            kept=envelopes.records[rows.envelopes],
            skipped=found.skipped,
            kinds=rows.kinds,
            bad=found.bad,
        )

    @abstractmethod
    def _faults(
        self, envelopes: Envelopes, operations: Operations, values: Sequence[bytes | None]
    ) -> list[Fault]:
        """Return what is wrong with envelopes, the gravest first."""

    @abstractmethod
    def _rows(
        self, envelopes: Envelopes, operations: Operations, values: Sequence[bytes | None]
    ) -> EnvelopeRows:
        """Make the rows of the operations; NOTHING has none."""


class SchemaFilterDecoder:
    """A Decoder of the records in which every field of `included` matches its pattern as a whole."""

    def __init__(self, decoder: Decoder, included: Mapping[str, re.Pattern[str]]) -> None:
        """`decoder` gets those records, and what is no record at all, which is for it to tell."""
        self._decoder = decoder
        self._included = included
        self._fields = JsonDecoder(
            [(field, STRING) for field in included],
            JsonSettings(ignore_parse_errors=True, explode_arrays=False),
        )

    def gathering(self) -> SchemaFilterDecoder:
        """Return a decoder that lists bad records and raises for none (`CollectsErrors`)."""
        return SchemaFilterDecoder(collecting_errors(self._decoder), self._included)

    def decode(self, values: Sequence[bytes | None], where: Where) -> Decoded:
        """Decode one batch, see Decoder. Records that are not included are not counted."""
        chosen = np.flatnonzero(~self._of_others(values, where))
        if len(chosen) == len(values):
            return self._decoder.decode(values, where)
        decoded = self._decoder.decode(
            take(values, chosen), lambda index: where(int(chosen[index]))
        )
        return replace(
            decoded,
            kept=chosen if decoded.kept is None else chosen[decoded.kept],
            bad=tuple(replace(bad, index=int(chosen[bad.index])) for bad in decoded.bad),
        )

    def _of_others(self, values: Sequence[bytes | None], where: Where) -> Mask:
        decoded = self._fields.decode(values, where)
        rows = np.arange(len(values)) if decoded.kept is None else decoded.kept
        fits = np.ones(len(rows), np.bool_)
        for column, pattern in zip(decoded.batch.columns, self._included.values(), strict=True):
            fits &= _matches(column, pattern)
        others = np.zeros(len(values), np.bool_)
        others[rows[~fits]] = True
        return others


def _matches(column: pa.Array, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    """Match each text once."""
    texts = column.dictionary_encode()
    found = [pattern.fullmatch(text) is not None for text in texts.dictionary.to_pylist()]
    return np.asarray(pa.array(found, pa.bool_()).take(texts.indices).fill_null(False))
