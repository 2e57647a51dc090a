"""What is seen of a job of this process, and its sentence."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.catalog.masking import without_secrets
from penstock.sql.jobs.batch_counters import JobBatches
from penstock.sql.jobs.progress import JobProgress
from penstock.sql.observation.pipeline import PipelineObservation, state_rows
from penstock.sql.observation.sentence import Sentence, sentence_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """A job at an instant: its progress, and its batches in this process; None of one that has none."""

    progress: JobProgress
    batches: JobBatches | None = None

    def observation(self) -> PipelineObservation:
        """Return what its sentence is made of."""
        return observe(self.progress, self.batches)

    def sentence(self, now_ms: int) -> Sentence:
        """Return what it does, or why nothing comes out of it."""
        return sentence_of(self.observation(), now_ms)


def observe(progress: JobProgress, batches: JobBatches | None) -> PipelineObservation:
    """Observe a job by its progress and its batches. Secrets are left out of its messages."""
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
        lags=batches.history.lags,
        sources=tuple(zip(batches.source_names(), last, strict=False)),
        rows_read=batches.counters.rows_in,
        state=state_rows(batches.operators, batches.recent),
    )
