"""Interval literals: what INTERVAL '1:30' HOUR TO MINUTE amounts to. Parsed and checked here only.

A year-month interval is a number of months, a day-time interval one of microseconds; the two do
not mix, as in the SQL standard and in Flink (which keeps milliseconds of a day-time interval).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp

DAY_TIME = {
    "DAY": 86_400_000_000,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
}
YEAR_MONTH = {"YEAR": 12, "MONTH": 1}
ALONE = {"WEEK": 7 * DAY_TIME["DAY"], "QUARTER": 3}
UNITS = (*YEAR_MONTH, *DAY_TIME, *ALONE)
FINER = ("MILLISECOND", "MICROSECOND", "NANOSECOND")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalValue:
    """Months of a year-month interval (`micros` is 0), or microseconds of a day-time interval."""

    months: int = 0
    micros: int = 0
    year_month: bool = False

    @property
    def millis(self) -> int:
        """Whole milliseconds, rounded towards zero; day-time intervals only."""
        assert not self.year_month, "a year-month interval has no fixed length"
        whole = abs(self.micros) // 1000
        return whole if self.micros >= 0 else -whole


def read_interval(text: str, first: str, last: str | None) -> IntervalValue:
    """The value of INTERVAL 'text' FIRST [TO LAST]. Raises ValueError with what is wrong."""
    units = _span(first, last or first)
    body = text.strip()
    sign = -1 if body.startswith("-") else 1
    body = body.lstrip("+-").strip() if body[:1] in ("+", "-") else body
    match = re.fullmatch(_pattern(units), body, re.ASCII)
    if not match:
        span = f"{first} TO {last}" if last and last != first else first
        raise ValueError(f"'{text}' is no interval of {span}; write for instance {_example(units)}")
    if units[0] in YEAR_MONTH or units[0] == "QUARTER":
        scale = {**YEAR_MONTH, **ALONE}
        months = sum(int(n) * scale[u] for n, u in zip(match.groups(), units, strict=True))
        return IntervalValue(months=sign * months, year_month=True)
    micros = 0
    for number, unit in zip(match.groups(), units, strict=True):
        whole, _, fraction = number.partition(".")
        micros += int(whole or 0) * {**DAY_TIME, **ALONE}[unit]
        micros += int(fraction[:6].ljust(6, "0")) if fraction else 0
    return IntervalValue(micros=sign * micros)


def interval_value(node: exp.Interval) -> IntervalValue:
    """The value of an interval node of the Flink dialect."""
    unit = node.args["unit"]
    if isinstance(unit, exp.IntervalSpan):
        return read_interval(node.this.name, unit.this.name, unit.expression.name)
    return read_interval(node.this.name, unit.name, None)


def _span(first: str, last: str) -> tuple[str, ...]:
    for family in (YEAR_MONTH, DAY_TIME):
        names = tuple(family)
        if first in names and last in names and names.index(first) <= names.index(last):
            return names[names.index(first) : names.index(last) + 1]
    if first == last and first in ALONE:
        return (first,)
    raise ValueError(f"there is no interval from {first} to {last}")


def _pattern(units: tuple[str, ...]) -> str:
    number = {"SECOND": r"(\d+(?:\.\d*)?|\.\d+)"}
    text = number.get(units[0], r"(\d+)")
    for before, unit in pairwise(units):
        gap = {"DAY": r"\s+", "YEAR": "-"}.get(before, ":")
        text += gap + number.get(unit, r"(\d+)")
    return text


def _example(units: tuple[str, ...]) -> str:
    text = "10" if len(units) == 1 else "1"
    for before, unit in pairwise(units):
        gap = {"DAY": " ", "YEAR": "-"}.get(before, ":")
        text += gap + ("6" if unit == "MONTH" else "30")
    span = units[0] if len(units) == 1 else f"{units[0]} TO {units[-1]}"
    return f"INTERVAL '{text}' {span}"
