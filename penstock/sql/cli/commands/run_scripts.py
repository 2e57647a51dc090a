"""A run of files from the command line: check, start Spark, plan, run, sum up. Gives the exit status.

The deepest level of `penstock validate` stops at rows of every query on the screen, sinks untouched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from threading import Thread
from typing import TYPE_CHECKING, Any

from penstock.catalog.errors import InputError, InputErrors, PenstockError
from penstock.sql.check.checkpoint_assignment import name_scripts_here
from penstock.sql.check.connectivity import check_sources_exist, check_target_folders
from penstock.sql.check.offline_plan import offline_statement_of
from penstock.sql.check.script_check import CheckedScript
from penstock.sql.checkpoint.directory import checkpoint_files
from penstock.sql.cli.commands.script_input import ScriptInput
from penstock.sql.cli.output.plan_text import plans_of, show_plans
from penstock.sql.cli.output.progress import (
    LOG_INTERVAL_MS,
    JobBoard,
    ProgressMode,
    showing,
    summary_lines,
)
from penstock.sql.cli.output.report import (
    OutputFormat,
    print_json,
    print_lines,
    print_rows,
    say,
    say_warnings,
)
from penstock.sql.cli.output.row_text import RowLines
from penstock.sql.cli.signals import StopSignals
from penstock.sql.cli.spark import open_spark, spark_logs
from penstock.sql.clock import SystemClock
from penstock.sql.errors.exit_status import ExitStatus
from penstock.sql.errors.render import ErrorFormat, show_error, show_failures
from penstock.sql.errors.spark import EngineGoneError, translate
from penstock.sql.execution.context import SessionContext
from penstock.sql.jobs.lease import PipelineLease, hold_leases
from penstock.sql.processes.reports import failure_line
from penstock.sql.runner.plan import plan_scripts
from penstock.sql.runner.replay import queries_of, sample
from penstock.sql.runner.run import ScriptRun
from penstock.sql.runner.run_mode import StopRequest, run_mode
from penstock.sql.runner.summary import StatementResult, StatementStatus, document
from penstock.sql.settings import STOP_LIMIT_MS
from penstock.sql.spark_process.jvm import end_jvm
from penstock.sql.spark_process.spark_session import is_running
from penstock.sql.ui.access import ServedPage, announcement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.sql.jobs.job import Job
    from penstock.sql.lineage.datasets import PipelineLineage
    from penstock.sql.runner.replay import Replayed


JOIN_S = 0.1
"""How long a look at a thread takes: signals are handled in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `penstock run` or `penstock plan`; `available_now` None leaves it to the tables.

    `dry_run` shows what would run; `from_scratch` sets checkpoints aside before it runs. `errors` is the format of
    failures of the run. `metrics_port` and `page` None: neither metrics nor
    the status page are served.
    """

    script: ScriptInput
    available_now: bool | None
    dry_run: bool
    from_scratch: bool
    output: OutputFormat
    progress: ProgressMode | None
    verbose: bool
    errors: ErrorFormat
    progress_interval_ms: int = LOG_INTERVAL_MS
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    page: ServedPage | None = None
    stop_limit_ms: int = STOP_LIMIT_MS


def run_scripts(options: RunOptions) -> int:
    """Run files and return the exit status. Raises InputErrors before anything is started."""
    script, project = options.script, options.script.project
    files = spark_logs(project, verbose=options.verbose)
    announce = options.progress not in {ProgressMode.NONE, ProgressMode.JSON}

    launches = not is_running()

    def spark_session() -> SparkSession:
        return open_spark(script.master, script.spark_conf, files, announce=announce)

    context = script.open_context(spark=spark_session)
    request = StopRequest(options.stop_limit_ms)
    with StopSignals(request) as signals:
        checked = script.check(context)
        say_warnings([one for file in checked for one in file.warnings], options.errors)
        if not any(script.statements for script in checked):
            say("nothing to run: the files have no statement")
            return 0
        check_target_folders(checked, project.root)
        # before Spark is started, so that a second runner is refused within seconds
        checked = name_scripts_here(checked, project.root, from_scratch=options.from_scratch)
        pipelines = [p for script in checked for one in script.statements for p in one.pipelines]
        leases = {} if options.dry_run else hold_leases(context.leases, pipelines, SystemClock())
        try:
            check_sources_exist(checked, context)
            spark = spark_session()
            planned = plan_scripts(
                checked,
                spark,
                context,
                judges=options.dry_run or options.from_scratch,
                from_scratch=options.from_scratch,
            )
            if options.dry_run:
                return _show_plan(planned, options, spark)
            signals.listen()
            started = replace(context, spark=lambda: spark)
            status = _run(planned, started, options, request, leases)
            if status in {ExitStatus.FAILED, ExitStatus.ENGINE_GONE} and files is not None:
                say(f"Spark's log of this run is {files.log}")
            return status
        finally:
            for lease in leases.values():
                lease.release()
            if launches:
                end_jvm()


def _show_plan(scripts: Sequence[CheckedScript], options: RunOptions, spark: SparkSession) -> int:
    judged = [[offline_statement_of(one) for one in each.statements] for each in scripts]
    plans = plans_of(
        scripts,
        judged,
        run_mode(available_now=options.available_now),
        checkpoint_files(spark),
        from_scratch=options.from_scratch,
    )
    return show_plans(plans, options.output)


def run_files_apart(options: RunOptions) -> int:
    """Run each file as if alone, all in one Java process: the failure of one stops no other. Returns the exit status.

    A file has settings and a Spark session of its own, and runs on a thread of its own.
    """
    script = options.script
    logs = spark_logs(script.project, verbose=options.verbose)
    launches, request, board = not is_running(), StopRequest(options.stop_limit_ms), JobBoard()

    def spark_session() -> SparkSession:
        return open_spark(script.master, script.spark_conf, logs, announce=options.progress is None)

    files = [_FileApart(replace(script, files=(file,)), options, board) for file in script.files]
    with StopSignals(request) as signals:
        try:
            for each in files:
                each.prepare(spark_session)
            signals.listen()
            with (
                showing(board, options.progress, interval_ms=options.progress_interval_ms),
                _metrics(board, options),
                _pushed_metrics(board),
                _lineage_events(board, lambda: _lineages_of(files)),
                _status_page(board, script.open_context(), options),
            ):
                threads = [each.start(request) for each in files]
                while any(thread.is_alive() for thread in threads):
                    for thread in threads:
                        thread.join(JOIN_S)
        finally:
            for each in files:
                each.release()
            if launches:
                end_jvm()
    for each in files:
        each.sum_up()
    failures = [failure for each in files for failure in each.failures]
    if request.count > 1:
        return ExitStatus.INTERRUPTED
    if all(each.may_start_later for each in files):
        return ExitStatus.MAY_PASS
    if all(each.is_refused for each in files):
        return ExitStatus.WRONG_INPUT
    if failures:
        return ExitStatus.ENGINE_GONE if _is_engine_gone(failures) else ExitStatus.FAILED
    return ExitStatus.INTERRUPTED if any(each.interrupted for each in files) else 0


def _lineages_of(files: Sequence[_FileApart]) -> Mapping[str, PipelineLineage]:
    return {name: found for each in files for name, found in each.lineages().items()}


class _FileApart:
    """One of several files that run apart. `failures` are what went wrong, once it has ended."""

    def __init__(self, script: ScriptInput, options: RunOptions, board: JobBoard) -> None:
        self._script = script
        self._options = options
        self._board = board
        self._leases: dict[str, PipelineLease] = {}
        self._pipelines: tuple[str, ...] = ()
        self._planned: Sequence[CheckedScript] = ()
        self._context: SessionContext | None = None
        self._results: Sequence[StatementResult] = ()
        self.failures: list[PenstockError] = []
        self.interrupted = False

    def prepare(self, spark_session: Callable[[], SparkSession]) -> None:
        """Check and plan the file, and take its leases; what is wrong is reported, not raised."""
        script, options = self._script, self._options
        try:
            context = script.open_context(spark=spark_session)
            checked = script.check(context)
            say_warnings([one for file in checked for one in file.warnings], options.errors)
            checked = name_scripts_here(checked, script.project.root)
            names = (p for file in checked for one in file.statements for p in one.pipelines)
            # known first: what is wrong is reported of each
            self._pipelines = tuple(dict.fromkeys(names))
            check_target_folders(checked, script.project.root)
            self._leases = hold_leases(context.leases, self._pipelines, SystemClock())
            check_sources_exist(checked, context)
            spark = spark_session().newSession()
            self._planned = plan_scripts(checked, spark, context)
            self._context = replace(context, spark=lambda: spark)
        except PenstockError as error:
            self._fail(error.errors if isinstance(error, InputErrors) else [error])

    @property
    def may_start_later(self) -> bool:
        """Whether the file has not run, for reasons that may pass."""
        passing = (isinstance(each, InputError) and each.may_pass for each in self.failures)
        return self._context is None and bool(self.failures) and all(passing)

    @property
    def is_refused(self) -> bool:
        """Whether the file has not run, for a reason that stays."""
        inputs = [each for each in self.failures if isinstance(each, InputError)]
        stays = any(not each.may_pass for each in inputs)
        return self._context is None and len(inputs) == len(self.failures) and stays

    def start(self, request: StopRequest) -> Thread:
        """Run the file on a thread."""
        thread = Thread(target=self._run, args=(request,), name="penstock file", daemon=True)
        thread.start()
        return thread

    def lineages(self) -> Mapping[str, PipelineLineage]:
        """Return what the pipelines of the file read and write."""
        return {} if self._context is None else _lineages(self._planned, self._context)

    def release(self) -> None:
        """Release what leases are left."""
        for lease in self._leases.values():
            lease.release()

    def sum_up(self) -> None:
        """Say what the file did."""
        say(f"{self._script.files[0].name}:", *summary_lines(self._results))

    def _run(self, request: StopRequest) -> None:
        if self._context is None:
            return
        run = ScriptRun(
            self._context,
            mode=run_mode(available_now=self._options.available_now),
            stop=request,
            listener=_Announcer(self._board, self._options),
            leases=self._leases,
        )
        try:
            self._results = run.run(self._planned)
        except Exception as error:  # noqa: BLE001  a bug in one file must not end the others silently
            self._fail([translate(error)])
            return
        self.interrupted = run.interrupted
        failures = [each.failure for each in self._results if each.failure is not None]
        self._fail(failures, summed_up=True)

    def _fail(self, errors: Sequence[PenstockError], *, summed_up: bool = False) -> None:
        """Keep failures and say them; pipelines that have no job are reported as failed.

        `summed_up`: they are in the summary, which is where a person reads them.
        """
        if not errors:
            return
        self.failures += errors
        shape = self._options.errors
        if (text := show_failures(errors, shape)) is not None:
            say(text)
        elif not summed_up:
            say(*(show_error(each, shape, color=sys.stderr.isatty()) for each in errors))
        if self._options.progress is ProgressMode.JSON:
            started = {job.name for job in self._board.jobs()}
            for name in self._pipelines:
                if name not in started:
                    say(failure_line(name, errors[0], SystemClock().now_ms()))


def _run(
    planned: Sequence[CheckedScript],
    context: SessionContext,
    options: RunOptions,
    request: StopRequest,
    leases: Mapping[str, PipelineLease],
) -> int:
    board = JobBoard()
    listener = _Announcer(board, options)
    run = ScriptRun(
        context,
        mode=run_mode(available_now=options.available_now),
        stop=request,
        listener=listener,
        from_scratch=options.from_scratch,
        leases=leases,
    )
    as_json = options.output is OutputFormat.JSON
    # what a `print` table prints belongs on stdout, unless that is one JSON document
    shown = showing(board, options.progress, interval_ms=options.progress_interval_ms)
    with (
        shown,
        _metrics(board, options),
        _pushed_metrics(board),
        _lineage_events(board, lambda: _lineages(planned, context)),
        _status_page(board, context, options),
        redirect_stdout(sys.stderr if as_json else sys.stdout),
    ):
        results = run.run(planned)
    if options.output is OutputFormat.JSON:
        print_json(document(results))
    say(*summary_lines(results))
    failures = [result.failure for result in results if result.failure is not None]
    if (text := show_failures(failures, options.errors)) is not None:
        say(text)
    if request.count > 1:
        return ExitStatus.INTERRUPTED
    if any(result.status is StatementStatus.FAILED for result in results):
        return ExitStatus.ENGINE_GONE if _is_engine_gone(failures) else ExitStatus.FAILED
    # a stopped endless query has done what was asked of it; one that was to reach an end has not
    return ExitStatus.INTERRUPTED if run.interrupted else 0


def _is_engine_gone(failures: Sequence[PenstockError]) -> bool:
    return any(isinstance(failure, EngineGoneError) for failure in failures)


@contextmanager
def _metrics(board: JobBoard, options: RunOptions) -> Iterator[None]:
    """Serve the metrics of the started jobs while the block runs, where that was asked for."""
    if options.metrics_port is None:
        yield
        return
    from penstock.sql.metrics.endpoint import serving_metrics
    from penstock.sql.processes.reports import metrics_line

    with serving_metrics(board.jobs, host=options.metrics_host, port=options.metrics_port) as url:
        if options.progress is ProgressMode.JSON:
            say(metrics_line(url))
        else:
            say(f"metrics: {url}")
        yield


@contextmanager
def _pushed_metrics(board: JobBoard) -> Iterator[None]:
    """Push the metrics while the block runs, where OpenTelemetry's variables ask for that."""
    if not any(name.startswith("OTEL_") for name in os.environ):
        yield
        return
    from penstock.sql.metrics.otel import pushing_metrics

    with pushing_metrics(board.jobs):
        yield


@contextmanager
def _lineage_events(
    board: JobBoard, lineages: Callable[[], Mapping[str, PipelineLineage]]
) -> Iterator[None]:
    """Send OpenLineage events while the block runs, where its variables or its file ask for that."""
    from penstock.sql.lineage.openlineage import sending_events

    with sending_events(board.jobs, lineages):
        yield


def _lineages(
    planned: Sequence[CheckedScript], context: SessionContext
) -> Mapping[str, PipelineLineage]:
    from penstock.sql.lineage.datasets import pipeline_lineages

    return pipeline_lineages(planned, context)


@contextmanager
def _status_page(board: JobBoard, context: SessionContext, options: RunOptions) -> Iterator[None]:
    """Serve the status page while the block runs, where that was asked for."""
    served = options.page
    if served is None:
        yield
        return
    from penstock.sql.metrics.endpoint import metrics_registry
    from penstock.sql.processes.reports import page_line
    from penstock.sql.ui.application import StatusView
    from penstock.sql.ui.documents.stored import StoredPipelines
    from penstock.sql.ui.server import serving_pages

    stored = StoredPipelines(
        namespace=context.namespace,
        project=context.project,
        configured=options.script.project,
        catalog_url=options.script.catalog_url,
    )
    view = StatusView(jobs=board.jobs, stored=stored)
    registry = metrics_registry(board.jobs)
    with serving_pages(view, served.access, port=served.port, registry=registry) as url:
        as_json = options.progress is ProgressMode.JSON and not served.access.made_token
        say(page_line(url) if as_json else announcement(served.access, url))
        yield


class _Announcer:
    """Puts started jobs on the board and a query's rows on stdout (`Listener`)."""

    def __init__(self, board: JobBoard, options: RunOptions) -> None:
        self._board = board
        self._options = options
        self._lines = RowLines()

    def job_started(self, job: Job) -> None:
        self._board.add(job)

    def rows_came(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        self._lines.write(columns, rows)

    def statement_ended(self, result: StatementResult) -> None:
        if result.rows is not None and self._options.output is OutputFormat.TABLE:
            print_rows(result.rows)


def show_samples(
    script: ScriptInput, statements: Iterable[Replayed], *, rows: int, verbose: bool
) -> None:
    """Start Spark and show rows of every query. Raises the error of the first one that fails."""
    files = spark_logs(script.project, verbose=verbose)
    spark = None
    try:
        for one in statements:
            for query in queries_of(one):
                spark = spark or open_spark(script.master, script.spark_conf, files)
                try:
                    found = sample(query, one.planner, spark, rows=rows)
                except InputError as error:
                    error.span = error.span or query.select.span
                    raise
                count = len(found.rows)
                more = "the first " if found.truncated else ""
                print_lines([f"{query.title}: {more}{count} row{'' if count == 1 else 's'}"])
                if found.rows:
                    print_rows(found)
    finally:
        if spark is not None:
            end_jvm()
