"""Runs the statements of a shell: what needs no Spark without it, the first that does starts it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from penstock.catalog.errors import PenstockError
from penstock.connector.changelog import ChangelogMode
from penstock.sql.check.script_check import CheckedScript, check_scripts
from penstock.sql.cli.spark import open_spark, spark_logs
from penstock.sql.clock import SystemClock
from penstock.sql.convert.statement import parse_statement
from penstock.sql.ddl.redefinition import existing_note
from penstock.sql.errors.render import Severity, render
from penstock.sql.execution.context import SessionContext
from penstock.sql.jobs.job import Job
from penstock.sql.jobs.live_query import follow, live_query
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.analyzer import Analyzer
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.runner.plan import plan_scripts
from penstock.sql.runner.run import MAX_ROWS, ScriptRun
from penstock.sql.runner.run_mode import StopRequest
from penstock.sql.runner.summary import ResultRows, StatementResult, StatementStatus
from penstock.sql.script.files import ScriptFile
from penstock.sql.script.project import Project
from penstock.sql.script.splitter import split_all
from penstock.sql.script.templates import render_template
from penstock.sql.shell.information_schema import look
from penstock.sql.spark_process.jvm import end_jvm
from penstock.sql.statements.statement import Select

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NAME = "shell"
"""What places of errors name as the file, and the pipeline of INSERTs that have no `pipeline.name`."""

_SCREEN = SinkTable(name="the screen", accepts=ChangelogMode.ALL, columns=())


class _LazySpark:
    """Stands for a Spark session that is started when something is asked of it."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start
        self._session: SparkSession | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session(), name)

    def session(self) -> SparkSession:
        """Return the session itself."""
        if self._session is None:
            self._session = self._start()
        return self._session

    @property
    def started(self) -> bool:
        """Whether Spark runs."""
        return self._session is not None


class _Interrupts:
    """Ctrl-C while a statement runs: once asks it to stop, twice abandons it; Spark's handler would end all jobs."""

    def __init__(self, request: StopRequest, say: Callable[[str], None]) -> None:
        self._request = request
        self._say = say

    def __enter__(self) -> Self:
        self.take()
        return self

    def take(self) -> None:
        """Handle the signal from here on, replacing handlers that were installed since."""
        signal.signal(signal.SIGINT, self._handle)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._request.count += 1
        if self._request.count > 1:
            raise KeyboardInterrupt
        self._say("stopping; Ctrl-C again abandons the statement")


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Where a shell shows things: `say` what happens, `ended` a statement, `rows` as they come (columns, rows)."""

    say: Callable[[str], None]
    ended: Callable[[StatementResult], None]
    rows: Callable[[Sequence[str], Sequence[tuple[Any, ...]]], None]


@dataclass(slots=True, kw_only=True)
class ShellSession:
    """One shell's state: its context and its jobs. `run` is called on the main thread, as signals come there."""

    project: Project
    context: SessionContext
    variables: Mapping[str, Any]
    spark_conf: Mapping[str, str]
    master: str | None
    screen: Screen
    verbose: bool = False
    _jobs: list[Job] = field(default_factory=list)
    _request: StopRequest = field(default_factory=StopRequest)
    _spark: _LazySpark = field(init=False)
    _interrupts: _Interrupts = field(init=False)

    def __post_init__(self) -> None:
        self._spark = _LazySpark(self._start_spark)
        self._interrupts = _Interrupts(self._request, self.screen.say)

    def run(self, text: str) -> bool:
        """Run a text of one statement or more. Returns False where one failed while it ran.

        Raises InputError before anything is started, KeyboardInterrupt when it was given up.
        """
        self._request.count = 0
        with self._interrupts:
            select = self._select(text)
            if select is not None and not select[1].bounded:
                self._follow(select[1])
                return True
            if select is not None and self._looked_up(select[1]):
                return True
            return self._run_checked(ScriptFile(name=NAME, text=text))

    def spark(self) -> SparkSession:
        """Return Spark's session; it is started where it does not run yet."""
        return self._spark.session()

    def close(self) -> None:
        """Stop after the running jobs' batches, and end Spark."""
        running = [job for job in self._jobs if not job.wait(0)]
        if running:
            self.screen.say(f"stopping {len(running)} running job{'s' * (len(running) > 1)}")
        for job in running:
            job.request_stop()
        for job in running:
            job.wait(None)
        if self._spark.started:
            end_jvm()

    def _run_checked(self, file: ScriptFile) -> bool:
        spark = cast("SparkSession", self._spark)
        context = replace(self.context, spark=lambda: spark)
        checked = check_scripts(
            (file,),
            context,
            variables=self.variables,
            env=self.project.environment,
            folders=self.project.folders,
        )
        for script in checked:
            self._show_findings(script)
        planned = plan_scripts(checked, spark, context)
        run = ScriptRun(context, stop=self._request, listener=self)
        run.run(planned, wait=False)
        self._jobs += [job for job in run.jobs if not job.wait(0)]
        return run.error is None

    def _show_findings(self, script: CheckedScript) -> None:
        """Report findings that stop nothing: warnings, and what exists already as typed."""
        for warning in script.warnings:
            self.screen.say(render(warning, severity=Severity.WARNING).rstrip())
        for one in script.statements:
            if (note := existing_note(one.statement, self.context.namespace)) is not None:
                self.screen.say(note)

    def job_started(self, job: Job) -> None:
        """Report that an INSERT runs (`Listener`)."""
        self.screen.say(f"writing into {job.progress.sink}")

    def rows_came(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """Show rows of a SELECT that stands among other statements and never ends (`Listener`)."""
        self.screen.rows(columns, rows)

    def statement_ended(self, result: StatementResult) -> None:
        """Show what a statement gave (`Listener`)."""
        self.screen.ended(result)

    def _select(self, text: str) -> tuple[Select, AnalysedQuery] | None:
        """Return the query that a text is, if it is one."""
        source = render_template(
            text, NAME, self.variables, self.project.environment, self.project.folders
        )
        texts, error = split_all(source)
        if error is not None:
            raise error
        if len(texts) != 1 or texts[0].tokens[0].text.upper() not in {"SELECT", "WITH", "("}:
            return None
        statement = parse_statement(texts[0], self.context.namespace)
        if not isinstance(statement, Select):
            return None
        try:
            analyzer = Analyzer(
                namespace=self.context.namespace,
                project=self.project.root,
                settings=self.context.settings,
            )
            query = analyzer.analyse_followed(statement.query, _SCREEN)
        except PenstockError:
            return None  # the road of bounded queries says what is wrong
        return statement, query

    def _looked_up(self, query: AnalysedQuery) -> bool:
        """Answer a query over `information_schema` without Spark, where that can be done. Returns whether it was."""
        started_ms = SystemClock().now_ms()
        found = look(query, limit=MAX_ROWS + 1)
        if found is None:
            return False
        columns = [column.to_pylist() for column in found.columns]
        rows = ResultRows(
            columns=tuple(found.column_names),
            rows=tuple(zip(*columns, strict=True))[:MAX_ROWS],
            truncated=found.num_rows > MAX_ROWS,
        )
        seconds = (SystemClock().now_ms() - started_ms) / 1000
        self.screen.ended(StatementResult(kind="SELECT", rows=rows, seconds=seconds))
        return True

    def _follow(self, query: AnalysedQuery) -> None:
        spark = cast("SparkSession", self._spark)
        planner = Planner(
            namespace=self.context.namespace,
            project=self.project.root,
            settings=self.context.settings,
        )
        try:
            live = live_query(query, planner, spark)
            self.screen.say("following; Ctrl-C stops")
            totals = follow(
                live,
                show=self.screen.rows,
                stopped=lambda: self._request.count > 0,
                clock=SystemClock(),
            )
        finally:
            planner.close()
        self.screen.ended(
            StatementResult(
                kind="SELECT",
                status=StatementStatus.STOPPED,
                rows_dropped=totals.rows_dropped,
                bad_records=totals.bad_records,
                records_lost=totals.records_lost,
            )
        )

    def _start_spark(self) -> SparkSession:
        files = spark_logs(self.project, verbose=self.verbose)
        spark = open_spark(self.master, self.spark_conf, files)
        self._interrupts.take()
        return spark
