"""Reads YAML as nodes that know their places, so that errors have their line and column.

Scalars are read as YAML 1.2's core does: `on` and `no` are texts, and so are dates and times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import yaml

from penstock.catalog.errors import ConfigError, Span, did_you_mean

T = TypeVar("T")
# YAML 1.1 reads 12:30:00 as a number, 2024-01-01 as a date and `on` as true
_DROPPED = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool", "tag:yaml.org,2002:int")
_RESOLVERS = {
    "tag:yaml.org,2002:bool": (r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    "tag:yaml.org,2002:int": (r"^[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+)$", "-+0123456789"),
}


class _Loader(yaml.SafeLoader):
    """A loader with the scalars of the core schema."""


def _set_up() -> None:
    implicit = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _DROPPED]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    _Loader.yaml_implicit_resolvers = implicit
    for tag, (pattern, first) in _RESOLVERS.items():
        _Loader.add_implicit_resolver(tag, re.compile(pattern), list(first))


_set_up()


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlNode:
    """A node of a file, and how errors name the place."""

    file: str
    lines: Sequence[str] = field(repr=False)
    node: yaml.Node = field(repr=False)

    @property
    def span(self) -> Span:
        """Where it begins; of a text on one line all of it."""
        mark, end = self.node.start_mark, self.node.end_mark
        line = self.lines[mark.line] if mark.line < len(self.lines) else ""
        length = end.column - mark.column if end.line == mark.line else len(line) - mark.column
        return Span(
            file=self.file,
            line=mark.line + 1,
            column=mark.column + 1,
            length=max(1, length),
            line_text=line,
        )

    def error(self, message: str, *, hint: str | None = None) -> ConfigError:
        """Make an error at this place."""
        return ConfigError(message, hint=hint, span=self.span)

    @property
    def is_mapping(self) -> bool:
        """Whether it has keys."""
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_sequence(self) -> bool:
        """Whether it has elements."""
        return isinstance(self.node, yaml.SequenceNode)

    @property
    def is_null(self) -> bool:
        """Whether nothing stands there."""
        return self.node.tag == "tag:yaml.org,2002:null"

    def items(self, what: str) -> Iterator[tuple[str, YamlNode, YamlNode]]:
        """Return keys, with their nodes, and values. Raises ConfigError where it is no mapping, or
        a key comes twice.
        """
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"{what} must be a mapping, as in `key: value`")
        seen: set[str] = set()
        for key, value in self.node.value:
            at = self._with(key)
            name = at.text("a key")
            if name in seen:
                raise at.error(f"{what} has the key `{name}` twice")
            seen.add(name)
            yield name, at, self._with(value)

    def fields(self, what: str, known: Sequence[str]) -> dict[str, YamlNode]:
        """Return the values of a mapping by its keys. Raises ConfigError for one that is not known."""
        found: dict[str, YamlNode] = {}
        for name, at, value in self.items(what):
            if name not in known:
                hint = did_you_mean(name, known) or f"known are: {', '.join(known)}"
                raise at.error(f"{what} has no key `{name}`", hint=hint)
            found[name] = value
        return found

    def elements(self, what: str) -> list[YamlNode]:
        """Return the elements of a list. Raises ConfigError."""
        if self.is_null:
            return []
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error(f"{what} must be a list, each element behind a dash")
        return [self._with(each) for each in self.node.value]

    def value(self) -> Any:
        """Return the plain value: texts, numbers, booleans, None, lists, mappings. Raises ConfigError."""
        loader = _Loader("")
        try:
            return loader.construct_document(self.node)
        except yaml.YAMLError as error:
            raise self.error(str(getattr(error, "problem", None) or error)) from error
        finally:
            loader.dispose()

    def text(self, what: str) -> str:
        """Return a text; a number counts as its digits. Raises ConfigError."""
        if not isinstance(self.node, yaml.ScalarNode) or self.is_null:
            raise self.error(f"{what} must be a text")
        return str(self.node.value)

    def flag(self, what: str) -> bool:
        """Return true or false. Raises ConfigError."""
        return self.typed(what, bool, "true or false")

    def typed(self, what: str, kind: type[T], name: str) -> T:
        """Return a value of one Python type. Raises ConfigError."""
        value = self.value()
        # a boolean is an int to Python, not to a person
        if type(value) is not kind:
            raise self.error(f"{what} must be {name}")
        return value

    def _with(self, node: yaml.Node) -> YamlNode:
        return YamlNode(file=self.file, lines=self.lines, node=node)


def read_yaml(text: str, file: str) -> YamlNode | None:
    """Read one document; None is an empty one. Raises ConfigError for what is not YAML."""
    lines = text.splitlines()
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"this is not YAML: {error.problem or error.context}"
        if mark is None:
            raise ConfigError(f"{file}: {message}") from error
        line = lines[mark.line] if mark.line < len(lines) else ""
        span = Span(file=file, line=mark.line + 1, column=mark.column + 1, length=1, line_text=line)
        raise ConfigError(message, span=span) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: this is not YAML: {error}") from error
    return None if node is None else YamlNode(file=file, lines=lines, node=node)
