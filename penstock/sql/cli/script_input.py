"""What commands over SQL files take alike, and how it becomes checked statements: files, variables, target, catalog."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.sql.cli.pairs import read_pairs, read_variables
from penstock.sql.config import Project, find_project
from penstock.sql.error_formats import ErrorFormat
from penstock.sql.run.script_file import ScriptFile, read_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.catalog.names import Namespace
    from penstock.sql.run.replay import Replayed
    from penstock.sql.run.script_check import CheckedScript

__all__ = [
    "ErrorFormatOption",
    "FilesArgument",
    "ScriptInput",
    "SetOption",
    "TargetOption",
    "VarOption",
    "VarsFileOption",
    "read_input",
    "read_scripts",
]

STDIN = Path("-")

FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
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
        help="The section `[targets.NAME]` of penstock.toml lies over the rest. Example: `--target prod`",
        show_default=False,
    ),
]
ErrorFormatOption = Annotated[
    ErrorFormat,
    typer.Option(
        "--output-format",
        envvar="PENSTOCK_OUTPUT_FORMAT",
        help="How errors are told: full for people, concise a line each, json one document, github as annotations. "
        "Example: `--output-format concise`",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptInput:
    """Files and what fills them in: the project's variables and settings, `--var` and `--set` over them."""

    project: Project
    files: tuple[ScriptFile, ...]
    variables: Mapping[str, Any]
    settings: Mapping[str, str]
    catalog_url: str

    def open_namespace(
        self, *, spark: Callable[[], SparkSession] | None = None, offline: bool = False
    ) -> Namespace:
        """Open the catalog. `spark` starts Spark for those who ask for its catalog; `offline` asks nobody."""
        from penstock.catalog.store import SqlCatalog
        from penstock.sql.run.catalogs import open_names

        store = SqlCatalog(self.catalog_url, secret_key_file=self.project.secret_key_file)
        return open_names(store, self.project.root, spark=spark, offline=offline)

    def check(self, namespace: Namespace) -> tuple[CheckedScript, ...]:
        """Check the files as one; without Spark, and without asking anybody. Raises InputErrors."""
        from penstock.sql.run.script_check import check_scripts

        return check_scripts(
            self.files,
            namespace=namespace,
            project=self.project.root,
            settings=self.settings,
            variables=self.variables,
            env=self.project.environment,
            folders=self.project.folders,
        )

    def replay(self, scripts: Sequence[CheckedScript], namespace: Namespace) -> Iterator[Replayed]:
        """Go through checked statements again, each with a planner of its time."""
        from penstock.sql.run.replay import replay

        return replay(
            scripts, namespace=namespace, project=self.project.root, settings=self.settings
        )


def read_input(
    files: Sequence[Path],
    *,
    var: Sequence[str] | None = None,
    vars_file: Path | None = None,
    settings: Sequence[str] | None = None,
    catalog: str | None = None,
    target: str | None = None,
) -> ScriptInput:
    """Read files and pairs, and fill in what the project says. Raises ConfigError."""
    project = find_project(Path.cwd(), target=target)
    return ScriptInput(
        project=project,
        variables={**project.variables, **read_variables(vars_file), **read_pairs("--var", var)},
        settings={**project.settings, **read_pairs("--set", settings)},
        catalog_url=catalog or project.default_catalog_url,
        files=read_scripts(files),
    )


def read_scripts(files: Sequence[Path]) -> tuple[ScriptFile, ...]:
    """Read files, of which `-` is standard input. Raises ConfigError."""
    return tuple(
        ScriptFile(name="stdin", text=sys.stdin.read()) if path == STDIN else read_script(path)
        for path in files
    )
