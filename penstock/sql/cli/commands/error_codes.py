"""`penstock errors`: the meaning of an error code and the remedy."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.catalog.errors import ConfigError, did_you_mean
from penstock.sql.cli.output.report import print_lines, reporting

__all__ = ["errors"]


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
