"""What an OVER aggregate keeps for the rows to come: those of an interval, the last ones, all, or totals of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp

__all__ = [
    "BATCH_TIME",
    "Accumulator",
    "AccumulatorFunction",
    "AccumulatorState",
    "OverFrameState",
    "RangeState",
    "RowsState",
    "UnboundedState",
]

BATCH_TIME = "__batch_time"
"""TIMESTAMP_LTZ column: the time of the batch that a row came in, which is what PROCTIME() is here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeState:
    """Rows whose time is at most `micros` microseconds before that of a row to come."""

    micros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsState:
    """The last `count` rows of each key."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnboundedState:
    """All rows: no total of them would do."""


class AccumulatorFunction(StrEnum):
    """How the values of rows become one. All pass over NULL, and without a value are NULL."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulator:
    """A total of `value` over the rows of a key up to a row: those of its time too, unless `by_row`."""

    name: str
    total: AccumulatorFunction
    value: exp.Expr
    by_row: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulatorState:
    """In the place of rows, a few totals of each key."""

    running: tuple[Accumulator, ...]


OverFrameState = RangeState | RowsState | UnboundedState | AccumulatorState
