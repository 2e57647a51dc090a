"""What the runner of a pipeline says of its job, kept beside its lease for those who look from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["FAILED", "JobReport"]

FAILED = "failed"
"""The status that outlives the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """The state of a job at a moment. `status` is a `JobStatus`, `restarts` a sum since the job started.

    `waiting_for` names what does not answer and why, since `waiting_since_ms` by the runner's clock, epoch ms.
    `since_ms` is when the lease was granted and `age_ms` how long ago this was said, both by the database's clock and
    no part of the value.
    """

    status: str
    restarts: int = 0
    last_error: str | None = None
    waiting_for: str | None = None
    waiting_since_ms: int | None = None
    since_ms: int = field(default=0, compare=False)
    age_ms: int = field(default=0, compare=False)
