"""Run checked files: statements in order, one job for each INSERT, and their results.

`--from-scratch` sets checkpoints aside first. Bounded INSERTs run one after the other, unbounded ones side by side
until they are stopped; so do SELECTs, whose rows go to the listener. FULL materialized tables are refreshed as long as
those run, and as long as the run itself where nothing has an end. A failed statement ends the run: the remaining jobs
finish their batch and stop. A new checkpoint has a new query id, under which sinks that remember batches accept the
first one again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.catalog.errors import PenstockError, StateMismatchError
from penstock.catalog.model.identifier import short_name
from penstock.connector.contract import AvailableNow, Continuous, Trigger
from penstock.connector.spark.session import configured
from penstock.sql.check.explain import explain_lines
from penstock.sql.check.script_check import CheckedScript, CheckedStatement
from penstock.sql.checkpoint.directory import checkpoint_files, set_aside
from penstock.sql.checkpoint.identity import check_target, read_identity
from penstock.sql.clock import Clock, SystemClock
from penstock.sql.ddl.apply_ddl import filling_insert, is_definition
from penstock.sql.errors.spark import translate
from penstock.sql.execution.commands import is_command, run_command
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.ddl import Listing, define, set_option
from penstock.sql.execution.functions import register_called
from penstock.sql.execution.show import answer
from penstock.sql.jobs.job import Job, start_jobs
from penstock.sql.jobs.lease import PipelineLease, hold_lease, write_once
from penstock.sql.jobs.startable_query import StartableQuery
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.runner.refresh import (
    FullRefresh,
    refresh_trigger,
    start_refreshes,
    stop_refreshes,
)
from penstock.sql.runner.run_mode import Listener, RunMode, SilentListener, StopRequest
from penstock.sql.runner.select import WatchedSelect, collect_rows, watch
from penstock.sql.runner.summary import (
    ResultRows,
    StatementResult,
    StatementStatus,
    kind_of,
    subject_of,
    with_error,
    with_jobs,
    with_refreshes,
)
from penstock.sql.settings import CHECKPOINT_INTERVAL, restart_strategy, setting, split_limit
from penstock.sql.statements.statement import (
    Explain,
    ResetOption,
    Select,
    SetOption,
    ends_refresh_of,
    starts_refresh,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


log = logging.getLogger(__name__)


def set_aside_all(scripts: Sequence[CheckedScript], clock: Clock) -> None:
    """Rename every checkpoint of the files' queries, and report it. The caller holds their leases.

    Raises ConfigError when a file system refuses, StateMismatchError for the checkpoint of another target.
    """
    for query in (one for script in scripts for s in script.statements for one in s.queries):
        if query.is_stream:
            _check_own(query)
    now_ms = clock.now_ms()
    for spark, location in _checkpoints(scripts):
        target = set_aside(spark, location, now_ms)
        if target is not None:
            log.info(
                "from scratch: the checkpoint %s was set aside as %s; remove it when it is no longer needed",
                location,
                target.rpartition("/")[2],
            )


def _check_own(query: StartableQuery) -> None:
    try:
        found = read_identity(checkpoint_files(query.spark)(query.checkpoint))
    except StateMismatchError:
        return  # what is damaged is to be set aside
    if found is not None:
        check_target(found, query.location.identity, query.checkpoint)


def _checkpoints(scripts: Sequence[CheckedScript]) -> Iterator[tuple[SparkSession, str]]:
    for script in scripts:
        for one in script.statements:
            for query in one.queries:
                if query.is_stream:
                    yield query.spark, query.checkpoint
            if one.planned_set is not None:
                for rival in one.planned_set.rivals:
                    yield one.planned_set.spark, rival


MAX_ROWS = 10_000  # of a SELECT: a file is for pipelines, and the rows are held in memory

WAIT_S = 0.1


class ScriptRun:
    """One run of files that were checked and planned. `run` is called once, on one thread.

    `error` is the first failure of the run, `jobs` are the jobs of its INSERTs. `interrupted`: a stop cut off a
    statement that would have ended by itself, or one whose turn had not come.
    """

    def __init__(
        self,
        context: SessionContext,
        *,
        mode: RunMode = RunMode.BY_TABLES,
        stop: StopRequest | None = None,
        listener: Listener | None = None,
        clock: Clock | None = None,
        from_scratch: bool = False,
        leases: Mapping[str, PipelineLease] | None = None,
    ) -> None:
        """Make a run. `from_scratch` sets the checkpoints of its queries aside, once their leases are held.

        `leases` are those that are held already, by pipeline; the run releases them.
        """
        self._from_scratch = from_scratch
        self._mode = mode
        self._stop = stop or StopRequest()
        self._listener = listener or SilentListener()
        self._clock = clock or SystemClock()
        self._unused_leases = dict(leases or {})
        self._stops_passed_on = 0
        self.jobs: list[Job] = []
        self._context = replace(context, jobs=self.jobs)
        self._refreshing: set[Job] = set()
        self._watched: list[WatchedSelect] = []
        self._select_ends: list[Callable[[], StatementResult]] = []
        self.error: PenstockError | None = None
        self.interrupted = False

    def run(
        self, scripts: Sequence[CheckedScript], *, wait: bool = True
    ) -> tuple[StatementResult, ...]:
        """Run the statements in order; with `wait`, until the last job has ended, else without results.

        Unbounded SELECTs are waited for in any case: this thread shows their rows.

        Raises PipelineLockedError, before anything is started, when another runner holds one of the pipelines. What
        fails later is reported by the results and `error`, not raised.
        """
        try:
            self._take_leases(scripts)
            if self._from_scratch:
                set_aside_all(scripts, self._clock)
            ends = [self._one(one, script) for script in scripts for one in script.statements]
            results = tuple(end() for end in (ends if wait else self._select_ends))
            return results if wait else ()
        except BaseException:
            for job in self.jobs:
                job.request_stop()
            raise
        finally:
            for watched in self._watched:
                watched.stop()
            for lease in self._unused_leases.values():
                lease.release()

    def _take_leases(self, scripts: Sequence[CheckedScript]) -> None:
        for script in scripts:
            for one in script.statements:
                for query in one.queries:
                    held = query.is_stream or starts_refresh(one.statement)
                    for name in query.leases if held else ():
                        if name not in self._unused_leases:
                            lease = hold_lease(self._context.leases, name, self._clock)
                            self._unused_leases[name] = lease

    def _one(self, one: CheckedStatement, script: CheckedScript) -> Callable[[], StatementResult]:
        """Run a statement, or start it; returns a function that waits for its result."""
        blank = StatementResult(
            kind=kind_of(one.statement),
            subject=subject_of(one.statement),
            sink=", ".join(short_name(query.sink) for query in one.queries) or None,
        )
        if self.error is not None or self._stop.count > 0:
            self.interrupted = self.interrupted or self.error is None
            return self._done(replace(blank, status=StatementStatus.SKIPPED))
        if one.queries and is_definition(one.statement):
            try:
                for query in one.queries:
                    query.prepare()
                define(one.statement, self._context.namespace)  # the table that they fill
            except Exception as error:  # noqa: BLE001  whatever it is becomes the statement's error
                return self._done(self._failed(blank, error))
        if any(query.is_stream for query in one.queries):
            return self._start(blank, one, script)
        if starts_refresh(one.statement) and self._mode is not RunMode.AVAILABLE_NOW:
            return self._keep_refreshed(blank, one)
        began_ms = self._clock.monotonic_ms()
        try:
            if isinstance(one.statement, Select):
                planner, show = self._planner(script), self._listener.rows_came
                ends = self._mode is RunMode.AVAILABLE_NOW
                watched = watch(one.statement, planner, self._context, show=show, ends=ends)
                if watched is not None:
                    return self._watching(blank, watched)
            rows = self._immediate(one, script)
        except Exception as error:  # noqa: BLE001  whatever it is becomes the statement's error
            return self._done(self._failed(blank, error))
        seconds = (self._clock.monotonic_ms() - began_ms) / 1000
        stopped = isinstance(one.statement, Select) and rows is None
        self.interrupted = self.interrupted or stopped
        status = StatementStatus.STOPPED if stopped else StatementStatus.FINISHED
        return self._done(replace(blank, seconds=seconds, status=status, rows=rows))

    def _done(self, result: StatementResult) -> Callable[[], StatementResult]:
        self._listener.statement_ended(result)
        return lambda: result

    def _immediate(self, one: CheckedStatement, script: CheckedScript) -> ResultRows | None:
        """Run a statement to its end."""
        context, statement = self._context, one.statement
        if is_command(statement):
            return _rows_of(run_command(statement, self._context))
        if one.queries:
            for query in one.queries:
                write_once(query, context.leases, self._clock)
            return None
        if is_definition(statement):
            define(statement, context.namespace)
            if (table := ends_refresh_of(statement)) is not None:
                stop_refreshes(table, self._context)
            return None
        match statement:
            case SetOption() | ResetOption():
                set_option(statement, context.settings)
                return None
            case Select():
                return self._select(statement, script)
            case Explain():
                return self._explain(statement, script)
        return _rows_of(answer(statement, self._context))

    def _watching(
        self, blank: StatementResult, watched: WatchedSelect
    ) -> Callable[[], StatementResult]:
        """Return a function that waits for the end of a SELECT's rows; a bounded one is run at once."""
        self._watched.append(watched)
        began_ms = self._clock.monotonic_ms()

        def end() -> StatementResult:
            watched.wait(self._clock, self._look)
            self._note(watched.error)
            seconds = (self._clock.monotonic_ms() - began_ms) / 1000
            result = watched.result(replace(blank, seconds=seconds))
            self._listener.statement_ended(result)
            return result

        if self._mode is RunMode.AVAILABLE_NOW:
            result = end()
            return lambda: result
        self._select_ends.append(end)
        return end

    def _select(self, statement: Select, script: CheckedScript) -> ResultRows | None:
        """Analyse a query again: the statements before it have made tables since it was checked."""
        spark, planner = self._context.spark(), self._planner(script)
        try:
            # instants come back in the session's time zone
            with configured(spark, planner.engine_conf):
                register_called(
                    statement.query, self._context.namespace, spark, self._context.project
                )
                frame = planner.select(statement, spark)
                return collect_rows(
                    frame, limit=MAX_ROWS, cancelled=lambda: self._stop.count > 0, clock=self._clock
                )
        finally:
            planner.close()

    def _explain(self, statement: Explain, script: CheckedScript) -> ResultRows:
        text = "\n".join(explain_lines(statement, self._planner(script)))
        return ResultRows(columns=("result",), rows=((text,),))

    def _planner(self, script: CheckedScript) -> Planner:
        return Planner(
            namespace=self._context.namespace,
            project=self._context.project,
            settings=self._context.settings,
            default_pipeline=script.file.pipeline,
        )

    def _start(
        self, blank: StatementResult, one: CheckedStatement, script: CheckedScript
    ) -> Callable[[], StatementResult]:
        """Start the queries of a statement, which end together; returns a function that waits for their result."""
        queries = one.queries
        bounded = all(query.bounded for query in queries)
        trigger = self._trigger(bounded=bounded)
        if self._mode is not RunMode.AVAILABLE_NOW:
            trigger = refresh_trigger(one.statement, queries) or trigger
        try:
            started = start_jobs(
                queries,
                trigger=trigger,
                leases=self._context.leases,
                restarts=restart_strategy(self._context.settings),
                clock=self._clock,
                held=self._unused_leases,
                resources=(script,),
                stop_limit_ms=self._stop.limit_ms,
                split_limit=split_limit(self._context.settings),
            )
        except Exception as error:  # noqa: BLE001  whatever it is becomes the statement's error
            return self._done(self._failed(blank, error))
        self.jobs += started
        for job in started:
            self._listener.job_started(job)
        if isinstance(trigger, Continuous):
            return lambda: self._job_end(blank, queries, started)
        result = self._job_end(blank, queries, started)
        self.interrupted = self.interrupted or result.status is StatementStatus.STOPPED
        return lambda: result

    def _keep_refreshed(
        self, blank: StatementResult, one: CheckedStatement
    ) -> Callable[[], StatementResult]:
        """Refresh a FULL table, and start its job; returns a function that waits for the job's end."""
        context, first, insert = self._context, one.planned, filling_insert(one.statement)
        assert first is not None, "one INSERT fills a table"
        assert insert is not None, "as above"
        refresh = FullRefresh(
            table=insert.target, context=replace(context, settings=dict(context.settings))
        )
        try:
            job = start_refreshes(
                first,
                refresh,
                leases=context.leases,
                clock=self._clock,
                lease=self._unused_leases.pop(first.pipeline, None),
            )
        except Exception as error:  # noqa: BLE001  whatever it is becomes the statement's error
            return self._done(self._failed(blank, error))
        self.jobs.append(job)
        self._refreshing.add(job)
        self._listener.job_started(job)
        return lambda: self._refreshes_end(blank, job)

    def _refreshes_end(self, blank: StatementResult, job: Job) -> StatementResult:
        """Wait for the end of a table's refreshes; where queries end, they end with the last of these."""
        while not job.wait(WAIT_S):
            self._look()
            others = [other for other in self.jobs if other not in self._refreshing]
            if self._mode is RunMode.BY_TABLES and all(other.status.final for other in others):
                job.request_stop()
        self._note(job.exception)
        result = with_refreshes(blank, job, stopped=self._stop.count > 0)
        self._listener.statement_ended(result)
        return result

    def _job_end(
        self, blank: StatementResult, queries: Sequence[StartableQuery], jobs: Sequence[Job]
    ) -> StatementResult:
        """Wait for the jobs of a statement, watching the others and requests to stop."""
        for job in jobs:
            while not job.wait(WAIT_S):
                self._look()
            self._note(job.exception)
        result = with_jobs(blank, queries, jobs)
        self._listener.statement_ended(result)
        return result

    def _trigger(self, *, bounded: bool) -> Trigger:
        if self._mode.ends(bounded=bounded):
            return AvailableNow()
        return Continuous(interval_ms=setting(self._context.settings, CHECKPOINT_INTERVAL))

    def _look(self) -> None:
        """Pass on requests to stop, and the first failure of a job; show new rows."""
        self._pass_on_stops()
        for other in self.jobs:
            self._note(other.exception)
        for watched in self._watched:
            watched.look()
            self._note(watched.error)
        if self.error is not None or self._stop.count > 0:
            for watched in self._watched:
                watched.stop()

    def _pass_on_stops(self) -> None:
        if self._stops_passed_on < self._stop.count:
            self._stops_passed_on = self._stop.count
            for job in self.jobs:
                job.request_stop(now=self._stop.count > 1)

    def _note(self, error: PenstockError | None) -> None:
        """Record the first failure as the run's: the other jobs finish what they have begun."""
        if error is not None and self.error is None:
            self.error = error
            for job in self.jobs:
                job.request_stop()

    def _failed(self, blank: StatementResult, error: Exception) -> StatementResult:
        failure = translate(error)
        self._note(failure)
        return with_error(replace(blank, status=StatementStatus.FAILED), failure)


def _rows_of(listed: Listing | None) -> ResultRows | None:
    return None if listed is None else ResultRows(columns=listed.columns, rows=listed.rows)
