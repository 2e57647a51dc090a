"""`penstock checkpoint`: which checkpoints a file's pipelines have, and which INSERT each is of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.catalog.errors import ConfigError
from penstock.sql.cli.commands.script_input import ScriptInput, read_input
from penstock.sql.cli.options import (
    CatalogOption,
    FormatOption,
    SetOption,
    TargetOption,
    VarOption,
    VarsFileOption,
    VerboseOption,
)
from penstock.sql.cli.output.report import OutputFormat, print_json, print_lines, reporting, say

if TYPE_CHECKING:
    from penstock.sql.check.checkpoint_assignment import WriteText
    from penstock.sql.check.script_check import CheckedScript
    from penstock.sql.checkpoint.choice import KnownCheckpoint
    from penstock.sql.checkpoint.search import OpenFiles


app = typer.Typer(
    name="checkpoint",
    help="Checkpoints of a file's pipelines: list the statement of each, or assign one where it is not clear.",
    no_args_is_help=True,
)

FileArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A SQL file. Example: `orders.sql`", show_default=False),
]


@app.command("ls")
def ls(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    file: FileArgument,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    settings: SetOption = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """Show the checkpoints of the pipelines of a file, and the statement that each was last started with.

    Example: `penstock checkpoint ls orders.sql`
    """
    with reporting(context, verbose=verbose, output=output) as is_verbose:
        script = read_input(
            [file], var=var, vars_file=vars_file, settings=settings, catalog=catalog, target=target
        )
        from penstock.sql.check.checkpoint_assignment import pipeline_checkpoints

        checked = _checked(script)
        with _files(script, checked, verbose=is_verbose) as (open_files, _):
            found = pipeline_checkpoints(checked, script.project.root, open_files)
        if output is OutputFormat.JSON:
            print_json({"checkpoints": [_document(pipeline, one) for pipeline, one in found]})
        elif found:
            print_lines([line for pipeline, one in found for line in _lines(pipeline, one)])
        else:
            say("there are no checkpoints")


@app.command("assign")
def assign(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    file: FileArgument,
    line: Annotated[
        int,
        typer.Option(
            "--line",
            min=1,
            envvar="PENSTOCK_CHECKPOINT_LINE",
            help="Line at which the INSERT begins. Example: `--line 12`",
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            envvar="PENSTOCK_CHECKPOINT_TO",
            help="The checkpoint that it resumes from, as `ls` names it. Example: `--to orders-2`",
            show_default=False,
        ),
    ] = None,
    new: Annotated[
        bool,
        typer.Option(
            "--new",
            envvar="PENSTOCK_CHECKPOINT_NEW",
            help="It resumes from none: it starts over. Example: `--new`",
        ),
    ] = False,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    settings: SetOption = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Assign the checkpoint that an INSERT resumes from, where a run refuses to guess. Nothing is started.

    Example: `penstock checkpoint assign orders.sql --line 12 --to orders-2`
    """
    with reporting(context, verbose=verbose) as is_verbose:
        if (to is None) != new:
            raise ConfigError(
                "the checkpoint of the INSERT is not named", hint="give --to NAME, or --new"
            )
        script = read_input(
            [file], var=var, vars_file=vars_file, settings=settings, catalog=catalog, target=target
        )
        from penstock.sql.check.checkpoint_assignment import assignment
        from penstock.sql.clock import SystemClock
        from penstock.sql.jobs.lease import hold_lease

        checked = _checked(script)
        with _files(script, checked, verbose=is_verbose) as (open_files, write):
            found = assignment(checked, line, script.project.root, open_files, to=to)
            lease = hold_lease(script.open_context().leases, found.job, SystemClock())
            try:
                found.write(open_files, write)
            finally:
                lease.release()
        begins = "starts over as" if found.is_new else "resumes from"
        print_lines([f"the INSERT at line {line} {begins} {found.job}, {found.location}"])


def _checked(script: ScriptInput) -> CheckedScript:
    (checked,) = script.check(script.open_context(offline=True))
    return checked


@contextmanager
def _files(
    script: ScriptInput, checked: CheckedScript, *, verbose: bool
) -> Iterator[tuple[OpenFiles, WriteText]]:
    """Open the folders of checkpoints; those that are URLs by Spark, which is started for them."""
    from penstock.connector.urls import is_url

    bases = {insert.base for one in checked.statements for insert in one.inserts}
    if not any(map(is_url, bases)):
        from penstock.sql.checkpoint.reader import LocalFiles, write_new

        yield (lambda location: LocalFiles(location=location)), write_new
        return
    from penstock.connector.spark.hadoop_files import write_text
    from penstock.sql.checkpoint.directory import checkpoint_files
    from penstock.sql.cli.spark import open_spark, spark_logs
    from penstock.sql.spark_process.jvm import end_jvm

    try:
        files = spark_logs(script.project, verbose=verbose)
        spark = open_spark(script.master, script.spark_conf, files)
        yield checkpoint_files(spark), lambda path, text: write_text(spark, path, text)
    finally:
        end_jvm()


def _document(pipeline: str, known: KnownCheckpoint) -> dict[str, Any]:
    return {
        "pipeline": pipeline,
        "query": known.name or known.folder,
        "table": known.table,
        "path": known.location,
        "statement": known.text,
    }


def _lines(pipeline: str, known: KnownCheckpoint) -> list[str]:
    text = known.text or "of a statement that an earlier version did not keep"
    return [
        f"{pipeline}/{known.name or known.folder}: {known.location}",
        *(f"  {line}" for line in text.splitlines()),
    ]
