"""`penstock explain`: how the queries of files would run, as in EXPLAIN. Starts nothing and makes no request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from penstock.sql.cli.commands.script_input import read_input
from penstock.sql.cli.options import (
    CatalogOption,
    ErrorFormatOption,
    FilesArgument,
    FormatOption,
    SetOption,
    TargetOption,
    VarOption,
    VarsFileOption,
    VerboseOption,
)
from penstock.sql.cli.output.report import (
    OutputFormat,
    print_json,
    print_lines,
    reporting,
    say,
    say_warnings,
)
from penstock.sql.errors.formats import ErrorFormat

if TYPE_CHECKING:
    from penstock.sql.runner.replay import Replayed
    from penstock.sql.statements.statement import Explain

__all__ = ["explain"]


def explain(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    files: FilesArgument,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    settings: SetOption = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    output: FormatOption = OutputFormat.TABLE,
    errors: ErrorFormatOption = ErrorFormat.FULL,
    verbose: VerboseOption = False,
) -> None:
    """Show how each INSERT, query and statement set of SQL files would run. Starts no Spark and reads only the
    catalog.

    `penstock plan` shows what a checkpoint holds, and where a run would resume.

    Example: `penstock explain examples/quickstart.sql`
    """
    from penstock.sql.check.explain import explain_lines

    with reporting(context, verbose=verbose, output=output, errors=errors):
        script = read_input(
            files, var=var, vars_file=vars_file, settings=settings, catalog=catalog, target=target
        )
        from penstock.sql.runner.replay import replay

        opened = script.open_context()
        checked = script.check(opened)
        say_warnings([one for file in checked for one in file.warnings], errors)
        statements = replay(checked, opened)
        found = [(one, asked) for one in statements if (asked := _explained(one)) is not None]
        if output is OutputFormat.JSON:
            print_json({"plans": [_document(one, asked) for one, asked in found]})
            return
        if not found:
            say("nothing to explain: the files have no INSERT and no query")
        for number, (one, asked) in enumerate(found):
            lines = explain_lines(asked, one.planner)
            print_lines(["", *lines] if number else lines)


def _explained(one: Replayed) -> Explain | None:
    from penstock.sql.statements.dml import InsertInto
    from penstock.sql.statements.statement import Explain, Select, StatementSet

    statement = one.checked.statement
    if one.checked.analysed is not None:
        statement = one.checked.analysed.statement  # of a CREATE TABLE AS, what fills it
    match statement:
        case Explain():
            return statement
        case InsertInto() | Select() | StatementSet():
            return Explain(statement=statement, span=statement.span)
    return None


def _document(one: Replayed, asked: Explain) -> dict[str, object]:
    from penstock.sql.check.explain import explained

    span = one.checked.statement.span
    return {"file": span.file, "line": span.line, **explained(asked, one.planner).document}
