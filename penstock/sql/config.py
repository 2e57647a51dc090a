"""The project file `penstock.toml`: found by walking up from a folder, read into one frozen value.

Owns what its sections mean together: a target's over the project's own, and `.env` beside the file. Taking the text
apart is `project_file.py`'s part; what the values do is for those who use them. No file is no error.
"""

from __future__ import annotations

import os
import string
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.catalog.errors import ConfigError, did_you_mean
from penstock.catalog.reference_rules import ReferenceRules, visible_variables
from penstock.catalog.secret import KEY_FILE, keep_catalog_key, keep_key_file
from penstock.sql.dotenv import ENV_FILE, read_dotenv, sets_options
from penstock.sql.own_files import check_link, check_own
from penstock.sql.plan.settings import CHECKPOINT_DIR, PIPELINE_NAME, TARGET
from penstock.sql.project_file import Section, read_document
from penstock.sql.template_folders import TemplateFolders, lies_open_in

__all__ = [
    "PROJECT_FILE",
    "TARGET_VARIABLE",
    "Project",
    "find_project",
    "is_from_dotenv",
    "load_dotenv",
    "read_project",
]

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
    """A project: its folder, and what its file says for the chosen target.

    `root` is the folder of `penstock.toml`, or the folder the search began in when there is none; relative paths in
    SQL (a Delta table's `path`, the checkpoint directory) start there. `spark_conf` are Spark settings, `settings`
    the SET keys that every file starts with, `variables` the values of `{{ var('...') }}`. `dotenv` is what `.env`
    adds to the environment, `target` the target that was chosen, `targets` those there are; `sharing` are others that
    have the same catalog, `is_main` tells whether this one has the project's own. `secret_key_file` has the
    keys of CREATE SECRET's values; None is what `SqlCatalog` says. `reference_rules` limit what references and
    templates may read.
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
    """Tell whether a value is what `.env` has put into a variable: it is the author's, and not the operator's."""
    return _from_dotenv.get(variable) == value == os.environ.get(variable)


def load_dotenv(start: Path) -> tuple[str, ...]:
    """Put what `.env` of the project has into the process's environment, where that has not. Raises ConfigError.

    Gives the names that it leaves out: options that the author of a project does not set for those who check it. For
    commands, whose options have variables of their own, and whose children (Spark) look at the environment too.
    """
    folder = start.resolve()
    roots = (each for each in (folder, *folder.parents) if (each / PROJECT_FILE).is_file())
    values = read_dotenv(next(roots, folder) / ENV_FILE)
    for key, value in values.items():
        if not sets_options(key) and key not in os.environ:
            os.environ[key] = _from_dotenv[key] = value
    return tuple(key for key in values if sets_options(key) and key not in os.environ)


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
        name: one if _has_own_place(targets.section(name)) else _running_for(one, name)
        for name, one in placed.items()
    }
    url = placed[chosen].default_catalog_url
    sharing = (n for n, one in placed.items() if n != chosen and one.default_catalog_url == url)
    return replace(placed[chosen], sharing=tuple(sharing))


def _has_own_place(target: Section) -> bool:
    """Tell whether a target says itself where its checkpoints are, or what they are called by."""
    own = target.section("settings").flat()
    return CHECKPOINT_DIR.key in own or PIPELINE_NAME.key in own


def _running_for(project: Project, target: str) -> Project:
    """Let checkpoints say which of the targets they are of; the default one has no name there."""
    name = "" if project.is_main else target
    return replace(project, settings={**project.settings, TARGET.key: name})


def _macro_path(paths: Section, root: Path) -> Path | None:
    """Give the folder of macros, which templates include files from. Raises ConfigError for one outside the project."""
    folder = paths.path("macros", root)
    if folder is not None and not lies_open_in(folder, root):
        raise paths.error(
            "`macros` in [paths] must be a folder of the project, and no hidden one",
            "macros",
            hint="templates read no file outside the project: put the macros into a folder of it",
        )
    return folder


def _keep_key_files(project: Project) -> None:
    """Remember where keys of the secrets may lie, before anything is rendered or looked up.

    All places, also those that the file says nothing of any more: it may be an author's whom the key is kept from.
    """
    keep_key_file(project.root / DATA_DIRECTORY / KEY_FILE)
    keep_key_file(project.data_directory / KEY_FILE)
    keep_catalog_key(project.default_catalog_url)
    if project.secret_key_file is not None:
        keep_key_file(project.secret_key_file)


def _with(project: Project, document: Section) -> Project:
    """Lay the sections of a document, or of a target, over what a project says."""
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
