"""`penstock catalog purge-history`: removes definitions of the past, with the passwords that stood in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.catalog.errors import ConfigError
from penstock.sql.cli.catalog import open_catalog
from penstock.sql.cli.options import (
    CatalogOption,
    FormatOption,
    TargetOption,
    VerboseOption,
    YesOption,
)
from penstock.sql.cli.report import OutputFormat, print_json, reporting, say

if TYPE_CHECKING:
    from penstock.catalog.store import SqlCatalog

__all__ = ["purge_history"]


def purge_history(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(
            help="A table, view or function, also one that is gone; without it, all of them. Example: `orders`",
            show_default=False,
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            envvar="PENSTOCK_OLDER_THAN",
            help="Only changes that are older. Example: `--older-than '90 d'`",
            show_default=False,
        ),
    ] = None,
    yes: YesOption = False,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """Remove recorded changes for good; who did so is recorded. Example: `penstock catalog purge-history orders`"""
    with reporting(context, verbose=verbose, output=output):
        store = open_catalog(catalog, target=target)
        age_ms = 0 if older_than is None else _age_ms(older_than)
        name = None if table is None else _name(store, table)
        if not yes:
            raise ConfigError(
                f"{store.purge_history(name, age_ms, counted_only=True)} recorded changes would be removed for good",
                hint="add --yes to do it",
            )
        removed = store.purge_history(name, age_ms)
        if output is OutputFormat.JSON:
            print_json({"removed": removed})
        else:
            say(f"removed {removed} recorded changes; what is defined now is as it was")


def _age_ms(text: str) -> int:
    from penstock.catalog.option_types import DURATION

    try:
        return DURATION.parse(text)
    except ValueError as error:
        raise ConfigError(
            f"--older-than: {text!r} is not {DURATION.name}", hint="write '90 d' or '12 h'"
        ) from error


def _name(store: SqlCatalog, text: str) -> tuple[str, ...]:
    from penstock.catalog.identifier import parse_identifier
    from penstock.catalog.names import Namespace

    found = Namespace(store).resolve(parse_identifier(text))
    return found.catalog, found.database, found.name
