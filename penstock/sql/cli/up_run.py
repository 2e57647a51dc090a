"""Runs the pipelines of a project from the command line: check, start their processes, show them. The exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from penstock.catalog.errors import ConfigError
from penstock.sql.cli.output.overview import json_lines, showing_overview
from penstock.sql.cli.output.report import (
    print_lines,
    say,
)
from penstock.sql.cli.output.row_text import RowFormat
from penstock.sql.cli.service_manager import notifying
from penstock.sql.cli.signals import StopSignals
from penstock.sql.clock import SystemClock
from penstock.sql.errors.exit_status import ExitStatus
from penstock.sql.execution.context import SessionContext
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.processes.child import ChildProcess, ProcessPlan, child_environment
from penstock.sql.processes.live_pages import LivePages, PageToken, page_token
from penstock.sql.processes.overview import ProjectView, pipeline_documents
from penstock.sql.processes.process_end import ProcessState
from penstock.sql.processes.project_pipelines import (
    PipelineFile,
    ProjectPipelines,
    define_shared,
    find_pipelines,
    refuse_running,
)
from penstock.sql.processes.supervisor import (
    PASS_ON_MS,
    ProcessOutput,
    ProcessView,
    ProjectSupervisor,
)
from penstock.sql.runner.run_mode import StopRequest
from penstock.sql.script.project import Project
from penstock.sql.settings import RestartStrategy, restart_strategy
from penstock.sql.ui.access import ServedPage, announcement

REPORT_S = 1
"""Time between two reports of a pipeline."""

GRACE_S = 30
"""What a process gets beyond the limit of its batch, once its supervisor has died."""

LEAST_STARTING = 2
"""Processes that start at a time on a machine of one core: a start also waits for disk and brokers."""

_PROGRAM = "from penstock.sql.cli.commands.app import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """The options of `penstock up`. `open_context` opens the catalog, with the settings of the command.

    `passed_on` are the arguments that each process gets as well; `shared`: there is one for all. `metrics_port` and
    `page` None: neither metrics nor the status page are served.
    """

    project: Project
    open_context: Callable[[], SessionContext]
    catalog_url: str
    variables: Mapping[str, Any]
    strict: bool
    passed_on: Sequence[str]
    shared: bool
    output: RowFormat
    metrics_host: str
    metrics_port: int | None
    page: ServedPage | None
    stop_limit_ms: int


def run_project(options: UpOptions) -> int:
    """Run the pipelines until all have ended, and return the exit status. Raises InputErrors before any starts."""
    # the supervisor asks its processes again, then kills them: this process must not give up before
    request = StopRequest(options.stop_limit_ms + 2 * PASS_ON_MS)
    with StopSignals(request) as signals, ExitStack() as pages:
        context = options.open_context()
        found = find_pipelines(options.project, context, options.variables, strict=options.strict)
        refuse_running(found, context)
        define_shared(found, context.namespace)
        for name in found.left_out:
            say(f"{name} is not run: it has no pipeline")
        token = pages.enter_context(page_token()) if options.page is not None else None
        supervisor = ProjectSupervisor(
            _plans(found, context, options, token),
            launch=ChildProcess,
            output=_output(options.output),
            clock=SystemClock(),
            stop=request,
            stop_limit_ms=options.stop_limit_ms,
            most_starting=max(len(os.sched_getaffinity(0)), LEAST_STARTING)
            if hasattr(os, "sched_getaffinity")
            else LEAST_STARTING,
        )
        signals.listen()
        with (
            _metrics(supervisor, options),
            _status_page(supervisor, options, token),
            notifying(supervisor.processes, lambda: request.count > 0),
            showing_overview(supervisor.processes, options.output),
        ):
            supervisor.run()
    ended = supervisor.processes()
    if options.output is RowFormat.JSON:
        print_lines(json_lines(ended))
    failed = _failed_pipelines(ended)
    say(*(f"{each.state:<8}  {each.name}  {each.reason or ''}".rstrip() for each in ended))
    say(*(f"{ProcessState.FAILED:<8}  {name}  {reason}".rstrip() for name, reason in failed))
    if request.count > 1:
        return ExitStatus.INTERRUPTED
    if failed:
        return ExitStatus.FAILED
    return _status([each for each in ended if _has_failed(each)])


def _status(failed: Sequence[ProcessView]) -> int:
    """Return the exit status where these processes have failed.

    It is that of wrong input where all refused theirs, as for a topic that is not there: another start would not help.
    """
    if all(each.exit_status == ExitStatus.WRONG_INPUT for each in failed):
        return ExitStatus.WRONG_INPUT if failed else 0
    return ExitStatus.FAILED


def _has_failed(process: ProcessView) -> bool:
    return process.state is ProcessState.FAILED


def _failed_pipelines(processes: Sequence[ProcessView]) -> list[tuple[str, str]]:
    """Return what failed for good in processes that ended otherwise, with the reason.

    A process that was to stop has ended well, although one of its pipelines may have failed before.
    """
    ended = [each for each in processes if not _has_failed(each)]
    return [
        (str(each["name"]), str(each.get("reason", "")))
        for each in pipeline_documents(ended, SystemClock().now_ms())
        if each["status"] == JobStatus.FAILED
    ]


SHARED = "all"
"""The name of the process that runs all files."""


def _plans(
    found: ProjectPipelines, context: SessionContext, options: UpOptions, token: PageToken | None
) -> list[ProcessPlan]:
    """Return the processes: one for each file, or one for all. Raises ConfigError for files that have to wait."""
    if not options.shared:
        return [_plan(file.name, [file], file.restarts, options, token) for file in found.files]
    waiting = [file for file in found.files if file.after]
    if waiting:
        raise ConfigError(
            f"{waiting[0].name} reads a table that {waiting[0].after[0]} creates by its query, and waits for it",
            hint="--shared starts all files at once: leave it out, or create the table in a file that is run before",
        )
    return [_plan(SHARED, found.files, restart_strategy(context.settings), options, token)]


def _plan(
    name: str,
    files: Sequence[PipelineFile],
    restarts: RestartStrategy,
    options: UpOptions,
    token: PageToken | None,
) -> ProcessPlan:
    """Return the process of files: a `penstock run`."""
    seconds = options.stop_limit_ms / 1000
    apart = ("--keep-going",) if options.shared else ()
    page = () if token is None else ("--ui-port", "0", "--ui-token-file", str(token.file))
    return ProcessPlan(
        name=name,
        command=(
            *(sys.executable, "-c", _PROGRAM, "run", *(str(file.path) for file in files)),
            *(*options.passed_on, *apart, *page),
            *("--progress", "json", "--progress-interval", str(REPORT_S)),
            *("--metrics-port", "0", "--stop-timeout", str(seconds)),
        ),
        folder=options.project.root,
        environment=child_environment(),
        pipelines=tuple(pipeline for file in files for pipeline in file.pipelines),
        restarts=restarts,
        after=tuple(one for file in files for one in file.after),
        grace_s=seconds + GRACE_S,
    )


def _output(output: RowFormat) -> ProcessOutput:
    """Return where lines of processes go: what they print onto stdout, unless that is JSON."""

    def printed(name: str, line: str) -> None:
        if output is RowFormat.JSON:
            say(f"{name} | {line}")
        else:
            print_lines([f"{name} | {line}"])

    return ProcessOutput(printed=printed, logged=lambda name, line: say(f"{name} | {line}"))


@contextmanager
def _metrics(supervisor: ProjectSupervisor, options: UpOptions) -> Iterator[None]:
    """Serve the metrics of all processes while the block runs, where that was asked for."""
    if options.metrics_port is None:
        yield
        return
    from penstock.sql.metrics.endpoint import serving_registry
    from penstock.sql.processes.scrape import project_registry

    registry = project_registry(supervisor.processes, SystemClock())
    with serving_registry(registry, host=options.metrics_host, port=options.metrics_port) as url:
        say(f"metrics: {url}")
        yield


@contextmanager
def _status_page(
    supervisor: ProjectSupervisor, options: UpOptions, token: PageToken | None
) -> Iterator[None]:
    """Serve the status page while the block runs, where that was asked for."""
    served = options.page
    if served is None or token is None:
        yield
        return
    from penstock.sql.processes.scrape import project_registry
    from penstock.sql.ui.documents.stored import StoredPipelines
    from penstock.sql.ui.server import serving_pages

    # names of its own: the page's threads read them
    context = options.open_context()
    stored = StoredPipelines(
        namespace=context.namespace,
        project=context.project,
        configured=options.project,
        catalog_url=options.catalog_url,
    )
    view = ProjectView(
        processes=supervisor.processes,
        stored=stored,
        clock=SystemClock(),
        pages=LivePages(token=token.text),
    )
    registry = project_registry(supervisor.processes, SystemClock())
    with serving_pages(view, served.access, port=served.port, registry=registry) as url:
        say(announcement(served.access, url))
        yield
