"""`penstock catalog apply` and `penstock catalog lineage`: the definitions of files, and where columns come from.

No Spark, no rows.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
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
from penstock.sql.cli.output.report import OutputFormat, print_json, print_lines, reporting, say
from penstock.sql.errors.render import ErrorFormat

if TYPE_CHECKING:
    from penstock.catalog.definitions.resolver import Namespace
    from penstock.catalog.model.identifier import Identifier
    from penstock.sql.lineage.graph import Direction, Graph
    from penstock.sql.statements.statement import Statement


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
    from penstock.sql.ddl.redefinition import diff_definitions
    from penstock.sql.statements.definitions import CreateCatalog, CreateDatabase
    from penstock.sql.statements.statement import CreateTable, CreateView, Use

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


class LineageFormat(StrEnum):
    """How lineage is written: a tree for people, a Mermaid flowchart, or one JSON document."""

    TREE = "tree"
    MERMAID = "mermaid"
    JSON = "json"


def lineage(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(
            help="A table or view; without it, all of them. Example: `revenue`", show_default=False
        ),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--files",
            help="A SQL file whose INSERTs count; again for more, in the order in which they would run. Default all of "
            "the project that has a penstock.toml. Example: `--files tables.sql --files jobs.sql`",
        ),
    ] = None,
    columns: Annotated[
        bool | None,
        typer.Option(
            "--columns/--no-columns",
            help="Whether columns are shown; default for one table, and in JSON. Example: `--columns`",
            show_default=False,
        ),
    ] = None,
    upstream: Annotated[
        bool,
        typer.Option("--upstream", help="Only the sources of the table. Example: `--upstream`"),
    ] = False,
    downstream: Annotated[
        bool,
        typer.Option("--downstream", help="Only what reads the table. Example: `--downstream`"),
    ] = False,
    output: Annotated[
        LineageFormat,
        typer.Option("--format", help="What stdout gets. Example: `--format mermaid`"),
    ] = LineageFormat.TREE,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Show the sources of tables and views, and what is derived from them: by their queries, and by INSERTs of files.

    Example: `penstock catalog lineage revenue --files examples/quickstart.sql`
    """
    errors = OutputFormat.JSON if output is LineageFormat.JSON else OutputFormat.TABLE
    with reporting(context, verbose=verbose, output=errors):
        from penstock.sql.lineage.build import LineageBuilder
        from penstock.sql.lineage.files import add_files, add_project

        script = read_input(
            files or [], var=var, vars_file=vars_file, catalog=catalog, target=target
        )
        project, variables = script.project, script.variables
        namespace = script.open_context(offline=True).namespace
        store = namespace.catalog
        builder = LineageBuilder()
        builder.add_objects((*store.tables(), *store.views()), namespace)
        if files:
            add_files(builder, script.files, namespace, project, variables)
        elif project.file is not None:
            add_project(builder, namespace, project, variables)
        say(*(f"note: {note}" for note in builder.notes))
        graph = builder.graph()
        start = None if table is None else _find(table, graph, namespace)
        both = upstream == downstream
        directions: list[Direction] = []
        directions += ["upstream"] if upstream or both else []
        directions += ["downstream"] if downstream or both else []
        _print(graph, start, directions, output, columns=columns)


def _find(text: str, graph: Graph, namespace: Namespace) -> Identifier:
    """Find an object by its name. Raises UnknownObjectError with the nearest."""
    from penstock.catalog.errors import UnknownObjectError, did_you_mean
    from penstock.catalog.model.identifier import parse_identifier
    from penstock.sql.lineage.graph import shown_name

    identifier = namespace.resolve(parse_identifier(text))
    if identifier not in graph.nodes:
        names = [shown_name(each) for each in graph.nodes]
        raise UnknownObjectError(
            f"there is no table or view {shown_name(identifier)} in the catalog or the files",
            hint=did_you_mean(text, names)
            or ("name the files that define it with --files" if not names else None),
        )
    return identifier


def _print(
    graph: Graph,
    start: Identifier | None,
    directions: list[Direction],
    output: LineageFormat,
    *,
    columns: bool | None,
) -> None:
    from penstock.sql.lineage.text import lineage_document, mermaid_lines, tree_lines, trees_of_all

    part = graph if start is None else graph.around(start, directions)
    match output:
        case LineageFormat.JSON:
            print_json(lineage_document(part, columns=columns is not False))
        case LineageFormat.MERMAID:
            print_lines(mermaid_lines(part, columns=columns is True))
        case LineageFormat.TREE if start is not None:
            print_lines(tree_lines(part, start, directions, columns=columns is not False))
        case LineageFormat.TREE:
            if not graph.nodes:
                say("no table or view: define some, or name files with --files")
            print_lines(trees_of_all(graph, columns=columns is True))
