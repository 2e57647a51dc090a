"""`penstock render` and `penstock format`: the text of SQL files.

Rendered templates, with the file and line that each line came from; files laid out alike, comments kept.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.sql.cli.commands.script_input import ScriptInput, read_input, read_scripts
from penstock.sql.cli.options import (
    ErrorFormatOption,
    FilesArgument,
    TargetOption,
    VarOption,
    VarsFileOption,
    VerboseOption,
)
from penstock.sql.cli.output.report import print_lines, reporting, say
from penstock.sql.errors.render import ErrorFormat
from penstock.sql.script.files import ScriptFile, write_script


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
    line_origins = [f"{origin.file}:{origin.line}" for origin in made.line_map or numbered]
    width = max(map(len, line_origins[: len(lines)]), default=0)
    bar = "│" if (sys.stdout.encoding or "").lower().startswith("utf") else "|"
    return [
        f"{line_origin:<{width}} {bar} {line}".rstrip()
        for line_origin, line in zip(line_origins, lines, strict=False)
    ]


EXIT_CHANGES = 1


def format_files(
    context: typer.Context,
    files: FilesArgument,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            envvar="PENSTOCK_CHECK",
            help="Write nothing; name the files that would change. Example: `--check`",
        ),
    ] = False,
    diff: Annotated[
        bool,
        typer.Option(
            "--diff",
            envvar="PENSTOCK_DIFF",
            help="Write nothing; show what would change. Example: `--diff`",
        ),
    ] = False,
    errors: ErrorFormatOption = ErrorFormat.FULL,
    verbose: VerboseOption = False,
) -> None:
    """Lay out SQL files: clauses and long lists on lines of their own, keywords in capitals. Comments stay.

    Line breaks of the author stay too. A statement with template tags inside stays as it is. With --check or --diff
    the exit status is 1 when a file would change. Standard input is written to standard output.

    Example: `penstock format jobs.sql --check`
    """
    with reporting(context, verbose=verbose, errors=errors):
        from penstock.sql.formatter import format_sql

        laid_out = [
            (file, format_sql(file.text, file.name)) for file in read_scripts(files, Path.cwd())
        ]
        changed = [(file, text) for file, text in laid_out if text != file.text]
        for file, text in changed if diff else ():
            print_lines(_difference(file, text))
        if check or diff:
            say(*(f"{file.name} would change" for file, _ in changed))
            raise typer.Exit(EXIT_CHANGES if changed else 0)
        for file, text in laid_out:
            if file.path is None:
                print_lines(text.splitlines())
            elif text != file.text:
                write_script(file, text)
                say(f"{file.name} was reformatted")


def _difference(file: ScriptFile, text: str) -> list[str]:
    lines = difflib.unified_diff(
        file.text.splitlines(), text.splitlines(), file.name, file.name, lineterm=""
    )
    return list(lines)
