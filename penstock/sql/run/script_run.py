"""Runs checked files: statements in order, one job an INSERT, and what came of each.

Bounded INSERTs run one after the other, endless ones side by side until they are stopped. A statement that
fails ends the run: jobs that are left finish their batch and stop. Checking is `script_check.py`'s part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.catalog.errors import PenstockError
from penstock.catalog.options import resolve
from penstock.connector.contract import AvailableNow, Continuous, Trigger
from penstock.sql.plan.engine import configured
from penstock.sql.plan.planner import PlannedInsert, Planner
from penstock.sql.plan.settings import CHECKPOINT_INTERVAL
from penstock.sql.run.clock import Clock, SystemClock
from penstock.sql.run.collect import collect_rows
from penstock.sql.run.ddl import define, is_definition, listing, set_option
from penstock.sql.run.environment import Environment, Listener, RunMode, Silent, StopRequest
from penstock.sql.run.failure import translate
from penstock.sql.run.job import Job, start_job
from penstock.sql.run.lease import PipelineLease, hold_lease
from penstock.sql.run.progress import short_name
from penstock.sql.run.script_check import (
    CheckedScript,
    CheckedStatement,
    check_scripts,
    plan_scripts,
)
from penstock.sql.run.script_file import read_script
from penstock.sql.run.session_settings import restart_strategy
from penstock.sql.run.statement_kind import kind_of, subject_of
from penstock.sql.run.summary import ResultRows, StatementResult, StatementStatus, with_job
from penstock.sql.statements import ResetOption, Select, SetOption

if TYPE_CHECKING:
    from penstock.sql.run.session import Session

__all__ = ["ScriptRun", "run_script_in_session"]

MAX_ROWS = 10_000  # of a SELECT: a file is for pipelines, and the rows are held in memory
WAIT_S = 0.1


class ScriptRun:
    """One run of files that were checked and planned. `run` is called once, on one thread.

    `error` is the first failure of the run, `jobs` are the jobs of its INSERTs.
    """

    def __init__(
        self,
        environment: Environment,
        *,
        mode: RunMode = RunMode.BY_TABLES,
        stop: StopRequest | None = None,
        listener: Listener | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._environment = environment
        self._mode = mode
        self._stop = stop or StopRequest()
        self._listener = listener or Silent()
        self._clock = clock or SystemClock()
        self._unused_leases: dict[int, PipelineLease] = {}
        self._stops_passed_on = 0
        self.jobs: list[Job] = []
        self.error: PenstockError | None = None

    def run(
        self, scripts: Sequence[CheckedScript], *, wait: bool = True
    ) -> tuple[StatementResult, ...]:
        """Run the statements in order; with `wait`, until the last job has ended, else without results.

        Raises PipelineLockedError, before anything is started, when another runner holds one of the
        pipelines. What fails later is told by the results and `error`, not raised.
        """
        try:
            self._take_leases(scripts)
            ends = [self._one(one, script) for script in scripts for one in script.statements]
            return tuple(end() for end in ends) if wait else ()
        except BaseException:
            for job in self.jobs:
                job.request_stop()
            raise
        finally:
            for lease in self._unused_leases.values():
                lease.release()

    def _take_leases(self, scripts: Sequence[CheckedScript]) -> None:
        for script in scripts:
            for one in script.statements:
                if one.planned is not None and one.planned.is_stream:
                    lease = hold_lease(self._environment.catalog, one.planned.pipeline, self._clock)
                    self._unused_leases[id(one)] = lease

    def _one(self, one: CheckedStatement, script: CheckedScript) -> Callable[[], StatementResult]:
        """Run a statement, or start it; gives what waits for its result."""
        blank = StatementResult(
            kind=kind_of(one.statement),
            subject=subject_of(one.statement),
            sink=short_name(one.planned.sink) if one.planned else None,
        )
        if self.error is not None or self._stop.count > 0:
            return self._done(replace(blank, status=StatementStatus.SKIPPED))
        if one.planned is not None and one.planned.is_stream:
            return self._start(blank, one, one.planned, script)
        began_ms = self._clock.now_ms()
        try:
            rows = self._immediate(one, script)
        except Exception as error:  # noqa: BLE001  whatever it is becomes the statement's error
            return self._done(self._failed(blank, error))
        seconds = (self._clock.now_ms() - began_ms) / 1000
        stopped = isinstance(one.statement, Select) and rows is None
        status = StatementStatus.STOPPED if stopped else StatementStatus.FINISHED
        return self._done(replace(blank, seconds=seconds, status=status, rows=rows))

    def _done(self, result: StatementResult) -> Callable[[], StatementResult]:
        self._listener.statement_ended(result)
        return lambda: result

    def _immediate(self, one: CheckedStatement, script: CheckedScript) -> ResultRows | None:
        """Run a statement that is over when this returns."""
        environment, statement = self._environment, one.statement
        if one.planned is not None:
            one.planned.prepare()
            one.planned.write()
            return None
        if is_definition(statement):
            define(statement, environment.namespace)
            return None
        match statement:
            case SetOption() | ResetOption():
                set_option(statement, environment.settings)
                return None
            case Select():
                return self._select(statement, script)
        answer = listing(statement, environment.namespace, environment.settings)
        return ResultRows(columns=answer.columns, rows=answer.rows)

    def _select(self, statement: Select, script: CheckedScript) -> ResultRows | None:
        """Run a query anew: the statements before it have made tables since it was checked."""
        environment = self._environment
        planner = Planner(
            namespace=environment.namespace,
            project=environment.project,
            settings=environment.settings,
            default_pipeline=script.file.pipeline,
        )
        try:
            # instants come back in the session's time zone
            with configured(environment.spark, planner.engine_conf):
                frame = planner.select(statement, environment.spark)
                return collect_rows(
                    frame, limit=MAX_ROWS, cancelled=lambda: self._stop.count > 0, clock=self._clock
                )
        finally:
            planner.close()

    def _start(
        self,
        blank: StatementResult,
        one: CheckedStatement,
        planned: PlannedInsert,
        script: CheckedScript,
    ) -> Callable[[], StatementResult]:
        trigger = self._trigger(planned)
        try:
            job = start_job(
                planned,
                trigger=trigger,
                catalog=self._environment.catalog,
                restarts=restart_strategy(self._environment.settings),
                clock=self._clock,
                lease=self._unused_leases.pop(id(one)),
                resources=(script,),
            )
        except Exception as error:  # noqa: BLE001  whatever it is becomes the statement's error
            return self._done(self._failed(blank, error))
        self.jobs.append(job)
        self._listener.job_started(job)
        if isinstance(trigger, Continuous):
            return lambda: self._job_end(blank, job)
        result = self._job_end(blank, job)
        return lambda: result

    def _job_end(self, blank: StatementResult, job: Job) -> StatementResult:
        """Wait for a job, with an eye on the others and on requests to stop."""
        while not job.wait(WAIT_S):
            self._pass_on_stops()
            for other in self.jobs:
                self._note(other.exception)
        self._note(job.exception)
        result = with_job(blank, job.progress, job.exception)
        self._listener.statement_ended(result)
        return result

    def _trigger(self, planned: PlannedInsert) -> Trigger:
        if self._mode.ends(bounded=planned.bounded):
            return AvailableNow()
        key = CHECKPOINT_INTERVAL.key
        known = {k: v for k, v in self._environment.settings.items() if k == key}
        interval_ms = resolve(known, (CHECKPOINT_INTERVAL,), owner="SET").get(CHECKPOINT_INTERVAL)
        return Continuous(interval_ms=interval_ms)

    def _pass_on_stops(self) -> None:
        if self._stops_passed_on < self._stop.count:
            self._stops_passed_on = self._stop.count
            for job in self.jobs:
                job.request_stop(now=self._stop.count > 1)

    def _note(self, error: PenstockError | None) -> None:
        """Take the first failure for the run's: the other jobs finish what they have begun."""
        if error is not None and self.error is None:
            self.error = error
            for job in self.jobs:
                job.request_stop()

    def _failed(self, blank: StatementResult, error: Exception) -> StatementResult:
        failure = translate(error)
        self._note(failure)
        failed = StatementStatus.FAILED
        return replace(blank, status=failed, error=failure.message, hint=failure.hint)


def run_script_in_session(
    session: Session, path: Path, variables: Mapping[str, Any], *, available_now: bool = False
) -> Sequence[Job]:
    """Run a file in a session of Python: bounded INSERTs to their end, endless ones stay running.

    `available_now` ends all of them with what is there now. Raises InputErrors before anything is started, and
    the error of the first statement that fails.
    """
    project, settings = session.project, dict(session.settings)
    checked = check_scripts(
        (read_script(path),),
        namespace=session.namespace,
        project=project.root,
        settings=settings,
        variables={**project.variables, **variables},
        env=os.environ,
    )
    planned = plan_scripts(
        checked, session.spark, namespace=session.namespace, project=project.root, settings=settings
    )
    environment = Environment(
        spark=session.spark,
        catalog=session.catalog,
        namespace=session.namespace,
        project=project.root,
        settings=session.settings,
    )
    mode = RunMode.AVAILABLE_NOW if available_now else RunMode.BY_TABLES
    run = ScriptRun(environment, mode=mode)
    run.run(planned, wait=False)
    if run.error is not None:
        raise run.error
    return tuple(run.jobs)
