"""`penstock catalog infer`: a CREATE TABLE to review, from existing records, schemas or footers. No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.sql.cli.options import VerboseOption, read_pairs
from penstock.sql.cli.output.report import OutputFormat, print_json, print_lines, reporting
from penstock.sql.script.project import Project, find_project

if TYPE_CHECKING:
    from penstock.connector.inference.inferred_table import InferredTable
    from penstock.connector.inference.location import Location, Topic


BOOTSTRAP = "bootstrap.servers"
VARIABLE = "bootstrap"
"""The variable of a project that names its brokers, as in the examples."""


def infer(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    location: Annotated[
        str,
        typer.Argument(
            help="What to look at: `kafka://host:9092/topic`, `registry+http://host:8081/subjects/NAME`, "
            "`delta:/path`, or JSON, CSV, Parquet or ORC files: one, a folder, a pattern. Example: `kafka://localhost:9092/orders`"
        ),
    ],
    record_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="The format of the records; without it, it is found out. Example: `--format json`",
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        int,
        typer.Option(min=1, max=1_000_000, help="Records to look at. Example: `--sample 10000`"),
    ] = 1000,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the table; default one made of the location. Example: `--name orders`",
            show_default=False,
        ),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            envvar="PENSTOCK_BOOTSTRAP_SERVERS",
            help="Brokers of a topic whose location names none; default the project's variable `bootstrap`. "
            "Example: `--bootstrap-servers localhost:9092`",
            show_default=False,
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            metavar="K=V",
            help="A property of the Kafka client, as `properties.K` of a table. Example: `-o security.protocol=SSL`",
        ),
    ] = None,
    output: Annotated[
        OutputFormat,
        typer.Option(
            "--output-format",
            envvar="PENSTOCK_FORMAT",
            help="What stdout gets: SQL, or one JSON document. Example: `--output-format json`",
        ),
    ] = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """Propose a CREATE TABLE for existing data: types, rowtime, disorder, with reasons as comments. Changes nothing.

    Reads a sample of the newest records of every partition; joins no consumer group.

    Example: `penstock catalog infer kafka://localhost:9092/orders > orders.sql`
    """
    with reporting(context, verbose=verbose, output=output):
        from penstock.connector.inference.inferred_table import ddl_lines
        from penstock.connector.inference.location import parse_location

        project = find_project(Path.cwd())
        parsed = parse_location(location, project.root)
        _check_format(record_format, parsed)
        client = _client(read_pairs("-o", options), bootstrap, project)
        inferred = _infer(
            parsed,
            client=client,
            asked=record_format,
            wanted=sample,
            name=name,
            project=project,
        )
        _check(inferred, project)
        if output is OutputFormat.JSON:
            print_json(
                {"name": inferred.name, "sql": "\n".join(ddl_lines(inferred)), **_facts(inferred)}
            )
        else:
            print_lines(ddl_lines(inferred))


def _client(pairs: Mapping[str, str], bootstrap: str | None, project: Project) -> dict[str, str]:
    """Return the client's properties; those that are typed with their prefix are meant too."""
    client = {key.removeprefix("properties."): value for key, value in pairs.items()}
    servers = bootstrap or client.get(BOOTSTRAP) or project.variables.get(VARIABLE)
    return {**({BOOTSTRAP: str(servers)} if servers else {}), **client}


def _check_format(record_format: str | None, parsed: Location) -> None:
    """Refuse a format that does not exist, or that the place does not leave open. Raises OptionError."""
    from penstock.catalog.errors import OptionError
    from penstock.connector.filesystem.sink.target import WRITTEN_ONLY
    from penstock.connector.formats import find_format, format_names
    from penstock.connector.inference.location import DeltaLocation, FileLocation, Subject

    match parsed:
        case _ if record_format is None:
            return
        case Subject() | DeltaLocation():
            raise OptionError(
                f"--format {record_format} says nothing here: the schema is known",
                hint="leave it out",
            )
        case FileLocation() if record_format in WRITTEN_ONLY:
            return
        case _ if record_format in WRITTEN_ONLY:
            raise OptionError(
                f"records of the format '{record_format}' are not read from topics",
                hint=f"formats are: {', '.join(format_names())}; raw keeps records as they are",
            )
    find_format(record_format, option="--format")


def _infer(
    parsed: Location,
    *,
    client: dict[str, str],
    asked: str | None,
    wanted: int,
    name: str | None,
    project: Project,
) -> InferredTable:
    from penstock.connector.inference.inferred_table import name_from
    from penstock.connector.inference.location import DeltaLocation, FileLocation, Subject, Topic

    match parsed:
        case Topic():
            return _topic(parsed, client, asked, wanted, name)
        case Subject():
            from penstock.connector.inference.schema_registry import (
                infer_subject_table,
                read_subject,
                topic_of,
            )

            named = name or name_from(topic_of(parsed.subject))
            properties = {BOOTSTRAP: "localhost:9092", **client}
            return infer_subject_table(
                read_subject(parsed), name=named, shown=parsed.shown, properties=properties
            )
        case DeltaLocation():
            from penstock.connector.delta.catalog import infer_delta_table
            from penstock.connector.urls import resolve_path

            at = resolve_path(parsed.path, project.root)
            return infer_delta_table(parsed.path, at, name=name or name_from(parsed.path))
        case FileLocation():
            from penstock.connector.filesystem.inference import infer_file_table

            return infer_file_table(
                parsed.path,
                project.root,
                name=name or name_from(_bare(parsed.path)),
                asked=asked,
                wanted=wanted,
            )


def _topic(
    parsed: Topic, client: dict[str, str], asked: str | None, wanted: int, name: str | None
) -> InferredTable:
    from penstock.catalog.errors import OptionError
    from penstock.connector.inference.inferred_table import name_from
    from penstock.connector.kafka.inference import infer_topic_table, sample_topic

    if parsed.servers is not None:
        client = {**client, BOOTSTRAP: parsed.servers}
    if BOOTSTRAP not in client:
        raise OptionError(
            f"it is not said where topic '{parsed.topic}' is",
            hint=f"write kafka://host:9092/{parsed.topic}, give --bootstrap-servers, or set the variable "
            f"{VARIABLE!r} in the section [variables] of penstock.toml",
        )
    found = sample_topic(_ready(client), parsed.topic, wanted)
    return infer_topic_table(
        found,
        name=name or name_from(parsed.topic),
        topic=parsed.topic,
        properties=client,
        asked=asked,
    )


def _ready(client: Mapping[str, str]) -> dict[str, str]:
    """Return properties as the client takes them: `${secret:name}` with the catalog's value, encrypted; mask passwords.

    Raises UnknownObjectError.
    """
    from penstock.catalog.masking import keep_secret
    from penstock.catalog.options.redaction import is_secret
    from penstock.catalog.options.references import holds_reference, sealed_text
    from penstock.sql.cli.commands.catalog import open_catalog

    for key, value in client.items():
        if is_secret(key) and not holds_reference(value):
            keep_secret(value)
    if not any("${secret:" in value for value in client.values()):
        return dict(client)
    secrets = open_catalog(None).secrets
    return {key: sealed_text(value, secrets.sealed) for key, value in client.items()}


def _bare(path: str) -> str:
    """Return the part of a path of files that can name a table: no pattern, no ending."""
    parts = [part for part in path.split("/") if part and not set(part) & set("*?[")]
    return parts[-1].split(".")[0] if parts else "files"


def _check(inferred: InferredTable, project: Project) -> None:
    """Hold the inferred table against the rules for its connector, as `penstock validate` will. Raises InputError."""
    from penstock.connector.registry import connector_of

    table = inferred.table("default_catalog", "default_database")
    connector_of(table, project=project.root).check(table)


def _facts(inferred: InferredTable) -> dict[str, object]:
    from penstock.catalog.model.table import ComputedColumn

    watermark = inferred.watermark
    return {
        "columns": [
            {
                "name": each.column.name,
                "type": None if each.column.type is None else str(each.column.type),
                "expression": each.column.expression
                if isinstance(each.column, ComputedColumn)
                else None,
                "remark": each.remark,
            }
            for each in inferred.columns
        ],
        "watermark": None
        if watermark is None
        else {
            "column": watermark.column,
            "expression": watermark.expression,
            "remark": inferred.watermark_remark,
        },
        "options": dict(inferred.options),
        "remarks": list(inferred.remarks),
    }
