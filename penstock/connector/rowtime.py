"""How the watermark of a raw record is computed, as a value: the table's expression as DuckDB SQL.

The expression is from a closed set that agrees with Spark's. `event_times.py` computes it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Delayed", "Rowtime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """A delivered column of times less `delay_us` microseconds.

    `unit_us` is set where the column counts since the epoch in whole numbers: the microseconds of one of its units.
    """

    column: str
    delay_us: int
    unit_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rowtime:
    """How a record's watermark is computed.

    `column` is the rowtime's name. `expression` is DuckDB SQL over `inputs`, which are columns that the source
    delivers; it gives a TIMESTAMP, or a TIMESTAMPTZ when `instant`. `delayed` says the same where it is as plain as
    that, so that it can be had without a query. `bound_us` is the bounded disorder, how far a watermark is behind its
    row's time, in microseconds; None where the expression does not say. `of_clock`: it asks the clock of the machine
    that computes it, so that planning alone can tell it.
    """

    column: str
    inputs: tuple[str, ...]
    expression: str
    instant: bool
    delayed: Delayed | None = None
    bound_us: int | None = None
    of_clock: bool = False
