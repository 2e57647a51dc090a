"""A running INSERT as a caller sees it: wait for it, stop it, read its progress.

Also writes the report of it for the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Protocol

from penstock.catalog.definitions.leases import JobReport
from penstock.catalog.masking import without_secrets
from penstock.catalog.model.identifier import short_name
from penstock.sql.clock import Clock, SystemClock
from penstock.sql.errors.render import errors_explained
from penstock.sql.errors.spark import translate
from penstock.sql.jobs.lease import PipelineLease, hold_lease, hold_leases, table_lease
from penstock.sql.jobs.observation import ObservedJob
from penstock.sql.jobs.supervisor import Supervisor, SupervisorSettings
from penstock.sql.settings import DEFAULT_RESTART, MOST_SPLITS, STOP_LIMIT_MS, RestartStrategy

if TYPE_CHECKING:
    from penstock.catalog.definitions.contract import Leases
    from penstock.catalog.errors import PenstockError
    from penstock.connector.contract import Trigger
    from penstock.sql.jobs.batch_counters import JobBatches
    from penstock.sql.jobs.progress import JobProgress
    from penstock.sql.jobs.startable_query import StartableQuery
    from penstock.sql.observation.pipeline import JobStatus


LONGEST_ERROR = 2_000
"""Characters of an error that are kept."""


def report_of(job: ObservedJob, now_ms: int) -> JobReport:
    """Return the report: only its sentence has counts that grow with every batch; no secret that is known here."""
    progress = job.progress
    error, outage = progress.last_error, progress.outage
    return JobReport(
        status=progress.status.value,
        restarts=progress.restarts,
        last_error=None if error is None else without_secrets(error)[:LONGEST_ERROR],
        waiting_for=None if outage is None else without_secrets(str(outage))[:LONGEST_ERROR],
        waiting_since_ms=None if outage is None else outage.since_ms,
        late_rows=None if progress.refreshes else progress.rows_dropped,
        bad_records=None if progress.refreshes else progress.bad_records,
        sentence=str(job.sentence(now_ms))[:LONGEST_ERROR],
    )


class JobRunner(Protocol):
    """The runner of a job, on a thread of its own: `Supervisor` for a streaming query, `Refresher` for a table."""

    done: Event

    @property
    def error(self) -> PenstockError | None:
        """The error of the job, once it has failed."""

    def progress(self) -> JobProgress:
        """Return the job's progress."""

    def batches(self) -> JobBatches | None:
        """Return the batches of a streaming query in this process; None for refreshes."""

    def request_stop(self, *, now: bool = False) -> None:
        """Request the end after what is being written, or without waiting for it. Returns immediately."""


class Job:
    """A job that fills a table: a streaming query, or periodic refreshes. Safe to use from any thread."""

    def __init__(
        self,
        supervisor: JobRunner,
        resources: tuple[object, ...] = (),
        *,
        lease_expires_ms: Callable[[], int] | None = None,
    ) -> None:
        self._supervisor = supervisor
        self._resources = resources
        self._lease_expires_ms = lease_expires_ms
        self._stops_asked = 0

    def __repr__(self) -> str:
        return f"Job({self.name!r}, {self.status.value})"

    @property
    def name(self) -> str:
        """`<pipeline>/<sink>`: the path of the checkpoint below the checkpoint directory."""
        return self._supervisor.progress().name

    @property
    def status(self) -> JobStatus:
        """`running`, `restarting`, or how it ended: `finished`, `stopped`, `failed`."""
        return self._supervisor.progress().status

    @property
    def progress(self) -> JobProgress:
        """Counts, watermark and speed as of the last committed batch."""
        return self._supervisor.progress()

    @property
    def batches(self) -> JobBatches | None:
        """The batches of a streaming query in this process; None for refreshes."""
        return self._supervisor.batches()

    @property
    def observed(self) -> ObservedJob:
        """Its progress and its batches now."""
        # in this order: of an ended job the counts are then final
        return ObservedJob(progress=self._supervisor.progress(), batches=self._supervisor.batches())

    @property
    def lease_expires_ms(self) -> int | None:
        """When it stops unless its lease is renewed before (epoch ms); None of one without a lease."""
        return None if self._lease_expires_ms is None else self._lease_expires_ms()

    @property
    def sentence(self) -> str:
        """What the job does, or why nothing comes out of it, and what to change."""
        return str(self.observed.sentence(SystemClock().now_ms()))

    @property
    def exception(self) -> PenstockError | None:
        """The error of the job; None while it runs and when it succeeded."""
        return self._supervisor.error

    @errors_explained
    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the job has ended, at most `timeout` seconds (None: without limit). Returns whether it has.

        Raises the job's error when it failed, as Spark's `awaitTermination` and Flink's `await` do.
        """
        ended = self._supervisor.done.wait(timeout)
        error = self._supervisor.error
        if ended and error is not None:
            raise error
        return ended

    def wait(self, timeout: float | None = None) -> bool:
        """Wait as `await_termination` does, without raising the job's error."""
        return self._supervisor.done.wait(timeout)

    def request_stop(self, *, now: bool = False) -> None:
        """Request the end after the batch in flight, or without waiting for it. Returns immediately."""
        self._stops_asked += 1
        self._supervisor.request_stop(now=now)

    def stop(self) -> None:
        """Stop after the batch in flight, and wait for that. A second call, from any thread, stops at once."""
        self.request_stop(now=self._stops_asked > 0)
        self._supervisor.done.wait()


def start_job(
    query: StartableQuery,
    *,
    trigger: Trigger,
    leases: Leases,
    restarts: RestartStrategy = DEFAULT_RESTART,
    clock: Clock | None = None,
    lease: PipelineLease | None = None,
    also: tuple[PipelineLease, ...] = (),
    resources: tuple[object, ...] = (),
    on_failure: Callable[[], None] = lambda: None,
    stop_limit_ms: int = STOP_LIMIT_MS,
    split_limit: int = MOST_SPLITS,
) -> Job:
    """Acquire the pipeline's lease, prepare the sink and start the query; INSERT .. VALUES is over when this returns.

    A `lease` that is held already passes to the job, which releases it at its end; `also` are the others that the
    query needs. `resources` stay open as long as the job. `on_failure` is called, on the job's own thread, when it
    has failed permanently. `stop_limit_ms` is what the batch in flight gets at a stop, `split_limit`: see `JobBatches`.
    Raises PipelineLockedError when another runner holds the pipeline (of INSERT .. VALUES: the table), InputError when
    the sink's target or the checkpoint does not fit, RunError when the query cannot be started.
    """
    clock = clock or SystemClock()
    settings = SupervisorSettings(
        trigger=trigger, restarts=restarts, stop_limit_ms=stop_limit_ms, split_limit=split_limit
    )
    if not query.is_stream:
        with table_lease(leases, query.sink, clock, statement=query.statement_digest) as table:
            supervisor = Supervisor(query, settings=settings, clock=clock, lost_lease=table.lost)
            query.prepare()
            table.check_repeated()
            supervisor.write()
        return Job(supervisor)
    held = lease or hold_lease(leases, query.pipeline, clock)
    others = also
    if not others:
        try:
            others = tuple(hold_leases(leases, query.leases[1:], clock).values())
        except BaseException:
            held.release()
            raise

    def release() -> None:
        for one in (held, *others):
            one.release()

    def lost() -> PenstockError | None:
        return next((why for one in (held, *others) if (why := one.lost()) is not None), None)

    def at_end() -> None:
        release()
        if supervisor.error is not None:
            on_failure()

    supervisor = Supervisor(query, settings=settings, clock=clock, lost_lease=lost, at_end=at_end)
    held.on_stop_request(supervisor.request_stop)
    job = Job(supervisor, resources, lease_expires_ms=held.expires_ms)
    held.on_report(lambda: report_of(job.observed, clock.now_ms()))
    try:
        query.prepare()
        supervisor.start()
    except BaseException:
        release()
        raise
    return job


def start_jobs(
    queries: Sequence[StartableQuery],
    *,
    trigger: Trigger,
    leases: Leases,
    restarts: RestartStrategy = DEFAULT_RESTART,
    clock: Clock | None = None,
    held: MutableMapping[str, PipelineLease] | None = None,
    resources: tuple[object, ...] = (),
    stop_limit_ms: int = STOP_LIMIT_MS,
    split_limit: int = MOST_SPLITS,
) -> list[Job]:
    """Start the queries of one statement: when one of them fails, the others finish their batch and stop.

    `held` are leases that are held already, by pipeline; those of started queries are removed. Raises as `start_job`,
    with the name of the sink where there are several, once the started ones have stopped.
    """
    jobs: list[Job] = []

    def stop_all() -> None:
        for job in tuple(jobs):
            job.request_stop()

    there = {} if held is None else held
    for query in queries:
        try:
            job = start_job(
                query,
                trigger=trigger,
                leases=leases,
                restarts=restarts,
                clock=clock,
                lease=there.pop(query.pipeline, None),
                also=tuple(there.pop(name) for name in query.leases[1:] if name in there),
                resources=resources,
                on_failure=stop_all,
                stop_limit_ms=stop_limit_ms,
                split_limit=split_limit,
            )
        except Exception as error:
            stop_all()
            for started in jobs:
                started.wait()
            failure = translate(error)
            if len(queries) > 1:
                failure.within(f"sink {short_name(query.sink)}")
            raise failure from error
        jobs.append(job)
    for job in jobs:
        if job.exception is not None:  # it failed before all were there to be told
            stop_all()
    return jobs
