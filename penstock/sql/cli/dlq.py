"""`penstock dlq`: where dead letters are, what is in them, and giving their records back. Reads Delta with Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.catalog.errors import ConfigError
from penstock.sql.cli.catalog import open_catalog
from penstock.sql.cli.options import CatalogOption, FormatOption, VerboseOption, YesOption
from penstock.sql.cli.report import OutputFormat, print_json, print_lines, reporting, say
from penstock.sql.config import find_project
from penstock.sql.run.script_file import read_script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.connector.spark.letter_shelf import LetterShelf

__all__ = ["app"]

app = typer.Typer(
    name="dlq",
    help="Look at dead letters, the records that 'bad-records' = 'dead-letter' kept, and give them back.",
    no_args_is_help=True,
)

FileArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]",
        help="A SQL file: the letters of the pipeline that is named after it. Example: `orders.sql`",
        show_default=False,
    ),
]
PipelineOption = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        "-p",
        envvar="PENSTOCK_PIPELINE",
        help="The letters of this pipeline ('pipeline.name'). Example: `--pipeline orders`",
        show_default=False,
    ),
]
PathOption = Annotated[
    str | None,
    typer.Option(
        "--path",
        envvar="PENSTOCK_DLQ_PATH",
        help="A Delta table of dead letters; default all tables and topics of them that checkpoints and the "
        "catalog's tables name. "
        "Example: `--path s3a://bucket/letters`",
        show_default=False,
    ),
]


@app.command("ls")
def ls(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    file: FileArgument = None,
    pipeline: PipelineOption = None,
    path: PathOption = None,
    catalog: CatalogOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """Show where dead letters are, how many, and why. Example: `penstock dlq ls --pipeline orders`"""
    with (
        reporting(context, verbose=verbose, output=output) as is_verbose,
        _shelves(file, pipeline, path, catalog, is_verbose=is_verbose) as shelves,
    ):
        from penstock.sql.cli.dlq_text import counts_document, counts_lines

        counted = [(shelf.path, shelf.counts()) for shelf in shelves]
        if output is OutputFormat.JSON:
            print_json(counts_document(counted))
        elif any(counts for _, counts in counted):
            print_lines(counts_lines(counted))
        else:
            say("there are no dead letters")


@app.command("show")
def show(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    file: FileArgument = None,
    pipeline: PipelineOption = None,
    path: PathOption = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            envvar="PENSTOCK_LIMIT",
            help="How many letters of each table to show, newest first. Example: `--limit 3`",
        ),
    ] = 10,
    catalog: CatalogOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """Show dead letters: place, time, error, key and value (base64 where they are no text).

    Example: `penstock dlq show orders.sql --limit 3 --format json`
    """
    with (
        reporting(context, verbose=verbose, output=output) as is_verbose,
        _shelves(file, pipeline, path, catalog, is_verbose=is_verbose) as shelves,
    ):
        from penstock.sql.cli.dlq_text import letter_document, letter_lines

        letters = [letter_document(row) for shelf in shelves for row in shelf.newest(limit)]
        if output is OutputFormat.JSON:
            print_json({"letters": letters})
        elif letters:
            print_lines([line for letter in letters for line in letter_lines(letter)])
        else:
            say("there are no dead letters")


@app.command("replay")
def replay(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    file: FileArgument = None,
    pipeline: PipelineOption = None,
    path: PathOption = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            envvar="PENSTOCK_DLQ_TOPIC",
            help="Give the records to this topic; default each to the topic and partition it came from. "
            "Example: `--topic orders-mended`",
            show_default=False,
        ),
    ] = None,
    yes: YesOption = False,
    catalog: CatalogOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Write the records of dead letters to Kafka again, as they were, each of them once.

    What was given back is remembered beside the letters, and is not given back a second time. The connection is that
    of the catalog's table that the records were read for. A record that is still bad becomes a letter again, with
    another offset.

    Example: `penstock dlq replay orders.sql --yes`
    """
    with (
        reporting(context, verbose=verbose) as is_verbose,
        _shelves(file, pipeline, path, catalog, is_verbose=is_verbose) as shelves,
    ):
        from penstock.sql.run.dead_letters import Replayer

        project = find_project(Path.cwd())
        replayer = Replayer(
            catalog=open_catalog(catalog, project), project=project.root, target=topic
        )
        lines = [line for shelf in shelves for line in replayer.run(shelf, really=yes)]
        print_lines(lines)
        if not lines:
            say("there is nothing to give back")
        elif not yes:
            raise ConfigError("nothing was given back", hint="add --yes to do it")


@contextmanager
def _shelves(
    file: Path | None,
    pipeline: str | None,
    path: str | None,
    catalog_url: str | None,
    *,
    is_verbose: bool,
) -> Iterator[Sequence[LetterShelf]]:
    """Start Spark and find the dead letters that the options name."""
    if file is not None and pipeline is not None:
        raise ConfigError("a file and --pipeline both name a pipeline", hint="give one of them")
    named = read_script(file).pipeline if file is not None else pipeline
    project = find_project(Path.cwd())
    from penstock.sql.cli.spark import open_spark, spark_logs
    from penstock.sql.run.dead_letters import find_shelves
    from penstock.sql.run.jvm import end_jvm

    try:
        files = spark_logs(project, verbose=is_verbose)
        spark = open_spark(project.master, project.spark_conf, files)
        store = open_catalog(catalog_url, project)
        with TemporaryDirectory(prefix="penstock-") as workdir:
            yield find_shelves(spark, project, store, Path(workdir), pipeline=named, path=path)
    finally:
        end_jvm()
