"""`penstock doctor`, `version` and `errors`: this machine, the installed releases, and what an error code means."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import Annotated

import typer

import penstock
from penstock.catalog.errors import ConfigError, did_you_mean
from penstock.sql.cli.commands.catalog import open_catalog
from penstock.sql.cli.options import CatalogOption, FormatOption, VerboseOption
from penstock.sql.cli.output.report import OutputFormat, print_json, print_lines, reporting
from penstock.sql.runner.doctor import Examined, Finding, Level, examine
from penstock.sql.script.project import find_project

_COLOURS = {
    Level.OK: typer.colors.GREEN,
    Level.WARNING: typer.colors.YELLOW,
    Level.FAILURE: typer.colors.RED,
}


def doctor(
    context: typer.Context,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            envvar="PENSTOCK_BOOTSTRAP",
            help="Brokers to ask; default those of the catalog's Kafka tables. Example: `--bootstrap localhost:9092`",
            show_default=False,
        ),
    ] = None,
    catalog: CatalogOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """Check this machine: Python, Java, Spark, jars, catalog, broker. Example: `penstock doctor`"""
    with reporting(context, verbose=verbose, output=output):
        findings: list[Finding] = []
        examined = Examined(
            project=lambda: find_project(Path.cwd()),
            catalog=lambda: open_catalog(catalog),
            catalog_url=catalog,
            bootstrap=bootstrap,
        )
        for finding in examine(examined):
            findings.append(finding)
            if output is OutputFormat.TABLE:
                _print(finding)
        if output is OutputFormat.JSON:
            print_json({"checks": [_as_json(finding) for finding in findings]})
        if any(finding.level is Level.FAILURE for finding in findings):
            raise typer.Exit(1)


def _print(finding: Finding) -> None:
    level = typer.style(f"{finding.level:<8}", fg=_COLOURS[finding.level])
    hint = f"; {finding.hint}" if finding.hint else ""
    typer.echo(f"{level} {finding.subject}: {finding.text}{hint}")


def _as_json(finding: Finding) -> dict[str, str | None]:
    return {
        "check": finding.subject,
        "level": finding.level,
        "text": finding.text,
        "hint": finding.hint,
        "mend": finding.hint,  # the key of version 0.1, which goes with the next one
    }


def version() -> None:
    """Show the versions of Penstock, Python, Spark and Delta. Example: `penstock version`"""
    print_version(True)


def print_version(wanted: bool) -> None:
    """Print the versions and end the command, if that is what was asked for."""
    if not wanted:
        return
    parts = (
        f"python {platform.python_version()}",
        *(f"{name} {_release(name)}" for name in ("pyspark", "delta-spark")),
    )
    typer.echo(f"penstock {penstock.__version__} ({', '.join(parts)})")
    raise typer.Exit


def _release(distribution: str) -> str:
    try:
        return installed(distribution)
    except PackageNotFoundError:
        return "not installed"


def errors(
    context: typer.Context,
    code: Annotated[
        str | None, typer.Argument(help="A code, or its number. Example: `PEN-4001` or `4001`")
    ] = None,
    markdown: Annotated[
        bool,
        typer.Option(
            "--markdown",
            envvar="PENSTOCK_MARKDOWN",
            help="All codes as the page docs/errors.md. Example: `--markdown`",
        ),
    ] = False,
) -> None:
    """Explain an error code and its fix; without one, list them all.

    Example: `penstock errors PEN-4001`
    """
    from penstock.sql.errors.codes import ERROR_CODES, error_page

    with reporting(context):
        if markdown:
            print_lines([error_page().rstrip("\n")])
            return
        if code is None:
            print_lines([f"{one.code}  {one.kind.__doc__}" for one in ERROR_CODES])
            return
        known = {one.code: one for one in ERROR_CODES}
        asked = code.upper() if code.upper().startswith("PEN-") else f"PEN-{code}"
        if asked not in known:
            near = did_you_mean(asked, known)
            raise ConfigError(
                f"there is no error code {code!r}", hint=near or "`penstock errors` lists them"
            )
        found = known[asked]
        print_lines([f"{found.code} {found.kind.__name__}", "", found.meaning, "", found.fix])
