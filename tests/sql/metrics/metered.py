"""Jobs without Spark whose batches have splits, for the tests of what is shown of running jobs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Event

from penstock.catalog.errors import PenstockError
from penstock.connector.commits import CommitLog, OffsetCommits
from penstock.connector.source.state import SourceState, SplitState
from penstock.sql.checkpoint.failure_record import FailureRecord
from penstock.sql.checkpoint.plan_record import PlanRecord
from penstock.sql.jobs.batch_counters import BatchCounters, JobBatches, LeftOutRecords
from penstock.sql.jobs.batch_history import BatchHistory
from penstock.sql.jobs.job import Job
from penstock.sql.jobs.progress import JobProgress
from penstock.sql.observation.batch_metrics import BatchMetrics, OperatorMetrics, SourceMetrics
from penstock.sql.observation.pipeline import JobStatus, PipelineTraits
from penstock.sql.settings import MOST_SPLITS
from tests.sql.run.scripted import batch

NOON_MS = 1_767_268_800_000


def split(number: int, end: int, watermark_ms: int | None, **more: object) -> SplitState:
    """A split of topic `orders`, read up to `end`."""
    made = SplitState(
        split_id=f"orders-{number}", owner="orders", start=0, end=end, watermark_ms=watermark_ms
    )
    return replace(made, **more)  # type: ignore[arg-type]


SPLITS = (
    split(0, 90, NOON_MS, paused="customers is behind"),
    split(1, 100, NOON_MS - 60_000),
    split(2, 40, NOON_MS - 9_000_000, idle=True),
)


def source_of(*splits: SplitState, rows_in: int = 30, bad_records: int = 0) -> SourceMetrics:
    """A source whose splits all end at 100."""
    limit_ms = NOON_MS - 30_000
    state = SourceState(splits=splits, watermark_ms=NOON_MS - 60_000, limit_ms=limit_ms)
    ends = {each.split_id: 100 for each in splits}
    return SourceMetrics(rows_in=rows_in, bad_records=bad_records, state=state, ends=ends)


def read_batch(number: int = 7, *sources: SourceMetrics, **more: object) -> BatchMetrics:
    """A batch that took half a second and read these sources."""
    values: dict[str, object] = {
        "rows_out": 20,
        "rows_dropped": 2,
        "bad_records": sum(each.bad_records for each in sources),
        "duration_ms": 500,
        "watermark_ms": NOON_MS - 60_000,
        "phases_ms": {"addBatch": 300, "walCommit": 40, "triggerExecution": 500},
        "sources": sources,
        "operators": (
            OperatorMetrics(
                name="stateStoreSave", rows=12, size_bytes=3_000, commit_ms=8, waits=True
            ),
        ),
    }
    return batch(number, 30, **(values | more))


@dataclass
class MeteredRunner:
    """A runner of a job that did these batches and is in this status."""

    status: JobStatus = JobStatus.RUNNING
    done_batches: tuple[BatchMetrics, ...] = ()
    sources: tuple[str, ...] = ("orders",)
    connectors: tuple[str | None, ...] = ()
    name: str = "shop/totals"
    running_since_ms: int | None = None
    alignments: tuple[tuple[str, int] | None, ...] = ()
    commits: CommitLog = field(default_factory=CommitLog)
    plan: PlanRecord | None = None
    left_out: tuple[LeftOutRecords, ...] = ()
    offset_commits: dict[int, OffsetCommits] = field(default_factory=dict)
    lag_known: bool = True
    traits: PipelineTraits = PipelineTraits()  # noqa: RUF009 - frozen
    restart_reasons: dict[str, int] = field(default_factory=dict)
    split_limit: int = MOST_SPLITS
    failures: tuple[FailureRecord, ...] = ()
    done: Event = field(default_factory=Event)
    error: PenstockError | None = None

    def progress(self) -> JobProgress:
        last = self.done_batches[-1] if self.done_batches else None
        return JobProgress(
            name=self.name,
            sink="totals",
            status=self.status,
            activity="running",
            started_ms=NOON_MS,
            seconds=10.0,
            batches=len(self.done_batches),
            batch_id=last.batch_id if last else None,
            rows_in=sum(each.rows_in for each in self.done_batches),
            watermark_ms=last.watermark_ms if last else None,
            lag_records=last.lag_records if last and self.lag_known else None,
            last_commit_ms=NOON_MS + 5_000 if last else None,
            traits=self.traits,
            restart_reasons=self.restart_reasons,
        )

    def batches(self) -> JobBatches:
        counters, history = BatchCounters(), BatchHistory()
        for each in self.done_batches:
            counters, history = counters.add(each), history.add(each)
        return JobBatches(
            sources=self.sources,
            connectors=self.connectors,
            counters=counters,
            last=self.done_batches[-1] if self.done_batches else None,
            recent=self.done_batches,
            running_since_ms=self.running_since_ms,
            alignments=self.alignments,
            history=history,
            commits=self.commits.sinks(),
            left_out=self.left_out,
            offset_commits=self.offset_commits,
            dead_letters=self.commits.dead_letters(),
            plan=self.plan,
            split_limit=self.split_limit,
            failures=self.failures,
        )

    def request_stop(self, *, now: bool = False) -> None:
        """Nothing runs."""


def job(*batches: BatchMetrics, **changes: object) -> Job:
    """A job that did these batches."""
    runner = MeteredRunner(done_batches=batches, **changes)  # type: ignore[arg-type]
    return Job(runner, lease_expires_ms=lambda: NOON_MS + 20_000)
