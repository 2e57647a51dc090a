"""Sampled records by split, and their shape: JSON, Confluent framing, delimited text, text or bytes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSplit:
    """Records of one split. `positions` are offsets of records, or numbers of lines, for people.

    `keys` and `times_ms` (epoch ms) are empty where records have none; else they are as long as `values`.
    """

    name: str
    unit: str
    positions: Sequence[int]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] = ()
    times_ms: Sequence[int | None] = ()

    def where(self, index: int) -> str:
        """Name a record, as in `partition 3, offset 17`."""
        return f"{self.name}, {self.unit} {self.positions[index]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was read. `origin` says from where: "topic 'orders' at 127.0.0.1:9092"."""

    origin: str
    splits: tuple[SampledSplit, ...]

    @property
    def size(self) -> int:
        """The number of records."""
        return sum(len(split.values) for split in self.splits)

    @property
    def values(self) -> list[bytes]:
        """The values of all splits."""
        return [value for split in self.splits for value in split.values if value]

    @property
    def keys(self) -> list[bytes | None]:
        """The keys of all splits, in the order of their records."""
        return [key for split in self.splits for key in split.keys]


def listed(items: Sequence[str], limit: int = 3) -> str:
    """Write a few of `items` in a row, and how many more there are."""
    shown = "; ".join(items[:limit])
    more = len(items) - limit
    return f"{shown}; and {more:,} more" if more > 0 else shown


class Shape(StrEnum):
    """A kind of bytes, in the words of a message."""

    JSON = "JSON"
    FRAMED = "framed by a schema registry (a zero byte and a schema id, as of Avro)"
    DELIMITED = "delimited text, as in CSV"
    TEXT = "other text"
    BYTES = "other bytes"


_DELIMITERS = (",", ";", "\t", "|")

_FRAME_BYTES = 5

_AGREE = 0.9
"""The share of lines that have to have the same number of delimiters to be called delimited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """How many records of each shape there are."""

    counts: Counter[Shape]

    def share(self, shape: Shape) -> float:
        """Return the share of a shape, 0 to 1."""
        return self.counts[shape] / max(self.counts.total(), 1)

    @property
    def text(self) -> str:
        """Describe the shares, the largest first."""
        total = max(self.counts.total(), 1)
        return ", ".join(
            f"{count / total:.0%} {shape}" for shape, count in self.counts.most_common()
        )


def shapes_of(values: Sequence[bytes]) -> Shapes:
    """Classify the values of a sample."""
    shapes = [shape_of(value) for value in values]
    texts = [v.decode() for v, s in zip(values, shapes, strict=True) if s is Shape.TEXT]
    counts = Counter(shapes)
    if _is_delimited(texts):
        counts[Shape.DELIMITED] = counts.pop(Shape.TEXT)
    return Shapes(counts=counts)


def shape_of(value: bytes) -> Shape:
    """Classify one value; whether text is delimited shows only among others."""
    if value[:1] == b"\0" and len(value) > _FRAME_BYTES:
        return Shape.FRAMED
    try:
        parsed = parse_json(value)
    except ValueError:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return Shape.BYTES
        return Shape.TEXT if text.isprintable() or _is_text(text) else Shape.BYTES
    # a number or a word alone is as well a text that somebody wrote
    return Shape.JSON if isinstance(parsed, dict | list) else Shape.TEXT


def parse_json(value: bytes) -> Any:
    """Read one JSON value; numbers with a point or an exponent as Decimal, to see their digits. Raises ValueError."""
    try:
        return json.loads(value, parse_float=Decimal, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _is_text(text: str) -> bool:
    return all(c.isprintable() or c in "\n\r\t" for c in text)


def _is_delimited(texts: Sequence[str]) -> bool:
    if len(texts) < 2:
        return False
    for delimiter in _DELIMITERS:
        counts = Counter(text.count(delimiter) for text in texts)
        (most, agreeing), *_ = counts.most_common(1)
        if most > 0 and agreeing >= len(texts) * _AGREE:
            return True
    return False
