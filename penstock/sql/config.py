"""The project file `penstock.toml`: found by walking up from a folder, read into one frozen value.

Owns its sections and their checks; what the values mean is for those who use them. No file is no error.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.catalog.errors import ConfigError, Span, did_you_mean

__all__ = ["PROJECT_FILE", "Project", "find_project", "read_project"]

PROJECT_FILE = "penstock.toml"
DATA_DIRECTORY = ".penstock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project: its folder, and what its file says.

    `root` is the folder of `penstock.toml`, or the folder the search began in when there is none; relative paths in
    SQL (a Delta table's `path`, the checkpoint directory) start there. `spark_conf` are Spark settings, `settings`
    the SET keys that every file starts with, `variables` the values of `{{ var('...') }}`.
    """

    root: Path
    file: Path | None = None
    catalog_url: str | None = None
    master: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def data_directory(self) -> Path:
        """The folder for the default catalog, checkpoints and logs."""
        return self.root / DATA_DIRECTORY

    @property
    def default_catalog_url(self) -> str:
        """The SQLAlchemy URL that the file names, else the SQLite file `.penstock/catalog.db` of the project."""
        return self.catalog_url or f"sqlite:///{(self.data_directory / 'catalog.db').as_posix()}"


def find_project(start: Path) -> Project:
    """Find the nearest `penstock.toml` in `start` or a folder above it. Raises ConfigError if it is wrong."""
    folder = start.resolve()
    for candidate in (folder, *folder.parents):
        file = candidate / PROJECT_FILE
        if file.is_file():
            return read_project(file)
    return Project(root=folder)


def read_project(file: Path) -> Project:
    """Read a project file. Raises ConfigError for bad TOML, unknown keys (with the nearest known) and wrong types."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}") from error
    return _Reader(file, text).project(document)


class _Reader:
    """Takes a parsed document apart; knows the text to point into it."""

    def __init__(self, file: Path, text: str) -> None:
        self._file = file
        self._lines = text.splitlines()

    def project(self, document: Mapping[str, Any]) -> Project:
        self._only(document, {"catalog", "spark", "settings", "variables"}, "section")
        catalog = self._section(document, "catalog")
        spark = self._section(document, "spark")
        self._only(catalog, {"url"}, "key", "catalog")
        self._only(spark, {"master", "conf"}, "key", "spark")
        return Project(
            root=self._file.parent.resolve(),
            file=self._file,
            catalog_url=self._catalog_url(self._text(catalog, "catalog", "url")),
            master=self._text(spark, "spark", "master"),
            spark_conf=self._flat(self._table(spark.get("conf", {}), "spark.conf"), "spark.conf"),
            settings=self._flat(self._section(document, "settings"), "settings"),
            variables=dict(self._section(document, "variables")),
        )

    def _catalog_url(self, url: str | None) -> str | None:
        """Make the path of a SQLite file relative to the project, wherever the command is typed."""
        path = url.removeprefix("sqlite:///") if url else None
        if path is None or path == url or path in {"", ":memory:"}:
            return url
        return f"sqlite:///{(self._file.parent.resolve() / path).as_posix()}"

    def _section(self, document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        return self._table(document.get(name, {}), name)

    def _table(self, value: Any, name: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self._error(f"`{name}` must be a section, [{name}]", name.rpartition(".")[2])
        return value

    def _text(self, section: Mapping[str, Any], name: str, key: str) -> str | None:
        value = section.get(key)
        if value is not None and not isinstance(value, str):
            raise self._error(f"`{key}` in [{name}] must be a string, not {value!r}", key)
        return value

    def _only(
        self, section: Mapping[str, Any], known: set[str], noun: str, name: str | None = None
    ) -> None:
        place = f" in [{name}]" if name else ""
        for key in section:
            if key not in known:
                hint = did_you_mean(key, sorted(known)) or f"known are: {', '.join(sorted(known))}"
                raise self._error(f"unknown {noun} `{key}`{place}", key, hint=hint)

    def _flat(self, section: Mapping[str, Any], name: str, prefix: str = "") -> dict[str, str]:
        """Join the parts of dotted keys again, which TOML reads as nested sections."""
        flat: dict[str, str] = {}
        for key, value in section.items():
            if isinstance(value, dict):
                flat |= self._flat(value, name, f"{prefix}{key}.")
            elif isinstance(value, bool):
                flat[prefix + key] = str(value).lower()
            elif isinstance(value, str | int | float):
                flat[prefix + key] = str(value)
            else:
                raise self._error(
                    f"`{prefix}{key}` in [{name}] must be a string, a number or a boolean", key
                )
        return flat

    def _error(self, message: str, word: str, *, hint: str | None = None) -> ConfigError:
        pattern = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
        for number, line in enumerate(self._lines, start=1):
            found = pattern.search(line.split("#", 1)[0])
            if found is not None:
                column = found.start() + 1
                span = Span(
                    file=str(self._file),
                    line=number,
                    column=column,
                    length=len(word),
                    line_text=line,
                )
                return ConfigError(message, hint=hint, span=span)
        return ConfigError(f"{self._file}: {message}", hint=hint)
