"""`penstock init` and `prepare`, each done once: a project that runs with no broker, and an installation made ready.

The files of a project are in `cli/project_template`. `prepare` does ahead of time what would make starts slow: it
fetches jars and records Spark's classes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from penstock.catalog.errors import ConfigError
from penstock.sql.cli.options import VerboseOption
from penstock.sql.cli.output.report import print_lines, reporting, say
from penstock.sql.cli.service import FOLDER, service_texts
from penstock.sql.script.project import PROJECT_FILE

_TEMPLATE = "penstock.sql.cli"
"""The package whose folder `project_template` holds the files of a new project."""

FILES = (
    ("penstock.toml", "penstock.toml"),
    ("sql/pipeline.sql", "sql/pipeline.sql"),
    ("sql/report.sql", "sql/report.sql"),
    ("tests/pipeline_test.yaml", "tests/pipeline_test.yaml"),
    ("gitignore", ".gitignore"),
    ("env.example", ".env.example"),
    ("README.md", "README.md"),
)
"""Name among the data, and path in the project: hidden files are kept under names that no packaging leaves out."""

NEXT = ("penstock test", "penstock run sql/pipeline.sql", "penstock run sql/report.sql")
"""What to type next, in the project's folder."""

NAME_MARK = "@NAME@"
OTHER_FOLDER = "choose another folder: penstock init DIR"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def init(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder of the project, created if it does not exist. Example: `shop`",
        ),
    ] = Path(),
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            envvar="PENSTOCK_INIT_NAME",
            help="Name of the project and its pipeline; default the folder's. Example: `--name orders`",
            show_default=False,
        ),
    ] = None,
    service: Annotated[
        bool,
        typer.Option(
            "--service",
            envvar="PENSTOCK_INIT_SERVICE",
            help="Write a systemd unit and a container file as well. Example: `--service`",
        ),
    ] = False,
) -> None:
    """Write a project that runs at once: settings, a pipeline, a test. Never overwrites a file.

    With `--service`, also a systemd unit and a container file that run its pipelines by `penstock up`, into `deploy`;
    where there is a project already, those alone.

    Example: `penstock init shop`
    """
    with reporting(context):
        called = project_name(folder, name)
        is_there = service and (folder / PROJECT_FILE).is_file()
        texts = {} if is_there else project_texts(folder, called)
        if service:
            texts |= service_texts(folder, called)
        hint = "remove or rename them, and run this again" if is_there else OTHER_FOLDER
        write_files(folder, texts, hint=hint)
        lines = [f"wrote {path}" for path in texts]
        enter = [] if folder.resolve() == Path.cwd() else [f"  cd {quote(str(folder))}"]
        next_lines = [f"  {command}" for command in (() if is_there else NEXT)]
        if service:
            next_lines += [
                f"  install {FOLDER}/{called}.service or {FOLDER}/Dockerfile, as their first lines say"
            ]
        print_lines([*lines, "", "next:", *enter, *next_lines])


def project_name(folder: Path, name: str | None) -> str:
    """Return the project's name: as asked, else the folder's. Raises ConfigError for one that cannot be it."""
    if name is None:
        found = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.resolve().name).strip("-._")
        return found or "pipeline"
    if _NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{name!r} cannot be the name of a project",
            hint="letters, digits, '-', '_' and '.', beginning with a letter or digit",
        )
    return name


def write_project(folder: Path, name: str) -> tuple[Path, ...]:
    """Write the files of a project; returns their paths. As `write_files`."""
    texts = project_texts(folder, name)
    write_files(folder, texts)
    return tuple(texts)


def project_texts(folder: Path, name: str) -> dict[Path, str]:
    """Return the files of a project by their paths."""
    return {folder / path: _text(source, name) for source, path in FILES}


def write_files(folder: Path, texts: Mapping[Path, str], *, hint: str = OTHER_FOLDER) -> None:
    """Write all files. Raises ConfigError, with this hint, and writes nothing, where one of them is there."""
    there = [path for path in texts if path.exists() or path.is_symlink()]
    if there:
        raise ConfigError(
            "nothing was written, as this would overwrite " + ", ".join(map(str, there)),
            hint=hint,
        )
    written: list[Path] = []
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            # "x": a file that came in the meantime is not overwritten either
            with path.open("x", encoding="utf-8", newline="\n") as stream:
                written.append(path)
                stream.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise ConfigError(f"{folder} cannot be written: {error.strerror}") from error


def _text(source: str, name: str) -> str:
    from importlib.resources import files

    file = files(_TEMPLATE).joinpath("project_template", *source.split("/"))
    return file.read_text(encoding="utf-8").replace(NAME_MARK, name)


def prepare(context: typer.Context, verbose: VerboseOption = False) -> None:
    """Fetch jars and record Spark's classes, once an installation: Spark then starts in less time.

    Example: `penstock prepare`
    """
    with reporting(context, verbose=verbose) as is_verbose:
        from penstock.connector.jvm.class_data import SWITCH, is_off, make_archive
        from penstock.connector.registry import engine_jars
        from penstock.sql.spark_process.class_path import archive_for, class_path_settings

        jars = engine_jars()
        print_lines([f"jars: {jars[0].parent}"])
        if is_off():
            print_lines([f"class data: off by {SWITCH}=0, nothing is recorded"])
            return

        def record(options: Sequence[str]) -> None:
            say("recording the classes of Spark, this once: about a minute")
            from penstock.sql.session.recording import record_classes

            record_classes(options, verbose=is_verbose)

        archive = archive_for(class_path_settings(jars, {}, in_process=True))
        if archive is None:
            raise ConfigError(
                "Spark's own jars are not where PySpark looks for them",
                hint="unset SPARK_HOME, or pip install --force-reinstall pyspark",
            )
        made = make_archive(archive, record)
        size = archive.file.stat().st_size // 1_000_000
        state = "recorded" if made else "there already"
        print_lines([f"class data: {archive.file}, {size} MB, {state}"])
