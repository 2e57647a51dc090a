"""Decodes envelopes that hold rows as `data`, and in `old` what an update changed: those of Canal and Maxwell.

Flink's CanalJsonDeserializationSchema and MaxwellJsonDeserializationSchema. A column that `old` lists had that value
before, NULL included; any other had the value it has in `data`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog import types as t
from penstock.connector.arrow import arrow_schema
from penstock.connector.formats.change_rows import (
    ChangeRows,
    Operation,
    Operations,
    change_rows,
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
from penstock.connector.formats.json_columns import Path, any_between, has_swap
from penstock.connector.formats.json_lines import Mask
from penstock.connector.formats.json_options import JsonSettings
from penstock.connector.formats.old_values import old_is_listed
from penstock.connector.formats.without_columns import batch_of

__all__ = ["DataOldDecoder", "DataOldLayout"]

DATA, OLD = "data", "old"

Indexes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOldLayout:
    """Where an envelope has what. `operations` are the values of the field `operation`.

    `lists`: `data` and `old` are lists of rows, of one change each; their values are texts. `unknown` is the hint for
    a record whose operation is none of them.
    """

    operation: str
    operations: Mapping[str, Operation]
    lists: bool
    unknown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Events:
    """Changes of single rows: the envelope of each, its place in the lists there, and the columns of both images."""

    envelopes: Indexes
    places: Indexes | None
    operations: Operations
    data: Sequence[pa.Array]
    old: Sequence[pa.Array]


class DataOldDecoder:
    """A Decoder of such envelopes. What tells nothing of a row, such as DDL, gives none and is not counted."""

    def __init__(
        self,
        fields: Fields,
        facts: Mapping[str, Fact],
        layout: DataOldLayout,
        settings: JsonSettings,
    ) -> None:
        """`facts` are the metadata columns behind those of `fields`, by name."""
        # `old` has no more than what changed, whatever the columns say
        changed = row_of([(name, replace(logical, nullable=True)) for name, logical in fields])
        new = row_of(fields)
        self._names = [name for name, _ in fields]
        self._facts = tuple(facts.values())
        self._layout = layout
        envelope = Envelope(
            images=[
                (DATA, t.ArrayType(element=new) if layout.lists else new),
                (OLD, t.ArrayType(element=changed) if layout.lists else changed),
            ],
            operation=layout.operation,
            facts=self._facts,
        )
        swapped = _texts_in_lists(fields) if layout.lists else frozenset()
        self._reader = EnvelopeReader(envelope, settings, swapped)
        self._schema = arrow_schema([*fields, *((name, fact.type) for name, fact in facts.items())])

    def gathering(self) -> DataOldDecoder:
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
        faults = self._faults(envelopes, operations)
        found = self._reader.sort_out(envelopes, faults, values, where)
        events = self._events(
            envelopes, np.where(found.good, operations, np.int8(Operation.NOTHING))
        )
        rows = change_rows(events.operations)
        of_envelopes = events.envelopes[rows.events]
        arrays = self._images(events, rows, lambda e: values[envelopes.records[e]] or b"")
        taken = pa.array(of_envelopes)
        arrays += [envelopes.fact(fact).take(taken) for fact in self._facts]
        return Decoded(
            batch=batch_of(arrays, self._schema, len(rows.events)),
            kept=envelopes.records[of_envelopes],
            skipped=found.skipped,
            kinds=rows.kinds,
            bad=found.bad,
        )

    def _faults(self, envelopes: Envelopes, operations: Operations) -> list[Fault]:
        texts = envelopes.columns[self._layout.operation]
        data, old = envelopes.columns[DATA], envelopes.columns[OLD]
        changes = np.isin(operations, (Operation.INSERT, Operation.UPDATE, Operation.DELETE))
        updates = operations == Operation.UPDATE
        faults = [
            unknown_operation(
                operations == Operation.UNKNOWN,
                texts,
                self._layout.operation,
                self._layout.operations,
                lambda _: self._layout.unknown,
            ),
            missing_image(changes & np.asarray(data.is_null()), texts, DATA),
            missing_image(updates & np.asarray(old.is_null()), texts, OLD),
        ]
        if not self._layout.lists:
            return faults
        lacking = changes & _null_inside(data) | updates & _null_inside(old)
        fewer = updates & (_lengths(old) < _lengths(data))
        return [
            *faults,
            Fault(at=lacking, what=lambda _: f"a row in '{DATA}' or '{OLD}' is null"),
            Fault(at=fewer, what=lambda _: f"'{OLD}' has fewer rows than '{DATA}'"),
        ]

    def _events(self, envelopes: Envelopes, operations: Operations) -> _Events:
        data, old = envelopes.columns[DATA], envelopes.columns[OLD]
        width = range(len(self._names))
        if not self._layout.lists:
            return _Events(
                envelopes=np.arange(len(operations)),
                places=None,
                operations=operations,
                data=[data.field(i) for i in width],
                old=[old.field(i) for i in width],
            )
        counts = np.where(operations == Operation.NOTHING, 0, _lengths(data))
        of = np.repeat(np.arange(len(operations)), counts)
        places = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        in_data = pa.array(np.asarray(data.offsets)[of] + places)
        no_old = operations[of] != Operation.UPDATE
        in_old = pa.array(np.where(no_old, 0, np.asarray(old.offsets)[of] + places), mask=no_old)
        return _Events(
            envelopes=of,
            places=places,
            operations=operations[of],
            data=[data.values.field(i).take(in_data) for i in width],
            old=[old.values.field(i).take(in_old) for i in width],
        )

    def _images(
        self, events: _Events, rows: ChangeRows, text: Callable[[int], bytes]
    ) -> list[pa.Array]:
        """Make the columns of the rows: before an update, the old value where one is listed, else the new one."""
        places = events.places
        listed = old_is_listed(
            events.old,
            events.data,
            self._names,
            events.operations == Operation.UPDATE,
            text=lambda event: text(int(events.envelopes[event])),
            place=lambda event: None if places is None else int(places[event]),
        )
        columns = []
        for old, data, of_events in zip(events.old, events.data, listed, strict=True):
            is_new = rows.after | ~of_events[rows.events]
            chosen = pa.array(rows.events + len(old) * is_new)
            columns.append(pa.concat_arrays([old, data]).take(chosen))
        return columns


def _lengths(lists: pa.ListArray) -> Indexes:
    return np.asarray(pc.list_value_length(lists).fill_null(0)).astype(np.int64)


def _null_inside(lists: pa.ListArray) -> Mask:
    """Tell which lists hold a null."""
    if not lists.values.null_count:
        return np.zeros(len(lists), np.bool_)
    return any_between(np.asarray(lists.values.is_null()), np.asarray(lists.offsets))


def _texts_in_lists(fields: Fields) -> frozenset[Path]:
    """Give the numbers and booleans among columns of rows in lists: Canal writes all values as texts."""
    return frozenset(
        (image, "", name)
        for image in (DATA, OLD)
        for name, logical in fields
        if has_swap(logical) and not isinstance(logical, t.CharType | t.VarCharType)
    )
