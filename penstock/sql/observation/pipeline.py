"""A pipeline as it is seen at an instant: what its sentence is made of, from a running job or from a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.sql.observation.batch_metrics import BatchMetrics, SourceMetrics


class JobStatus(StrEnum):
    """The state of a job; the last three are final."""

    RUNNING = "running"
    RESTARTING = "restarting"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        """Whether the job has ended."""
        return self in {JobStatus.FINISHED, JobStatus.STOPPED, JobStatus.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """The records that were left behind the ends at a time (epoch ms), and the rows read by then."""

    at_ms: int
    lag_records: int
    rows_in: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineObservation:
    """A pipeline at an instant; times are epoch ms, None and empty are not known.

    `error` is the last one, `outage` what does not answer. `sources` are the tables read by name, as of the last
    batch; `ends_known` tells whether they have lags. `rows_read` are the rows read since the start, by number of
    source. `batches` are the last ones, `lags` samples of the lag over a longer time, oldest first. `state_rows`
    are those of stateful operators, as far as they are known; `keeps_rows` tells that the last batches wrote some.
    `running_since_ms` is when the batch that runs now was first seen.
    """

    status: JobStatus
    error: str | None = None
    outage: str | None = None
    restarts: int | None = None
    batch_id: int | None = None
    last_commit_ms: int | None = None
    running_since_ms: int | None = None
    batches: tuple[BatchMetrics, ...] = ()
    lags: tuple[LagSample, ...] = ()
    sources: tuple[tuple[str, SourceMetrics], ...] = ()
    ends_known: bool = False
    rows_read: Mapping[int, int] = field(default_factory=dict)
    state_rows: int = 0
    keeps_rows: bool = False


def distinct_names(sources: Iterable[str]) -> tuple[str, ...]:
    """Name sources, each once: a table that is read again has a number behind it."""
    seen: dict[str, int] = {}
    names = []
    for source in sources:
        seen[source] = seen.get(source, 0) + 1
        names.append(source if seen[source] == 1 else f"{source}#{seen[source]}")
    return tuple(names)
