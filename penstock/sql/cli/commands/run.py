"""`penstock run` and `penstock up`: what their options mean.

The runs themselves are the parts of `run_scripts.py` and `cli/up_run.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.catalog.errors import ConfigError
from penstock.sql.cli.commands.script_input import read_input
from penstock.sql.cli.options import (
    AvailableNowOption,
    CatalogOption,
    ConfOption,
    ErrorFormatOption,
    FilesArgument,
    FormatOption,
    FromScratchOption,
    MasterOption,
    RowFormatOption,
    SetOption,
    StopTimeoutOption,
    StrictOption,
    TargetOption,
    UiCertificateOption,
    UiHostOption,
    UiKeyOption,
    UiTokenFileOption,
    VarOption,
    VarsFileOption,
    VerboseOption,
)
from penstock.sql.cli.output.progress import LOG_INTERVAL_MS, ProgressMode
from penstock.sql.cli.output.report import OutputFormat, reporting, say
from penstock.sql.cli.output.row_text import RowFormat
from penstock.sql.errors.render import ErrorFormat
from penstock.sql.processes.reports import REPORT_MARK
from penstock.sql.script.project import load_dotenv
from penstock.sql.settings import STOP_LIMIT_MS
from penstock.sql.ui.access import served_page

DEFAULT_STOP_S = 60.0
"""What a batch in flight gets by default: within the 90 s that systemd gives a unit to stop."""


def run(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    files: FilesArgument,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    available_now: AvailableNowOption = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            envvar="PENSTOCK_DRY_RUN",
            help="Show what would run, without starting it, as `penstock plan` does, and let Spark plan the queries. "
            "Example: `--dry-run`",
        ),
    ] = False,
    from_scratch: FromScratchOption = False,
    settings: SetOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    output: FormatOption = OutputFormat.TABLE,
    errors: ErrorFormatOption = ErrorFormat.FULL,
    progress: Annotated[
        ProgressMode | None,
        typer.Option(
            "--progress",
            envvar="PENSTOCK_PROGRESS",
            help="How progress is shown on stderr; default live on a terminal, else log; json is a document a line. "
            "Example: `--progress log`",
            show_default=False,
        ),
    ] = None,
    progress_interval: Annotated[
        float,
        typer.Option(
            "--progress-interval",
            metavar="SECONDS",
            min=0.1,
            envvar="PENSTOCK_PROGRESS_INTERVAL",
            help="Time between two log lines of a query; one of which nothing changed has a line a minute. "
            "Example: `--progress-interval 60`",
        ),
    ] = LOG_INTERVAL_MS / 1000,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            min=0,
            max=65535,
            envvar="PENSTOCK_METRICS_PORT",
            help="Serve metrics for Prometheus at this port, under /metrics; 0 is any that is free. "
            "Example: `--metrics-port 9090`",
            show_default=False,
        ),
    ] = None,
    metrics_host: Annotated[
        str,
        typer.Option(
            "--metrics-host",
            envvar="PENSTOCK_METRICS_HOST",
            help="The address that metrics are served at; another than this machine's own shows names of tables and "
            "counts to all who reach it. Example: `--metrics-host 10.1.2.3`",
        ),
    ] = "127.0.0.1",
    ui_port: Annotated[
        int | None,
        typer.Option(
            "--ui-port",
            min=0,
            max=65535,
            envvar="PENSTOCK_RUN_UI_PORT",
            help="Serve the status page at this port; 0 is any that is free. "
            "Example: `--ui-port 8090`",
            show_default=False,
        ),
    ] = None,
    ui_host: UiHostOption = "127.0.0.1",
    ui_token_file: UiTokenFileOption = None,
    ui_tls_cert: UiCertificateOption = None,
    ui_tls_key: UiKeyOption = None,
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going",
            envvar="PENSTOCK_KEEP_GOING",
            help="Run each file as if it were alone, beside the others: with settings of its own, and the failure of "
            "one stops no other. Example: `--keep-going`",
        ),
    ] = False,
    stop_timeout: StopTimeoutOption = STOP_LIMIT_MS / 1000,
    strict: StrictOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Run SQL files: all of them are checked first, then their statements run in order.

    Every INSERT is a streaming query with a checkpoint of its own, from which it resumes when the file runs again;
    `penstock plan` shows from where. Ctrl-C or SIGTERM once stops after the batch in flight; twice stops at once.

    Example: `penstock run examples/quickstart.sql --var bootstrap=127.0.0.1:9092`
    """
    with reporting(
        context, verbose=verbose, output=output, errors=errors, timed=True
    ) as is_verbose:
        REPORT_MARK.take()
        script = read_input(
            files,
            var=var,
            vars_file=vars_file,
            settings=settings,
            master=master,
            conf=conf,
            catalog=catalog,
            target=target,
            strict=strict,
        )
        if keep_going and (dry_run or from_scratch or output is OutputFormat.JSON):
            raise ConfigError(
                "--keep-going goes neither with --dry-run, --from-scratch nor --format json",
                hint="these are about files that run as one; start each file by a command of its own",
            )
        # loads pyspark: only once the options are right
        from penstock.sql.cli.commands.run_scripts import RunOptions, run_files_apart, run_scripts

        run_them = run_files_apart if keep_going else run_scripts
        status = run_them(
            RunOptions(
                script=script,
                available_now=available_now,
                dry_run=dry_run,
                from_scratch=from_scratch,
                output=output,
                progress=progress,
                progress_interval_ms=int(progress_interval * 1000),
                verbose=is_verbose,
                errors=errors,
                metrics_host=metrics_host,
                metrics_port=metrics_port,
                page=served_page(
                    ui_port,
                    host=ui_host,
                    token_file=ui_token_file,
                    certificate=ui_tls_cert,
                    key=ui_tls_key,
                ),
                stop_limit_ms=int(stop_timeout * 1000),
            )
        )
    raise typer.Exit(status)


def up(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(metavar="PROJECT", help="The project's folder. Example: `shop`"),
    ] = Path(),
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    available_now: AvailableNowOption = None,
    settings: SetOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    shared: Annotated[
        bool,
        typer.Option(
            "--shared",
            envvar="PENSTOCK_SHARED",
            help="Run all files in one process with one Java process: less memory, and what kills that stops all of "
            "them until it has started again. Example: `--shared`",
        ),
    ] = False,
    output: RowFormatOption = RowFormat.TABLE,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            min=0,
            max=65535,
            envvar="PENSTOCK_METRICS_PORT",
            help="Serve the metrics of all pipelines for Prometheus at this port, under /metrics; 0 is any that is "
            "free. Example: `--metrics-port 9090`",
            show_default=False,
        ),
    ] = None,
    metrics_host: Annotated[
        str,
        typer.Option(
            "--metrics-host",
            envvar="PENSTOCK_METRICS_HOST",
            help="The address that metrics are served at; another than this machine's own shows names of tables and "
            "counts to all who reach it. Example: `--metrics-host 10.1.2.3`",
        ),
    ] = "127.0.0.1",
    ui_port: Annotated[
        int | None,
        typer.Option(
            "--ui-port",
            min=0,
            max=65535,
            envvar="PENSTOCK_RUN_UI_PORT",
            help="Serve the status page of all pipelines at this port; 0 is any that is free. "
            "Example: `--ui-port 8090`",
            show_default=False,
        ),
    ] = None,
    ui_host: UiHostOption = "127.0.0.1",
    ui_token_file: UiTokenFileOption = None,
    ui_tls_cert: UiCertificateOption = None,
    ui_tls_key: UiKeyOption = None,
    stop_timeout: StopTimeoutOption = DEFAULT_STOP_S,
    strict: StrictOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Run all pipelines of a project: a process each, or one for all, started again where it dies; one table for all.

    A pipeline is a SQL file with an INSERT that reads tables, a statement set, a CREATE TABLE AS or a materialized
    table; other files are not run. The failure of one stops no other: the exit status is 1 at the end, or 2 where each
    failure was wrong input. Ctrl-C or SIGTERM once stops all after their batches in flight; twice stops at once.

    Example: `penstock up shop --ui-port 8090`
    """
    as_json = OutputFormat.JSON if output is RowFormat.JSON else OutputFormat.TABLE
    with reporting(context, verbose=verbose, output=as_json, timed=True) as is_verbose:
        if not folder.is_dir():
            raise ConfigError(f"there is no folder {folder}", hint="name the project's folder")
        for name in load_dotenv(folder):
            say(f"note: {name} of .env is ignored: it is set where the command is typed")
        script = read_input(
            (),
            var=var,
            vars_file=vars_file,
            settings=settings,
            master=master,
            conf=conf,
            catalog=catalog,
            target=target,
            strict=strict,
            folder=folder,
        )
        from penstock.sql.cli.up_run import UpOptions, run_project

        status = run_project(
            UpOptions(
                project=script.project,
                open_context=script.open_context,
                catalog_url=script.catalog_url,
                variables=script.variables,
                strict=strict,
                passed_on=_passed_on(context, vars_file, available_now, verbose=is_verbose),
                shared=shared,
                output=output,
                metrics_host=metrics_host,
                metrics_port=metrics_port,
                page=served_page(
                    ui_port,
                    host=ui_host,
                    token_file=ui_token_file,
                    certificate=ui_tls_cert,
                    key=ui_tls_key,
                ),
                stop_limit_ms=int(stop_timeout * 1000),
            )
        )
    raise typer.Exit(status)


_PASSED_ON = {
    "var": "--var",
    "settings": "--set",
    "master": "--master",
    "conf": "--conf",
    "catalog": "--catalog",
    "target": "--target",
}


def _passed_on(
    context: typer.Context,
    vars_file: Path | None,
    available_now: bool | None,
    *,
    verbose: bool,
) -> tuple[str, ...]:
    """Return the options that processes are started with, as they were typed; those of variables they read themselves.

    What is in a variable must not come onto a command line, which is everybody's to read.
    """
    words: list[str] = []
    for name, option in _PASSED_ON.items():
        if _is_typed(context, name):
            value = context.params[name]
            values = value if isinstance(value, list | tuple) else [value]
            words += [word for each in values for word in (option, str(each))]
    if vars_file is not None:
        words += ["--vars-file", str(vars_file.absolute())]
    if available_now is not None:
        words.append("--available-now" if available_now else "--continuous")
    if _is_typed(context, "strict"):
        words.append("--strict")
    if verbose:
        words.append("--verbose")
    return tuple(words)


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE" and bool(context.params[name])
