"""A job's progress as what its runner leaves in the catalog, for `SHOW JOBS` and `information_schema` elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.catalog.job_report import JobReport
from penstock.catalog.secret_mask import without_secrets

if TYPE_CHECKING:
    from penstock.sql.run.progress import JobProgress

__all__ = ["report_of"]

LONGEST_ERROR = 2_000
"""Characters of an error that are kept."""


def report_of(progress: JobProgress) -> JobReport:
    """Give the report: what changes with every batch is not in it, and no secret that this process knows."""
    error, outage = progress.last_error, progress.outage
    return JobReport(
        status=progress.status.value,
        restarts=progress.restarts,
        last_error=None if error is None else without_secrets(error)[:LONGEST_ERROR],
        waiting_for=None if outage is None else without_secrets(str(outage))[:LONGEST_ERROR],
        waiting_since_ms=None if outage is None else outage.since_ms,
    )
