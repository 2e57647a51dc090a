"""A pipeline as it is seen at an instant: what its sentence is made of, from a running job or from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.catalog.masking import without_secrets
from penstock.sql.jobs.progress import JobStatus
from penstock.sql.plan.physical.batch_metrics import BatchMetrics, SourceMetrics

if TYPE_CHECKING:
    from penstock.sql.jobs.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineObservation:
    """A pipeline at an instant; times are epoch ms, None and empty are not known.

    `error` is the last one, `outage` what does not answer. `sources` are the tables read by name, as of the last batch;
    `ends_known` tells whether they have lags. `rows_read` are the rows read since the start, by number of source.
    `batches` are the last ones, oldest first. `state_rows` are those of stateful operators. `running_since_ms` is when
    the batch that runs now was first seen.
    """

    status: JobStatus
    error: str | None = None
    outage: str | None = None
    restarts: int | None = None
    batch_id: int | None = None
    last_commit_ms: int | None = None
    running_since_ms: int | None = None
    batches: tuple[BatchMetrics, ...] = ()
    sources: tuple[tuple[str, SourceMetrics], ...] = ()
    ends_known: bool = False
    rows_read: Mapping[int, int] = field(default_factory=dict)
    state_rows: int = 0


def observation_of(job: Job) -> PipelineObservation:
    """Observe a job of this process. Secrets are left out of its messages."""
    progress, batches = job.progress, job.batches
    seen = PipelineObservation(
        status=progress.status,
        error=None if progress.last_error is None else without_secrets(progress.last_error),
        outage=None if progress.outage is None else without_secrets(str(progress.outage)),
        restarts=progress.restarts,
        batch_id=progress.batch_id,
        last_commit_ms=progress.last_commit_ms,
        ends_known=progress.lag_records is not None,
    )
    if batches is None:
        return seen
    last = () if batches.last is None else batches.last.sources
    return replace(
        seen,
        running_since_ms=batches.running_since_ms,
        batches=batches.recent,
        sources=tuple(zip(batches.source_names(), last, strict=False)),
        rows_read=batches.counters.rows_in,
        state_rows=sum(each.rows for each in batches.operators),
    )
