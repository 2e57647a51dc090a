"""Marks in a rendered text that say which line of which file made what follows; no template can see them.

Text in the making is a `MarkedText`: to filters, tests and comparisons it is the plain text, and it keeps the marked
one beside it. Marks lie between NUL characters, which no template contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Self

from jinja2 import nodes

__all__ = ["MarkedText", "mark_outputs", "origins_of"]

_MARK = re.compile("\x00([0-9:<>]+)\x00")
_IN, _OUT = "\x00>\x00", "\x00<\x00"

Place = tuple[int, int]
"""A file's number, and a line in it."""


class MarkedText(str):
    """A text without its marks, which are in `marked`."""

    __slots__ = ("marked",)

    marked: str

    @classmethod
    def join(cls, pieces: Iterable[str]) -> Self:
        """Put what a template wrote together; a marked piece in it was made elsewhere (a macro, a block)."""
        marked = "".join(
            f"{_IN}{piece.marked}{_OUT}" if isinstance(piece, MarkedText) else piece
            for piece in pieces
        )
        made = cls(_MARK.sub("", marked))
        made.marked = marked
        return made

    def __str__(self) -> str:
        """Give itself: what a template writes goes through `str`."""
        return self


def mark_outputs(node: nodes.Node, file: int) -> None:
    """Mark everything that a syntax tree writes with the number of its file, and its line."""
    for child in node.iter_child_nodes():
        if isinstance(child, nodes.Output):
            child.nodes = [piece for part in child.nodes for piece in _marked(part, file)]
        else:
            mark_outputs(child, file)
    for name in ("body", "else_"):
        body = getattr(node, name, None)
        if isinstance(body, list):
            setattr(node, name, [one for part in body for one in _entered(part, file)])


def _entered(part: nodes.Node, file: int) -> list[nodes.Node]:
    """Note around an include where it stands."""
    if not isinstance(part, nodes.Include):
        return [part]
    before = nodes.TemplateData(f"{_mark(file, part.lineno)}{_IN}", lineno=part.lineno)
    after = nodes.TemplateData(_OUT, lineno=part.lineno)
    outputs = [nodes.Output([data], lineno=part.lineno) for data in (before, after)]
    return [outputs[0], part, outputs[1]]


def _marked(part: nodes.Expr, file: int) -> list[nodes.Expr]:
    if not isinstance(part, nodes.TemplateData):
        return [nodes.TemplateData(_mark(file, part.lineno), lineno=part.lineno), part]
    lines = part.data.split("\n")
    text = "\n".join(f"{_mark(file, part.lineno + i)}{line}" for i, line in enumerate(lines))
    return [nodes.TemplateData(text, lineno=part.lineno)]


def _mark(file: int, line: int) -> str:
    return f"\x00{file}:{line}\x00"


def origins_of(text: MarkedText) -> Iterator[tuple[Place, ...]]:
    """Give for each line where it was made, and from where that was called or included, the nearest first.

    A line belongs to what is first written on it, blanks apart.
    """
    origin: tuple[Place, ...] = ((0, 1),)
    for line in text.marked.split("\n"):
        first: tuple[Place, ...] | None = None
        # text, mark, text, mark, ..., text
        for number, part in enumerate(_MARK.split(line)):
            if number % 2:
                origin = _moved(origin, part)
            elif first is None and part.strip():
                first = origin
        yield first or origin


def _moved(origin: tuple[Place, ...], mark: str) -> tuple[Place, ...]:
    match mark:
        case ">":
            return (origin[0], *origin)
        case "<":
            return origin[1:]
    file, line = map(int, mark.split(":"))
    return ((file, line), *origin[1:])
