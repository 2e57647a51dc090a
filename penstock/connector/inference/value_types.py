"""The type of a column from the JSON values that records have in it, with the reason.

A type never takes less than what was seen: where values of several kinds meet, it is STRING, which the format `json`
fills with any of them. Sizes leave some room, as a sample does not hold the largest value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import name_clash
from penstock.connector.formats.json.options import TimestampStandard
from penstock.connector.formats.json.scalars import date_days, timestamp_us

STRING = t.VarCharType(length=t.MAX_LENGTH)
ABSENT: Final = object()
"""Stands for a field that a record does not have."""

_INT_MAX = 1_000_000
"""Whole numbers up to it are INT: past that, a number that grows would leave 32 bits in the end."""

_LONG_MAX = (1 << 63) - 1
_MOST_DIGITS = 38
_DOUBLES_EXPONENT = 10**7
"""From here on Double.toString of Java writes an exponent, others later: a smaller `5E+2` is BigDecimal's 500.00.

Flink's format json writes DECIMAL so (stripTrailingZeros), and Penstock's as well."""
_MONEY = re.compile(
    r"amount|price|cost|total|fee|tax|balance|revenue|salary|payment|discount", re.IGNORECASE
)
_GROWING = re.compile(
    r"(^|_|[a-z])(id|key|seq|offset|sequence|count|version|bytes)$", re.IGNORECASE
)
_FRACTION = re.compile(r":\d{2}\.(\d+)")
_MAP_NAMES = 20
"""So many names of fields, each in at most half of the objects, are data, not columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredType:
    """A type and why it was chosen. `timestamps` counts the timestamps in it, `notes` what was left out of it."""

    type: t.LogicalType
    reason: str
    timestamps: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSeen:
    """A field of objects: its type, and in how many of `objects` it was absent or null."""

    name: str
    decided: InferredType
    absent: int
    nulls: int
    objects: int

    @property
    def presence(self) -> str:
        """Describe how often it was present."""
        if not (self.absent or self.nulls):
            return f"never absent in {self.objects:,}"
        counts = [f"absent in {self.absent:,}"] if self.absent else []
        counts += [f"null in {self.nulls:,}"] if self.nulls else []
        return f"{' and '.join(counts)} of {self.objects:,}"


def infer_fields(
    objects: Sequence[dict[str, Any]], standard: TimestampStandard
) -> tuple[list[FieldSeen], tuple[str, ...]]:
    """Return the fields of objects in the order of their first mention, and what was left out.

    Of names that differ in case only the more frequent one is kept: Spark does not tell them apart.
    """
    counts = union_of_names(objects)
    kept, notes = _without_clashes(counts)
    fields = []
    for name in kept:
        values = [each.get(name, ABSENT) for each in objects]
        there = [value for value in values if value is not ABSENT and value is not None]
        decided = infer_type(there, standard, name=name)
        fields.append(
            FieldSeen(
                name=name,
                decided=decided,
                absent=len(objects) - counts[name],
                nulls=counts[name] - len(there),
                objects=len(objects),
            )
        )
        notes += decided.notes
    return fields, notes


def union_of_names(objects: Sequence[dict[str, Any]]) -> Counter[str]:
    """Count the names of all objects, in the order of their first mention."""
    return Counter(name for each in objects for name in each)


def infer_type(
    values: Sequence[Any], standard: TimestampStandard, *, name: str = ""
) -> InferredType:
    """Choose the type of values, none of which is null. `name` is that of the field, which may say what they are."""
    kinds = {type(value) for value in values}
    if not kinds:
        return InferredType(type=STRING, reason="always null")
    if kinds == {bool}:
        return InferredType(type=t.BooleanType(), reason="true and false")
    if kinds == {int}:
        return _whole(values, name)
    if kinds <= {int, Decimal}:
        return _fractional(values, name)
    if kinds == {str}:
        return _text(values, standard)
    if kinds == {list}:
        return _array(values, standard, name)
    if kinds == {dict}:
        return _object(values, standard)
    words = sorted(_KINDS[kind] for kind in kinds)
    return InferredType(type=STRING, reason=f"{' and '.join(dict.fromkeys(words))} mixed")


_KINDS: dict[type, str] = {
    bool: "booleans",
    int: "numbers",
    Decimal: "numbers",
    str: "texts",
    list: "arrays",
    dict: "objects",
}


def _whole(values: Sequence[int], name: str) -> InferredType:
    low, high = min(values), max(values)
    reason = f"whole numbers, {low:,} to {high:,}" if low < high else f"the whole number {low:,}"
    largest = max(-low, high)
    if largest > _LONG_MAX:
        digits = len(str(largest))
        if digits > _MOST_DIGITS:
            return InferredType(type=STRING, reason=f"{reason}: past what DECIMAL holds")
        return InferredType(
            type=t.DecimalType(precision=_MOST_DIGITS), reason=f"{reason}: past BIGINT"
        )
    if largest <= _INT_MAX and not _GROWING.search(name):
        return InferredType(type=t.IntType(), reason=reason)
    return InferredType(type=t.BigIntType(), reason=reason)


def _fractional(values: Sequence[int | Decimal], name: str) -> InferredType:
    numbers = [Decimal(value) for value in values]
    low, high = min(numbers), max(numbers)
    reason = f"numbers, {low} to {high}"
    shapes = [number.as_tuple() for number in numbers]
    exponents = [shape.exponent for shape in shapes if isinstance(shape.exponent, int)]
    scale = max(0, -min(exponents))
    whole = max(len(shape.digits) + e for shape, e in zip(shapes, exponents, strict=True))
    precision = max(10, max(whole, 1) + 2 + scale)
    is_exact = scale == 2 or (0 < scale <= 4 and _MONEY.search(name) is not None)
    in_full = all(
        exponent <= 0 or abs(number) < _DOUBLES_EXPONENT
        for number, exponent in zip(numbers, exponents, strict=True)
    )
    if is_exact and in_full and precision <= _MOST_DIGITS:
        digits = "digit" if scale == 1 else "digits"
        return InferredType(
            type=t.DecimalType(precision=precision, scale=scale),
            reason=f"{reason}, at most {scale} {digits} behind the point",
        )
    return InferredType(type=t.DoubleType(), reason=reason)


def _text(values: Sequence[str], standard: TimestampStandard) -> InferredType:
    for instant in (True, False):
        if all(_is_timestamp(text, standard, instant=instant) for text in values):
            return _timestamp(values, instant=instant)
    if all(map(_is_date, values)):
        return InferredType(type=t.DateType(), reason=f"dates, {min(values)} to {max(values)}")
    longest = max(map(len, values))
    different = len(set(values))
    if different == 1:
        return InferredType(type=STRING, reason="always the same text")
    return InferredType(type=STRING, reason=f"{different:,} texts of up to {longest:,} characters")


def _timestamp(values: Sequence[str], *, instant: bool) -> InferredType:
    digits = max((len(found[1]) for text in values if (found := _FRACTION.search(text))), default=0)
    precision = 3 if digits <= 3 else 6 if digits <= 6 else 9
    kind = t.TimestampLtzType if instant else t.TimestampType
    return InferredType(
        type=kind(precision=precision),
        reason=f"times {'with' if instant else 'without'} a zone, {min(values)} to {max(values)}",
        timestamps=1,
    )


def _is_timestamp(text: str, standard: TimestampStandard, *, instant: bool) -> bool:
    if standard.offset and not instant:
        return False  # both types are written alike there, and an offset makes an instant
    try:
        timestamp_us(text, standard, instant=instant)
    except ValueError:
        return False
    return True


def _is_date(text: str) -> bool:
    try:
        date_days(text)
    except ValueError:
        return False
    return True


def _array(values: Sequence[list[Any]], standard: TimestampStandard, name: str) -> InferredType:
    elements = [element for value in values for element in value if element is not None]
    longest = max(map(len, values))
    if not elements:
        return InferredType(type=t.ArrayType(element=STRING), reason="arrays, always empty")
    inner = infer_type(elements, standard, name=name)
    return replace(
        inner,
        type=t.ArrayType(element=inner.type),
        reason=f"arrays of up to {longest:,}: {inner.reason}",
    )


def _object(values: Sequence[dict[str, Any]], standard: TimestampStandard) -> InferredType:
    counts = union_of_names(values)
    if not counts:
        return InferredType(
            type=t.MapType(key=STRING, value=STRING), reason="objects, always empty"
        )
    if len(counts) >= _MAP_NAMES and max(counts.values()) * 2 <= len(values):
        return _map(values, counts, standard)
    if set(counts) == {""}:
        return _map(values, counts, standard)  # a field of a ROW has to have a name
    fields, notes = infer_fields(values, standard)
    row = t.RowType(
        fields=tuple(t.RowField(name=each.name, type=each.decided.type) for each in fields)
    )
    sometimes = [each.name for each in fields if each.absent or each.nulls]
    reason = f"objects of {len(fields)} field{'' if len(fields) == 1 else 's'}"
    if sometimes:
        reason += f", not all of them always: {', '.join(sometimes[:5])}"
        reason += " and more" if len(sometimes) > 5 else ""
    timestamps = sum(each.decided.timestamps for each in fields)
    return InferredType(type=row, reason=reason, timestamps=timestamps, notes=notes)


def _map(
    values: Sequence[dict[str, Any]], counts: Counter[str], standard: TimestampStandard
) -> InferredType:
    held = [inner for each in values for inner in each.values() if inner is not None]
    inner = infer_type(held, standard)
    return replace(
        inner,
        type=t.MapType(key=STRING, value=inner.type),
        reason=f"objects of {len(counts):,} different names: {inner.reason}",
    )


def _without_clashes(counts: Counter[str]) -> tuple[list[str], tuple[str, ...]]:
    kept: dict[str, str] = {}
    notes: list[str] = []
    for name in counts:
        if not name:
            notes.append("a field without a name is left out: a column has to have one")
            continue
        other = kept.get(name.lower())
        if other is None:
            kept[name.lower()] = name
            continue
        winner, loser = (other, name) if counts[other] >= counts[name] else (name, other)
        kept[name.lower()] = winner
        clash = name_clash((winner, loser))
        notes.append(f"{loser} is left out: {clash}")
    return list(kept.values()), tuple(notes)
