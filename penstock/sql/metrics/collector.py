"""Builds the values of metrics from the jobs of this process, at each scrape and on the scrape's thread.

Reads what `Job` already counts (progress.py, batch_counters.py) and keeps nothing: a job that has ended has no series,
except the status of one that failed, which an alert needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from penstock.catalog.errors import BadRecordError, PenstockError, RecordFault, RunError
from penstock.connector.commits import DURATION_BOUNDS_S as COMMIT_BOUNDS_S
from penstock.connector.options.bad_records import BadRecordPolicy
from penstock.connector.options.watermark import OnFuture
from penstock.connector.source.state import MAX_WATERMARK_MS
from penstock.sql.errors.codes import ERROR_CODES
from penstock.sql.jobs.batch_counters import (
    DURATION_BOUNDS_S,
    NO_SOURCE,
    JobBatches,
    LeftOutRecords,
)
from penstock.sql.metrics import families as f
from penstock.sql.metrics.families import FAMILIES, MetricFamily, MetricKind
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.observation.split_states import SplitPhase, holders, phase_of

if TYPE_CHECKING:
    from penstock.connector.source.state import SourceState
    from penstock.sql.clock import Clock
    from penstock.sql.jobs.batch_history import BatchHistory
    from penstock.sql.jobs.job import Job
    from penstock.sql.jobs.progress import JobProgress
    from penstock.sql.observation.batch_metrics import SourceMetrics


UNKNOWN_TABLE = "unknown"
"""The label of records of a query whose tables are not known."""

_RESTART_CODES = sorted(
    {one.code for one in ERROR_CODES if issubclass(one.kind, RunError) and not one.kind.permanent}
)
"""The codes of errors after which a pipeline starts again: their counters begin at 0, as PromQL counts from there."""

PHASES = {
    "latestOffset": "latest_offset",
    "queryPlanning": "planning",
    "walCommit": "wal_commit",
    "addBatch": "add_batch",
    "commitOffsets": "commit",
}
"""The phases of a batch: Spark's names, and those of the label."""


class PipelineCollector(Collector):
    """Collects the metrics of the jobs that `jobs` returns."""

    def __init__(self, jobs: Callable[[], Sequence[Job]], clock: Clock) -> None:
        self._jobs = jobs
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        """Return all families without values, so that registering does not read the jobs."""
        return [metric for metric, _ in _Samples().metrics()]

    def collect(self) -> Iterable[Metric]:
        """Build the values."""
        samples = _Samples()
        for job in self._jobs():
            progress, batches = job.progress, job.batches
            if progress.status in {JobStatus.FINISHED, JobStatus.STOPPED}:
                continue
            _add_status(samples, progress)
            if batches is not None:
                _add_failing_records(samples, progress, batches, job.exception)
            if not progress.status.final:
                _add_progress(samples, progress)
                _add_time(samples, f.LEASE, progress, job.lease_expires_ms)
                if batches is not None:
                    self._add_batches(samples, progress, batches)
        return [metric for metric, used in samples.metrics() if used]

    def _add_batches(self, samples: _Samples, job: JobProgress, batches: JobBatches) -> None:
        counters, names = batches.counters, batches.source_names()
        samples.add_histogram(
            f.DURATION,
            [job.name],
            DURATION_BOUNDS_S,
            counters.durations,
            counters.duration_ms / 1000,
        )
        _add_commits(samples, job, batches)
        for key, phase in PHASES.items():
            samples.add(f.PHASES, job.name, counters.phases_ms.get(key, 0) / 1000, phase)
        since = batches.running_since_ms
        running_ms = 0 if since is None else max(0, self._clock.now_ms() - since)
        samples.add(f.RUNNING, job.name, running_ms / 1000)
        samples.add(f.ROWS_WRITTEN, job.name, counters.rows_out, job.sink)
        for number, name in enumerate(names):
            samples.add(f.ROWS_READ, job.name, counters.rows_in.get(number, 0), name)
            samples.add(f.ROWS_LATE, job.name, counters.rows_late.get(number, 0), name)
            _add_bad_records(samples, job, batches, number, name)
            samples.add(f.RECORDS_LOST, job.name, counters.records_lost.get(number, 0), name)
            if (commits := batches.offset_commits.get(number)) is not None:
                for result, count in asdict(commits).items():
                    samples.add(f.OFFSET_COMMITS, job.name, count, name, result)
        if (late := counters.rows_late.get(NO_SOURCE)) is not None:
            samples.add(f.ROWS_LATE, job.name, late, ", ".join(names) or UNKNOWN_TABLE)
        if (bad := counters.bad_records.get(NO_SOURCE)) is not None:
            samples.add(f.BAD_RECORDS, job.name, bad, ", ".join(names) or UNKNOWN_TABLE, "", "")
        for number, operator in enumerate(batches.operators):
            label = f"{operator.name} {number}"
            if operator.rows is not None:
                samples.add(f.STATE_ROWS, job.name, operator.rows, label)
            samples.add(f.STATE_BYTES, job.name, operator.size_bytes, label)
            if operator.most_files is not None:
                samples.add(f.STATE_FILES, job.name, operator.most_files, label)
            commit_ms = counters.state_commit_ms.get(number, 0)
            samples.add(f.STATE_COMMIT, job.name, commit_ms / 1000, label)
        if batches.last is not None:
            for number, (name, source) in enumerate(zip(names, batches.last.sources, strict=False)):
                if (state := source.state) is None:
                    continue
                by_split = len(state.splits) <= batches.split_limit
                _add_source(samples, job, name, source, by_split=by_split)
                _add_alignment(samples, job, name, state, batches, number)
                oldest_ms = batches.history.oldest_unread_ms(number)
                _add_time(samples, f.OLDEST_UNREAD, job, oldest_ms, name)
                if by_split:
                    self._add_history(samples, job, name, state, batches.history, number)

    def _add_history(
        self,
        samples: _Samples,
        job: JobProgress,
        table: str,
        state: SourceState,
        history: BatchHistory,
        number: int,
    ) -> None:
        spent_ms = history.spent_ms(self._clock.now_ms())
        for split in state.splits:
            for family, phase in (
                (f.SPLIT_PAUSED, SplitPhase.PAUSED),
                (f.SPLIT_IDLE, SplitPhase.IDLE),
            ):
                ms = spent_ms.get(((number, split.split_id), phase), 0)
                samples.add(family, job.name, ms / 1000, table, split.split_id)


def _add_source(
    samples: _Samples, job: JobProgress, table: str, source: SourceMetrics, *, by_split: bool
) -> None:
    state = source.state
    if state is None:
        return
    _add_time(samples, f.WATERMARK, job, state.watermark_ms, table)
    lags = source.lags
    if job.lag_records is not None:  # else the sources do not answer, and the lag is not known
        samples.add(f.LAG, job.name, sum(lags), table)
        samples.add(f.LAG_MAX, job.name, max(lags, default=0), table)
    phases = [phase_of(split, lag) for split, lag in zip(state.splits, lags, strict=True)]
    for phase in SplitPhase:
        samples.add(f.SPLITS, job.name, phases.count(phase), table, phase.value)
    if (spread_ms := _spread_ms(state)) is not None:
        samples.add(f.SPREAD, job.name, spread_ms / 1000, table)
    if not by_split:
        return
    held = holders(state)
    for split, lag, phase in zip(state.splits, lags, phases, strict=True):
        labels = (table, split.split_id)
        samples.add(f.SPLIT_POSITION, job.name, split.end, *labels)
        samples.add(f.SPLIT_END, job.name, split.end + lag, *labels)
        samples.add(f.SPLIT_LAG, job.name, lag, *labels)
        _add_time(samples, f.SPLIT_WATERMARK, job, split.watermark_ms, *labels)
        for each in SplitPhase:
            samples.add(f.SPLIT_STATE, job.name, int(each is phase), *labels, each.value)
        samples.add(f.SPLIT_HOLDS, job.name, int(split.split_id in held), *labels)


def _add_commits(samples: _Samples, job: JobProgress, batches: JobBatches) -> None:
    for sink, commits in batches.commits.items():
        table = sink or job.sink
        if any(commits.durations):
            samples.add_histogram(
                f.SINK_COMMIT, [job.name, table], COMMIT_BOUNDS_S, commits.durations, commits.took_s
            )
        if commits.version is not None:
            samples.add(f.TABLE_VERSION, job.name, commits.version, table)
            samples.add(f.FILES_ADDED, job.name, commits.files, table)
        if commits.transactions is not None:
            samples.add(f.TRANSACTIONS, job.name, commits.transactions, table, "ok")
            samples.add(f.TRANSACTIONS, job.name, commits.failed_transactions, table, "failed")
    for table, count in batches.dead_letters.items():
        samples.add(f.DEAD_LETTERS, job.name, count, table)


def _add_bad_records(
    samples: _Samples, job: JobProgress, batches: JobBatches, number: int, table: str
) -> None:
    known = batches.left_out[number] if number < len(batches.left_out) else LeftOutRecords()
    future = batches.counters.future_records.get(number, 0)
    undecodable = batches.counters.bad_records.get(number, 0) - future
    for kind, count, keeps in (
        (RecordFault.UNDECODABLE, undecodable, known.undecodable is BadRecordPolicy.DEAD_LETTER),
        (RecordFault.FUTURE, future, known.future is OnFuture.DEAD_LETTER),
    ):
        action = "dead_letter" if keeps else "skipped"
        samples.add(f.BAD_RECORDS, job.name, count, table, action, kind.value)


def _add_failing_records(
    samples: _Samples, job: JobProgress, batches: JobBatches, error: PenstockError | None
) -> None:
    """Add the record that failed the pipeline, by kind: 0 while there is none, as the first one is the last."""
    fault = error.fault if isinstance(error, BadRecordError) else None
    for kind, fails in (
        (
            RecordFault.UNDECODABLE,
            [each.undecodable is BadRecordPolicy.FAIL for each in batches.left_out],
        ),
        (RecordFault.FUTURE, [each.future is OnFuture.FAIL for each in batches.left_out]),
    ):
        failed = fault is kind
        names = batches.source_names()
        able = [name for name, each in zip(names, fails, strict=False) if each]
        if able or failed:
            table = ", ".join(able or names) or UNKNOWN_TABLE
            samples.add(f.BAD_RECORDS, job.name, int(failed), table, "failed", kind.value)


def _add_alignment(
    samples: _Samples,
    job: JobProgress,
    table: str,
    state: SourceState,
    batches: JobBatches,
    number: int,
) -> None:
    alignment = batches.alignments[number] if number < len(batches.alignments) else None
    if alignment is None:
        return
    group, max_drift_ms = alignment
    samples.add(f.MAX_DRIFT, job.name, max_drift_ms / 1000, table, group)
    limit_ms, watermark_ms = state.limit_ms, state.watermark_ms
    if limit_ms is None or watermark_ms is None or max(limit_ms, watermark_ms) >= MAX_WATERMARK_MS:
        return
    # the limit is the lowest watermark of the group and what it allows
    drift_ms = watermark_ms - (limit_ms - max_drift_ms)
    samples.add(f.DRIFT, job.name, max(0, drift_ms) / 1000, table, group)


def _add_status(samples: _Samples, job: JobProgress) -> None:
    mode = "" if job.traits.mode is None else job.traits.mode.value
    of = (job.sink, mode, job.traits.guarantee, version("penstock"))
    samples.add(f.INFO, job.name, 1, *of)
    for status in JobStatus:
        samples.add(f.STATUS, job.name, int(status is job.status), status.value)


def _add_progress(samples: _Samples, job: JobProgress) -> None:
    samples.add(f.STARTED, job.name, job.started_ms / 1000)
    restarts = dict.fromkeys(_RESTART_CODES, 0) | dict(job.restart_reasons)
    for code, count in sorted(restarts.items()):
        samples.add(f.RESTARTS, job.name, count, code)
    samples.add(f.WAITING, job.name, int(job.outage is not None))
    samples.add(f.BATCHES, job.name, job.batches)
    _add_time(samples, f.LAST_COMMIT, job, job.last_commit_ms)
    _add_time(samples, f.WRITTEN_WATERMARK, job, job.watermark_ms, job.sink)


def _add_time(
    samples: _Samples, family: MetricFamily, job: JobProgress, at_ms: int | None, *labels: str
) -> None:
    if at_ms is not None and at_ms < MAX_WATERMARK_MS:
        samples.add(family, job.name, at_ms / 1000, *labels)


def _spread_ms(state: SourceState) -> int | None:
    known = [
        split.watermark_ms
        for split in state.splits
        if split.watermark_ms is not None and not split.idle and not split.finished
    ]
    return max(known) - min(known) if known else None


class _Samples:
    """The metrics of one scrape while they are built."""

    def __init__(self) -> None:
        self._made = {family.name: _metric(family) for family in FAMILIES}
        self._used: set[str] = set()

    def add(self, family: MetricFamily, pipeline: str, value: float, *labels: str) -> None:
        """Add a series; `labels` are in the order of the family's."""
        metric = self._made[family.name]
        assert isinstance(metric, GaugeMetricFamily | CounterMetricFamily), family.name
        metric.add_metric([pipeline, *labels], value)
        self._used.add(family.name)

    def add_histogram(
        self,
        family: MetricFamily,
        labels: Sequence[str],
        upper: Sequence[float],
        counts: Sequence[int],
        total: float,
    ) -> None:
        """Add a histogram, whose counts are those of each bucket alone, below the bounds `upper` and above them."""
        metric = self._made[family.name]
        assert isinstance(metric, HistogramMetricFamily), "durations are a histogram"
        bounds = [*map(str, upper), "+Inf"]
        up_to = [sum(counts[: index + 1]) for index in range(len(counts))]
        buckets: list[tuple[str, float]] = list(zip(bounds, map(float, up_to), strict=True))
        metric.add_metric(labels, buckets, total)
        self._used.add(family.name)

    def metrics(self) -> Iterator[tuple[Metric, bool]]:
        """Return each metric, and whether it has a series."""
        for name, metric in self._made.items():
            yield metric, name in self._used


def _metric(
    family: MetricFamily,
) -> GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily:
    labels = ["pipeline", *family.labels]
    match family.kind:
        case MetricKind.GAUGE:
            return GaugeMetricFamily(family.name, family.meaning, labels=labels)
        case MetricKind.COUNTER:
            return CounterMetricFamily(family.name, family.meaning, labels=labels)
        case MetricKind.HISTOGRAM:
            return HistogramMetricFamily(family.name, family.meaning, labels=labels)
