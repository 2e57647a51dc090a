"""`penstock catalog apply`: the definitions of files become the catalog's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.sql.cli.commands.script_input import read_input
from penstock.sql.cli.options import (
    CatalogOption,
    ErrorFormatOption,
    FilesArgument,
    SetOption,
    TargetOption,
    VarOption,
    VarsFileOption,
    VerboseOption,
)
from penstock.sql.cli.output.report import print_lines, reporting, say
from penstock.sql.errors.formats import ErrorFormat

if TYPE_CHECKING:
    from penstock.catalog.definitions.resolver import Namespace
    from penstock.sql.statements.statement import Statement

__all__ = ["apply"]


def apply(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    files: FilesArgument,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            envvar="PENSTOCK_DRY_RUN",
            help="Show what would change, and change nothing.",
        ),
    ] = False,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    settings: SetOption = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    errors: ErrorFormatOption = ErrorFormat.FULL,
    verbose: VerboseOption = False,
) -> None:
    """Make the catalog's tables and views those of SQL files: new ones are added, others changed, none dropped.

    Nothing is run, and no data is touched; `penstock plan` shows whether checkpoints fit the new definitions.

    Example: `penstock catalog apply sql/orders.sql --dry-run`
    """
    with reporting(context, verbose=verbose, errors=errors):
        script = read_input(
            files, var=var, vars_file=vars_file, settings=settings, catalog=catalog, target=target
        )
        opened = script.open_context()
        namespace = opened.namespace
        namespace.redefines = True
        checked = script.check(opened)
        if dry_run:
            namespace = namespace.overlay()
        lines = [
            line
            for file in checked
            for one in file.statements
            if (line := _applied(one.statement, namespace)) is not None
        ]
        print_lines(lines)
        if not lines:
            say("nothing differs: the catalog has these definitions")
        elif dry_run:
            say("nothing was changed: this is a dry run")


def _applied(statement: Statement, namespace: Namespace) -> str | None:
    """Run a definition, and describe its change; None without a change, or for a temporary object."""
    from penstock.sql.ddl.apply_ddl import apply_ddl
    from penstock.sql.ddl.definition_diff import diff_definitions
    from penstock.sql.statements.statement import (
        CreateCatalog,
        CreateDatabase,
        CreateTable,
        CreateView,
        Use,
    )

    match statement:
        case CreateCatalog() | CreateDatabase() | Use():
            apply_ddl(statement, namespace)
            return None
        case CreateTable(table=obj) | CreateView(view=obj) if not obj.temporary:
            before = namespace.same_named(obj)
            apply_ddl(statement, namespace)
        case _:
            return None
    if before is None:
        return f"{obj.identifier}: added"
    drift = diff_definitions(before, obj)
    return f"{obj.identifier}: changed: {drift}" if drift else None
