"""The project file `penstock.toml`: found from a folder upwards, parsed section by section into one frozen
`Project`.

A target's values override the project's own; `.env` lies beside the file. Errors carry the position in the
file. No file is no error.
"""

from __future__ import annotations

import os
import re
import string
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.catalog.errors import ConfigError, Span, did_you_mean
from penstock.catalog.options.reference_rules import ReferenceRules, visible_variables
from penstock.catalog.secrets.crypto import KEY_FILE, keep_catalog_key, keep_key_file
from penstock.sql.script.files import (
    ENV_FILE,
    TemplateFolders,
    check_link,
    check_own,
    lies_open_in,
    read_dotenv,
    sets_options,
)
from penstock.sql.settings import CHECKPOINT_DIR, PIPELINE_NAME, TARGET

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?$")

_PARSER_POSITION = re.compile(r" \(at line (\d+), column (\d+)\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of the file; `names` are the parts of its name, none for the file itself."""

    file: Path
    lines: Sequence[str] = field(repr=False)
    names: tuple[str, ...] = ()
    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name as it stands in brackets."""
        return ".".join(self.names)

    def section(self, name: str) -> Section:
        """Return a section below this one; one that is not there is empty. Raises ConfigError where it is none."""
        value = self.values.get(name, {})
        names = (*self.names, name)
        if not isinstance(value, dict):
            full = ".".join(names)
            raise self.error(f"`{full}` must be a section, [{full}]", name)
        return Section(file=self.file, lines=self.lines, names=names, values=value)

    def text(self, key: str) -> str | None:
        """Return a text; None where it is not there. Raises ConfigError for another value."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(f"`{key}`{self._position} must be a string, not {value!r}", key)
        return value

    def path(self, key: str, root: Path) -> Path | None:
        """Return a path, relative to the project's folder; None where it is not there."""
        text = self.text(key)
        return None if text is None else root / text

    def paths(self, key: str, root: Path) -> tuple[Path, ...] | None:
        """Return a list of paths, relative to the project's folder; None where it is not there."""
        values = self.values.get(key)
        if values is None:
            return None
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self.error(f"`{key}`{self._position} must be a list of strings", key)
        return tuple(root / value for value in values)

    def only(self, *known: str) -> None:
        """Refuse keys that are not known. Raises ConfigError."""
        noun = "key" if self.names else "section"
        for key in self.values:
            if key not in known:
                hint = did_you_mean(key, sorted(known)) or f"known are: {', '.join(sorted(known))}"
                raise self.error(f"unknown {noun} `{key}`{self._position}", key, hint=hint)

    def flat(self) -> dict[str, str]:
        """Join the parts of dotted keys again, which TOML reads as nested sections; values as text."""
        return self._flat(self.values, "")

    def _flat(self, values: Mapping[str, Any], prefix: str) -> dict[str, str]:
        flat: dict[str, str] = {}
        for key, value in values.items():
            if isinstance(value, dict):
                flat |= self._flat(value, f"{prefix}{key}.")
            elif isinstance(value, bool):
                flat[prefix + key] = str(value).lower()
            elif isinstance(value, str | int | float):
                flat[prefix + key] = str(value)
            else:
                wanted = "must be a string, a number or a boolean"
                raise self.error(f"`{prefix}{key}` in [{self.name}] {wanted}", key)
        return flat

    @property
    def _position(self) -> str:
        return f" in [{self.name}]" if self.names else ""

    def error(self, message: str, word: str, *, hint: str | None = None) -> ConfigError:
        """Make an error whose caret stands under a word of this section."""
        pattern = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
        best: tuple[tuple[bool, int], Span] | None = None
        depth = len(self.names)
        header: tuple[str, ...] = ()
        for number, line in enumerate(self.lines, start=1):
            found = _HEADER.match(line)
            if found is not None:
                header = tuple(part.strip(" \"'") for part in found[1].split("."))
            match = pattern.search(line.split("#", 1)[0])
            # a section may be spelled by its header, by dotted keys or as an inline table
            shared = header[: len(self.names)] == self.names[: len(header)]
            # [targets.dev.x] has an x, and so has the file itself by [x]: the latter is what is meant there
            exact = header[depth : depth + 1] == (word,) if found else header == self.names
            rank = (exact, min(len(header), depth))
            if match is not None and shared and (best is None or rank > best[0]):
                span = Span(
                    file=str(self.file),
                    line=number,
                    column=match.start() + 1,
                    length=len(word),
                    line_text=line,
                )
                best = (rank, span)
        if best is None:
            return ConfigError(f"{self.file}: {message}", hint=hint)
        return ConfigError(message, hint=hint, span=best[1])


def read_document(file: Path) -> Section:
    """Read a project file as one section without a name. Raises ConfigError for what is not TOML."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    lines = text.splitlines()
    try:
        return Section(file=file, lines=lines, values=tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(file, lines, str(error)) from error
    except RecursionError:
        raise ConfigError(f"{file} is not read: its values are nested too deeply") from None


def _not_toml(file: Path, lines: Sequence[str], reason: str) -> ConfigError:
    match = _PARSER_POSITION.search(reason)
    if match is None or int(match[1]) > len(lines):
        return ConfigError(f"{file} is not valid TOML: {reason}")
    line, column = int(match[1]), int(match[2])
    span = Span(file=str(file), line=line, column=column, length=1, line_text=lines[line - 1])
    message = reason[: match.start()]
    return ConfigError(f"{file} is not valid TOML: {message}", span=span)


PROJECT_FILE = "penstock.toml"

TARGET_VARIABLE = "PENSTOCK_TARGET"
"""The environment variable that chooses a target where `--target` does not."""

DATA_DIRECTORY = ".penstock"

MAIN_TARGET = "dev"
"""The target that has the project's own catalog where the file names no default target."""

SECTIONS = ("catalog", "spark", "settings", "variables")
"""The sections that a target may have as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project: its folder, and its file's configuration for the chosen target.

    `root` is the folder of `penstock.toml`, or the folder the search began in when there is none; relative paths in
    SQL (a Delta table's `path`, the checkpoint directory) start there. `spark_conf` are Spark settings, `settings` the
    SET keys that every file starts with, `variables` the values of `{{ var('...') }}`. `dotenv` is what `.env` adds to
    the environment, `target` the chosen target, `targets` all targets; `sharing` are others with the same catalog,
    `is_main`: this one has the project's own. `secret_key_file` has the keys of CREATE SECRET's values; None is the
    default of `SqlCatalog`. `reference_rules` limit what references and templates may read.
    """

    root: Path
    file: Path | None = None
    catalog_url: str | None = None
    master: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    dotenv: Mapping[str, str] = field(default_factory=dict, repr=False)
    target: str | None = None
    targets: tuple[str, ...] = ()
    sharing: tuple[str, ...] = ()
    is_main: bool = True
    data_path: Path | None = None
    macro_path: Path | None = None
    secret_path: Path | None = None
    secret_key_file: Path | None = None
    reference_rules: ReferenceRules = field(default_factory=ReferenceRules)

    @property
    def data_directory(self) -> Path:
        """The folder for the default catalog, checkpoints and logs."""
        return self.data_path or self.root / DATA_DIRECTORY

    @property
    def default_catalog_url(self) -> str:
        """The SQLAlchemy URL that the file names, else that of the project's own SQLite file."""
        return self.catalog_url or f"sqlite:///{self.own_catalog.as_posix()}"

    @property
    def own_catalog(self) -> Path:
        """The SQLite file that is the catalog unless the project's file names another.

        `.penstock/catalog.db` of the project and its main target; other targets have one each, so that none of them
        writes into tables of another.
        """
        if self.is_main or self.target is None:
            return self.main_catalog
        return self.data_directory / f"catalog-{_file_word(self.target)}.db"

    @property
    def lease_url(self) -> str | None:
        """The store of leases: the main target's, as targets share the folder of checkpoints; None is the catalog."""
        if self.is_main or self.catalog_url is not None:
            return None
        return f"sqlite:///{self.main_catalog.as_posix()}"

    @property
    def main_catalog(self) -> Path:
        """The SQLite file of the project and of its main target."""
        return self.data_directory / "catalog.db"

    @property
    def folders(self) -> TemplateFolders:
        """The folders that templates read."""
        return TemplateFolders(
            root=self.root,
            macros=self.macro_path,
            secrets=self.secret_path,
            rules=self.reference_rules,
        )

    @property
    def environment(self) -> dict[str, str]:
        """The environment that templates see: the process's, and what `.env` adds; no keys, and what rules allow."""
        return visible_variables({**self.dotenv, **os.environ}, self.reference_rules)


def find_project(start: Path, *, target: str | None = None) -> Project:
    """Find the nearest `penstock.toml` in `start` or a folder above it. Raises ConfigError if it is wrong.

    `target` None is what PENSTOCK_TARGET names, in the environment or in `.env`, else the file's default.
    """
    folder = start.resolve()
    for candidate in (folder, *folder.parents):
        file = candidate / PROJECT_FILE
        if file.is_file():
            return read_project(file, target=target)
    if (folder / DATA_DIRECTORY).exists():
        check_own(folder / DATA_DIRECTORY, folder=False)  # its catalog says what names mean
    if target is not None:
        raise ConfigError(
            f"there is no target {target!r}: no {PROJECT_FILE} was found in {folder} or above it",
            hint=f"write {PROJECT_FILE} with a section [targets.{target}]",
        )
    project = Project(root=folder, dotenv=read_dotenv(folder / ENV_FILE))
    _keep_key_files(project)
    return project


_from_dotenv: dict[str, str] = {}


def is_from_dotenv(variable: str, value: str) -> bool:
    """Return whether a value is what `.env` has put into a variable: it is the author's, and not the operator's."""
    return _from_dotenv.get(variable) == value == os.environ.get(variable)


def load_dotenv(start: Path) -> tuple[str, ...]:
    """Add the variables of the project's `.env` to the process's environment, where they are not set. Raises
    ConfigError.

    Returns the names that it leaves out: options that the author of a project may not set for those who check it. For
    commands, whose options have variables of their own, and whose children (Spark) read the environment too.
    """
    folder = start.resolve()
    roots = (each for each in (folder, *folder.parents) if (each / PROJECT_FILE).is_file())
    values = read_dotenv(next(roots, folder) / ENV_FILE)
    for key, value in values.items():
        if not sets_options(key) and key not in os.environ:
            os.environ[key] = _from_dotenv[key] = value
    return tuple(key for key in values if sets_options(key) and key not in os.environ)


def project_files(project: Project) -> list[Path]:
    """List the SQL files of a project, sorted: those below its folder, hidden folders and macros left out."""
    macros = project.folders.macro_folder
    return sorted(
        path
        for path in project.root.rglob("*.sql")
        if not any(part.startswith(".") for part in path.relative_to(project.root).parts)
        and not path.is_relative_to(macros)
    )


def read_project(file: Path, *, target: str | None = None) -> Project:
    """Read a project file. Raises ConfigError for bad TOML, unknown keys (with the nearest known) and wrong types."""
    check_own(file)
    check_link(file, file.parent)
    document = read_document(file)
    document.only("target", "paths", "targets", "secrets", *SECTIONS)
    paths, targets = document.section("paths"), document.section("targets")
    paths.only("data", "macros", "secrets")
    secrets = document.section("secrets")
    secrets.only("key-file", "file-roots", "env-prefix")
    root = file.parent.resolve()
    dotenv = read_dotenv(root / ENV_FILE)
    project = Project(
        root=root,
        file=file,
        dotenv=dotenv,
        targets=tuple(targets.values),
        data_path=paths.path("data", root),
        macro_path=_macro_path(paths, root),
        secret_path=paths.path("secrets", root),
        secret_key_file=secrets.path("key-file", root),
        reference_rules=ReferenceRules(
            file_roots=secrets.paths("file-roots", root), env_prefix=secrets.text("env-prefix")
        ),
    )
    project = _with(project, document)
    if project.data_path is None and project.data_directory.exists():
        check_own(project.data_directory, folder=False)
    # all targets are read, so that a mistake in one does not wait for its day
    variants = {name: _with(project, targets.section(name)) for name in project.targets}
    for name in project.targets:
        targets.section(name).only(*SECTIONS)
    for one in (project, *variants.values()):
        _keep_key_files(one)
    named = target or {**dotenv, **os.environ}.get(TARGET_VARIABLE)
    chosen = named or document.text("target")
    if not chosen:
        return _running_for(project, "") if variants else project
    if chosen not in variants:
        raise _no_target(chosen, project, document if not named else None)
    main = document.text("target") or MAIN_TARGET
    placed = {
        name: replace(one, target=name, is_main=name == main) for name, one in variants.items()
    }
    placed = {
        name: one if _has_own_location(targets.section(name)) else _running_for(one, name)
        for name, one in placed.items()
    }
    url = placed[chosen].default_catalog_url
    sharing = (n for n, one in placed.items() if n != chosen and one.default_catalog_url == url)
    return replace(placed[chosen], sharing=tuple(sharing))


def _has_own_location(target: Section) -> bool:
    """Return whether a target sets its own checkpoint directory or their names."""
    own = target.section("settings").flat()
    return CHECKPOINT_DIR.key in own or PIPELINE_NAME.key in own


def _running_for(project: Project, target: str) -> Project:
    """Name the target in checkpoints; the default one has no name there."""
    name = "" if project.is_main else target
    return replace(project, settings={**project.settings, TARGET.key: name})


def _macro_path(paths: Section, root: Path) -> Path | None:
    """Return the folder of macros, which templates include files from. Raises ConfigError for one
    outside the project.
    """
    folder = paths.path("macros", root)
    if folder is not None and not lies_open_in(folder, root):
        raise paths.error(
            "`macros` in [paths] must be a folder of the project, and no hidden one",
            "macros",
            hint="templates read no file outside the project: put the macros into a folder of it",
        )
    return folder


def _keep_key_files(project: Project) -> None:
    """Register where keys of the secrets may be, before anything is rendered or resolved.

    All places, also those that the file no longer names: the key may be kept from the file's author.
    """
    keep_key_file(project.root / DATA_DIRECTORY / KEY_FILE)
    keep_key_file(project.data_directory / KEY_FILE)
    keep_catalog_key(project.default_catalog_url)
    if project.secret_key_file is not None:
        keep_key_file(project.secret_key_file)


def _with(project: Project, document: Section) -> Project:
    """Overlay a project's configuration with the sections of a document, or of a target."""
    catalog, spark = document.section("catalog"), document.section("spark")
    catalog.only("url")
    spark.only("master", "conf")
    url = catalog.text("url")
    return replace(
        project,
        catalog_url=_catalog_url(url, project.root) if url else project.catalog_url,
        master=spark.text("master") or project.master,
        spark_conf={**project.spark_conf, **spark.section("conf").flat()},
        settings={**project.settings, **document.section("settings").flat()},
        variables={**project.variables, **document.section("variables").values},
    )


def _catalog_url(url: str, root: Path) -> str:
    """Make the path of a SQLite file relative to the project, wherever the command is typed."""
    path = url.removeprefix("sqlite:///")
    if path == url or path in {"", ":memory:"}:
        return url
    return f"sqlite:///{(root / path).as_posix()}"


def _file_word(name: str) -> str:
    """Write a name so that each is another file, on file systems too that do not tell upper from lower case."""
    plain = string.ascii_lowercase + string.digits + "-_"
    return "".join(c if c in plain else "".join(f"%{b:02x}" for b in c.encode()) for c in name)


def _no_target(name: str, project: Project, document: Section | None) -> ConfigError:
    near = did_you_mean(name, project.targets)
    there = f"there are: {', '.join(project.targets)}" if project.targets else None
    hint = near or there or f"add a section [targets.{name}] to {project.file}"
    if document is not None:
        return document.error(f"there is no target '{name}'", "target", hint=hint)
    return ConfigError(f"{project.file} has no target '{name}'", hint=hint)
