"""Records of changes (CDC): which format of changes they are of, and the rows inside of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

__all__ = ["ChangeEnvelope", "detect_envelope", "envelope_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEnvelope:
    """A format of changes: the fields by which its records are known, and those that hold rows.

    `payload`: the envelope is inside of that field, beside its schema (`schema-include` of debezium-json).
    """

    format: str
    known_by: frozenset[str]
    images: tuple[str, ...]
    payload: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    keys: str | None = None

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record is of this format."""
        inside = self._inside(record)
        return inside is not None and self.known_by <= inside.keys()

    def rows(self, record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Return the whole rows in a record: what `old` of Canal and Maxwell holds is a part of one."""
        inside = self._inside(record) or {}
        for image in self.images:
            held = inside.get(image)
            yield from (row for row in (held if isinstance(held, list) else [held]) if _is_row(row))

    def key_names(self, record: Mapping[str, Any]) -> list[str]:
        """Return the columns of the primary key, where a record names them."""
        inside = self._inside(record) or {}
        named = inside.get(self.keys) if self.keys is not None else None
        return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []

    def _inside(self, record: Mapping[str, Any]) -> Mapping[str, Any] | None:
        inside = record if self.payload is None else record.get(self.payload)
        return inside if isinstance(inside, dict) else None


_ENVELOPES = (
    ChangeEnvelope(
        format="debezium-json",
        known_by=frozenset({"before", "after", "op"}),
        images=("before", "after"),
    ),
    ChangeEnvelope(
        format="debezium-json",
        known_by=frozenset({"before", "after", "op"}),
        images=("before", "after"),
        payload="payload",
        options=(("debezium-json.schema-include", "true"),),
    ),
    ChangeEnvelope(
        format="canal-json",
        known_by=frozenset({"data", "old", "type", "isDdl"}),
        images=("data",),
        keys="pkNames",
    ),
    ChangeEnvelope(
        format="maxwell-json",
        known_by=frozenset({"data", "type", "database", "table"}),
        images=("data",),
        keys="primary_key_columns",
    ),
    ChangeEnvelope(
        format="ogg-json",
        known_by=frozenset({"op_type", "table"}),
        images=("before", "after"),
        keys="primary_keys",
    ),
)
_MOST = 0.9


def detect_envelope(records: Sequence[Mapping[str, Any]]) -> ChangeEnvelope | None:
    """Find the format of changes that nearly all records are of; None where they are plain rows."""
    for envelope in _ENVELOPES:
        fitting = sum(envelope.fits(record) for record in records)
        if records and fitting >= len(records) * _MOST:
            return envelope
    return None


def envelope_of(name: str, records: Sequence[Mapping[str, Any]]) -> ChangeEnvelope | None:
    """Return the envelope of a format that was named, in the variant that fits most records; None for `json`."""
    variants = [each for each in _ENVELOPES if each.format == name]
    return max(variants, key=lambda each: sum(map(each.fits, records)), default=None)


def _is_row(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and bool(value)
