"""Takes `penstock.toml` apart, section by section; knows the text, to point at what is wrong in it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.catalog.errors import ConfigError, Span, did_you_mean

__all__ = ["Section", "read_document"]

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_PARSER_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")


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
        """Give a section below this one; one that is not there is empty. Raises ConfigError where it is none."""
        value = self.values.get(name, {})
        names = (*self.names, name)
        if not isinstance(value, dict):
            full = ".".join(names)
            raise self.error(f"`{full}` must be a section, [{full}]", name)
        return Section(file=self.file, lines=self.lines, names=names, values=value)

    def text(self, key: str) -> str | None:
        """Give a text; None where it is not there. Raises ConfigError for another value."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(f"`{key}`{self._place} must be a string, not {value!r}", key)
        return value

    def path(self, key: str, root: Path) -> Path | None:
        """Give a path, relative to the project's folder; None where it is not there."""
        text = self.text(key)
        return None if text is None else root / text

    def paths(self, key: str, root: Path) -> tuple[Path, ...] | None:
        """Give a list of paths, relative to the project's folder; None where it is not there."""
        values = self.values.get(key)
        if values is None:
            return None
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self.error(f"`{key}`{self._place} must be a list of strings", key)
        return tuple(root / value for value in values)

    def only(self, *known: str) -> None:
        """Refuse keys that are not known. Raises ConfigError."""
        noun = "key" if self.names else "section"
        for key in self.values:
            if key not in known:
                hint = did_you_mean(key, sorted(known)) or f"known are: {', '.join(sorted(known))}"
                raise self.error(f"unknown {noun} `{key}`{self._place}", key, hint=hint)

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
    def _place(self) -> str:
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
            place = pattern.search(line.split("#", 1)[0])
            # a section may be spelled by its header, by dotted keys or as an inline table
            shared = header[: len(self.names)] == self.names[: len(header)]
            # [targets.dev.x] has an x, and so has the file itself by [x]: the latter is what is meant there
            exact = header[depth : depth + 1] == (word,) if found else header == self.names
            rank = (exact, min(len(header), depth))
            if place is not None and shared and (best is None or rank > best[0]):
                span = Span(
                    file=str(self.file),
                    line=number,
                    column=place.start() + 1,
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
    place = _PARSER_PLACE.search(reason)
    if place is None or int(place[1]) > len(lines):
        return ConfigError(f"{file} is not valid TOML: {reason}")
    line, column = int(place[1]), int(place[2])
    span = Span(file=str(file), line=line, column=column, length=1, line_text=lines[line - 1])
    message = reason[: place.start()]
    return ConfigError(f"{file} is not valid TOML: {message}", span=span)
