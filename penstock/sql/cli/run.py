"""`penstock run`: what its options mean. The run itself is `script.py`'s part."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.sql.cli.catalog import CatalogOption, FormatOption
from penstock.sql.cli.options import RunOptions
from penstock.sql.cli.pairs import read_pairs, read_variables
from penstock.sql.cli.progress import ProgressMode
from penstock.sql.cli.report import OutputFormat, VerboseOption, reporting
from penstock.sql.config import find_project
from penstock.sql.run.script_file import read_script

__all__ = ["run"]


def run(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="SQL files, run in order. Example: `tables.sql jobs.sql`"
        ),
    ],
    var: Annotated[
        list[str] | None,
        typer.Option(
            "--var",
            metavar="K=V",
            envvar="PENSTOCK_VAR",
            help="A value for `{{ var('K') }}` in the files. Example: `--var topic=orders`",
        ),
    ] = None,
    vars_file: Annotated[
        Path | None,
        typer.Option(
            "--vars-file",
            metavar="F",
            envvar="PENSTOCK_VARS_FILE",
            help="A TOML or JSON file with such values; `--var` wins. Example: `--vars-file prod.toml`",
        ),
    ] = None,
    available_now: Annotated[
        bool | None,
        typer.Option(
            "--available-now/--continuous",
            envvar="PENSTOCK_AVAILABLE_NOW",
            help="Read what is there and exit, or keep running until stopped. Default: exit where every source of "
            "a statement has an end. Example: `--available-now`",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            envvar="PENSTOCK_DRY_RUN",
            help="Check the files and show what would run, without starting it. Example: `--dry-run`",
        ),
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="K=V",
            envvar="PENSTOCK_SET",
            help="As SET 'K' = 'V' before the first file. Example: `--set pipeline.name=orders`",
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            envvar="PENSTOCK_MASTER",
            help="Where Spark runs; default `local[*,4]`. Example: `--master spark://host:7077`",
            show_default=False,
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf",
            metavar="K=V",
            envvar="PENSTOCK_CONF",
            help="A setting of Spark. Example: `--conf spark.driver.memory=4g`",
        ),
    ] = None,
    catalog: CatalogOption = None,
    output: FormatOption = OutputFormat.TABLE,
    progress: Annotated[
        ProgressMode | None,
        typer.Option(
            "--progress",
            envvar="PENSTOCK_PROGRESS",
            help="How progress is shown on stderr; default live on a terminal, else log. Example: `--progress log`",
            show_default=False,
        ),
    ] = None,
    verbose: VerboseOption = False,
) -> None:
    """Run SQL files: all of them are checked first, then their statements run in order.

    Every INSERT is a streaming query with a checkpoint of its own, and goes on from there when the file runs again.
    Ctrl-C once lets the batch in flight finish and stops; twice stops at once.

    Example: `penstock run examples/quickstart.sql --var bootstrap=127.0.0.1:9092`
    """
    with reporting(context, verbose=verbose, output=output) as is_verbose:
        project = find_project(Path.cwd())
        options = RunOptions(
            variables={
                **project.variables,
                **read_variables(vars_file),
                **read_pairs("--var", var),
            },
            settings={**project.settings, **read_pairs("--set", settings)},
            spark_conf={**project.spark_conf, **read_pairs("--conf", conf)},
            master=master or project.master,
            catalog_url=catalog or project.default_catalog_url,
            available_now=available_now,
            dry_run=dry_run,
            output=output,
            progress=progress,
            verbose=is_verbose,
            files=tuple(read_script(path) for path in files),
        )
        from penstock.sql.cli.script import (
            run_scripts,  # loads pyspark: only once the options are right
        )

        status = run_scripts(options, project)
    raise typer.Exit(status)
