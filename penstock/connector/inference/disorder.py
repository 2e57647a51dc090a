"""How far out of order the times of a split are, and the delay of a watermark that bears it.

As in Flink's BoundedOutOfOrdernessWatermarks, a record is late by what it is behind the highest time that its split
has shown before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = [
    "Disorder",
    "ProposedDelay",
    "disorder_of",
    "interval_text",
    "lateness_ms",
    "propose_delay",
]

Times = npt.NDArray[np.int64]

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS = (
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
)
"""Delays that people write, in ms."""

_HEADROOM = 1.5
"""A sample has not seen the worst."""

_STRAY = 10
"""A maximum of more times the 99th percentile is a stray, which no delay should wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disorder:
    """How late the records of a split are, in ms: median, 99th percentile, most."""

    split: str
    records: int
    p50_ms: int
    p99_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedDelay:
    """A bounded disorder for WATERMARK. `late` of the sample's records would be later than it."""

    delay_ms: int
    late: int


def lateness_ms(times_ms: Times) -> Times:
    """Return how far each record is behind the highest time of its split up to it; 0 where it is the highest."""
    return np.maximum.accumulate(times_ms) - times_ms if len(times_ms) else times_ms


def disorder_of(split: str, times_ms: Times) -> Disorder:
    """Sum up the lateness of the records of a split, of which there is one at least."""
    late = lateness_ms(times_ms)
    p50, p99 = np.percentile(late, [50, 99], method="higher")
    return Disorder(
        split=split,
        records=len(times_ms),
        p50_ms=int(p50),
        p99_ms=int(p99),
        max_ms=int(late.max()),
    )


def propose_delay(splits: Sequence[Times]) -> ProposedDelay:
    """Choose a delay for splits of which each has a watermark of its own.

    It covers the most that was seen and half as much again, strays left out.
    """
    late = [lateness_ms(times) for times in splits if len(times)]
    everything = np.concatenate(late) if late else np.zeros(1, np.int64)
    most = int(everything.max())
    usual = max((int(np.percentile(each, 99, method="higher")) for each in late), default=0)
    basis = usual if most > max(usual * _STRAY, _MINUTE) else most
    wanted = basis * _HEADROOM
    delay_ms = next((step for step in _STEPS if step >= wanted), -(-int(wanted) // _DAY) * _DAY)
    return ProposedDelay(delay_ms=delay_ms, late=int((everything > delay_ms).sum()))


def interval_text(delay_ms: int) -> str:
    """Write a delay in its largest unit: `INTERVAL '10' SECOND`."""
    for unit_ms, unit in ((_DAY, "DAY"), (_HOUR, "HOUR"), (_MINUTE, "MINUTE")):
        if delay_ms >= unit_ms and delay_ms % unit_ms == 0:
            return f"INTERVAL '{delay_ms // unit_ms}' {unit}"
    return f"INTERVAL '{delay_ms // _SECOND}' SECOND"
