"""`penstock run`: what its options mean. The run itself is `run_scripts.py`'s part."""

from __future__ import annotations

from typing import Annotated

import typer

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
    SetOption,
    StrictOption,
    TargetOption,
    VarOption,
    VarsFileOption,
    VerboseOption,
)
from penstock.sql.cli.output.progress import LOG_INTERVAL_MS, ProgressMode
from penstock.sql.cli.output.report import OutputFormat, reporting
from penstock.sql.errors.render import ErrorFormat


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
            help="Serve the status page at this port of 127.0.0.1; 0 is any that is free. "
            "Example: `--ui-port 8090`",
            show_default=False,
        ),
    ] = None,
    strict: StrictOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Run SQL files: all of them are checked first, then their statements run in order.

    Every INSERT is a streaming query with a checkpoint of its own, from which it resumes when the file runs again;
    `penstock plan` shows from where. Ctrl-C once stops after the batch in flight; twice stops at once.

    Example: `penstock run examples/quickstart.sql --var bootstrap=127.0.0.1:9092`
    """
    with reporting(
        context, verbose=verbose, output=output, errors=errors, timed=True
    ) as is_verbose:
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
        # loads pyspark: only once the options are right
        from penstock.sql.cli.commands.run_scripts import RunOptions, run_scripts

        status = run_scripts(
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
                ui_port=ui_port,
            )
        )
    raise typer.Exit(status)
