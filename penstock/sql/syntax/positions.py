"""Where things stand in a text: offsets of syntax nodes, and their place as file, line and column.

Nodes keep offsets of their first and last character in `meta`; the root of a parsed statement keeps
the Source that the offsets are of. Offsets count from 0 over the whole text, both ends inclusive.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self, TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from penstock.catalog.errors import Span
from penstock.catalog.masking import without_secrets
from penstock.catalog.options.redaction import is_secret
from penstock.sql.syntax.traversal import all_nodes

Node = TypeVar("Node", bound=exp.Expr)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOrigin:
    """The line of a file that a person edits, for a line of a rendered text; `line` counts from 1.

    `text` is its content. `called_from` are the lines (file:line) that include or call it, the nearest first.
    """

    file: str
    line: int
    text: str = ""
    called_from: tuple[str, ...] = ()


LineMap = Sequence[LineOrigin]
"""The origin of each line of a rendered text."""

SOURCE = "penstock.source"
POSITION = "penstock.place"
_OPTION = re.compile(r"'((?:[^']|'')*+)'\s*=\s*'((?:[^']|'')*+)'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A text and where its lines come from (`line_map` is None where it is the file itself)."""

    file: str
    text: str = field(repr=False)
    line_map: LineMap | None = field(default=None, repr=False)

    def span(self, start: int, end: int) -> Span:
        """The place of the characters `start` to `end`; one line at most.

        The line is shown without the values of secret options: their length stays, so that the
        caret stands right.
        """
        first = self.text.rfind("\n", 0, start) + 1
        last = self.text.find("\n", start)
        last = len(self.text) if last < 0 else last
        line = bisect_left(_line_ends(self.text), start) + 1
        origin = LineOrigin(file=self.file, line=line, text=self.text[first:last])
        if self.line_map is not None and line <= len(self.line_map):
            origin = self.line_map[line - 1]
        made = origin.text.rstrip("\r") != self.text[first:last].rstrip("\r")
        return Span(
            file=origin.file,
            line=origin.line,
            column=start - first + 1,
            length=max(1, min(end + 1, last) - start),
            line_text=_without_secrets(self.text)[first:last].rstrip("\r"),
            template_text=_without_secrets(origin.text).rstrip("\r") if made else None,
            called_from=origin.called_from,
        )

    def __deepcopy__(self, _: object) -> Self:
        return self  # a node's meta is copied with the node; this is a value


def mark(node: Node, first: Token, last: Token) -> Node:
    """Note that `node` was read from the tokens `first` to `last`."""
    node.meta["start"] = first.start
    node.meta["end"] = last.end
    return node


def attach(node: Node, source: Source | None) -> Node:
    """Note which text the offsets of `node`, and of what is below it, are of; None for one without."""
    node.meta[SOURCE] = source
    return node


def position_as(node: Node, other: exp.Expr) -> Node:
    """Set the position of a generated `node` to that of `other`, whatever is below it."""
    node.meta[POSITION] = extent(other)
    return node


def extent(node: exp.Expr) -> tuple[int, int] | None:
    """First and last offset of a node, or of what stands below it; None for a node made by code."""
    if (known := node.meta_get(POSITION)) is not None:
        return known  # type: ignore[no-any-return]
    found = [
        (n.meta["start"], n.meta["end"])
        for n in all_nodes(node)
        if n.meta_get("start") is not None and n.meta_get("end") is not None
    ]
    if not found:
        return None
    return min(start for start, _ in found), max(end for _, end in found)


def source_of(node: exp.Expr) -> Source | None:
    """The text that a node's offsets are of: what the nearest node above it was attached to."""
    above: exp.Expr | None = node
    while above is not None:
        found: Source | None = above.meta_get(SOURCE, None)
        if found is not None or SOURCE in above.meta:
            return found
        above = above.parent
    return None


def span_of(node: exp.Expr) -> Span | None:
    """The place of a syntax node in the file; None where the node does not come from one."""
    source, known = source_of(node), extent(node)
    return source.span(*known) if source is not None and known is not None else None


@lru_cache(maxsize=4)
def _line_ends(text: str) -> Sequence[int]:
    """The offsets of all line feeds; kept, as counting them for each place would cost the square of a file."""
    return [match.start() for match in re.finditer("\n", text)]


@lru_cache(maxsize=4)
def _without_secrets(text: str) -> str:
    """A whole text masked; kept, as every statement of a file asks for places in the same one."""

    def mask(match: re.Match[str]) -> str:
        if not is_secret(match[1].replace("''", "'")):
            return match[0]
        start, end = match.start(2) - match.start(), match.end(2) - match.start()
        return match[0][:start] + re.sub(r"[^\n]", "*", match[2]) + match[0][end:]

    return _OPTION.sub(mask, without_secrets(text, same_length=True))
