"""Progress of a job as values: status, counts, totals over batches, each batch once, from Spark's progress events."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from penstock.connector.spark.internals import recent_progress
from penstock.connector.spark.source.retry import Outage
from penstock.sql.observation.batch_metrics import BatchMetrics, LateSplit, TimelessSplit
from penstock.sql.observation.pipeline import JobStatus, PipelineTraits

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.catalog.errors import PenstockError
    from penstock.sql.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """A job as of its last committed batch; counts are sums since the job started, each batch counted once.

    One that found nothing to read since it started has the last batch of its checkpoint, with `batches` 0.
    Times are epoch ms of the wall clock, except `watermark_ms`, which is event time (the maximum once every bounded
    table is read); `timeless` are the splits that keep it from moving, `late_splits` those with late rows, as the
    split was discovered late. `rows_per_second`, of reading, and `rows_out_per_second` average the last seconds.
    `activity` describes what the job does now.
    `restart_reasons` are the restarts by error code; of all `restarts` those that are `restarts_counted` may be
    `restart_limit` many, None of a job that does not count them, as a refresh. `last_error` is its last error, after
    which it may have restarted; `outage` is what it waits for now: then `lag_records` is unknown. `refreshes`: it
    rewrites its table periodically, `batches` counts that; rows are not counted.
    """

    name: str
    sink: str
    status: JobStatus
    activity: str
    started_ms: int
    seconds: float
    batches: int = 0
    batch_id: int | None = None
    rows_in: int = 0
    rows_out: int = 0
    rows_dropped: int = 0
    bad_records: int = 0
    records_lost: int = 0
    rows_per_second: float = 0.0
    rows_out_per_second: float = 0.0
    watermark_ms: int | None = None
    timeless: tuple[TimelessSplit, ...] = ()
    late_splits: tuple[LateSplit, ...] = ()
    lag_records: int | None = None
    last_commit_ms: int | None = None
    restarts: int = 0
    restarts_counted: int = 0
    restart_limit: int | None = None
    restart_reasons: Mapping[str, int] = field(default_factory=dict)
    last_error: str | None = None
    outage: Outage | None = None
    refreshes: bool = False
    traits: PipelineTraits = PipelineTraits()  # noqa: RUF009 - a frozen value


def batch_events(query: StreamingQuery, *, after: int | None) -> list[dict[str, Any]]:
    """Return the events of completed batches after `after` (None: all that Spark keeps), oldest first, as dicts.

    Spark keeps the last 100 (`spark.sql.streaming.numRecentProgressUpdates`). Where there is none or one new event,
    which is the rule, the others are not read.
    """
    last = query.lastProgress
    if last is None:
        return []
    newest = last["batchId"] if _is_of_batch(last) else last["batchId"] - 1
    if newest < 0 or newest == after:
        return []
    if after is not None and newest == after + 1 and _is_of_batch(last):
        return [json.loads(last.json)]
    return _recent_after(query, after)


def resting_event(query: StreamingQuery) -> dict[str, Any] | None:
    """Return the last event as a dict where it is of a query that waits; None of one that ran a batch, or none yet."""
    last = query.lastProgress
    return None if last is None or _is_of_batch(last) else json.loads(last.json)


def _is_of_batch(event: Mapping[str, Any]) -> bool:
    """Return whether an event is of a batch, rather than of a waiting query.

    Spark sends the latter every ten seconds, under the number that the next batch will have.
    """
    return "addBatch" in event["durationMs"]


def _recent_after(query: StreamingQuery, batch: int | None) -> list[dict[str, Any]]:
    recent = recent_progress(query)
    events: list[dict[str, Any]] = []
    for index in reversed(range(len(recent))):
        event = json.loads(recent[index].json())
        if batch is not None and event["batchId"] <= batch:
            break
        if _is_of_batch(event):
            events.append(event)
    return events[::-1]


RECENT_BATCHES = 100
"""Batches that are kept: as many as Spark keeps, of which the speed is averaged over those of the last seconds."""

RATE_WINDOW_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over the batches of a job so far.

    Spark replays only the last batch of a run, under the same id: `last` is kept apart from the sums of the batches
    before it, so a replay replaces it instead of counting twice.
    """

    batches_before: int = 0
    rows_in_before: int = 0
    rows_out_before: int = 0
    rows_dropped_before: int = 0
    bad_records_before: int = 0
    records_lost_before: int = 0
    last: BatchMetrics | None = None
    recent: tuple[BatchMetrics, ...] = ()

    def add(self, batch: BatchMetrics) -> Totals:
        """Count a batch. One that is older than the last is an event seen before and changes nothing."""
        last = self.last
        if last is None:
            return replace(self, last=batch, recent=(_small(batch),))
        if batch.batch_id < last.batch_id:
            return self
        recent = tuple(deque((*self.recent, _small(batch)), maxlen=RECENT_BATCHES))
        if batch.batch_id == last.batch_id:
            return replace(self, last=batch, recent=(*self.recent[:-1], _small(batch)))
        return Totals(
            batches_before=self.batches_before + 1,
            rows_in_before=self.rows_in_before + last.rows_in,
            rows_out_before=self.rows_out_before + last.rows_out,
            rows_dropped_before=self.rows_dropped_before + last.rows_dropped,
            bad_records_before=self.bad_records_before + last.bad_records,
            records_lost_before=self.records_lost_before + last.records_lost,
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
        """Rows passed to the sink."""
        return self.rows_out_before + (self.last.rows_out if self.last else 0)

    @property
    def rows_dropped(self) -> int:
        """Late rows, which were behind the watermark."""
        return self.rows_dropped_before + (self.last.rows_dropped if self.last else 0)

    @property
    def bad_records(self) -> int:
        """Records that could not be decoded and were skipped."""
        return self.bad_records_before + (self.last.bad_records if self.last else 0)

    @property
    def records_lost(self) -> int:
        """Positions that were deleted before they were read, in tables that tolerate that."""
        return self.records_lost_before + (self.last.records_lost if self.last else 0)


def _small(batch: BatchMetrics) -> BatchMetrics:
    """Return a batch without its sources, which have as many values as there are splits."""
    return replace(batch, sources=())


def rows_per_second(totals: Totals, now_ms: int) -> float:
    """Average speed of reading over the batches committed in the last seconds; 0 when nothing moves."""
    return _speed(totals, now_ms, lambda batch: batch.rows_in)


def rows_out_per_second(totals: Totals, now_ms: int) -> float:
    """Average speed of what is passed to the sink, over the same batches."""
    return _speed(totals, now_ms, lambda batch: batch.rows_out)


def _speed(totals: Totals, now_ms: int, rows: Callable[[BatchMetrics], int]) -> float:
    fresh = [
        b
        for b in totals.recent
        if b.committed_at_ms > now_ms - max(RATE_WINDOW_MS, 2 * b.duration_ms)
    ]
    if not fresh:
        return 0.0
    since = min(b.committed_at_ms - b.duration_ms for b in fresh)
    return sum(map(rows, fresh)) * 1000 / max(now_ms - since, 1)


class JobState:
    """The status of the job `name` that writes `sink`, what it does now, and its end.

    `at_end` is called once, on the thread that ends the job, before `done` is set.
    """

    def __init__(
        self, clock: Clock, *, name: str, sink: str, activity: str, at_end: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._name = name
        self._sink = sink
        self._at_end = at_end
        self._lock = Lock()
        self._status = JobStatus.RUNNING
        self._activity = activity
        self._error: PenstockError | None = None
        self._started_ms = clock.now_ms()
        self._began_ms = clock.monotonic_ms()
        self._ran_ms: int | None = None
        self.done = Event()

    @property
    def error(self) -> PenstockError | None:
        """The error that ended the job, where it was not asked to end."""
        with self._lock:
            return self._error

    def progress(self) -> JobProgress:
        """Return all but the counts. To be read before them: of an ended job they are then final."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            ran_ms = now_ms - self._began_ms if self._ran_ms is None else self._ran_ms
            return JobProgress(
                name=self._name,
                sink=self._sink,
                status=self._status,
                activity=self._activity,
                started_ms=self._started_ms,
                seconds=ran_ms / 1000,
            )

    def set(self, status: JobStatus, activity: str) -> None:
        """Set what the job does now."""
        with self._lock:
            self._status, self._activity = status, activity

    def end(self, status: JobStatus, error: PenstockError | None) -> None:
        """End the job; `error` is the cause of a failure."""
        with self._lock:
            self._status, self._error = status, error
            self._ran_ms = self._clock.monotonic_ms() - self._began_ms
            self._activity = error.message if error else status.value
        try:
            self._at_end()
        finally:
            self.done.set()
