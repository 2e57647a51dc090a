"""`penstock secret`: values that tables refer to as `${secret:name}`, set without a trace in files and histories."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.sql.cli.commands.catalog import open_catalog
from penstock.sql.cli.options import (
    CatalogOption,
    FormatOption,
    TargetOption,
    VerboseOption,
    YesOption,
)
from penstock.sql.cli.output.report import OutputFormat, print_json, print_lines, reporting, say

if TYPE_CHECKING:
    from penstock.catalog.secrets.store import SecretInfo
    from penstock.catalog.store.sql_catalog import SqlCatalog


app = typer.Typer(
    name="secret",
    help="Keep passwords, encrypted, that tables refer to as `${secret:name}`.",
    no_args_is_help=True,
)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the secret. Example: `kafka_password`")
]


@app.command("set")
def set_secret(
    context: typer.Context,
    name: NameArgument,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Create a secret or change it. The value is asked for, or read from stdin where that is no terminal.

    Example: `pass show kafka | penstock secret set kafka_password`
    """
    with reporting(context, verbose=verbose):
        store = open_catalog(catalog, target=target).secrets
        value = _value(name)
        if any(info.name == name for info in store.listed()):
            store.alter(name, value)
            say(
                f"changed the secret {name}; running pipelines keep the old value until they are started again"
            )
        else:
            store.create(name, value)
            say(f"created the secret {name}: write '${{secret:{name}}}' in the options of tables")


@app.command("ls")
def ls(
    context: typer.Context,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """List the names of secrets, and when they were created and changed. Example: `penstock secret ls`"""
    with reporting(context, verbose=verbose, output=output):
        found = open_catalog(catalog, target=target).secrets.listed()
        if output is OutputFormat.JSON:
            print_json({"secrets": [_row(info) for info in found]})
        elif found:
            width = max(len(info.name) for info in found)
            print_lines([_line(info, width) for info in found])
        else:
            say("there are no secrets; `penstock secret set NAME` makes one")


@app.command("rm")
def rm(
    context: typer.Context,
    name: NameArgument,
    yes: YesOption = False,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Remove a secret. Tables that refer to it cannot be used until there is one again.

    Example: `penstock secret rm kafka_password --yes`
    """
    from penstock.catalog.secrets.store import OverlaySecrets

    with reporting(context, verbose=verbose):
        opened = open_catalog(catalog, target=target)
        users = _users(opened, name)
        if users:
            say(f"{', '.join(users)} refer{'s' if len(users) == 1 else ''} to the secret {name}")
        if not yes:
            OverlaySecrets(lambda: opened.secrets).drop(name)  # says where it is not there
            say(f"would remove the secret {name}; --yes does it")
            return
        opened.secrets.drop(name)
        say(f"removed the secret {name}")


@app.command("rotate")
def rotate(
    context: typer.Context,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Encrypt all secrets with a new key, which becomes the first line of the key file.

    The old keys stay behind it, for processes that run. With PENSTOCK_SECRET_KEY put a new key in front of the old
    one yourself, `NEW,OLD`: then all secrets are encrypted with the new one. Example: `penstock secret rotate`
    """
    with reporting(context, verbose=verbose):
        done = open_catalog(catalog, target=target).secrets.rotate()
        made = "a new key" if done.new_key else "the first key of the variable"
        say(f"{done.secrets} secrets are encrypted with {made} now ({done.key_id})")


@app.command("key")
def key(context: typer.Context, verbose: VerboseOption = False) -> None:
    """Print a new key, for PENSTOCK_SECRET_KEY or a key file.

    Example: `(umask 077; penstock secret key > secret.key)`
    """
    from penstock.catalog.secrets.crypto import new_key

    with reporting(context, verbose=verbose):
        print_lines([new_key()])


def _value(name: str) -> str:
    """Prompt for a value, or read it from stdin, without the newline at its end."""
    from penstock.catalog.masking import keep_secret

    if sys.stdin.isatty():
        value = str(
            typer.prompt(f"value of {name}", hide_input=True, confirmation_prompt=True, err=True)
        )
    else:
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    keep_secret(value)
    return value


def _users(catalog: SqlCatalog, name: str) -> list[str]:
    """Name the tables that refer to a secret."""
    from penstock.catalog.model.table import Table
    from penstock.catalog.options.references import SecretReference, holds_reference, references_in

    wanted = SecretReference(name=name)
    found = []
    for identifier in catalog.tables():
        table = catalog.get(identifier)
        texts = (
            [text for _, text in table.options if holds_reference(text)]
            if isinstance(table, Table)
            else []
        )
        if any(wanted in references_in(text) for text in texts):
            found.append(str(identifier))
    return found


def _row(info: SecretInfo) -> dict[str, str]:
    return {
        "name": info.name,
        "created": _instant(info.created_ms),
        "changed": _instant(info.changed_ms),
        "key_id": info.key_id,
    }


def _line(info: SecretInfo, width: int) -> str:
    return f"{info.name:<{width}}  created {_instant(info.created_ms)}  changed {_instant(info.changed_ms)}"


def _instant(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC).isoformat(timespec="seconds")
