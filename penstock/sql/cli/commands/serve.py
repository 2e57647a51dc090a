"""`penstock serve`: its options, and `serve users`: the users that may log in, in a password file.

The server itself is started by `serve_run.py`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.sql.cli.commands.script_input import read_input
from penstock.sql.cli.options import (
    CatalogOption,
    ConfOption,
    FormatOption,
    MasterOption,
    VarOption,
    VarsFileOption,
    VerboseOption,
)
from penstock.sql.cli.output.report import OutputFormat, print_lines, reporting, say

users_app = typer.Typer(
    name="users", help="Who may log in: the password file.", no_args_is_help=True
)

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


@users_app.command("add")
def add(
    context: typer.Context, name: NameArgument, file: FileOption, verbose: VerboseOption = False
) -> None:
    """Add a user, or change a password: asked for on a terminal, else the first line of stdin.

    Example: `penstock serve users add alice --file .penstock/users`
    """
    with reporting(context, verbose=verbose):
        from penstock.sql.serve.password_file import write_user

        is_new = write_user(file, name, _ask_password(name))
        say(
            f"user {name} {'may log in' if is_new else 'has a new password'}; a server sees it at once"
        )


@users_app.command("remove")
def remove(
    context: typer.Context, name: NameArgument, file: FileOption, verbose: VerboseOption = False
) -> None:
    """Remove a user; open connections stay.

    Example: `penstock serve users remove alice --file .penstock/users`
    """
    with reporting(context, verbose=verbose):
        from penstock.sql.serve.password_file import remove_user

        remove_user(file, name)
        say(f"user {name} cannot log in any more")


@users_app.command("ls")
def ls(context: typer.Context, file: FileOption, verbose: VerboseOption = False) -> None:
    """List the users. Example: `penstock serve users ls --file .penstock/users`"""
    with reporting(context, verbose=verbose):
        from penstock.sql.serve.password_file import read_users

        print_lines(sorted(read_users(file)))


def _ask_password(name: str) -> str:
    if sys.stdin.isatty():
        answer: str = typer.prompt(
            f"password of {name}", hide_input=True, confirmation_prompt=True, err=True
        )
        return answer
    return sys.stdin.readline().rstrip("\r\n")


KEYSTORE_VARIABLE = "PENSTOCK_TLS_KEYSTORE_PASSWORD"
"""The environment variable of a keystore's password; an option would show it to all users of the machine."""

app = typer.Typer(name="serve", invoke_without_command=True)

app.add_typer(users_app)


@app.callback()
def serve(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            envvar="PENSTOCK_HOST",
            help="The address to listen on. One that others reach needs a log-in and TLS. Example: `--host 10.1.2.3`",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port",
            min=0,
            max=65535,
            envvar="PENSTOCK_PORT",
            help="The port; 0 is any that is free. Example: `--port 10001`",
        ),
    ] = 10000,
    sql: Annotated[
        list[Path] | None,
        typer.Option(
            "--sql",
            metavar="FILE",
            envvar="PENSTOCK_SQL",
            help="A SQL file to run first; its streaming INSERTs keep running. Example: `--sql views.sql`",
        ),
    ] = None,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--users",
            metavar="FILE",
            envvar="PENSTOCK_USERS",
            help="Users log in by this password file, see `penstock serve users`. Example: `--users .penstock/users`",
            show_default=False,
        ),
    ] = None,
    ldap: Annotated[
        str | None,
        typer.Option(
            "--ldap",
            metavar="URL",
            envvar="PENSTOCK_LDAP",
            help="Users log in by a directory. Example: `--ldap ldaps://directory.example.com`",
            show_default=False,
        ),
    ] = None,
    ldap_user_pattern: Annotated[
        str | None,
        typer.Option(
            "--ldap-user-pattern",
            envvar="PENSTOCK_LDAP_USER_PATTERN",
            help="The name that is bound, %s is the user. Example: `--ldap-user-pattern uid=%s,ou=people,dc=acme`",
            show_default=False,
        ),
    ] = None,
    ldap_domain: Annotated[
        str | None,
        typer.Option(
            "--ldap-domain",
            envvar="PENSTOCK_LDAP_DOMAIN",
            help="Active Directory's domain: NAME@DOMAIN is bound. Example: `--ldap-domain acme.example`",
            show_default=False,
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None,
        typer.Option(
            "--tls-certificate",
            metavar="FILE",
            envvar="PENSTOCK_TLS_CERTIFICATE",
            help="Speak TLS with this certificate (PEM). Example: `--tls-certificate server.pem`",
            show_default=False,
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(
            "--tls-key",
            metavar="FILE",
            envvar="PENSTOCK_TLS_KEY",
            help="The certificate's private key (PEM). Example: `--tls-key server.key`",
            show_default=False,
        ),
    ] = None,
    tls_keystore: Annotated[
        Path | None,
        typer.Option(
            "--tls-keystore",
            metavar="FILE",
            envvar="PENSTOCK_TLS_KEYSTORE",
            help="A Java keystore instead (JKS, PKCS12), its password in PENSTOCK_TLS_KEYSTORE_PASSWORD. "
            "Example: `--tls-keystore keys.p12`",
            show_default=False,
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            envvar="PENSTOCK_INSECURE",
            help="Listen on any address without a log-in or TLS. Example: `--host 0.0.0.0 --insecure`",
        ),
    ] = False,
    operations: Annotated[
        bool,
        typer.Option(
            "--operations",
            envvar="PENSTOCK_OPERATIONS",
            help="Let users read options, functions, pipelines and checkpoints in `information_schema`. "
            "Example: `--operations`",
        ),
    ] = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    catalog: CatalogOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """Serve the catalog over JDBC and ODBC until Ctrl-C: tables and views, with their comments, for reading.

    Example: `penstock serve --users .penstock/users --sql pipeline.sql`
    """
    if context.invoked_subcommand is not None:
        return
    from penstock.sql.serve.settings import ServeSettings, check_exposure, make_login, make_tls

    with reporting(context, verbose=verbose, output=output) as is_verbose:
        settings = ServeSettings(
            host=host,
            port=port,
            login=make_login(
                users=password_file, ldap=ldap, user_pattern=ldap_user_pattern, domain=ldap_domain
            ),
            tls=make_tls(
                keystore=tls_keystore,
                keystore_password=os.environ.get(KEYSTORE_VARIABLE),
                certificate=tls_certificate,
                key=tls_key,
            ),
        )
        if not insecure:
            check_exposure(settings)
        script = read_input(
            sql or [], var=var, vars_file=vars_file, master=master, conf=conf, catalog=catalog
        )
        from penstock.sql.cli.commands.serve_run import (
            serve_catalog,  # loads pyspark: only once all is right
        )

        status = serve_catalog(
            settings,
            script,
            sql or [],
            operations=operations,
            output=output,
            verbose=is_verbose,
        )
    raise typer.Exit(status)
