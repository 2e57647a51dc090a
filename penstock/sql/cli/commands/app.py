"""The root command and the list of its subcommands; the entry point of the `penstock` script."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from penstock.sql.cli.commands import (
    catalog,
    catalog_files,
    checkpoint,
    dlq,
    doctor,
    infer,
    init,
    jobs,
    kafka,
    peek_tail,
    plan,
    render,
    run,
    secret,
    serve,
    shell,
    test,
    ui,
    validate,
)
from penstock.sql.cli.output.report import Context, reporting, say
from penstock.sql.script.project import load_dotenv

COLLECTED_AFTER = (100_000, 20, 50)
"""Thresholds of the garbage collector (`gc.set_threshold`), of which Python's own are 700, 10 and 10."""

EXIT_CODES = """Exit status: 0 success; 1 a statement failed while running; 2 the input was wrong and nothing was
started; 3 Spark's Java process died; 75 a later start may succeed; 130 interrupted."""

app = typer.Typer(
    name="penstock",
    help="Flink-style SQL tables on Spark: tables with exact watermarks, SQL files as streaming pipelines.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root(
    context: typer.Context,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            envvar="PENSTOCK_VERBOSE",
            help="Show stack traces, Spark's log and debug messages. Example: `penstock --verbose run jobs.sql`",
        ),
    ] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=doctor.print_version,
            is_eager=True,
            help="Show the versions of Penstock, Python, Spark and Delta, and exit. Example: `penstock --version`",
        ),
    ] = False,
) -> None:
    """Read the options that hold for every command, and the project's `.env`, which may hold those of the others."""
    context.obj = Context(verbose=verbose)
    with reporting(context):
        for name in load_dotenv(Path.cwd()):
            say(f"note: {name} of .env is ignored: it is set where the command is typed")


app.command("init")(init.init)
app.command("run")(run.run)
app.command("up")(run.up)
app.command("plan")(plan.plan)
app.command("validate")(validate.validate)
app.command("test")(test.run_tests)
app.command("explain")(plan.explain)
app.command("jobs")(jobs.jobs)
app.command("ui")(ui.ui)
app.command("render")(render.render)
app.command("format")(render.format_files)
app.command("shell")(shell.shell)
app.command("peek")(peek_tail.peek)
app.command("tail")(peek_tail.tail)
catalog.app.command("apply")(catalog_files.apply)
catalog.app.command("log")(catalog.log)
catalog.app.command("purge-history")(catalog.purge_history)
catalog.app.command("upgrade")(catalog.upgrade)
catalog.app.command("infer")(infer.infer)
catalog.app.command("lineage")(catalog_files.lineage)
app.add_typer(kafka.app)
app.add_typer(catalog.app, name="catalog")
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(dlq.app, name="dlq")
app.add_typer(serve.app, name="serve")
app.add_typer(secret.app, name="secret")
app.command("doctor")(doctor.doctor)
app.command("prepare")(init.prepare)
app.command("errors")(doctor.errors)
app.command("version")(doctor.version)


def main() -> None:
    """Run the command line; leaves by SystemExit with the status that EXIT_CODES describes."""
    # syntax trees and modules stay: looking through all of them again and again was a fifth of a check's time
    gc.set_threshold(*COLLECTED_AFTER)
    try:
        app()
    except SystemExit as end:
        if "penstock.sql.ui.server" in sys.modules and isinstance(end.code, int | None):
            _leave(end.code or 0)
        raise
    finally:
        if "duckdb" not in sys.modules:  # which takes what stays for leaks, and says so
            gc.freeze()  # nor once more at the end, when all of it goes with the process


def _leave(status: int) -> NoReturn:
    """End a process that has served the status page, whose threads may be within clients of brokers.

    Python would wait at its end for what these hold: `penstock up` hung there after a table's first rows were read.
    """
    atexit._run_exitfuncs()  # noqa: SLF001  as Python does at its end
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(status)
