"""`penstock ui`: the status page of a project, without Spark."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from penstock.sql.cli.commands.catalog import open_catalog
from penstock.sql.cli.options import CatalogOption, TargetOption, VerboseOption
from penstock.sql.cli.output.report import reporting, say
from penstock.sql.script.project import find_project

DEFAULT_PORT = 8090

WAKE_S = 0.5
"""How often it is looked whether a signal came."""


def ui(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    port: Annotated[
        int,
        typer.Option(
            "--port",
            min=0,
            max=65535,
            envvar="PENSTOCK_UI_PORT",
            help="The port; 0 is any that is free. Example: `--port 8090`",
        ),
    ] = DEFAULT_PORT,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            envvar="PENSTOCK_UI_HOST",
            help="The address to listen on. One that others reach needs TLS, and asks for a token. "
            "Example: `--host 10.1.2.3`",
        ),
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="F",
            envvar="PENSTOCK_UI_TOKEN_FILE",
            help="A file with the token that is asked for; default one that is made and printed where others reach the "
            "page, else none. Example: `--token-file page.token`",
            show_default=False,
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            "--tls-cert",
            metavar="F",
            envvar="PENSTOCK_UI_TLS_CERT",
            help="Speak TLS with this certificate (PEM), under its names. Example: `--tls-cert server.pem`",
            show_default=False,
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(
            "--tls-key",
            metavar="F",
            envvar="PENSTOCK_UI_TLS_KEY",
            help="The certificate's private key (PEM). Example: `--tls-key server.key`",
            show_default=False,
        ),
    ] = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            envvar="PENSTOCK_UI_CHECKPOINT",
            help="Show a pipeline that is not of this project, too, by its checkpoint; may be given several times. "
            "Example: `--checkpoint /data/checkpoints/shop/totals`",
            show_default=False,
        ),
    ] = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Serve the status page of a project until Ctrl-C: its pipelines, wherever they run, and its tables.

    They are read from the catalog and the checkpoint directories; nothing is changed. `penstock run --ui-port` shows
    more of what it runs itself: lag, speed and batches.

    Example: `penstock ui --port 8090`
    """
    with reporting(context, verbose=verbose):
        from penstock.sql.cli.signals import StopSignals
        from penstock.sql.execution.context import open_names
        from penstock.sql.information_schema.checkpoints import checkpoints_at
        from penstock.sql.runner.run_mode import StopRequest
        from penstock.sql.ui.access import announcement, page_access
        from penstock.sql.ui.application import StatusView
        from penstock.sql.ui.documents.stored import StoredPipelines
        from penstock.sql.ui.server import serving_pages

        access = page_access(host=host, token_file=token_file, certificate=tls_cert, key=tls_key)
        project = find_project(Path.cwd(), target=target)
        names = open_names(open_catalog(catalog, project), project.root)
        stored = StoredPipelines(
            namespace=names,
            project=project.root,
            configured=project,
            catalog_url=catalog,
            checkpoints=tuple(one for at in checkpoint or () for one in checkpoints_at(at)),
        )
        with (
            StopSignals(StopRequest()),
            serving_pages(StatusView(jobs=tuple, stored=stored), access, port=port) as url,
            suppress(KeyboardInterrupt),
        ):  # raised for SIGTERM, too
            say(f"{announcement(access, url)} (Ctrl-C ends it)")
            # a signal that another thread of a library takes wakes nobody who waits for ever
            while not Event().wait(WAKE_S):
                pass
