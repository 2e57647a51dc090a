"""`penstock format`: SQL files laid out alike, comments kept, meaning unchanged."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from penstock.sql.cli.commands.script_input import read_scripts
from penstock.sql.cli.options import ErrorFormatOption, FilesArgument, VerboseOption
from penstock.sql.cli.output.report import print_lines, reporting, say
from penstock.sql.errors.formats import ErrorFormat
from penstock.sql.script.files import ScriptFile, write_script

__all__ = ["format_files"]

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
