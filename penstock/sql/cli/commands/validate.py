"""`penstock validate`: whether files would run, looked at as deeply as asked for. Starts and changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.catalog.errors import InputError, PenstockError
from penstock.sql.cli.commands.script_input import ScriptInput, read_input
from penstock.sql.cli.options import (
    CatalogOption,
    ErrorFormatOption,
    FilesArgument,
    SetOption,
    StrictOption,
    TargetOption,
    VarOption,
    VarsFileOption,
    VerboseOption,
)
from penstock.sql.cli.output.report import (
    print_json,
    print_lines,
    reporting,
)
from penstock.sql.errors.exit_status import ExitStatus
from penstock.sql.errors.render import ErrorFormat, Severity, error_document, show_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.sql.check.connectivity import ConnectivityResult
    from penstock.sql.check.script_check import CheckedScript
    from penstock.sql.execution.context import SessionContext
    from penstock.sql.runner.replay import Replayed


class Depth(StrEnum):
    """How thoroughly files are checked: only texts, external systems too, or rows through every query."""

    STATIC = "static"
    CONNECT = "connect"
    SAMPLE = "sample"


def validate(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    files: FilesArgument,
    level: Annotated[
        Depth,
        typer.Option(
            "--level",
            envvar="PENSTOCK_LEVEL",
            help="static: no Spark, and only the catalog is read. connect: ask brokers, folders and databases "
            "for every table, too. sample: let rows of the sources through every query and show them. "
            "Example: `--level connect`",
        ),
    ] = Depth.STATIC,
    rows: Annotated[
        int,
        typer.Option(
            "--rows",
            "-n",
            min=1,
            envvar="PENSTOCK_ROWS",
            help="Rows of a query that `--level sample` shows. Example: `--rows 20`",
        ),
    ] = 10,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    settings: SetOption = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    errors: ErrorFormatOption = ErrorFormat.FULL,
    strict: StrictOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Check SQL files without running them. What is wrong goes to stdout, with exit status 2.

    Where the texts are right but a table cannot be reached, or is not there, the exit status is 1.

    Example: `penstock validate examples/quickstart.sql --level connect`
    """
    with reporting(context, verbose=verbose, errors=errors) as is_verbose:
        script = read_input(
            files,
            var=var,
            vars_file=vars_file,
            settings=settings,
            catalog=catalog,
            target=target,
            strict=strict,
        )
        if level is Depth.STATIC:
            script.check_catalog()
        opened = script.open_context(
            spark=lambda: _spark(script, verbose=is_verbose),
            offline=level is Depth.STATIC,
        )
        try:
            checked = script.check(opened)
        except InputError as error:
            _report([error], errors)
            raise typer.Exit(ExitStatus.WRONG_INPUT) from error
        statements = [] if level is Depth.STATIC else _replay(checked, opened)
        looks = _look_at_all(statements, script, errors)
        failed = [_named(look, look.error) for look in looks if look.error is not None]
        if not failed and level is Depth.SAMPLE:
            from penstock.sql.cli.commands.run_scripts import show_samples

            show_samples(script, _replay(checked, opened), rows=rows, verbose=is_verbose)
        _report(failed, errors, checked=checked, looks=looks)
        if failed:
            raise typer.Exit(ExitStatus.FAILED)


def _replay(checked: Sequence[CheckedScript], opened: SessionContext) -> Iterator[Replayed]:
    from penstock.sql.runner.replay import replay

    return replay(checked, opened)


def _spark(script: ScriptInput, *, verbose: bool) -> SparkSession:
    """Start Spark, for a catalog that is Spark's."""
    from penstock.sql.cli.spark import open_spark, spark_logs

    files = spark_logs(script.project, verbose=verbose)
    return open_spark(script.master, script.spark_conf, files)


def _look_at_all(
    statements: Iterable[Replayed], script: ScriptInput, shape: ErrorFormat
) -> list[ConnectivityResult]:
    """Check every table; for a person, report each result as it comes."""
    from penstock.sql.check.connectivity import check_connectivity, tables_of

    root = script.project.root
    looks: list[ConnectivityResult] = []
    for use in tables_of(statements):
        look = check_connectivity(use, root)
        looks.append(look)
        if shape is ErrorFormat.FULL:
            print_lines([f"{look.name} ({use.table.connector}, {use.words}): {look.text}"])
    return looks


def _named(look: ConnectivityResult, error: PenstockError) -> PenstockError:
    """Name the table of an error, where its message does not."""
    name = look.use.table.identifier.name
    return error if name in error.message else error.within(f"table {look.name}")


def _report(
    found: Sequence[PenstockError],
    shape: ErrorFormat,
    *,
    checked: Sequence[CheckedScript] = (),
    looks: Sequence[ConnectivityResult] = (),
) -> None:
    if shape is ErrorFormat.JSON:
        print_json(_document(found, checked, looks))
        return
    color = sys.stdout.isatty()
    lines = [
        show_error(warning, shape, color=color, severity=Severity.WARNING)
        for script in checked
        for warning in script.warnings
    ]
    lines += [show_error(error, shape, color=color) for error in found]
    if shape is ErrorFormat.FULL and checked and not found:
        lines += [
            f"{script.file.name}: {_counted(len(script.statements))}, nothing wrong"
            f"{_warned(script)}{_unchecked(script)}"
            for script in checked
        ]
    print_lines(lines)


def _document(
    found: Sequence[PenstockError],
    checked: Sequence[CheckedScript],
    looks: Sequence[ConnectivityResult],
) -> dict[str, Any]:
    return {
        "files": [
            {"file": script.file.name, "statements": len(script.statements)} for script in checked
        ],
        "tables": [
            {
                "table": str(look.use.table.identifier),
                "connector": look.use.table.connector,
                "use": look.use.words,
                "found": look.text,
                "reachable": look.error is None,
            }
            for look in looks
        ],
        "warnings": [
            one
            for script in checked
            for warning in script.warnings
            for one in error_document(warning)
        ],
        "errors": [one for error in found for one in error_document(error)],
    }


def _unchecked(script: CheckedScript) -> str:
    """Report how many statements were not checked: what they name is in a catalog that a static check does not ask."""
    if not script.unchecked:
        return ""
    return f"; {script.unchecked} more not checked, whose catalogs --level connect looks into"


def _warned(script: CheckedScript) -> str:
    count = len(script.warnings)
    return f", {count} warning{'' if count == 1 else 's'}" if count else ""


def _counted(count: int) -> str:
    return f"{count:,} statement{'' if count == 1 else 's'}"
