"""What `penstock run` and `penstock plan` take alike: files, what fills them in, and where they run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from penstock.sql.cli.options import RunOptions
from penstock.sql.cli.pairs import read_pairs, read_variables
from penstock.sql.cli.progress import ProgressMode
from penstock.sql.cli.report import OutputFormat
from penstock.sql.config import find_project
from penstock.sql.run.script_file import read_script

__all__ = [
    "AvailableNowOption",
    "ConfOption",
    "FilesArgument",
    "FromScratchOption",
    "MasterOption",
    "SetOption",
    "VarOption",
    "VarsFileOption",
    "run_files",
]

FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...", help="SQL files, run in order. Example: `tables.sql jobs.sql`"
    ),
]
VarOption = Annotated[
    list[str] | None,
    typer.Option(
        "--var",
        metavar="K=V",
        envvar="PENSTOCK_VAR",
        help="A value for `{{ var('K') }}` in the files. Example: `--var topic=orders`",
    ),
]
VarsFileOption = Annotated[
    Path | None,
    typer.Option(
        "--vars-file",
        metavar="F",
        envvar="PENSTOCK_VARS_FILE",
        help="A TOML or JSON file with such values; `--var` wins. Example: `--vars-file prod.toml`",
    ),
]
AvailableNowOption = Annotated[
    bool | None,
    typer.Option(
        "--available-now/--continuous",
        envvar="PENSTOCK_AVAILABLE_NOW",
        help="Read what is there and exit, or keep running until stopped. Default: exit where every source of "
        "a statement has an end. Example: `--available-now`",
        show_default=False,
    ),
]
FromScratchOption = Annotated[
    bool,
    typer.Option(
        "--from-scratch",
        envvar="PENSTOCK_FROM_SCRATCH",
        help="Begin anew: checkpoints of the files' INSERTs are set aside first (renamed, never removed), and "
        "sources start by their startup mode. Rows that were written already are written again. "
        "Example: `--from-scratch`",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="K=V",
        envvar="PENSTOCK_SET",
        help="As SET 'K' = 'V' before the first file. Example: `--set pipeline.name=orders`",
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        envvar="PENSTOCK_MASTER",
        help="Where Spark runs; default `local[*,4]`. Example: `--master spark://host:7077`",
        show_default=False,
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="K=V",
        envvar="PENSTOCK_CONF",
        help="A setting of Spark. Example: `--conf spark.driver.memory=4g`",
    ),
]


def run_files(
    files: Sequence[Path],
    *,
    var: Sequence[str] | None,
    vars_file: Path | None,
    settings: Sequence[str] | None,
    master: str | None,
    conf: Sequence[str] | None,
    catalog: str | None,
    available_now: bool | None,
    dry_run: bool,
    from_scratch: bool,
    output: OutputFormat,
    progress: ProgressMode | None,
    verbose: bool,
) -> int:
    """Read files and pairs, fill in what the project says, and run; gives the exit status. Raises InputError."""
    project = find_project(Path.cwd())
    options = RunOptions(
        variables={**project.variables, **read_variables(vars_file), **read_pairs("--var", var)},
        settings={**project.settings, **read_pairs("--set", settings)},
        spark_conf={**project.spark_conf, **read_pairs("--conf", conf)},
        master=master or project.master,
        catalog_url=catalog or project.default_catalog_url,
        available_now=available_now,
        dry_run=dry_run,
        from_scratch=from_scratch,
        output=output,
        progress=progress,
        verbose=verbose,
        files=tuple(read_script(path) for path in files),
    )
    from penstock.sql.cli.script import (
        run_scripts,  # loads pyspark: only once the options are right
    )

    return run_scripts(options, project)
