"""`penstock catalog ls`, `show`, `log`, `purge-history` and `upgrade`: the catalog and its history, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, assert_never

import typer

from penstock.catalog.errors import ConfigError
from penstock.catalog.model.identifier import short_name
from penstock.catalog.options.reference_rules import add_rules
from penstock.sql.cli.options import (
    CatalogOption,
    FormatOption,
    TargetOption,
    VerboseOption,
    YesOption,
)
from penstock.sql.cli.output.report import OutputFormat, print_json, print_lines, reporting, say
from penstock.sql.cli.output.text import terminal_text
from penstock.sql.script.project import Project, find_project

if TYPE_CHECKING:
    from penstock.catalog.definitions.contract import Change, Definition, Unreadable
    from penstock.catalog.definitions.leases import Claim
    from penstock.catalog.model.table import Table, View
    from penstock.catalog.store.sql_catalog import SqlCatalog


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
        listing.add_row(*(Text(terminal_text(value or "")) for value in row.values()))
    Console(soft_wrap=True).print(listing)


MOST = 20


def log(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(
            help="A table, view or function, also one that was dropped; without it, all changes. Example: `orders`",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            envvar="PENSTOCK_LIMIT",
            min=1,
            help="Most changes to show. Example: `--limit 5`",
        ),
    ] = MOST,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """Show who changed a definition, when and how, the newest first. Example: `penstock catalog log orders`"""
    with reporting(context, verbose=verbose, output=output):
        changes = _changes(open_catalog(catalog, target=target), table, limit)
        if output is OutputFormat.JSON:
            print_json({"changes": [_document(change) for change in changes]})
        elif changes:
            print_lines([line for change in changes for line in (*_lines(change), "")][:-1])
        else:
            say("no change is recorded yet; what an older Penstock made has no history")


def _changes(store: SqlCatalog, table: str | None, limit: int) -> list[Change]:
    """Read the history. Raises UnknownObjectError for a name that neither is nor was there."""
    from penstock.catalog.definitions.resolver import Namespace
    from penstock.catalog.model.identifier import parse_identifier

    if table is None:
        return store.history(limit=limit)
    names = Namespace(store)
    identifier = names.resolve(parse_identifier(table))
    found = store.history(identifier, limit=limit)
    if not found:
        names.lookup(identifier)
    return found


def _lines(change: Change) -> Iterator[str]:
    name = f"{change.kind} {change.title}"
    yield f"{name}, version {change.version}: {change}"
    before, after = (_statement(value) for value in (change.before, change.after))
    changed = unified_diff(
        (before or "").splitlines(),
        (after or "").splitlines(),
        fromfile="nothing" if before is None else "before",
        tofile="nothing" if after is None else "after",
        lineterm="",
        n=2,
    )
    lines = [f"  {line}" for line in changed]
    yield from lines or ["  only what is not shown here was changed, such as a password"]


def _document(change: Change) -> dict[str, Any]:
    renamed = change.renamed_to
    return {
        "name": list(change.name),
        "kind": change.kind.value,
        "action": change.action.value,
        "version": change.version,
        "at_ms": change.at_ms,
        "by": change.author.name,
        "process": change.author.process,
        "renamed_to": None if renamed is None else list(renamed),
        "before": _statement(change.before),
        "after": _statement(change.after),
    }


def _statement(value: Definition | Unreadable | None) -> str | None:
    """The statement that makes a definition, secrets left out."""
    from penstock.catalog.definitions.contract import Unreadable
    from penstock.catalog.model.function import Function
    from penstock.catalog.model.namespaces import CatalogDescriptor, DatabaseDescriptor
    from penstock.catalog.model.table import Table, View
    from penstock.sql.ddl.show_create import (
        show_create,
        show_create_catalog,
        show_create_database,
        show_create_function,
    )

    match value:
        case None:
            return None
        case Table() | View():
            return show_create(value, redacted=True)
        case CatalogDescriptor():
            return show_create_catalog(value, redacted=True)
        case DatabaseDescriptor():
            return show_create_database(value, redacted=True)
        case Function():
            return show_create_function(value)
        case Unreadable(reason=reason):
            return f"-- cannot be read by this Penstock: {reason}"
    assert_never(value)


def purge_history(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(
            help="A table, view or function, also one that was dropped; without it, all of them. Example: `orders`",
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
    """Remove recorded changes permanently; the removal itself is recorded. Example: `penstock
    catalog purge-history orders`
    """
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
    from penstock.catalog.options.option import DURATION

    try:
        return DURATION.parse(text)
    except ValueError as error:
        raise ConfigError(
            f"--older-than: {text!r} is not {DURATION.name}", hint="write '90 d' or '12 h'"
        ) from error


def _name(store: SqlCatalog, text: str) -> tuple[str, ...]:
    from penstock.catalog.definitions.resolver import Namespace
    from penstock.catalog.model.identifier import parse_identifier

    found = Namespace(store).resolve(parse_identifier(text))
    return found.catalog, found.database, found.name


def upgrade(
    context: typer.Context,
    yes: YesOption = False,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """Bring the catalog's store up to date, which on a server nothing else does. Example: `penstock catalog upgrade`"""
    from penstock.catalog.migrations import HEAD, MIN_READER

    with reporting(context, verbose=verbose, output=output):
        store = open_catalog(catalog, target=target)
        before = store.version()
        claims = store.leases.claims()
        outdated = before < HEAD
        if outdated:
            say(
                f"the catalog {store.location} is of version {before}; this Penstock makes it {HEAD}"
            )
            for line in _consequences(claims, goes_on=before >= MIN_READER):
                say(line)
            if not yes:
                raise ConfigError("nothing was upgraded", hint="add --yes to do it")
            store.upgrade()
        after = store.version()
        if output is OutputFormat.JSON:
            pipelines = [claim.lease.pipeline for claim in claims]
            print_json({"before": before, "after": after, "running": pipelines})
        else:
            say(
                f"the catalog {store.location} has version {after}, which is the newest: nothing to upgrade"
                if not outdated
                else f"upgraded the catalog to version {after}"
            )


def _consequences(claims: list[Claim], *, goes_on: bool) -> list[str]:
    """Name the running pipelines, and what the upgrade means for them."""
    from penstock.catalog.migrations import MIN_READER

    lines = [
        f"  {claim.lease.pipeline}, process {claim.lease.owner.pid} on host {claim.lease.owner.host}"
        for claim in claims
    ]
    if not lines:
        lines = ["no pipeline runs"]
    elif goes_on:
        lines.insert(0, "these pipelines run, and keep running:")
    else:
        lines.insert(
            0, "these pipelines run; those of an older Penstock would stop within a minute:"
        )
    return [
        *lines,
        f"from then on it needs a Penstock whose catalogs have version {MIN_READER} and later",
    ]
