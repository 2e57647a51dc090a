"""`penstock shell`: statements typed or given, run one at a time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.sql.cli.commands.script_input import ScriptInput, read_input
from penstock.sql.cli.options import (
    CatalogOption,
    ConfOption,
    ErrorFormatOption,
    MasterOption,
    SetOption,
    TargetOption,
    VarOption,
    VarsFileOption,
    VerboseOption,
)
from penstock.sql.cli.output.report import reporting, say
from penstock.sql.errors.exit_status import ExitStatus
from penstock.sql.errors.render import ErrorFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from penstock.sql.runner.summary import StatementResult
    from penstock.sql.shell.completion import Names
    from penstock.sql.shell.session import ShellSession


def shell(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    execute: Annotated[
        list[str] | None,
        typer.Option(
            "--execute",
            "-e",
            metavar="SQL",
            envvar="PENSTOCK_EXECUTE",
            help="Run statements and leave. Example: `-e 'SHOW TABLES'`",
        ),
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(
            "--init",
            "-i",
            metavar="FILE",
            envvar="PENSTOCK_INIT",
            help="Run a file first; an error in it ends the shell. Example: `-i init.sql`",
        ),
    ] = None,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    settings: SetOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    errors: ErrorFormatOption = ErrorFormat.FULL,
    verbose: VerboseOption = False,
) -> None:
    """Type Flink SQL and see its results: history, completion by Tab, HELP. Standard input may be a file, too.

    Example: `penstock shell -e "SELECT COUNT(*) FROM orders /*+ OPTIONS('scan.bounded.mode' = 'latest-offset') */"`
    """
    with reporting(context, verbose=verbose, errors=errors) as is_verbose:
        script = read_input(
            [] if init is None else [init],
            var=var,
            vars_file=vars_file,
            settings=settings,
            master=master,
            conf=conf,
            catalog=catalog,
            target=target,
        )
        session = _open(script, verbose=is_verbose)
        try:
            texts = [file.text for file in script.files] + list(execute or ())
            if not execute and not sys.stdin.isatty():
                texts.append(sys.stdin.read())
            if not all(session.run(text) for text in texts if text.strip()):
                raise typer.Exit(ExitStatus.FAILED)
            if not execute and sys.stdin.isatty():
                _talk(session)
        finally:
            session.close()


def _open(script: ScriptInput, *, verbose: bool) -> ShellSession:
    from penstock.sql.cli.output.row_text import RowLines
    from penstock.sql.shell.session import Screen, ShellSession

    def spark() -> SparkSession:
        return session.spark()

    session = ShellSession(
        project=script.project,
        context=script.open_context(spark=spark),
        variables=script.variables,
        spark_conf=script.spark_conf,
        master=script.master,
        screen=Screen(say=say, ended=_show, rows=RowLines().write),
        verbose=verbose,
    )
    return session


def _talk(session: ShellSession) -> None:
    from importlib.metadata import version

    from penstock.sql.shell.console import Console

    project = session.project
    target = f", target {project.target}" if project.target else ""
    say(f"penstock {version('penstock')}, project {project.root}{target}")
    say("Statements end with ;. HELP lists what to type. Spark starts when it is needed.", "")
    Console(session, _names(session), say).loop()


def _names(session: ShellSession) -> Names:
    from penstock.catalog.model.table import Table
    from penstock.sql.dialect.parser.calls import built_in_functions
    from penstock.sql.settings import RESTART_SETTINGS, SETTINGS
    from penstock.sql.shell.completion import Names

    namespace = session.context.namespace

    def tables() -> list[str]:
        return [one.name for one in (*namespace.tables(), *namespace.views())]

    def columns(name: str) -> Sequence[str]:
        found = namespace.lookup(namespace.resolve((name,)))
        return found.schema.names if isinstance(found, Table) else found.columns

    keys = {option.key: option for option in (*SETTINGS, *RESTART_SETTINGS)}
    return Names(tables=tables, columns=columns, functions=built_in_functions, settings=keys)


_TEXT = ("result",)
"""The column of EXPLAIN and SHOW CREATE, whose answer is a text and no table."""


def _show(result: StatementResult) -> None:
    from penstock.sql.cli.output.progress import summary_lines
    from penstock.sql.cli.output.report import print_lines, print_rows
    from penstock.sql.runner.summary import StatementStatus

    if result.rows is None or result.status is not StatementStatus.FINISHED:
        say(*summary_lines([result]))
        return
    count = len(result.rows.rows)
    if result.rows.columns == _TEXT:
        print_lines([str(row[0]) for row in result.rows.rows])
        return
    if count:
        print_rows(result.rows)
    more = "the first " if result.rows.truncated else ""
    say(f"{more}{count:,} row{'' if count == 1 else 's'} in {result.seconds:.1f} s")
