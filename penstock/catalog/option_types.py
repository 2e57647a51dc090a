"""How values of options are read from text: numbers, durations, sizes, lists, a few words; spelled as in Flink."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = [
    "BOOLEAN",
    "DURATION",
    "INT",
    "LIST",
    "LONG",
    "MEMORY",
    "STRING",
    "OptionType",
    "enum_type",
]

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionType(Generic[T_co]):
    """How a value is read from text; `parse` raises ValueError. `name` says what is expected.

    `choices` are the values where there are only a few.
    """

    name: str
    parse: Callable[[str], T_co]
    choices: tuple[str, ...] = ()


_QUANTITY = re.compile(r"\s*([0-9]+)\s*([A-Za-zµ]*)\s*\Z")
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*\Z")
# unit -> (factor, divisor); names as in Flink's TimeUtils and MemorySize, in any case
_DURATION_MS = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), (1, 1_000_000)),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), (1, 1000)),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), (1, 1)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), (1000, 1)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), (60_000, 1)),
    **dict.fromkeys(("h", "hour", "hours"), (3_600_000, 1)),
    **dict.fromkeys(("d", "day", "days"), (86_400_000, 1)),
}
_MEMORY_BYTES = {
    **dict.fromkeys(("", "b", "bytes"), (1, 1)),
    **dict.fromkeys(("k", "kb", "kibibytes"), (1 << 10, 1)),
    **dict.fromkeys(("m", "mb", "mebibytes"), (1 << 20, 1)),
    **dict.fromkeys(("g", "gb", "gibibytes"), (1 << 30, 1)),
    **dict.fromkeys(("t", "tb", "tebibytes"), (1 << 40, 1)),
}
_LARGEST = (1 << 63) - 1


def _scaled(units: Mapping[str, tuple[int, int]]) -> Callable[[str], int]:
    def parse(text: str) -> int:
        found = _QUANTITY.match(text)
        if found is None or found.group(2).lower() not in units:
            raise ValueError(text)
        factor, divisor = units[found.group(2).lower()]
        number = int(found.group(1)) * factor // divisor
        if number > _LARGEST:
            raise ValueError(text)
        return number

    return parse


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(text)
    return text.strip().lower() == "true"


def _bounded(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if _WHOLE.match(text) is None:
            raise ValueError(text)
        number = int(text)
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise ValueError(text)
        return number

    return parse


STRING: OptionType[str] = OptionType(name="a text", parse=str)
INT: OptionType[int] = OptionType(name="a whole number", parse=_bounded(32))
LONG: OptionType[int] = OptionType(name="a whole number", parse=_bounded(64))
BOOLEAN: OptionType[bool] = OptionType(name="true or false", parse=_boolean)
DURATION: OptionType[int] = OptionType(
    name="a duration such as '5 min', '1s' or '200 ms'", parse=_scaled(_DURATION_MS)
)
MEMORY: OptionType[int] = OptionType(
    name="a size such as '8 mb' or '1gb'", parse=_scaled(_MEMORY_BYTES)
)
LIST: OptionType[tuple[str, ...]] = OptionType(
    name="a list separated by ';'",
    parse=lambda text: tuple(part.strip() for part in text.split(";") if part.strip()),
)


def enum_type(*values: str) -> OptionType[str]:
    """Make a type of a few words, read in any case and given as spelled here."""

    def parse(text: str) -> str:
        for value in values:
            if value.lower() == text.strip().lower():
                return value
        raise ValueError(text)

    name = "one of " + ", ".join(repr(value) for value in values)
    return OptionType(name=name, parse=parse, choices=values)
