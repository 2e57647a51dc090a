"""Adds up what a job's batches did, each batch once: across restarts, replays and repeated progress events."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from penstock.sql.plan.metrics import BatchMetrics

__all__ = ["Totals", "rows_per_second"]

# Batches whose speed the display averages over: enough to smooth, short enough to notice a stall.
RECENT_BATCHES = 16
RATE_WINDOW_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over the batches of a job so far.

    Spark replays only the last batch of a run, under the same id: `last` is kept apart and not yet in the sums of
    the batches before it, so a replay takes its place instead of counting twice.
    """

    batches_before: int = 0
    rows_in_before: int = 0
    rows_out_before: int = 0
    rows_dropped_before: int = 0
    bad_records_before: int = 0
    last: BatchMetrics | None = None
    recent: tuple[BatchMetrics, ...] = ()

    def add(self, batch: BatchMetrics) -> Totals:
        """Count a batch. One that is older than the last is an event seen before and changes nothing."""
        last = self.last
        if last is None:
            return replace(self, last=batch, recent=(batch,))
        if batch.batch_id < last.batch_id:
            return self
        recent = tuple(deque((*self.recent, batch), maxlen=RECENT_BATCHES))
        if batch.batch_id == last.batch_id:
            return replace(self, last=batch, recent=(*self.recent[:-1], batch))
        return Totals(
            batches_before=self.batches_before + 1,
            rows_in_before=self.rows_in_before + last.rows_in,
            rows_out_before=self.rows_out_before + last.rows_out,
            rows_dropped_before=self.rows_dropped_before + last.rows_dropped,
            bad_records_before=self.bad_records_before + last.bad_records,
            last=batch,
            recent=recent,
        )

    @property
    def batches(self) -> int:
        """Number of different batches that were committed."""
        return self.batches_before + (self.last is not None)

    @property
    def rows_in(self) -> int:
        """Rows read from the sources."""
        return self.rows_in_before + (self.last.rows_in if self.last else 0)

    @property
    def rows_out(self) -> int:
        """Rows handed to the sink."""
        return self.rows_out_before + (self.last.rows_out if self.last else 0)

    @property
    def rows_dropped(self) -> int:
        """Rows that came later than the watermark allowed."""
        return self.rows_dropped_before + (self.last.rows_dropped if self.last else 0)

    @property
    def bad_records(self) -> int:
        """Records that could not be decoded and were skipped."""
        return self.bad_records_before + (self.last.bad_records if self.last else 0)


def rows_per_second(totals: Totals, now_ms: int) -> float:
    """Average speed of reading over the batches committed in the last seconds; 0 when nothing moves."""
    fresh = [
        b
        for b in totals.recent
        if b.committed_at_ms > now_ms - max(RATE_WINDOW_MS, 2 * b.duration_ms)
    ]
    if not fresh:
        return 0.0
    since = min(b.committed_at_ms - b.duration_ms for b in fresh)
    return sum(b.rows_in for b in fresh) * 1000 / max(now_ms - since, 1)
