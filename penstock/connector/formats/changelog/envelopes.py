"""Records that describe changes (envelopes) as columns: images of rows, the operation, and facts beside them.

Read by the decoder of `json`, nested columns included; this module knows what surrounds the rows, and how a faulty
envelope is reported. The formats, on the base `ChangeFormat`, define what the operations mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.errors import BadRecordError
from penstock.catalog.model import types as t
from penstock.catalog.model.types import LogicalType
from penstock.catalog.options.option import Option, Resolved
from penstock.connector.arrow import arrow_schema, arrow_type
from penstock.connector.changelog import ChangelogMode
from penstock.connector.formats.contract import BadValue, Decoder, Fields, Where
from penstock.connector.formats.json.columns import Path
from penstock.connector.formats.json.decoder import JsonDecoder
from penstock.connector.formats.json.format import check_keys
from penstock.connector.formats.json.lines import Mask
from penstock.connector.formats.json.options import (
    JsonSettings,
    envelope_options,
    envelope_settings,
)
from penstock.connector.formats.json.text import excerpt

STRING = t.VarCharType(length=t.MAX_LENGTH)
STRINGS = t.MapType(key=STRING, value=STRING)

MAX_INSTANT_MS = 1 << 52
"""Instants further from 1970 do not fit Arrow's microseconds."""

_NOBODY = t.RowField(name=" ", type=t.BooleanType())


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataField:
    """A format's metadata column: its type, the path in the envelope, and the type read there.

    `column` converts the values read. Below the first step of a path everything is read as STRING. `outside`: it is
    beside the payload, where an envelope has one.
    """

    type: t.LogicalType
    path: Path
    read_as: t.LogicalType
    column: Callable[[pa.Array], pa.Array] = lambda values: values
    outside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What is read of an envelope. `payload` is the field that all but outside facts are in, None for the top.

    `images` are fields that hold rows, by their types.
    """

    images: Fields
    operation: str
    facts: Sequence[MetadataField] = ()
    payload: str | None = None

    @property
    def fields(self) -> Fields:
        """The columns to read."""
        inside = [
            *self.images,
            (self.operation, STRING),
            *_metadata_fields(self._facts(outside=False)),
        ]
        outside = _metadata_fields(self._facts(outside=True))
        if self.payload is None:
            return [*inside, *outside]
        return [(self.payload, row_of(inside)), *outside]

    def _facts(self, *, outside: bool) -> list[MetadataField]:
        return [fact for fact in self.facts if fact.outside is outside]


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelopes:
    """The envelopes of a batch. `records[i]` is the position, among the values, that envelope `i` came from.

    `skipped` and `bad` are the records without an envelope, as in Decoded, tombstones aside.
    """

    columns: Mapping[str, pa.Array]
    records: npt.NDArray[np.int64]
    skipped: int
    bad: tuple[BadValue, ...]

    def fact(self, fact: MetadataField) -> pa.Array:
        """Return a metadata column."""
        column = self.columns[fact.path[0]]
        for name in fact.path[1:]:
            column = (
                pc.map_lookup(column, name, "last")
                if pa.types.is_map(column.type)
                else pc.struct_field(column, name)
            )
        return fact.column(column).cast(arrow_type(fact.type))


def default_hint(_index: int) -> str:
    """Return the hint where nothing better is known."""
    return "fix what writes the records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of the envelopes `at`; `what` describes it for one, and `hint` its remedy."""

    at: Mask
    what: Callable[[int], str]
    hint: Callable[[int], str] = default_hint


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedEnvelopes:
    """Which envelopes are `good`; `skipped` and `bad` count and list the records without a good one."""

    good: Mask
    skipped: int
    bad: tuple[BadValue, ...]


class EnvelopeReader:
    """Reads values into envelopes, and sorts out those with a fault."""

    def __init__(
        self, envelope: Envelope, settings: JsonSettings, swapped: frozenset[Path] = frozenset()
    ) -> None:
        """`swapped`: see BatchReader."""
        self._payload = envelope.payload
        self._settings = settings
        self._decoder = JsonDecoder(envelope.fields, settings, swapped)
        self._gathers = False

    def gathering(self) -> EnvelopeReader:
        """Return a reader that lists bad records and raises for none (`CollectsErrors`)."""
        gathers = copy(self)
        gathers._decoder = self._decoder.gathering()  # noqa: SLF001  of this class
        gathers._gathers = True  # noqa: SLF001
        return gathers

    def read(self, values: Sequence[bytes | None], where: Where) -> Envelopes:
        """Read one batch. Values that are empty or not there (tombstones) give nothing, and are not counted.

        Raises BadRecordError.
        """
        decoded = self._decoder.decode(values, where)
        batch = decoded.batch
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if self._payload is not None:
            payload = columns.pop(self._payload)
            names = [field.name for field in payload.type]
            columns |= dict(zip(names, payload.flatten(), strict=True))
        records = np.arange(batch.num_rows) if decoded.kept is None else decoded.kept
        tombstones = sum(1 for value in values if not value) if decoded.skipped else 0
        return Envelopes(
            columns=columns,
            records=records,
            skipped=decoded.skipped - tombstones,
            bad=decoded.bad,
        )

    def sort_out(
        self,
        envelopes: Envelopes,
        faults: Sequence[Fault],
        values: Sequence[bytes | None],
        where: Where,
    ) -> CheckedEnvelopes:
        """Separate the envelopes without fault from the others. Raises BadRecordError for the first
        other, if those fail.
        """
        faulty = np.zeros(len(envelopes.records), np.bool_)
        for fault in faults:
            faulty |= fault.at
        found = np.flatnonzero(faulty).tolist()
        if found and not (self._gathers or self._settings.ignore_parse_errors):
            raise self._bad(envelopes, _first(faults, found[0]), found[0], values, where)
        bad = envelopes.bad
        if found and self._gathers:
            more = (
                BadValue(index=int(envelopes.records[i]), error=_first(faults, i).what(i))
                for i in found
            )
            bad = tuple(sorted((*bad, *more), key=lambda value: value.index))
        return CheckedEnvelopes(good=~faulty, skipped=envelopes.skipped + len(found), bad=bad)

    def _bad(
        self,
        envelopes: Envelopes,
        fault: Fault,
        index: int,
        values: Sequence[bytes | None],
        where: Where,
    ) -> BadRecordError:
        record = int(envelopes.records[index])
        return BadRecordError(
            f"{where(record)}: {fault.what(index)}; the record is {excerpt(values[record] or b'')}",
            hint=f"{fault.hint(index)}; '{self._settings.ignore_key}' = 'true' skips and counts such records",
        )


def _first(faults: Sequence[Fault], index: int) -> Fault:
    return next(fault for fault in faults if fault.at[index])


def unknown_operation(
    at: Mask, texts: pa.Array, field: str, known: Iterable[str], hint: Callable[[int], str]
) -> Fault:
    """Make the fault of envelopes whose `field`, in `texts`, is none of the operations `known`."""
    names = ", ".join(f"'{name}'" for name in known)

    def what(index: int) -> str:
        found = texts[index].as_py()
        shown = "missing" if found is None else f"'{found}'"
        return f"the field '{field}' is {shown}, but it has to be one of {names}"

    return Fault(at=at, what=what, hint=hint)


def missing_image(
    at: Mask, texts: pa.Array, image: str, hint: Callable[[int], str] = default_hint
) -> Fault:
    """Make the fault of envelopes without the `image` that their operation, in `texts`, needs."""
    return Fault(
        at=at,
        what=lambda i: f"the field '{image}' of the change '{texts[i].as_py()}' is null",
        hint=hint,
    )


def row_of(fields: Fields) -> t.RowType:
    """Make the type of a row of columns; a row of none gets an unused field, as Arrow's structs need one."""
    members = tuple(t.RowField(name=name, type=logical) for name, logical in fields)
    return t.RowType(fields=members or (_NOBODY,))


def instants(ms: pa.Array) -> pa.Array:
    """Make instants of epoch ms, numbers or texts; NULL where it is none, or no instant of the next 100,000 years."""
    if pa.types.is_string(ms.type):
        ms = pc.if_else(pc.match_substring_regex(ms, r"^-?[0-9]{1,18}$"), ms, None).cast(pa.int64())
    near = pc.and_(pc.less(ms, MAX_INSTANT_MS), pc.greater(ms, -MAX_INSTANT_MS))
    return pc.if_else(near, ms, None).cast(pa.timestamp("ms", tz="UTC"))


def _metadata_fields(facts: Sequence[MetadataField]) -> Fields:
    """Return the fields that facts are in: as a whole where one asks for that, else a row of what is asked for."""
    found: dict[str, dict[str, t.LogicalType] | t.LogicalType] = {}
    for fact in facts:
        name, below = fact.path[0], fact.path[1:]
        known = found.setdefault(name, {})
        if not below:
            found[name] = fact.read_as
        elif isinstance(known, dict):
            known[below[0]] = STRING
    return [
        (name, row_of(list(kind.items())) if isinstance(kind, dict) else kind)
        for name, kind in found.items()
    ]


class ChangeFormat(ABC):
    """A Format whose records are changes of rows, of every kind."""

    identifier: ClassVar[str]
    facts: ClassVar[Mapping[str, MetadataField]]
    """The metadata columns by their keys."""

    changes = ChangelogMode.ALL

    @property
    def metadata(self) -> Mapping[str, LogicalType]:
        """The types of the metadata columns."""
        return {key: fact.type for key, fact in self.facts.items()}

    def own_options(self, base: str) -> tuple[Option[Any], ...]:
        """Return the options that no other of these formats has; `base` begins their keys."""
        del base
        return ()

    @abstractmethod
    def make_decoder(
        self,
        fields: Fields,
        facts: Mapping[str, MetadataField],
        settings: JsonSettings,
        resolved: Resolved,
        base: str,
    ) -> Decoder:
        """Make a decoder of `fields` and behind them `facts`. Raises OptionError."""

    def options(self, prefix: str = "") -> tuple[Option[Any], ...]:
        """Return the descriptors of the options, with full keys."""
        base = self._base(prefix)
        return (*self.own_options(base), *envelope_options(base))

    def check(self, fields: Fields, resolved: Resolved, *, prefix: str = "") -> None:
        """Check options and columns. Raises OptionError, DefinitionError or UnsupportedError."""
        self.decoder(fields, resolved, prefix=prefix)

    def skips_bad_records(self, resolved: Resolved, *, prefix: str = "") -> bool:
        """Return whether the format's ignore-parse-errors is set."""
        return envelope_settings(resolved, self._base(prefix)).ignore_parse_errors

    def decoder(
        self,
        fields: Fields,
        resolved: Resolved,
        *,
        prefix: str = "",
        metadata: Sequence[str] = (),
    ) -> Decoder:
        """Make a decoder of `fields` and the columns `metadata`."""
        arrow_schema(fields)
        for name, logical in fields:
            check_keys(name, logical, self.identifier)
        base = self._base(prefix)
        facts = {key: self.facts[key] for key in metadata}
        return self.make_decoder(fields, facts, envelope_settings(resolved, base), resolved, base)

    def _base(self, prefix: str) -> str:
        return f"{prefix}{self.identifier}."
