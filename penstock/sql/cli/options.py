"""Options and arguments that several commands take, named and explained alike.

`K=V` arguments and files of variables.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.catalog.errors import ConfigError
from penstock.sql.cli.output.report import OutputFormat
from penstock.sql.cli.output.row_text import RowFormat
from penstock.sql.errors.render import ErrorFormat


def read_pairs(option: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """Read `K=V` arguments; the last of a key wins. Raises a usage error for one without `=`."""
    values: dict[str, str] = {}
    for pair in pairs or ():
        key, found, value = pair.partition("=")
        if not found or not key.strip():
            raise typer.BadParameter(f"{pair!r} is not K=V", param_hint=f"'{option}'")
        values[key.strip()] = value
    return values


def read_variables(file: Path | None) -> dict[str, Any]:
    """Read a TOML or JSON file of variables. Raises ConfigError."""
    if file is None:
        return {}
    try:
        text = file.read_text(encoding="utf-8")
        match file.suffix.lower():
            case ".toml":
                values = tomllib.loads(text)
            case ".json":
                values = json.loads(text)
            case _:
                raise ConfigError(
                    f"{file} is neither TOML nor JSON",
                    hint="name it *.toml with lines such as topic = 'orders', or *.json",
                )
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:  # TOMLDecodeError, JSONDecodeError and UnicodeDecodeError are such
        raise ConfigError(f"{file}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{file} must hold names and values, not {type(values).__name__}")
    return values


class ScanStart(StrEnum):
    """Where reading starts, instead of the table's own startup mode."""

    EARLIEST = "earliest"
    LATEST = "latest"


FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="SQL files, in order; `-` is standard input. Example: `tables.sql jobs.sql`",
    ),
]

VarOption = Annotated[
    list[str] | None,
    typer.Option(
        "--var",
        metavar="K=V",
        envvar="PENSTOCK_VAR",
        help="A value for `{{ var('K') }}` in the files. Example: `--var topic=orders`",
    ),
]

VarsFileOption = Annotated[
    Path | None,
    typer.Option(
        "--vars-file",
        metavar="F",
        envvar="PENSTOCK_VARS_FILE",
        help="A TOML or JSON file with such values; `--var` wins. Example: `--vars-file prod.toml`",
    ),
]

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="K=V",
        envvar="PENSTOCK_SET",
        help="As SET 'K' = 'V' before the first file. Example: `--set pipeline.name=orders`",
    ),
]

TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="NAME",
        envvar="PENSTOCK_TARGET",
        help="The section `[targets.NAME]` of penstock.toml, which overrides the rest. Example: `--target prod`",
        show_default=False,
    ),
]

CatalogOption = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        envvar="PENSTOCK_CATALOG",
        help="SQLAlchemy URL of the catalog; default `.penstock/catalog.db` of the project or target. "
        "Example: `--catalog postgresql://user@host/penstock`",
        show_default=False,
    ),
]

AvailableNowOption = Annotated[
    bool | None,
    typer.Option(
        "--available-now/--continuous",
        envvar="PENSTOCK_AVAILABLE_NOW",
        help="Read what is there and exit, or keep running until stopped. Default: exit where every source of "
        "a statement has an end. Example: `--available-now`",
        show_default=False,
    ),
]

StopTimeoutOption = Annotated[
    float,
    typer.Option(
        "--stop-timeout",
        metavar="SECONDS",
        min=0,
        envvar="PENSTOCK_STOP_TIMEOUT",
        help="How long the batch in flight may take after Ctrl-C or SIGTERM; one that takes longer is interrupted, and "
        "is read again by the next run. Example: `--stop-timeout 60`",
    ),
]

FromScratchOption = Annotated[
    bool,
    typer.Option(
        "--from-scratch",
        envvar="PENSTOCK_FROM_SCRATCH",
        help="Start over: checkpoints of the files' INSERTs are set aside first (renamed, never removed), and "
        "sources start by their startup mode. Rows that were written already are written again. "
        "Example: `--from-scratch`",
    ),
]

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        envvar="PENSTOCK_MASTER",
        help="Where Spark runs; default `local[*,4]`. Example: `--master spark://host:7077`",
        show_default=False,
    ),
]

ConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="K=V",
        envvar="PENSTOCK_CONF",
        help="A setting of Spark. Example: `--conf spark.driver.memory=4g`",
    ),
]

TableArgument = Annotated[
    str, typer.Argument(help="A table of the catalog. Example: `orders` or `sales.orders`")
]

FromOption = Annotated[
    ScanStart | None,
    typer.Option(
        "--from",
        envvar="PENSTOCK_FROM",
        help="Where to start, in place of the table's startup mode. Example: `--from earliest`",
        show_default=False,
    ),
]

FormatOption = Annotated[
    OutputFormat,
    typer.Option(
        "--format",
        envvar="PENSTOCK_FORMAT",
        help="What stdout gets: text for people, or one JSON document. Example: `--format json`",
    ),
]

RowFormatOption = Annotated[
    RowFormat,
    typer.Option(
        "--format",
        envvar="PENSTOCK_FORMAT",
        help="What stdout gets: columns for people, or one JSON object a line. Example: `--format json`",
    ),
]

ErrorFormatOption = Annotated[
    ErrorFormat,
    typer.Option(
        "--output-format",
        envvar="PENSTOCK_OUTPUT_FORMAT",
        help="How errors are shown: full for people, concise a line each, json one document, github as annotations. "
        "Example: `--output-format concise`",
    ),
]

YesOption = Annotated[
    bool,
    typer.Option(
        "--yes",
        envvar="PENSTOCK_YES",
        help="Do it; without it the command says what it would do. Example: `--yes`",
    ),
]

StrictOption = Annotated[
    bool,
    typer.Option(
        "--strict",
        envvar="PENSTOCK_STRICT",
        help="Refuse what is otherwise a warning: passwords written in a definition. Example: `--strict`",
    ),
]

VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        envvar="PENSTOCK_VERBOSE",
        help="Show stack traces, Spark's log and debug messages. Example: `--verbose`",
    ),
]


UiHostOption = Annotated[
    str,
    typer.Option(
        "--ui-host",
        envvar="PENSTOCK_UI_HOST",
        help="The address of the status page. One that others reach needs TLS, and asks for a token. "
        "Example: `--ui-host 10.1.2.3`",
    ),
]

UiTokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--ui-token-file",
        metavar="F",
        envvar="PENSTOCK_UI_TOKEN_FILE",
        help="A file with the token that the status page asks for; default one that is made and printed where others "
        "reach the page, else none. Example: `--ui-token-file page.token`",
        show_default=False,
    ),
]

UiCertificateOption = Annotated[
    Path | None,
    typer.Option(
        "--ui-tls-cert",
        metavar="F",
        envvar="PENSTOCK_UI_TLS_CERT",
        help="Serve the status page by TLS with this certificate (PEM), under its names. "
        "Example: `--ui-tls-cert server.pem`",
        show_default=False,
    ),
]

UiKeyOption = Annotated[
    Path | None,
    typer.Option(
        "--ui-tls-key",
        metavar="F",
        envvar="PENSTOCK_UI_TLS_KEY",
        help="The certificate's private key (PEM). Example: `--ui-tls-key server.key`",
        show_default=False,
    ),
]
