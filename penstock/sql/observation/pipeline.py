"""A pipeline as it is seen at an instant: what its sentence is made of, from a running job or from a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.sql.observation.batch_metrics import BatchMetrics, OperatorMetrics, SourceMetrics


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


class ResultMode(StrEnum):
    """How a pipeline computes what it writes.

    APPEND and UPDATE: Spark streams the query, in that output mode. KEYED: keyed operators, one job a batch.
    RECOMPUTED: stages that compute changed keys anew, several jobs a batch. REFRESH: the table is rewritten
    periodically.
    """

    APPEND = "append"
    UPDATE = "update"
    KEYED = "keyed"
    RECOMPUTED = "recomputed"
    REFRESH = "refresh"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineTraits:
    """What a pipeline is, beside its name: `guarantee` is what its sink promises, in Flink's words.

    `mode` is None before the first start of a query that runs in stages; `guarantee` is empty where none is stated.
    """

    mode: ResultMode | None = None
    guarantee: str = ""


STEP_MS = 30_000
"""Of the course of speed and lag there is a value for each half minute, which begin at multiples of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """The records that were left behind the ends at a time (epoch ms), and the rows read by then.

    Rows are those since the process began: those of two samples are compared.
    """

    at_ms: int
    lag_records: int
    rows_in: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRows:
    """The rows in the state of a query: `rows` as far as they are counted, `waiting` those of them that come out once
    the watermark has passed them.

    `waits` tells that there are such rows, counted or not; `may_wait` that there may be rows that still come out.
    """

    rows: int = 0
    waiting: int = 0
    waits: bool = False
    may_wait: bool = False


def state_rows(operators: Sequence[OperatorMetrics], batches: Sequence[BatchMetrics]) -> StateRows:
    """Return what operators keep as of the last batch; what the last batches wrote tells of those that count no rows.

    One that wrote rows and ended none keeps them; one that did both may.
    """
    rows = waiting = 0
    waits = may_wait = False
    for number, operator in enumerate(operators):
        if operator.rows is not None:
            rows += operator.rows
            waiting += operator.rows if operator.waits else 0
            may_wait |= operator.waits is None and operator.rows > 0
        elif operator.waits is not False:
            own = [batch.operators[number] for batch in batches if len(batch.operators) > number]
            wrote = any(each.updated for each in own)
            waits |= bool(operator.waits) and wrote and not any(each.removed for each in own)
            may_wait |= wrote or operator.updated is None
    return StateRows(rows=rows, waiting=waiting, waits=waits or waiting > 0, may_wait=may_wait)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineObservation:
    """A pipeline at an instant; times are epoch ms, None and empty are not known.

    `error` is the last one, `outage` what does not answer. `sources` are the tables read by name, as of the last
    batch; `ends_known` tells whether they have lags. `rows_read` are the rows read since the start, by number of
    source. `batches` are the last ones, `lags` samples of the lag over a longer time, oldest first. `state` is what
    stateful operators keep. `running_since_ms` is when the batch that runs now was first seen.
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
    state: StateRows = StateRows()


def distinct_names(sources: Iterable[str]) -> tuple[str, ...]:
    """Name sources, each once: a table that is read again has a number behind it."""
    seen: dict[str, int] = {}
    names = []
    for source in sources:
        seen[source] = seen.get(source, 0) + 1
        names.append(source if seen[source] == 1 else f"{source}#{seen[source]}")
    return tuple(names)
