"""`penstock plan`: what a run of the same files would do with their checkpoints. Starts and changes nothing."""

from __future__ import annotations

import typer

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
from penstock.sql.cli.progress import ProgressMode
from penstock.sql.cli.report import OutputFormat, reporting
from penstock.sql.cli.script_input import read_input
from penstock.sql.error_formats import ErrorFormat

__all__ = ["plan"]


def plan(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    files: FilesArgument,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    available_now: AvailableNowOption = None,
    from_scratch: FromScratchOption = False,
    settings: SetOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    output: FormatOption = OutputFormat.TABLE,
    errors: ErrorFormatOption = ErrorFormat.FULL,
    strict: StrictOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what a run of SQL files would do: for each INSERT whether it begins anew, goes on, or cannot.

    Offsets come from the checkpoints, ends of partitions from the brokers; nothing is started or changed. The exit
    status is 2 when a checkpoint does not fit its query or is damaged.

    Example: `penstock plan examples/quickstart.sql --var bootstrap=127.0.0.1:9092`
    """
    with reporting(context, verbose=verbose, output=output, errors=errors) as is_verbose:
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
        from penstock.sql.cli.script import RunOptions, run_scripts

        status = run_scripts(
            RunOptions(
                script=script,
                available_now=available_now,
                dry_run=True,
                from_scratch=from_scratch,
                output=output,
                progress=ProgressMode.NONE,
                verbose=is_verbose,
                errors=errors,
            )
        )
    raise typer.Exit(status)
