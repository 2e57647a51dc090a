"""A running INSERT as a caller sees it: wait for it, stop it, ask how far it is and what it failed of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.sql.run.clock import Clock, SystemClock
from penstock.sql.run.lease import PipelineLease, hold_lease
from penstock.sql.run.restart import DEFAULT_RESTART, RestartStrategy
from penstock.sql.run.supervisor import Supervisor, SupervisorSettings

if TYPE_CHECKING:
    from penstock.catalog.contract import Catalog
    from penstock.catalog.errors import PenstockError
    from penstock.connector.contract import Trigger
    from penstock.sql.plan.planner import PlannedInsert
    from penstock.sql.run.progress import JobProgress, JobStatus

__all__ = ["Job", "start_job"]


class Job:
    """A streaming query that writes into a table, kept running by a supervisor. Safe to use from any thread."""

    def __init__(self, supervisor: Supervisor, resources: tuple[object, ...] = ()) -> None:
        self._supervisor = supervisor
        self._resources = resources
        self._stops_asked = 0

    def __repr__(self) -> str:
        return f"Job({self.name!r}, {self.status.value})"

    @property
    def name(self) -> str:
        """`<pipeline>/<sink>`: the checkpoint's place below the checkpoint directory."""
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
    def exception(self) -> PenstockError | None:
        """What the job failed of; None while it runs and when it ended well."""
        return self._supervisor.error

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the job has ended, at most `timeout` seconds (None: without limit). Tells whether it has.

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
        """Ask for the end after the batch in flight, or without waiting for it. Returns immediately."""
        self._stops_asked += 1
        self._supervisor.request_stop(now=now)

    def stop(self) -> None:
        """Let the batch in flight finish, stop, and wait for that. A second call, from anywhere, stops at once."""
        self.request_stop(now=self._stops_asked > 0)
        self._supervisor.done.wait()


def start_job(
    insert: PlannedInsert,
    *,
    trigger: Trigger,
    catalog: Catalog,
    restarts: RestartStrategy = DEFAULT_RESTART,
    clock: Clock | None = None,
    lease: PipelineLease | None = None,
    resources: tuple[object, ...] = (),
) -> Job:
    """Take the pipeline's lease, prepare the sink and start the query; INSERT .. VALUES is over when this returns.

    A `lease` that is held already passes to the job, which gives it back at its end. `resources` stay alive as
    long as the job. Raises PipelineLockedError when another runner holds the pipeline, InputError when the
    sink's target or the checkpoint does not fit, RunError when the query cannot be started.
    """
    clock = clock or SystemClock()
    settings = SupervisorSettings(trigger=trigger, restarts=restarts)
    if not insert.is_stream:
        supervisor = Supervisor(insert, settings=settings, clock=clock)
        insert.prepare()
        supervisor.write()
        return Job(supervisor)
    held = lease or hold_lease(catalog, insert.pipeline, clock)
    supervisor = Supervisor(
        insert, settings=settings, clock=clock, lost_lease=held.lost, at_end=held.release
    )
    try:
        insert.prepare()
        supervisor.start()
    except BaseException:
        held.release()
        raise
    return Job(supervisor, resources)
