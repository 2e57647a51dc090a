"""Execute the statements about jars, jobs, modules and functions; SHOW JOBS, DESCRIBE JOB and STOP JOB.

A job's name, `<pipeline>/<sink>`, is its id. A job of another runner is known by its lease.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.definitions.leases import FAILED, HEARTBEAT_MS, JobReport
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import UnknownObjectError, did_you_mean
from penstock.sql.clock import SystemClock
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.ddl import Listing, define
from penstock.sql.execution.dml import Change, check_change, run_change
from penstock.sql.information_schema.pipelines import once_gone
from penstock.sql.jobs.job import report_of
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.statements.definitions import (
    AlterFunction,
    CallProcedure,
    CreateFunction,
    DropFunction,
)
from penstock.sql.statements.dml import DeleteRows, TruncateTable, UpdateRows
from penstock.sql.statements.show import AddJar, StopJob, UseModules
from penstock.sql.statements.statement import Statement

if TYPE_CHECKING:
    from penstock.catalog.definitions.leases import Claim
    from penstock.sql.jobs.job import Job


TITLES = (
    "job id",
    "job name",
    "status",
    "start time",
    "runner",
    "restarts",
    "last error",
    "waiting for",
    "late rows",
    "bad records",
    "sentence",
)

FAILED_MS = 86_400_000
"""How long the failed job of a runner that has ended is listed; `information_schema.pipelines` keeps it."""

OWN = ("last commit", "activity")


def list_jobs(context: SessionContext) -> Listing:
    """List the jobs that run, those of others that failed lately, and this session's that have ended; by name."""
    claims, reports = context.leases.claims(), context.leases.job_reports()
    rows = {
        pipeline: _failed_row(pipeline, report)
        for pipeline, report in zip(reports, map(once_gone, reports.values()), strict=True)
        if report.status == FAILED and report.age_ms < FAILED_MS
    }
    for claim in claims:
        pipeline = claim.lease.pipeline
        rows[pipeline] = _claim_row(claim, reports.get(pipeline, _UNTOLD))
    rows |= {job.name: _job_row(job) for job in context.jobs}
    return Listing(columns=TITLES, rows=tuple(rows[name] for name in sorted(rows)))


def describe_job(name: str, context: SessionContext) -> Listing:
    """Describe one job; for one of this session with what it does, and when it last wrote.

    Raises UnknownObjectError.
    """
    listed = list_jobs(context)
    row = next((row for row in listed.rows if row[0] == name), None)
    if row is None:
        raise _unknown(name, context)
    own = next((job.progress for job in reversed(context.jobs) if job.name == name), None)
    if own is None:
        return Listing(columns=TITLES, rows=(row,))
    last = None if own.last_commit_ms is None else _time(own.last_commit_ms)
    return Listing(columns=(*TITLES, *OWN), rows=((*row, last, own.activity),))


def stop_job(name: str, context: SessionContext, *, savepoint: bool) -> Listing | None:
    """Request that a job ends after the batch in flight; one of this session has ended when this returns.

    With `savepoint` returns what the job resumes from. A job of another runner is notified through the catalog, at its
    next heartbeat. Raises UnknownObjectError.
    """
    own = next((job for job in context.jobs if job.name == name and not job.status.final), None)
    if own is not None:
        own.request_stop()
        own.wait()
    elif context.leases.request_stop(name) is None:
        raise _unknown(name, context)
    if savepoint:
        return Listing(columns=("savepoint path",), rows=((f"the checkpoint of {name}",),))
    if own is not None:
        return None
    seconds = HEARTBEAT_MS // 1000
    return Listing(
        columns=("result",), rows=((f"asked to stop: its runner looks every {seconds} s",),)
    )


_UNTOLD = JobReport(status=JobStatus.RUNNING.value)
"""Of a runner that has not said anything yet, or is of a Penstock that never does."""

_Row = tuple[str | None, ...]


def _claim_row(claim: Claim, report: JobReport) -> _Row:
    lease, owner = claim.lease, claim.lease.owner
    runner = f"process {owner.pid} on {owner.host}"
    status = report.status.upper()
    return (
        lease.pipeline,
        lease.pipeline,
        status,
        _time(lease.since_ms),
        runner,
        *_state(report),
    )


def _failed_row(pipeline: str, report: JobReport) -> _Row:
    return (pipeline, pipeline, "FAILED", _time(report.since_ms), None, *_state(report))


def _job_row(job: Job) -> _Row:
    progress = job.progress
    status, start = progress.status.value.upper(), _time(progress.started_ms)
    return (
        progress.name,
        progress.name,
        status,
        start,
        "this session",
        *_state(report_of(job.observed, SystemClock().now_ms())),
    )


def _state(report: JobReport) -> _Row:
    waiting = None
    if report.waiting_for is not None and report.waiting_since_ms is not None:
        waiting = f"{report.waiting_for} since {_time(report.waiting_since_ms)}"
    left_out = (
        None if rows is None else str(rows) for rows in (report.late_rows, report.bad_records)
    )
    return (str(report.restarts), report.last_error, waiting, *left_out, report.sentence)


def _time(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _unknown(name: str, context: SessionContext) -> UnknownObjectError:
    known = [row[0] or "" for row in list_jobs(context).rows]
    hint = did_you_mean(name, known) or (
        f"running are: {', '.join(known)}" if known else "SHOW JOBS lists them; none runs"
    )
    return UnknownObjectError(f"there is no job {name!r}", hint=hint)


FunctionChange = CreateFunction | AlterFunction | DropFunction

Command = AddJar | StopJob | UseModules | FunctionChange | Change


def is_command(statement: Statement) -> bool:
    """Return whether `run_command` runs a statement."""
    return isinstance(statement, Command)


def check_command(statement: Statement, namespace: Namespace, project: Path) -> None:
    """Check what of a command can be checked without a JVM and without I/O. Raises InputError."""
    if isinstance(statement, UpdateRows | DeleteRows | TruncateTable | CallProcedure):
        check_change(statement, namespace, project)


def run_command(statement: Statement, context: SessionContext) -> Listing | None:
    """Run a command; returns its output. Raises InputError, RunError."""
    match statement:
        case AddJar(path=path):
            from penstock.sql.execution.functions import add_jar

            add_jar(path, context.spark(), context.project)
        case StopJob(job=job):
            return stop_job(job, context, savepoint=statement.savepoint)
        case CreateFunction() | AlterFunction() | DropFunction():
            _change_function(statement, context)
        case UpdateRows() | DeleteRows() | TruncateTable() | CallProcedure():
            return run_change(statement, context)
    return None


def _change_function(statement: FunctionChange, context: SessionContext) -> None:
    """Change the definition. Spark forgets a function that is dropped; others it is given by the next query."""
    define(statement, context.namespace)
    if isinstance(statement, DropFunction):
        name = statement.identifier.name.replace("`", "``")
        context.spark().sql(f"DROP TEMPORARY FUNCTION IF EXISTS `{name}`")
