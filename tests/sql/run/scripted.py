"""A planned INSERT whose streaming query follows a script, and a clock that only tests move."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from penstock.connector.commits import CommitLog, OffsetCommits
from penstock.connector.spark.source.retry import Outage
from penstock.sql.checkpoint.failure_record import FailureRecord
from penstock.sql.checkpoint.plan_record import PlanRecord
from penstock.sql.observation.batch_metrics import BatchMetrics
from penstock.sql.observation.pipeline import PipelineTraits, ResultMode


def batch(batch_id: int, rows: int = 10, **changes: Any) -> BatchMetrics:
    """Metrics of a batch that read `rows` and wrote half of them."""
    values: dict[str, Any] = {
        "batch_id": batch_id,
        "rows_in": rows,
        "rows_out": rows // 2,
        "rows_dropped": 0,
        "bad_records": 0,
        "watermark_ms": 1_000 * batch_id,
        "lag_records": 0,
        "duration_ms": 100,
        "committed_at_ms": 1_000 * batch_id,
    }
    return BatchMetrics(**(values | changes))


class MovedClock:
    """Time stands still until somebody waits: then it jumps to the end of the wait."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.set_by_ms = 0
        self.waits: list[int] = []
        self.while_waiting: Callable[[], None] = lambda: None

    def now_ms(self) -> int:
        return self.now + self.set_by_ms

    def monotonic_ms(self) -> int:
        return self.now

    def wait(self, event: Event, timeout_ms: int) -> bool:
        if event.is_set():
            return True
        self.waits.append(timeout_ms)
        self.now += timeout_ms
        self.while_waiting()
        return event.is_set()


class _Progress(dict[str, Any]):
    """As pyspark's: a dict that also gives its JSON."""

    @property
    def json(self) -> str:
        return json.dumps(self)


class _JavaProgress:
    def __init__(self, event: dict[str, Any]) -> None:
        self._event = event

    def json(self) -> str:
        return json.dumps(self._event)


@dataclass
class ScriptedQuery:
    """A streaming query: each look at it plays the next step of its script.

    A step is the number of a batch that commits, an exception it fails of, `IDLE`, `END`, or a callable that the
    look makes. A script that is over means a query that waits for data.
    """

    steps: list[Any]
    busy: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)
    ended: bool = False
    stops: int = 0
    failure: BaseException | None = None

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802  as pyspark spells it
        if self.stops or self.ended:
            return True
        self.play()
        if self.failure is not None:
            raise self.failure
        return self.ended

    def play(self) -> None:
        if not self.steps:
            return
        step = self.steps.pop(0)
        if step is END:
            self.ended = True
        elif step is IDLE:
            number = self.events[-1]["batchId"] + ("addBatch" in self.events[-1]["durationMs"])
            self.events.append({"batchId": number, "durationMs": {"latestOffset": 50}})
        elif isinstance(step, BaseException):
            self.failure = step
        elif isinstance(step, int):
            self.commit(step)
        elif isinstance(step, list):
            for number in step:
                self.commit(number)
        else:
            step()

    def commit(self, number: int) -> None:
        self.events.append({"batchId": number, "durationMs": {"addBatch": 100}})

    @property
    def batches(self) -> list[int]:
        return [event["batchId"] for event in self.events if "addBatch" in event["durationMs"]]

    @property
    def isActive(self) -> bool:  # noqa: N802
        return not (self.ended or self.stops or self.failure)

    @property
    def status(self) -> dict[str, Any]:
        if self.busy:
            self.play()
        return {
            "message": "Processing new data" if self.busy else "Waiting for data to arrive",
            "isTriggerActive": self.busy,
            "isDataAvailable": self.busy,
        }

    @property
    def lastProgress(self) -> _Progress | None:  # noqa: N802
        return _Progress(self.events[-1]) if self.events else None

    @property
    def _jsq(self) -> ScriptedQuery:
        return self

    def recentProgress(self) -> list[_JavaProgress]:  # noqa: N802
        return [_JavaProgress(event) for event in self.events]

    def stop(self) -> None:
        self.stops += 1


END = object()
IDLE = object()


@dataclass
class ScriptedInsert:
    """A PlannedInsert: each start gives the next query, or raises the next error, of its script."""

    starts: list[Any]
    sink: str = "default_catalog.default_database.totals"
    sources: tuple[str, ...] = ("orders",)
    leaves: tuple[Any, ...] = ()
    commits: CommitLog = field(default_factory=CommitLog)
    plan: PlanRecord | None = None
    bounded: bool = True
    pipeline: str = "job/totals"
    checkpoint: str = "checkpoints/job/totals"
    kind: str = "INSERT"
    is_stream: bool = True
    rows_by_sink: dict[str, int] | None = None
    statement_digest: str = ""
    rows: dict[int, int] = field(default_factory=dict)
    started: list[Any] = field(default_factory=list)
    prepared: int = 0
    failures: list[FailureRecord] = field(default_factory=list)
    keeps_failures: bool = True
    while_recording: Callable[[], object] = lambda: None
    outages: list[Outage | None] = field(default_factory=list)
    traits: PipelineTraits = PipelineTraits(mode=ResultMode.APPEND, guarantee="exactly-once")  # noqa: RUF009 - frozen

    def outage(self) -> Outage | None:
        return self.outages.pop(0) if self.outages else None

    def offset_commits(self) -> dict[int, OffsetCommits]:
        return {}

    @property
    def leases(self) -> tuple[str, ...]:
        return (self.pipeline,)

    def record_failures(self, failures: Iterable[FailureRecord]) -> None:
        self.while_recording()
        if not self.keeps_failures:
            raise OSError(28, "No space left on device")
        self.failures[:] = failures

    def prepare(self) -> None:
        self.prepared += 1

    def start(self, trigger: Any, lost_lease: Any = None) -> ScriptedQuery:
        self.started.append(trigger)
        step = self.starts.pop(0)
        if isinstance(step, BaseException):
            raise step
        assert isinstance(step, ScriptedQuery)
        return step

    def write(self, lost_lease: Any = None) -> None:
        step = self.starts.pop(0)
        if isinstance(step, BaseException):
            raise step

    def read_metrics(self, progress: dict[str, Any]) -> BatchMetrics:
        number = progress["batchId"]
        return batch(number, self.rows.get(number, 10))
