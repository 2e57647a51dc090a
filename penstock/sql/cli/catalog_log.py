"""`penstock catalog log`: who changed what in the catalog, and when, with the definitions before and after."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from typing import TYPE_CHECKING, Annotated, Any, assert_never

import typer

from penstock.sql.cli.catalog import open_catalog
from penstock.sql.cli.options import (
    CatalogOption,
    FormatOption,
    TargetOption,
    VerboseOption,
)
from penstock.sql.cli.report import OutputFormat, print_json, print_lines, reporting, say

if TYPE_CHECKING:
    from penstock.catalog.history import Change, Definition, Unreadable
    from penstock.catalog.store import SqlCatalog

__all__ = ["log"]

MOST = 20


def log(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(
            help="A table, view or function, also one that is gone; without it, all changes. Example: `orders`",
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
    from penstock.catalog.identifier import parse_identifier
    from penstock.catalog.names import Namespace

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
    from penstock.catalog.descriptor import CatalogDescriptor, DatabaseDescriptor
    from penstock.catalog.function import Function
    from penstock.catalog.history import Unreadable
    from penstock.catalog.table import Table, View
    from penstock.sql.show import (
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
