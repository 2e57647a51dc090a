"""The formats `canal-json` and `maxwell-json`: changes as Alibaba's Canal and Maxwell's daemon write them.

Their envelopes hold rows as `data` and the previous values of updated columns as `old`. Options, rules and metadata
are Flink's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import types as t
from penstock.catalog.options.option import STRING as TEXT
from penstock.catalog.options.option import Option, OptionScope, Resolved, optional
from penstock.connector.formats.changelog.decoder import (
    ChangeRows,
    EnvelopeDecoder,
    EnvelopeRows,
    Indexes,
    Operation,
    Operations,
    SchemaFilterDecoder,
    change_rows,
)
from penstock.connector.formats.changelog.envelopes import (
    STRING,
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
from penstock.connector.formats.json.columns import Path, any_between, has_swap
from penstock.connector.formats.json.lines import Mask
from penstock.connector.formats.json.options import JsonSettings
from penstock.connector.formats.json.text import parse
from penstock.connector.jvm.java_pattern import java_pattern

FIELD = "old"


def lists_old_value(
    old: Sequence[pa.Array],
    new: Sequence[pa.Array],
    names: Sequence[str],
    updates: Mask,
    text: Callable[[int], bytes],
    position: Callable[[int], int | None],
) -> list[Mask]:
    """Return for each column, and each event among `updates`, whether the record lists its old value.

    `old` and `new` are columns, `names` theirs in the records. `text(i)` is the record of event `i`, `position(i)` its
    place in the list of old values (None: there is one). Elsewhere than at updates the answer is no.
    """
    listed = [updates & np.asarray(column.is_valid()) for column in old]
    # NULL beside NULL is the same, listed or not
    unclear = [
        updates & ~known & np.asarray(column.is_valid())
        for known, column in zip(listed, new, strict=True)
    ]
    asked = np.flatnonzero(np.logical_or.reduce(unclear)) if unclear else np.empty(0, np.int64)
    for event in _with_null(asked, names, text).tolist():
        values = parse(text(event)).get(FIELD)
        at = position(event)
        found: dict[str, Any] = values if at is None else values[at]
        for known, name in zip(listed, names, strict=True):
            known[event] |= name in found
    return listed


def _with_null(
    events: npt.NDArray[np.int64], names: Sequence[str], text: Callable[[int], bytes]
) -> npt.NDArray[np.int64]:
    """Choose the events whose records may list one of the columns as null: some of them do not."""
    if not len(events):
        return events
    # behind the field, the column's name and null; or anything written as an escape, or in UTF-16
    null_in_old = rf'"{FIELD}"[\s\S]*"({"|".join(map(re.escape, names))})"\s*:\s*null|\\|\x00'
    texts = pa.array([text(event) for event in events.tolist()], pa.binary())
    may: Mask = np.asarray(pc.match_substring_regex(texts, null_in_old))
    return events[may]


DATA, OLD = "data", "old"


@dataclass(frozen=True, slots=True, kw_only=True)
class CanalLayout:
    """The layout of an envelope. `operations` are the values of the field `operation`.

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
    positions: Indexes | None
    operations: Operations
    data: Sequence[pa.Array]
    old: Sequence[pa.Array]


class CanalEnvelopeDecoder(EnvelopeDecoder):
    """A Decoder of such envelopes."""

    def __init__(
        self,
        fields: Fields,
        facts: Mapping[str, MetadataField],
        layout: CanalLayout,
        settings: JsonSettings,
    ) -> None:
        """`facts` are the metadata columns behind those of `fields`, by name."""
        # `old` has no more than what changed, whatever the columns say
        changed = row_of([(name, replace(logical, nullable=True)) for name, logical in fields])
        new = row_of(fields)
        envelope = Envelope(
            images=[
                (DATA, t.ArrayType(element=new) if layout.lists else new),
                (OLD, t.ArrayType(element=changed) if layout.lists else changed),
            ],
            operation=layout.operation,
            facts=tuple(facts.values()),
        )
        swapped = _texts_in_lists(fields) if layout.lists else frozenset()
        reader = EnvelopeReader(envelope, settings, swapped)
        super().__init__(reader, fields, facts, layout.operation, layout.operations)
        self._names = [name for name, _ in fields]
        self._layout = layout

    def _rows(
        self, envelopes: Envelopes, operations: Operations, values: Sequence[bytes | None]
    ) -> EnvelopeRows:
        events = self._events(envelopes, operations)
        rows = change_rows(events.operations)
        columns = self._images(events, rows, lambda e: values[envelopes.records[e]] or b"")
        return EnvelopeRows(
            envelopes=events.envelopes[rows.events], kinds=rows.kinds, columns=columns
        )

    def _faults(
        self, envelopes: Envelopes, operations: Operations, values: Sequence[bytes | None]
    ) -> list[Fault]:
        del values
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
                positions=None,
                operations=operations,
                data=[data.field(i) for i in width],
                old=[old.field(i) for i in width],
            )
        counts = np.where(operations == Operation.NOTHING, 0, _lengths(data))
        of = np.repeat(np.arange(len(operations)), counts)
        positions = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        in_data = pa.array(np.asarray(data.offsets)[of] + positions)
        no_old = operations[of] != Operation.UPDATE
        in_old = pa.array(np.where(no_old, 0, np.asarray(old.offsets)[of] + positions), mask=no_old)
        return _Events(
            envelopes=of,
            positions=positions,
            operations=operations[of],
            data=[data.values.field(i).take(in_data) for i in width],
            old=[old.values.field(i).take(in_old) for i in width],
        )

    def _images(
        self, events: _Events, rows: ChangeRows, text: Callable[[int], bytes]
    ) -> list[pa.Array]:
        """Make the columns of the rows: before an update, the old value where one is listed, else the new one."""
        positions = events.positions
        listed = lists_old_value(
            events.old,
            events.data,
            self._names,
            events.operations == Operation.UPDATE,
            text=lambda event: text(int(events.envelopes[event])),
            position=lambda event: None if positions is None else int(positions[event]),
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
    """Return which lists hold a null."""
    if not lists.values.null_count:
        return np.zeros(len(lists), np.bool_)
    return any_between(np.asarray(lists.values.is_null()), np.asarray(lists.offsets))


def _texts_in_lists(fields: Fields) -> frozenset[Path]:
    """Return the numbers and booleans among columns of rows in lists: Canal writes all values as texts."""
    return frozenset(
        (image, "", name)
        for image in (DATA, OLD)
        for name, logical in fields
        if has_swap(logical) and not isinstance(logical, t.CharType | t.VarCharType)
    )


_INSTANT = t.TimestampLtzType(precision=3)
_NAMES = t.ArrayType(element=STRING)
_TYPES = t.MapType(key=STRING, value=t.IntType())
_CANAL = CanalLayout(
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
        decoder = CanalEnvelopeDecoder(fields, facts, _CANAL, settings)
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
        scope=OptionScope.SOURCE,
    )


def _pattern(resolved: Resolved, option: Option[str | None]) -> re.Pattern[str] | None:
    text = resolved.get(option)
    return None if text is None else java_pattern(text, what=f"'{option.key}'", hint=option.doc)


_MAXWELL = CanalLayout(
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
        return CanalEnvelopeDecoder(fields, facts, _MAXWELL, settings)
