"""SHOW JOBS, DESCRIBE JOB and STOP JOB: the jobs of this session, and those of others that share its catalog.

A job's name, `<pipeline>/<sink>`, is its id. What is known of another runner's job is its lease.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.catalog.errors import UnknownObjectError, did_you_mean
from penstock.catalog.lease import HEARTBEAT_MS
from penstock.sql.run.ddl import Listing

if TYPE_CHECKING:
    from penstock.catalog.lease import Claim
    from penstock.sql.run.job import Job
    from penstock.sql.run.scene import Scene

__all__ = ["describe_job", "list_jobs", "stop_job"]

TITLES = ("job id", "job name", "status", "start time", "runner")
OWN = ("last commit", "activity")


def list_jobs(scene: Scene) -> Listing:
    """List the jobs that run, and those of this session that have ended; by name."""
    rows = {claim.lease.pipeline: _claim_row(claim) for claim in scene.namespace.catalog.claims()}
    rows |= {job.name: _job_row(job) for job in scene.jobs}
    return Listing(columns=TITLES, rows=tuple(rows[name] for name in sorted(rows)))


def describe_job(name: str, scene: Scene) -> Listing:
    """Say what is known of one job; of one of this session what it does, and when it last wrote, too.

    Raises UnknownObjectError.
    """
    listed = list_jobs(scene)
    row = next((row for row in listed.rows if row[0] == name), None)
    if row is None:
        raise _unknown(name, scene)
    own = next((job.progress for job in reversed(scene.jobs) if job.name == name), None)
    if own is None:
        return Listing(columns=TITLES, rows=(row,))
    last = None if own.last_commit_ms is None else _time(own.last_commit_ms)
    return Listing(columns=(*TITLES, *OWN), rows=((*row, last, own.activity),))


def stop_job(name: str, scene: Scene, *, savepoint: bool) -> Listing | None:
    """Ask a job to end after the batch in flight; one of this session has ended when this returns.

    With `savepoint` gives what the job goes on from. A job of another runner is told through the catalog, at its next
    heartbeat. Raises UnknownObjectError.
    """
    own = next((job for job in scene.jobs if job.name == name and not job.status.final), None)
    if own is not None:
        own.request_stop()
        own.wait()
    elif scene.namespace.catalog.request_stop(name) is None:
        raise _unknown(name, scene)
    if savepoint:
        return Listing(columns=("savepoint path",), rows=((f"the checkpoint of {name}",),))
    if own is not None:
        return None
    seconds = HEARTBEAT_MS // 1000
    return Listing(
        columns=("result",), rows=((f"asked to stop: its runner looks every {seconds} s",),)
    )


def _claim_row(claim: Claim) -> tuple[str, ...]:
    lease, owner = claim.lease, claim.lease.owner
    runner = f"process {owner.pid} on {owner.host}"
    return (lease.pipeline, lease.pipeline, "RUNNING", _time(lease.since_ms), runner)


def _job_row(job: Job) -> tuple[str, ...]:
    progress = job.progress
    status = progress.status.value.upper()
    return (progress.name, progress.name, status, _time(progress.started_ms), "this session")


def _time(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _unknown(name: str, scene: Scene) -> UnknownObjectError:
    known = [row[0] or "" for row in list_jobs(scene).rows]
    hint = did_you_mean(name, known) or (
        f"running are: {', '.join(known)}" if known else "SHOW JOBS lists them; none runs"
    )
    return UnknownObjectError(f"there is no job {name!r}", hint=hint)
