"""`penstock render`: the rendered templates, and the file and line that each line came from."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from penstock.sql.cli.commands.script_input import ScriptInput, read_input
from penstock.sql.cli.options import (
    ErrorFormatOption,
    FilesArgument,
    TargetOption,
    VarOption,
    VarsFileOption,
    VerboseOption,
)
from penstock.sql.cli.output.report import print_lines, reporting
from penstock.sql.errors.formats import ErrorFormat
from penstock.sql.script.files import ScriptFile

__all__ = ["render"]


def render(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    files: FilesArgument,
    origins: Annotated[
        bool,
        typer.Option(
            "--origins",
            envvar="PENSTOCK_ORIGINS",
            help="Put the file and line that made it in front of each line. Example: `--origins`",
        ),
    ] = False,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    target: TargetOption = None,
    errors: ErrorFormatOption = ErrorFormat.FULL,
    verbose: VerboseOption = False,
) -> None:
    """Print the SQL that templates come to; secrets as asterisks. Nothing is checked or run.

    Example: `penstock render jobs.sql --target prod --origins`
    """
    with reporting(context, verbose=verbose, errors=errors):
        script = read_input(files, var=var, vars_file=vars_file, target=target)
        for file in script.files:
            print_lines(_lines(file, script, origins=origins))


def _lines(file: ScriptFile, script: ScriptInput, *, origins: bool) -> list[str]:
    from penstock.catalog.masking import without_secrets
    from penstock.sql.script.splitter import mask_stated_secrets
    from penstock.sql.script.templates import render_template
    from penstock.sql.syntax.positions import LineOrigin

    project = script.project
    made = render_template(
        file.text, file.name, script.variables, project.environment, project.folders
    )
    mask_stated_secrets(made.text)
    # masked as a whole: a secret may have several lines
    lines = without_secrets(made.text, same_length=True).removesuffix("\n").split("\n")
    if not origins:
        return lines
    numbered = [LineOrigin(file=file.name, line=i + 1) for i in range(len(lines))]
    places = [f"{origin.file}:{origin.line}" for origin in made.line_map or numbered]
    width = max(map(len, places[: len(lines)]), default=0)
    bar = "│" if (sys.stdout.encoding or "").lower().startswith("utf") else "|"
    return [
        f"{place:<{width}} {bar} {line}".rstrip()
        for place, line in zip(places, lines, strict=False)
    ]
