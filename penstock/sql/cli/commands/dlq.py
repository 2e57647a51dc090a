"""`penstock dlq`: where dead letters are, their content, and the replay of their records.

`ls` and `show` start Spark only for dead letters in topics and behind URLs, `replay` always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from penstock.catalog.definitions.contract import Catalog
from penstock.catalog.errors import ConfigError, UnknownObjectError, did_you_mean
from penstock.sql.checkpoint.reader import LocalFiles
from penstock.sql.cli.commands.catalog import open_catalog
from penstock.sql.cli.commands.script_input import read_input
from penstock.sql.cli.options import (
    CatalogOption,
    FormatOption,
    SetOption,
    TargetOption,
    VarOption,
    VarsFileOption,
    VerboseOption,
    YesOption,
)
from penstock.sql.cli.output.report import OutputFormat, print_json, print_lines, reporting, say
from penstock.sql.script.project import Project, find_project
from penstock.sql.settings import PIPELINE_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.connector.dead_letters.delta_files import DeadLetterFiles
    from penstock.connector.dead_letters.store import DeadLetterStore
    from penstock.sql.checkpoint.search import OpenFiles

    Letters = DeadLetterFiles | DeadLetterStore


app = typer.Typer(
    name="dlq",
    help="List, show and replay dead letters: the records that 'bad-records' = 'dead-letter' kept.",
    no_args_is_help=True,
)

FileArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        help="A SQL file: the dead letters of the pipelines that its INSERTs run in. Example: `orders.sql`",
        show_default=False,
    ),
]
PipelineOption = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        "-p",
        envvar="PENSTOCK_PIPELINE",
        help="The dead letters of this pipeline ('pipeline.name'), or of one of its queries. "
        "Example: `--pipeline orders`",
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
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    settings: SetOption = None,
    target: TargetOption = None,
    catalog: CatalogOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """Show where dead letters are, how many, and why. Example: `penstock dlq ls --pipeline orders`"""
    with reporting(context, verbose=verbose, output=output) as is_verbose:
        search = _search(
            file,
            pipeline,
            path,
            catalog,
            Variables(var=var, vars_file=vars_file, settings=settings, target=target),
            is_verbose=is_verbose,
        )
        from penstock.sql.cli.output.dead_letter_text import counts_document, counts_lines

        counted = _looked_at(search, lambda letters: (letters.path, letters.counts()))
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
            help="How many dead letters of each table to show, newest first. Example: `--limit 3`",
        ),
    ] = 10,
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    settings: SetOption = None,
    target: TargetOption = None,
    catalog: CatalogOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """Show dead letters: place, time, error, key and value (base64 where they are no text).

    Example: `penstock dlq show orders.sql --limit 3 --format json`
    """
    with reporting(context, verbose=verbose, output=output) as is_verbose:
        search = _search(
            file,
            pipeline,
            path,
            catalog,
            Variables(var=var, vars_file=vars_file, settings=settings, target=target),
            is_verbose=is_verbose,
        )
        from penstock.sql.cli.output.dead_letter_text import letter_document, letter_lines

        found = _looked_at(search, lambda letters: letters.newest(limit))
        letters = [letter_document(row) for rows in found for row in rows]
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
    var: VarOption = None,
    vars_file: VarsFileOption = None,
    settings: SetOption = None,
    target: TargetOption = None,
    catalog: CatalogOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Write the records of dead letters to Kafka again, as they were, each of them once.

    A record that several queries left out is replayed once, too. Replays are recorded beside the dead letters, and a
    record is not replayed a second time. The connection is that of the catalog's table for which the records were
    read. A record that is still bad becomes a dead letter again, with another offset.

    Example: `penstock dlq replay orders.sql --yes`
    """
    with reporting(context, verbose=verbose) as is_verbose:
        search = _search(
            file,
            pipeline,
            path,
            catalog,
            Variables(var=var, vars_file=vars_file, settings=settings, target=target),
            is_verbose=is_verbose,
        )
        from penstock.sql.runner.dead_letters import DeadLetterReplayer

        replayer = DeadLetterReplayer(
            catalog=search.store, project=search.project.root, target=topic
        )
        with _shelves(search) as shelves:
            lines = list(replayer.run_all(shelves, really=yes))
        print_lines(lines)
        if not lines:
            say("there is nothing to replay")
        elif not yes:
            raise ConfigError("nothing was replayed", hint="add --yes to replay these records")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """What fills a file in, as a run of it has it."""

    var: list[str] | None
    vars_file: Path | None
    settings: list[str] | None
    target: str | None


def pipelines_of(
    file: Path, variables: Variables, catalog_url: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the pipelines of a file's INSERTs as a run does, and the folders of their checkpoints. Raises InputError."""
    script = read_input(
        [file],
        var=variables.var,
        vars_file=variables.vars_file,
        settings=variables.settings,
        catalog=catalog_url,
        target=variables.target,
    )
    (checked,) = script.check(script.open_context(offline=True))
    inserts = [insert for one in checked.statements for insert in one.inserts]
    names = tuple(dict.fromkeys(one.pipeline for one in inserts))
    default = script.settings.get(PIPELINE_NAME.key) or script.files[0].pipeline
    return names or (default,), tuple(dict.fromkeys(one.base for one in inserts))


def check_known(pipeline: str, known: Sequence[str]) -> None:
    """Check that a pipeline exists, by its name or that of a query of it. Raises UnknownObjectError."""
    if pipeline in known or pipeline.rpartition("/")[0] in known:
        return
    raise UnknownObjectError(
        f"there is no pipeline {pipeline!r}",
        hint=did_you_mean(pipeline, known)
        or (f"known are {', '.join(known)}" if known else "none has a checkpoint here"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeadLetterSearch:
    """The dead letters that a command selects. `asked` is a pipeline that was named, and so has to exist."""

    asked: str | None
    project: Project
    store: Catalog
    pipelines: tuple[str, ...] | None
    path: str | None
    bases: tuple[str, ...]
    is_verbose: bool


def _search(
    file: Path | None,
    pipeline: str | None,
    path: str | None,
    catalog_url: str | None,
    variables: Variables,
    *,
    is_verbose: bool,
) -> _DeadLetterSearch:
    """Read what the options name. Raises ConfigError, UnknownObjectError."""
    if file is not None and pipeline is not None:
        raise ConfigError("a file and --pipeline both name a pipeline", hint="give one of them")
    project = find_project(Path.cwd(), target=variables.target)
    named: tuple[str, ...] | None = None if pipeline is None else (pipeline,)
    bases: tuple[str, ...] = ()
    if file is not None:
        named, bases = pipelines_of(file, variables, catalog_url)
    return _DeadLetterSearch(
        asked=pipeline,
        project=project,
        store=open_catalog(catalog_url, project),
        pipelines=named,
        path=path,
        bases=bases,
        is_verbose=is_verbose,
    )


T = TypeVar("T")


def _looked_at(search: _DeadLetterSearch, look: Callable[[Letters], T]) -> list[T]:
    """Inspect every place, without Spark where that suffices: dead letters in folders of this machine."""
    from penstock.connector.dead_letters.delta_files import NotReadableHereError
    from penstock.sql.runner.dead_letters import find_dead_letter_files

    found = find_dead_letter_files(
        search.project,
        search.store,
        pipelines=search.pipelines,
        path=search.path,
        bases=search.bases,
    )
    if found is not None:
        _check_pipeline(search, lambda location: LocalFiles(location=location))
        with suppress(NotReadableHereError):
            return [look(letters) for letters in found]
    with _shelves(search) as shelves:
        return [look(shelf) for shelf in shelves]


def _check_pipeline(search: _DeadLetterSearch, open_files: OpenFiles) -> None:
    from penstock.sql.runner.dead_letters import known_pipelines

    if search.asked is not None and search.path is None:
        check_known(search.asked, known_pipelines(open_files, search.project, search.store))


@contextmanager
def _shelves(search: _DeadLetterSearch) -> Iterator[Sequence[DeadLetterStore]]:
    """Start Spark and find the dead letters."""
    from penstock.sql.checkpoint.directory import checkpoint_files
    from penstock.sql.cli.spark import open_spark, spark_logs
    from penstock.sql.runner.dead_letters import find_dead_letter_stores
    from penstock.sql.spark_process.jvm import end_jvm

    project = search.project
    try:
        files = spark_logs(project, verbose=search.is_verbose)
        spark = open_spark(project.master, project.spark_conf, files)
        _check_pipeline(search, checkpoint_files(spark))
        with TemporaryDirectory(prefix="penstock-") as workdir:
            yield find_dead_letter_stores(
                spark,
                project,
                search.store,
                Path(workdir),
                pipelines=search.pipelines,
                path=search.path,
                bases=search.bases,
            )
    finally:
        end_jvm()
