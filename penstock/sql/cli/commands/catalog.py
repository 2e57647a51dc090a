"""`penstock catalog`: what the catalog holds, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.catalog.options.reference_rules import add_rules
from penstock.sql.cli.options import CatalogOption, FormatOption, TargetOption, VerboseOption
from penstock.sql.cli.output.report import OutputFormat, print_json, reporting, say
from penstock.sql.jobs.progress import short_name
from penstock.sql.script.project import Project, find_project

if TYPE_CHECKING:
    from penstock.catalog.model.table import Table, View
    from penstock.catalog.store.sql_catalog import SqlCatalog

__all__ = ["app", "open_catalog"]

app = typer.Typer(
    name="catalog", help="Look at the tables and views that are defined.", no_args_is_help=True
)


def open_catalog(
    url: str | None, project: Project | None = None, *, target: str | None = None
) -> SqlCatalog:
    """Open the catalog that a URL, or else the project (None: the one around the working directory), names.

    `target` is of the project around the working directory. Raises ConfigError for one that there is not.
    """
    from penstock.catalog.store.sql_catalog import SqlCatalog

    project = project or find_project(Path.cwd(), target=target)
    add_rules(project.reference_rules)
    return SqlCatalog(
        url or project.default_catalog_url,
        secret_key_file=project.secret_key_file,
        lease_url=project.lease_url if url in (None, project.default_catalog_url) else None,
    )


@app.command("ls")
def ls(
    context: typer.Context,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """List tables and views. Example: `penstock catalog ls --format json`"""
    with reporting(context, verbose=verbose, output=output):
        store = open_catalog(catalog, target=target)
        found = sorted((*store.tables(), *store.views()), key=str)
        objects = [store.get(identifier) for identifier in found]
        if output is OutputFormat.JSON:
            print_json({"objects": [_row(item) for item in objects]})
        elif objects:
            _print_listing([_row(item) | {"name": short_name(item.identifier)} for item in objects])
        else:
            say("the catalog is empty; CREATE TABLE in a file, then `penstock run FILE`")


@app.command("show")
def show(
    context: typer.Context,
    table: Annotated[
        str, typer.Argument(help="A table or view. Example: `orders` or `sales.orders`")
    ],
    catalog: CatalogOption = None,
    target: TargetOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """Show the definition of a table or view, secrets left out. Example: `penstock catalog show orders`"""
    from penstock.sql.ddl.show_create import show_create

    with reporting(context, verbose=verbose, output=output):
        found = _found(table, catalog, target)
        definition = show_create(found, redacted=True)
        if output is OutputFormat.JSON:
            print_json({**_row(found), "definition": definition})
        else:
            typer.echo(definition)


def _found(text: str, url: str | None, target: str | None) -> Table | View:
    """Resolve a name, in catalogs of other kinds too. Raises UnknownObjectError."""
    from penstock.catalog.model.identifier import parse_identifier
    from penstock.sql.execution.context import open_names

    project = find_project(Path.cwd(), target=target)
    names = open_names(open_catalog(url, project), project.root)
    return names.lookup(names.resolve(parse_identifier(text)))


def _row(item: Table | View) -> dict[str, str | None]:
    from penstock.catalog.model.table import Table

    table = item if isinstance(item, Table) else None
    return {
        "name": str(item.identifier),
        "kind": "VIEW" if table is None else "TABLE",
        "connector": None if table is None else table.connector,
        "comment": item.comment,
    }


def _print_listing(rows: list[dict[str, str | None]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    listing = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "kind", "connector", "comment"):
        listing.add_column(column, overflow="fold")
    for row in rows:
        listing.add_row(*(Text(value or "") for value in row.values()))
    Console(soft_wrap=True).print(listing)
