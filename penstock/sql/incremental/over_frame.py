"""State of an OVER aggregate: rows of an interval, the last rows, all rows, or accumulators."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp

BATCH_TIME = "__batch_time"
"""TIMESTAMP_LTZ column: the time of the batch in which a row arrived, which is PROCTIME() here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeState:
    """Rows whose time is at most `micros` microseconds before that of a later row."""

    micros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsState:
    """The last `count` rows of each key."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnboundedState:
    """All rows: no accumulator suffices."""


class AccumulatorFunction(StrEnum):
    """How the values of rows are accumulated. All ignore NULL, and without a value are NULL."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulator:
    """An accumulator of `value` over the rows of a key up to a row: those of its time too, unless `by_row`."""

    name: str
    total: AccumulatorFunction
    value: exp.Expr
    by_row: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulatorState:
    """A few accumulators of each key, instead of rows."""

    running: tuple[Accumulator, ...]


OverFrameState = RangeState | RowsState | UnboundedState | AccumulatorState
