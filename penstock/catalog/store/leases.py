"""Leases as rows, each function within the caller's transaction. The rules are `catalog/definitions/leases.py`'s."""

from __future__ import annotations

import logging
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update

from penstock.catalog.definitions.leases import (
    Claim,
    JobReport,
    Lease,
    Owner,
    has_lapsed,
    locked_by,
    lost_to,
    this_process,
)
from penstock.catalog.migrations import JOB_STATES, LEASES, STOP_REQUESTS
from penstock.catalog.store.database import now_ms

__all__ = [
    "acquire",
    "claims",
    "is_asked_to_stop",
    "job_reports",
    "release",
    "renew",
    "report_job",
    "request_stop",
    "running_elsewhere",
]

log = logging.getLogger(__name__)


def acquire(connection: Connection, pipeline: str, owner: Owner) -> Lease:
    """Grant a claim, taking over one that has lapsed. Raises PipelineLockedError, and IntegrityError on a race."""
    now = now_ms(connection)
    # SQLite's writers queue up anyway; elsewhere the row is locked
    query = select(LEASES).where(LEASES.c.pipeline == pipeline).with_for_update()
    row = connection.execute(query).one_or_none()
    values = {
        "token": owner.token,
        "host": owner.host,
        "pid": owner.pid,
        "boot_id": owner.boot_id,
        "started": owner.started,
        "since_ms": now,
        "heartbeat_ms": now,
    }
    if row is None:
        connection.execute(insert(LEASES).values(pipeline=pipeline, fence=1, **values))
        return Lease(pipeline=pipeline, owner=owner, fence=1, since_ms=now)
    taken_over = None
    if row.token:
        claim = _claim(row, now)
        if not has_lapsed(claim):
            raise locked_by(claim)
        log.warning(
            "taking over pipeline %s from process %s on %s, which is gone",
            pipeline,
            row.pid,
            row.host,
        )
        taken_over = claim.lease
    lease = Lease(
        pipeline=pipeline,
        owner=owner,
        fence=row.fence + 1,
        since_ms=now,
        taken_over=taken_over,
    )
    connection.execute(
        update(LEASES).where(LEASES.c.pipeline == pipeline).values(fence=lease.fence, **values)
    )
    return lease


def renew(connection: Connection, lease: Lease) -> None:
    """Record a heartbeat. Raises PipelineLockedError when the lease is another's, or released."""
    now = now_ms(connection)
    done = connection.execute(update(LEASES).where(*_is(lease)).values(heartbeat_ms=now))
    if done.rowcount == 1:
        return
    row = connection.execute(
        select(LEASES).where(LEASES.c.pipeline == lease.pipeline)
    ).one_or_none()
    raise lost_to(lease, _claim(row, now) if row is not None and row.token else None)


def release(connection: Connection, lease: Lease) -> None:
    """Release a lease; nothing happens when it is another's by now."""
    connection.execute(update(LEASES).where(*_is(lease)).values(token=""))


def claims(connection: Connection) -> list[Claim]:
    """List the claims that have not lapsed, by pipeline."""
    now = now_ms(connection)
    rows = connection.execute(select(LEASES).where(LEASES.c.token != ""))
    found = [claim for claim in (_claim(row, now) for row in rows) if not has_lapsed(claim)]
    return sorted(found, key=lambda claim: claim.lease.pipeline)


def running_elsewhere(connection: Connection) -> list[str]:
    """List the pipelines that other processes run."""
    own = this_process()
    return [
        claim.lease.pipeline
        for claim in claims(connection)
        if (claim.lease.owner.host, claim.lease.owner.pid) != (own.host, own.pid)
    ]


def request_stop(connection: Connection, pipeline: str) -> Claim | None:
    """Request that the holder of a pipeline ends its run; None where no lease is held."""
    claim = next((each for each in claims(connection) if each.lease.pipeline == pipeline), None)
    if claim is not None:
        connection.execute(delete(STOP_REQUESTS).where(STOP_REQUESTS.c.pipeline == pipeline))
        row = {"pipeline": pipeline, "fence": claim.lease.fence}
        connection.execute(insert(STOP_REQUESTS).values(row))
    return claim


def is_asked_to_stop(connection: Connection, lease: Lease) -> bool:
    """Return whether this grant, and not an earlier one of the pipeline, is asked to end."""
    asked = select(STOP_REQUESTS.c.fence).where(STOP_REQUESTS.c.pipeline == lease.pipeline)
    return bool(connection.scalar(asked) == lease.fence)


def report_job(connection: Connection, lease: Lease, report: JobReport) -> None:
    """Store the job report of a holder; does nothing when the lease is another's by now."""
    if connection.scalar(select(LEASES.c.fence).where(*_is(lease)).with_for_update()) is None:
        return
    connection.execute(delete(JOB_STATES).where(JOB_STATES.c.pipeline == lease.pipeline))
    connection.execute(
        insert(JOB_STATES).values(
            pipeline=lease.pipeline,
            fence=lease.fence,
            status=report.status,
            restarts=report.restarts,
            last_error=report.last_error,
            waiting_for=report.waiting_for,
            waiting_since_ms=report.waiting_since_ms,
            changed_ms=now_ms(connection),
        )
    )


def job_reports(connection: Connection) -> dict[str, JobReport]:
    """Return the last job report of each pipeline, by pipeline."""
    now = now_ms(connection)
    same = (LEASES.c.pipeline == JOB_STATES.c.pipeline) & (LEASES.c.fence == JOB_STATES.c.fence)
    rows = connection.execute(select(JOB_STATES, LEASES.c.since_ms).join(LEASES, same))
    return {
        row.pipeline: JobReport(
            status=row.status,
            restarts=row.restarts,
            last_error=row.last_error,
            waiting_for=row.waiting_for,
            waiting_since_ms=row.waiting_since_ms,
            since_ms=row.since_ms,
            age_ms=now - row.changed_ms,
        )
        for row in rows
    }


def _is(lease: Lease) -> tuple[ColumnElement[bool], ...]:
    return (
        LEASES.c.pipeline == lease.pipeline,
        LEASES.c.fence == lease.fence,
        LEASES.c.token == lease.owner.token,
    )


def _claim(row: Row[Any], now: int) -> Claim:
    owner = Owner(
        host=row.host, pid=row.pid, boot_id=row.boot_id, token=row.token, started=row.started
    )
    lease = Lease(pipeline=row.pipeline, owner=owner, fence=row.fence, since_ms=row.since_ms)
    return Claim(lease=lease, age_ms=now - row.heartbeat_ms)
