"""What `penstock run` and `penstock plan` take alike, beside their files: where and how these run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from penstock.sql.cli.options import RunOptions
from penstock.sql.cli.pairs import read_pairs
from penstock.sql.cli.progress import ProgressMode
from penstock.sql.cli.report import OutputFormat
from penstock.sql.cli.script_input import read_input
from penstock.sql.error_formats import ErrorFormat

__all__ = [
    "AvailableNowOption",
    "ConfOption",
    "FromScratchOption",
    "MasterOption",
    "run_files",
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
    target: str | None,
    master: str | None,
    conf: Sequence[str] | None,
    catalog: str | None,
    available_now: bool | None,
    dry_run: bool,
    from_scratch: bool,
    output: OutputFormat,
    progress: ProgressMode | None,
    verbose: bool,
    errors: ErrorFormat = ErrorFormat.FULL,
) -> int:
    """Read files and pairs, fill in what the project says, and run; gives the exit status. Raises InputError."""
    script = read_input(
        files, var=var, vars_file=vars_file, settings=settings, catalog=catalog, target=target
    )
    options = RunOptions(
        script=script,
        spark_conf={**script.project.spark_conf, **read_pairs("--conf", conf)},
        master=master or script.project.master,
        available_now=available_now,
        dry_run=dry_run,
        from_scratch=from_scratch,
        output=output,
        progress=progress,
        verbose=verbose,
        errors=errors,
    )
    from penstock.sql.cli.script import (
        run_scripts,  # loads pyspark: only once the options are right
    )

    return run_scripts(options)
