"""What a job tells about itself at a moment: plain values for displays, summaries and Python callers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.catalog.identifier import Identifier
from penstock.connector.outage import Outage
from penstock.sql.plan.metrics import LateSplit, TimelessSplit

__all__ = ["JobProgress", "JobStatus", "short_name"]

_DEFAULT = "default_catalog.default_database."


class JobStatus(StrEnum):
    """Where a job is in its life; the last three are final."""

    RUNNING = "running"
    RESTARTING = "restarting"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        """Whether nothing follows."""
        return self in {JobStatus.FINISHED, JobStatus.STOPPED, JobStatus.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """A job as of its last committed batch; counts are sums since the job started, each batch counted once.

    Times are epoch ms of the wall clock, except `watermark_ms`, which is event time (the maximum once every bounded
    table is read); `timeless` are the splits that keep it from moving, `late_splits` those with rows that came too late
    as the split was found late. `rows_per_second` averages the last seconds. `activity` says in words what the job does
    now. `last_error` is what it failed of last, of which it may have started again since; `outage` is what it waits for
    now: then nobody knows `lag_records`.
    `refreshes`: it writes its table anew from time to time, `batches` is how often; rows are not counted.
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
    rows_per_second: float = 0.0
    watermark_ms: int | None = None
    timeless: tuple[TimelessSplit, ...] = ()
    late_splits: tuple[LateSplit, ...] = ()
    lag_records: int | None = None
    last_commit_ms: int | None = None
    restarts: int = 0
    last_error: str | None = None
    outage: Outage | None = None
    refreshes: bool = False


def short_name(identifier: Identifier | str) -> str:
    """Write a full name as a person would: the default catalog and database go without saying."""
    return str(identifier).removeprefix(_DEFAULT)
