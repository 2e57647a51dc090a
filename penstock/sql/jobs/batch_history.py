"""What the batches of a job tell over time: since when records are unread, how long splits were paused, the lag.

Built from the states and ends that each batch has, without asking the source: of a record it knows when it was seen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.sql.observation.batch_metrics import BatchMetrics, SourceMetrics
from penstock.sql.observation.pipeline import STEP_MS, LagSample
from penstock.sql.observation.split_states import SplitPhase, phase_of

MOST_ENDS = 64
"""Ends of a split that are remembered; above it they are merged in pairs, and records look older by that."""

COUNTED = (SplitPhase.PAUSED, SplitPhase.IDLE)
"""The states whose time is added up."""

SAMPLE_MS = 5_000
"""Any three samples of the lag span so long at least, but for the newest one."""

SAMPLED_MS = 960_000
"""Samples are kept for so long: a quarter of an hour, and some. They are 400 at most, two in each SAMPLE_MS."""

_Split = tuple[int, str]
"""The number of the source, and the split."""

_Ends = tuple[tuple[int, int], ...]
"""Times (epoch ms) at which an end was seen first, and these ends, in ascending order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHistory:
    """The history up to the batch `last`. `ends` are of splits with unread records, `phase_ms` sums by state.

    `lags` are samples of the lag, oldest first, which reach further back than the batches that are kept.
    """

    ends: Mapping[_Split, _Ends] = field(default_factory=dict)
    phase_ms: Mapping[tuple[_Split, SplitPhase], int] = field(default_factory=dict)
    lags: tuple[LagSample, ...] = ()
    last: BatchMetrics | None = None

    def add(self, batch: BatchMetrics) -> BatchHistory:
        """Take a batch into account."""
        return BatchHistory(
            ends=dict(
                found
                for number, source in enumerate(batch.sources)
                for found in self._unread(number, source, batch.committed_at_ms - batch.duration_ms)
            ),
            phase_ms=self._sums(batch.committed_at_ms),
            lags=self._lags(batch),
            last=batch,
        )

    def oldest_unread_ms(self, number: int | None = None) -> int | None:
        """Return when the oldest record that is not read yet was first seen; None where all is read.

        Of the source with this number, else of all.
        """
        return min(
            (ends[0][0] for (of, _), ends in self.ends.items() if number in {None, of}),
            default=None,
        )

    def spent_ms(self, now_ms: int) -> Mapping[tuple[_Split, SplitPhase], int]:
        """Return how long splits have been in each of the COUNTED states, up to now."""
        return self._sums(now_ms)

    def _lags(self, batch: BatchMetrics) -> tuple[LagSample, ...]:
        """Add the lag with this batch, in place of a sample that is near: never of the last one of a half minute.

        So what was read in a half minute stays the same once it is over.
        """
        at_ms = batch.committed_at_ms
        lags = _not_after(self.lags, at_ms)
        rows = (lags[-1].rows_in if lags else 0) + batch.rows_in
        sample = LagSample(at_ms=at_ms, lag_records=batch.lag_records, rows_in=rows)
        if len(lags) > 1 and at_ms - lags[-2].at_ms < SAMPLE_MS:
            is_last = _half_minute(lags[-1]) != _half_minute(sample)
            lags = (*lags[:-2], lags[-1]) if is_last else lags[:-1]
        # the newest of those that are too old has the rows read before the others
        begin = bisect_right(lags, at_ms - SAMPLED_MS, key=lambda each: each.at_ms) - 1
        return (*lags[max(begin, 0) :], sample)

    def _unread(
        self, number: int, source: SourceMetrics, seen_ms: int
    ) -> list[tuple[_Split, _Ends]]:
        if source.state is None:
            return []
        found = []
        for split in source.state.splits:
            if lag := source.lag_of(split):
                key, end = (number, split.split_id), split.end + lag
                known = tuple(each for each in self.ends.get(key, ()) if each[1] > split.end)
                if not known or known[-1][1] < end:
                    known = (*known, (seen_ms, end))
                found.append((key, _few(known)))
        return found

    def _sums(self, until_ms: int) -> dict[tuple[_Split, SplitPhase], int]:
        """Add the time since the last batch to the states that splits had with it."""
        sums = dict(self.phase_ms)
        if self.last is None:
            return sums
        since_ms = max(0, until_ms - self.last.committed_at_ms)
        for number, source in enumerate(self.last.sources):
            for split in () if source.state is None else source.state.splits:
                phase = phase_of(split, source.lag_of(split))
                if phase in COUNTED:
                    key = ((number, split.split_id), phase)
                    sums[key] = sums.get(key, 0) + since_ms
        return sums


def _half_minute(sample: LagSample) -> int:
    """Return the number of the half minute that a sample is in; one at its very end is in it."""
    return -(-sample.at_ms // STEP_MS)


def _not_after(samples: tuple[LagSample, ...], at_ms: int) -> tuple[LagSample, ...]:
    """Return samples by a clock that was set back, as if it had been so before: none is later than `at_ms`."""
    ahead_ms = samples[-1].at_ms - at_ms if samples else 0
    if ahead_ms <= 0:
        return samples
    return tuple(replace(each, at_ms=each.at_ms - ahead_ms) for each in samples)


def _few(ends: _Ends) -> _Ends:
    """Merge ends in pairs where there are too many: the earlier time then holds for the records of both."""
    if len(ends) <= MOST_ENDS:
        return ends
    pairs = zip(ends[::2], ends[1::2], strict=False)
    merged = tuple((seen_ms, end) for (seen_ms, _), (_, end) in pairs)
    return merged if len(ends) % 2 == 0 else (*merged, ends[-1])
