"""`penstock doctor`: looks whether this machine can run Penstock; one line a check, with the mend where it cannot."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.sql.cli.checks import Finding, Level, examine
from penstock.sql.cli.options import CatalogOption, FormatOption, VerboseOption
from penstock.sql.cli.report import OutputFormat, print_json, reporting

__all__ = ["doctor"]

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
        for finding in examine(catalog_url=catalog, bootstrap=bootstrap):
            findings.append(finding)
            if output is OutputFormat.TABLE:
                _print(finding)
        if output is OutputFormat.JSON:
            print_json({"checks": [_as_json(finding) for finding in findings]})
        if any(finding.level is Level.FAILURE for finding in findings):
            raise typer.Exit(1)


def _print(finding: Finding) -> None:
    level = typer.style(f"{finding.level:<8}", fg=_COLOURS[finding.level])
    mend = f"; {finding.mend}" if finding.mend else ""
    typer.echo(f"{level} {finding.subject}: {finding.text}{mend}")


def _as_json(finding: Finding) -> dict[str, str | None]:
    return {
        "check": finding.subject,
        "level": finding.level,
        "text": finding.text,
        "mend": finding.mend,
    }
