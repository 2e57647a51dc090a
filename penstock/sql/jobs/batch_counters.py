"""Counters over the batches of a job in this process: they only grow, as Prometheus expects of a counter.

A batch that is replayed after a restart is work done twice, and counts twice; `Totals` (progress.py) counts it once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from penstock.connector.commits import CommitTotals, OffsetCommits
from penstock.connector.options.bad_records import BadRecordPolicy
from penstock.connector.options.watermark import OnFuture
from penstock.sql.checkpoint.failure_record import FailureRecord
from penstock.sql.checkpoint.plan_record import PlanRecord
from penstock.sql.jobs.batch_history import BatchHistory
from penstock.sql.observation.batch_metrics import BatchMetrics, OperatorMetrics
from penstock.sql.observation.pipeline import distinct_names
from penstock.sql.settings import MOST_SPLITS

DURATION_BOUNDS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the buckets of batch durations; one more bucket has what is longer."""

NO_SOURCE = -1
"""The key of bad records and late rows that no source of the query is known for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCounters:
    """Sums over all batches whose events were seen. `rows_in`, `rows_late` and `bad_records` are by the number of the
    source, and so are `future_records`, which are those among the bad ones whose time is too far in the future, and
    `records_lost`, positions that were deleted unread.

    `durations` counts batches by bucket of DURATION_BOUNDS_S. `state_commit_ms` is by the number of the operator.
    """

    batches: int = 0
    duration_ms: int = 0
    durations: tuple[int, ...] = (0,) * (len(DURATION_BOUNDS_S) + 1)
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    rows_in: Mapping[int, int] = field(default_factory=dict)
    rows_out: int = 0
    rows_late: Mapping[int, int] = field(default_factory=dict)
    bad_records: Mapping[int, int] = field(default_factory=dict)
    future_records: Mapping[int, int] = field(default_factory=dict)
    records_lost: Mapping[int, int] = field(default_factory=dict)
    state_commit_ms: Mapping[int, int] = field(default_factory=dict)

    def add(self, batch: BatchMetrics) -> BatchCounters:
        """Count a batch."""
        bucket = bisect_left(DURATION_BOUNDS_S, batch.duration_ms / 1000)
        bad = _by_source([each.bad_records for each in batch.sources], batch.bad_records)
        late = _by_source([each.rows_late for each in batch.sources], batch.rows_dropped)
        return replace(
            self,
            batches=self.batches + 1,
            duration_ms=self.duration_ms + batch.duration_ms,
            durations=tuple(n + (i == bucket) for i, n in enumerate(self.durations)),
            phases_ms=_sums(self.phases_ms, batch.phases_ms),
            rows_in=_sums(self.rows_in, {n: s.rows_in for n, s in enumerate(batch.sources)}),
            rows_out=self.rows_out + batch.rows_out,
            rows_late=_sums(self.rows_late, late),
            bad_records=_sums(self.bad_records, bad),
            future_records=_sums(
                self.future_records, {n: s.future_records for n, s in enumerate(batch.sources)}
            ),
            records_lost=_sums(
                self.records_lost, {n: s.records_lost for n, s in enumerate(batch.sources)}
            ),
            state_commit_ms=_sums(
                self.state_commit_ms, {n: o.commit_ms for n, o in enumerate(batch.operators)}
            ),
        )


def _by_source(known: Sequence[int], total: int) -> Mapping[int, int]:
    """Return counts by the number of the source; the rest of the total is that of the only one, or of none."""
    rest = max(0, total - sum(known))
    if len(known) == 1:
        return {0: known[0] + rest}
    found = dict(enumerate(known))
    return found | {NO_SOURCE: rest} if rest else found


_Key = TypeVar("_Key", int, str)


def _sums(before: Mapping[_Key, int], more: Mapping[_Key, int]) -> Mapping[_Key, int]:
    return {**before, **{key: before.get(key, 0) + value for key, value in more.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutRecords:
    """What becomes of the bad records of a table: of those that cannot be decoded, and of those of the future."""

    undecodable: BadRecordPolicy = BadRecordPolicy.FAIL
    future: OnFuture = OnFuture.FAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBatches:
    """The batches of a job so far: counters, the last one, and the sources that its numbers mean.

    `sources` are full names of tables in the order of `BatchMetrics.sources`, `connectors` theirs. `recent` are the
    last batches, oldest first, without their sources. `running_since_ms` is when the batch that runs now was first
    seen (epoch ms).
    `alignments` are the alignment group and the drift (ms) that it allows of each source, None of one that has none;
    `left_out` is what becomes of their bad records.
    `history` is that of the splits, `commits` what sinks reported, by sink, `dead_letters` those kept, by source,
    `offset_commits` how those of consumer groups ended, by the number of the source.
    `plan` is that of the last start, `checkpoint` the directory of its checkpoint. Metrics have series of each split of
    tables of up to `split_limit` splits. `failures` are its last ones in this process, oldest first.
    """

    sources: tuple[str, ...] = ()
    connectors: tuple[str | None, ...] = ()
    counters: BatchCounters = field(default_factory=BatchCounters)
    last: BatchMetrics | None = None
    recent: tuple[BatchMetrics, ...] = ()
    running_since_ms: int | None = None
    alignments: tuple[tuple[str, int] | None, ...] = ()
    left_out: tuple[LeftOutRecords, ...] = ()
    history: BatchHistory = field(default_factory=BatchHistory)
    commits: Mapping[str, CommitTotals] = field(default_factory=dict)
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    plan: PlanRecord | None = None
    checkpoint: str | None = None
    offset_commits: Mapping[int, OffsetCommits] = field(default_factory=dict)
    split_limit: int = MOST_SPLITS
    failures: tuple[FailureRecord, ...] = ()

    def source_names(self) -> tuple[str, ...]:
        """Name the sources, each once."""
        return distinct_names(self.sources)

    @property
    def operators(self) -> tuple[OperatorMetrics, ...]:
        """Spark's stateful operators after the last batch."""
        return () if self.last is None else self.last.operators
