"""`penstock init`: writes a project that runs at once, with no broker."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from penstock.sql.cli.output.report import print_lines, reporting


def init(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="[DIR]",
            help="Folder of the project, created if it does not exist. Example: `shop`",
        ),
    ] = Path(),
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            envvar="PENSTOCK_INIT_NAME",
            help="Name of the project and its pipeline; default the folder's. Example: `--name orders`",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a project that runs at once: settings, a pipeline, a test. Never overwrites a file.

    Example: `penstock init shop`
    """
    with reporting(context):
        from penstock.sql.project_template.files import NEXT, project_name, write_project

        written = write_project(folder, project_name(folder, name))
        lines = [f"wrote {path}" for path in written]
        enter = [] if folder.resolve() == Path.cwd() else [f"  cd {quote(str(folder))}"]
        print_lines([*lines, "", "next:", *enter, *(f"  {command}" for command in NEXT)])
