"""Leases in a database: `SqlLeases` (`contract.Leases`), over functions that work within one transaction.

The rules are `catalog/definitions/leases.py`'s.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update

from penstock.catalog.definitions.leases import (
    ASIDE_TIMEOUT_S,
    RENEWAL_TIMEOUT_S,
    Claim,
    JobReport,
    Lease,
    Owner,
    has_lapsed,
    is_ahead,
    locked_by,
    lost_to,
    this_process,
)
from penstock.catalog.errors import PipelineLockedError
from penstock.catalog.migrations import (
    JOB_STATES,
    JOB_STATES_SINCE,
    LEASES,
    LEASES_SINCE,
    LEFT_OUT_SINCE,
    SENTENCE_SINCE,
    STOP_REQUESTS,
    STOP_REQUESTS_SINCE,
)
from penstock.catalog.store.database import Database, now_ms, stored_version
from penstock.catalog.store.deadline import answers_within

log = logging.getLogger(__name__)


class SqlLeases:
    """Leases in a database. Safe to use from any thread and in several processes at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def acquire(self, pipeline: str, owner: Owner) -> Lease:
        """Claim a pipeline. Raises PipelineLockedError, which names the holder, when another runner has it."""
        granted = self._database.change(
            lambda connection: _acquire(connection, pipeline, owner),
            queued=False,
            since=LEASES_SINCE,
        )
        if isinstance(granted, PipelineLockedError):
            raise granted
        return granted

    def renew(self, lease: Lease) -> None:
        """Renew the lease. Raises PipelineLockedError when the lease is lost."""
        with answers_within(RENEWAL_TIMEOUT_S), self._writing() as connection:
            _renew(connection, lease)

    def release(self, lease: Lease) -> None:
        """Release a lease; one that was lost is left alone."""
        with self._writing() as connection:
            connection.execute(update(LEASES).where(*_is(lease)).values(token=""))

    def claims(self) -> list[Claim]:
        """List the claims of live runners, by pipeline."""
        with self._database.reading() as connection:
            return [] if connection is None else _claims(connection)

    def request_stop(self, pipeline: str) -> Claim | None:
        """Request that the runner of a pipeline ends; None where there is none."""
        return self._database.change(
            lambda connection: _request_stop(connection, pipeline),
            queued=False,
            since=STOP_REQUESTS_SINCE,
        )

    def is_asked_to_stop(self, lease: Lease) -> bool:
        """Return whether a stop was requested of this grant, and not of an earlier one of the pipeline."""
        with (
            answers_within(ASIDE_TIMEOUT_S),
            self._database.reading(since=STOP_REQUESTS_SINCE) as connection,
        ):
            return connection is not None and _is_asked_to_stop(connection, lease)

    def report_job(self, lease: Lease, report: JobReport) -> None:
        """Store the job report of a lease's holder; a store without a table for it ignores it."""
        with answers_within(ASIDE_TIMEOUT_S), self._writing() as connection:
            if stored_version(connection) >= JOB_STATES_SINCE:
                _report_job(connection, lease, report)

    def job_reports(self) -> dict[str, JobReport]:
        """Return the last job report of each pipeline, by pipeline."""
        with self._database.reading(since=JOB_STATES_SINCE) as connection:
            return {} if connection is None else _job_reports(connection)

    def _writing(self) -> AbstractContextManager[Connection]:
        """Open a transaction of a runner that is at work: it never changes the store's tables."""
        return self._database.writing(since=LEASES_SINCE, upgrading=False)


def running_elsewhere(connection: Connection) -> list[str]:
    """List the pipelines that other processes run."""
    own = this_process()
    return [
        claim.lease.pipeline
        for claim in _claims(connection)
        if (claim.lease.owner.host, claim.lease.owner.pid) != (own.host, own.pid)
    ]


def _acquire(connection: Connection, pipeline: str, owner: Owner) -> Lease | PipelineLockedError:
    """Grant a claim, taking over one that has lapsed; else returns the error, as what was written is to be committed.

    Raises IntegrityError on a race.
    """
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
            if is_ahead(claim):
                _watch(connection, row, now)
            return locked_by(claim)
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


def _watch(connection: Connection, row: Row[Any], now: int) -> None:
    """Let a claim with a heartbeat in the future lapse within its time from now on.

    The clock was set back since: such a claim of a dead runner would live for as long as the clock was ahead. A live
    runner renews by the same clock, and has its time in full, as its last heartbeat was before now.
    """
    same = (LEASES.c.pipeline == row.pipeline) & (LEASES.c.fence == row.fence)
    unchanged = same & (LEASES.c.heartbeat_ms == row.heartbeat_ms)
    connection.execute(update(LEASES).where(unchanged).values(heartbeat_ms=now))


def _renew(connection: Connection, lease: Lease) -> None:
    """Record a heartbeat. Raises PipelineLockedError when the lease is another's, or released."""
    now = now_ms(connection)
    done = connection.execute(update(LEASES).where(*_is(lease)).values(heartbeat_ms=now))
    if done.rowcount == 1:
        return
    row = connection.execute(
        select(LEASES).where(LEASES.c.pipeline == lease.pipeline)
    ).one_or_none()
    raise lost_to(lease, _claim(row, now) if row is not None and row.token else None)


def _claims(connection: Connection) -> list[Claim]:
    """List the claims that have not lapsed, by pipeline."""
    now = now_ms(connection)
    rows = connection.execute(select(LEASES).where(LEASES.c.token != ""))
    found = [claim for claim in (_claim(row, now) for row in rows) if not has_lapsed(claim)]
    return sorted(found, key=lambda claim: claim.lease.pipeline)


def _request_stop(connection: Connection, pipeline: str) -> Claim | None:
    """Request that the holder of a pipeline ends its run; None where no lease is held."""
    claim = next((each for each in _claims(connection) if each.lease.pipeline == pipeline), None)
    if claim is not None:
        connection.execute(delete(STOP_REQUESTS).where(STOP_REQUESTS.c.pipeline == pipeline))
        row = {"pipeline": pipeline, "fence": claim.lease.fence}
        connection.execute(insert(STOP_REQUESTS).values(row))
    return claim


def _is_asked_to_stop(connection: Connection, lease: Lease) -> bool:
    """Return whether this grant, and not an earlier one of the pipeline, is asked to end."""
    asked = select(STOP_REQUESTS.c.fence).where(STOP_REQUESTS.c.pipeline == lease.pipeline)
    return bool(connection.scalar(asked) == lease.fence)


def _report_job(connection: Connection, lease: Lease, report: JobReport) -> None:
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
            **{name: getattr(report, name) for name in _added(connection)},
        )
    )


_ADDED = {
    JOB_STATES.c.late_rows.name: LEFT_OUT_SINCE,
    JOB_STATES.c.bad_records.name: LEFT_OUT_SINCE,
    JOB_STATES.c.sentence.name: SENTENCE_SINCE,
}
"""Columns of job reports that older stores lack, with the version of a store that has them."""


def _added(connection: Connection) -> tuple[str, ...]:
    """Return those of the added columns that this store has."""
    there = stored_version(connection)
    return tuple(name for name, since in _ADDED.items() if there >= since)


def _job_reports(connection: Connection) -> dict[str, JobReport]:
    """Return the last job report of each pipeline, by pipeline."""
    now = now_ms(connection)
    same = (LEASES.c.pipeline == JOB_STATES.c.pipeline) & (LEASES.c.fence == JOB_STATES.c.fence)
    added = _added(connection)
    read = [column for column in JOB_STATES.c if column.name in added or column.name not in _ADDED]
    claimed = [c for c in LEASES.c if c.name not in {"pipeline", "fence"}]
    rows = connection.execute(select(*read, *claimed).join(LEASES, same))
    return {
        row.pipeline: JobReport(
            status=row.status,
            restarts=row.restarts,
            last_error=row.last_error,
            waiting_for=row.waiting_for,
            waiting_since_ms=row.waiting_since_ms,
            since_ms=row.since_ms,
            age_ms=now - row.changed_ms,
            left=_left(row, now),
            **{name: getattr(row, name) for name in added},
        )
        for row in rows
    }


def _left(row: Row[Any], now: int) -> Claim | None:
    """Return the claim of a runner that is gone, and has not released it."""
    if not row.token:
        return None
    claim = _claim(row, now)
    return claim if has_lapsed(claim) else None


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
