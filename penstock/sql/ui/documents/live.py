"""Documents of the pipelines that run in this process, from their jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from penstock.catalog.masking import without_secrets
from penstock.sql.clock import SystemClock
from penstock.sql.metrics.collector import PHASES
from penstock.sql.ui.documents.errors import error_documents
from penstock.sql.ui.documents.fields import Document, known, table_document, time_text
from penstock.sql.ui.documents.plan import (
    StateSize,
    operator_documents,
    sink_documents,
    stage_sizes,
)
from penstock.sql.ui.documents.trend import trend_fields

if TYPE_CHECKING:
    from penstock.sql.jobs.job import Job
    from penstock.sql.jobs.observation import ObservedJob
    from penstock.sql.jobs.progress import JobProgress
    from penstock.sql.observation.batch_metrics import BatchMetrics


def live_summary(job: Job) -> Document:
    """Describe a pipeline in the list of all."""
    return job_document(job.observed, SystemClock().now_ms())


def job_document(job: ObservedJob, now_ms: int) -> Document:
    """Describe a job as it was observed: also a line of `penstock run --progress json`."""
    return (
        _summary(job.progress)
        | {"sentence": str(job.sentence(now_ms))}
        | known(oldest_unread=_oldest_unread(job))
        | _trend(job, now_ms)
    )


def live_pipeline(job: Job) -> Document:
    """Describe a pipeline with its splits, its last batches, its operators and the tables that it writes."""
    observed = job.observed
    progress, batches = observed.progress, observed.batches
    document = job_document(observed, SystemClock().now_ms())
    if batches is None:
        return document
    ends_known = progress.lag_records is not None
    sources = () if batches.last is None else batches.last.sources
    return document | known(
        tables=[
            table_document(
                name,
                source,
                ends_known=ends_known,
                runs=not progress.status.final,
                connector=_of(batches.connectors, number),
                group=None if (group := _of(batches.alignments, number)) is None else group[0],
            )
            for number, (name, source) in enumerate(
                zip(batches.source_names(), sources, strict=False)
            )
        ],
        batches_recent=[_batch(batch) for batch in batches.recent],
        operators=operator_documents(
            batches.plan,
            [
                StateSize(name=each.name, rows=each.rows, size_bytes=each.size_bytes)
                for each in batches.operators
            ],
            stage_sizes(batches.checkpoint),
        ),
        sinks=sink_documents(batches.plan, batches.commits, time_text(progress.watermark_ms)),
        checkpoint=batches.checkpoint,
        errors=error_documents(batches.failures, batches.checkpoint) or None,
    )


_T = TypeVar("_T")


def _of(values: Sequence[_T], number: int) -> _T | None:
    """Return the value of a source by its number; None of one that has none."""
    return values[number] if number < len(values) else None


def _summary(progress: JobProgress) -> Document:
    counts = progress.batches > 0 and not progress.refreshes
    return known(
        name=progress.name,
        status=progress.status.value,
        reason=_reason(progress),
        sink=progress.sink,
        guarantee=progress.traits.guarantee or None,
        runner="here",
        started=time_text(progress.started_ms),
        batches=progress.batches,
        batch_id=progress.batch_id,
        rows_in=progress.rows_in if counts else None,
        rows_out=progress.rows_out if counts else None,
        rows_late=progress.rows_dropped if counts else None,
        bad_records=progress.bad_records if counts else None,
        records_lost=progress.records_lost if counts else None,
        rows_per_second=round(progress.rows_per_second, 1) if counts else None,
        rows_per_second_out=round(progress.rows_out_per_second, 1) if counts else None,
        watermark=time_text(progress.watermark_ms),
        lag_records=progress.lag_records,
        last_commit=time_text(progress.last_commit_ms),
        restarts=progress.restarts,
        restarts_counted=None if progress.restart_limit is None else progress.restarts_counted,
        restart_limit=progress.restart_limit,
    )


def _oldest_unread(job: ObservedJob) -> str | None:
    """Return when the oldest unread record of all tables was first seen, of a job that has not ended."""
    batches = job.batches
    if batches is None or job.progress.status.final:
        return None
    return time_text(batches.history.oldest_unread_ms())


def _trend(job: ObservedJob, now_ms: int) -> Document:
    if job.batches is None or job.progress.status.final:
        return {}
    return trend_fields(job.batches.history.lags, now_ms)


def _reason(progress: JobProgress) -> str | None:
    if progress.outage is not None:
        return without_secrets(f"waits for {progress.outage}")
    return None if progress.last_error is None else without_secrets(progress.last_error)


def _batch(batch: BatchMetrics) -> Document:
    return known(
        id=batch.batch_id,
        committed=time_text(batch.committed_at_ms),
        duration_ms=batch.duration_ms,
        rows_in=batch.rows_in,
        rows_out=batch.rows_out,
        watermark=time_text(batch.watermark_ms),
        phases_ms={phase: batch.phases_ms.get(key, 0) for key, phase in PHASES.items()},
    )
