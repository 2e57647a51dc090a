"""`penstock serve users`: who may log in to `penstock serve`, kept in a password file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.sql.cli.options import VerboseOption
from penstock.sql.cli.report import print_lines, reporting, say

__all__ = ["app"]

app = typer.Typer(name="users", help="Who may log in: the password file.", no_args_is_help=True)

FileOption = Annotated[
    Path,
    typer.Option(
        "--file",
        metavar="FILE",
        envvar="PENSTOCK_USERS",
        help="The password file. Example: `--file .penstock/users`",
    ),
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The user. Example: `alice`")]


@app.command("add")
def add(
    context: typer.Context, name: NameArgument, file: FileOption, verbose: VerboseOption = False
) -> None:
    """Add a user, or change a password: asked for on a terminal, else the first line of stdin.

    Example: `penstock serve users add alice --file .penstock/users`
    """
    with reporting(context, verbose=verbose):
        from penstock.sql.serve.users import write_user

        is_new = write_user(file, name, _ask_password(name))
        say(
            f"user {name} {'may log in' if is_new else 'has a new password'}; a server sees it at once"
        )


@app.command("remove")
def remove(
    context: typer.Context, name: NameArgument, file: FileOption, verbose: VerboseOption = False
) -> None:
    """Take a user out; connections that are open stay.

    Example: `penstock serve users remove alice --file .penstock/users`
    """
    with reporting(context, verbose=verbose):
        from penstock.sql.serve.users import remove_user

        remove_user(file, name)
        say(f"user {name} cannot log in any more")


@app.command("ls")
def ls(context: typer.Context, file: FileOption, verbose: VerboseOption = False) -> None:
    """List the users. Example: `penstock serve users ls --file .penstock/users`"""
    with reporting(context, verbose=verbose):
        from penstock.sql.serve.users import read_users

        print_lines(sorted(read_users(file)))


def _ask_password(name: str) -> str:
    if sys.stdin.isatty():
        answer: str = typer.prompt(
            f"password of {name}", hide_input=True, confirmation_prompt=True, err=True
        )
        return answer
    return sys.stdin.readline().rstrip("\r\n")
