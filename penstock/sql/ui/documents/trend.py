"""The speed and the lag of a pipeline over the last quarter of an hour: a value for each half minute that is over.

So that they change only then, and an open page is not told of a pipeline in which nothing happens.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.sql.observation.pipeline import STEP_MS

if TYPE_CHECKING:
    from penstock.sql.observation.pipeline import LagSample
    from penstock.sql.ui.documents.fields import Document

MOST_STEPS = 30

SPEED_TREND = "rows_per_second_trend"
LAG_TREND = "lag_records_trend"
TRENDS = (SPEED_TREND, LAG_TREND)
"""The fields."""


def trend_fields(samples: Sequence[LagSample], now_ms: int) -> Document:
    """Return the fields, oldest value first; none before the first half minute with a batch is over.

    `samples` are those of batches, oldest first. Where no batch comes nothing is read, and the lag is the last one.
    """
    if not samples:
        return {}
    times = [each.at_ms for each in samples]
    first, end = times[0] // STEP_MS, now_ms // STEP_MS
    ends = [step * STEP_MS for step in range(max(first, end - MOST_STEPS) + 1, end + 1)]
    if not ends:
        return {}
    speeds, lags = [], []
    for end_ms in ends:
        rows_before = _rows_at(samples, times, end_ms - STEP_MS)
        rows = _rows_at(samples, times, end_ms) - rows_before
        speeds.append(round(rows * 1000 / STEP_MS, 1))
        lags.append(samples[bisect_right(times, end_ms) - 1].lag_records)
    return {SPEED_TREND: speeds, LAG_TREND: lags}


def _rows_at(samples: Sequence[LagSample], times: Sequence[int], at_ms: int) -> int:
    """Return the rows read up to a time, of those since the process began."""
    before = bisect_right(times, at_ms)
    if before:
        return samples[before - 1].rows_in
    # of so long a time the samples before may be gone, and what was read with them
    may_be_cut = times[-1] - times[0] > MOST_STEPS * STEP_MS
    return samples[0].rows_in if may_be_cut else 0


def aged_trend(document: Document, age_ms: int) -> Document:
    """Return the fields of a document as they are so much later, if nothing has come since."""
    steps = min(age_ms // STEP_MS, MOST_STEPS)
    if not steps or SPEED_TREND not in document:
        return {}
    speeds, lags = document[SPEED_TREND], document[LAG_TREND]
    return {
        SPEED_TREND: [*speeds, *[0.0] * steps][-MOST_STEPS:],
        LAG_TREND: [*lags, *lags[-1:] * steps][-MOST_STEPS:],
    }
