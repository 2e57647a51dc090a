"""Cuts a SQL file into pieces: words, strings, comments, Jinja tags, signs; and what blanks stood in front of each.

Jinja is looked for first, in strings too, as it is what is read first: in '{{ var('x') }}' the inner quotes are
its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from penstock.catalog.errors import Span, SqlSyntaxError

__all__ = ["Kind", "Piece", "cut"]


class Kind(Enum):
    """What a piece is. TAG is `{% %}` or `{# #}`, VALUE is `{{ }}`, LINE a comment to the end of its line."""

    WORD = auto()
    NUMBER = auto()
    STRING = auto()
    NAME = auto()
    SIGN = auto()
    LINE = auto()
    BLOCK = auto()
    TAG = auto()
    VALUE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of text. `newlines` is how many line ends stood before it, `glued` whether nothing did."""

    kind: Kind
    text: str
    start: int
    newlines: int
    glued: bool

    @property
    def word(self) -> str:
        """A word in upper case; empty for what is no word."""
        return self.text.upper() if self.kind is Kind.WORD else ""

    @property
    def is_remark(self) -> bool:
        """Whether it is no SQL: a comment or a tag."""
        return self.kind in {Kind.LINE, Kind.BLOCK, Kind.TAG}


_TAG = r"\{\{.*?\}\}|\{%.*?%\}|\{\#.*?\#\}"
_PIECE = re.compile(
    rf"""
    (?P<VALUE>\{{\{{.*?\}}\}})
  | (?P<TAG>\{{%.*?%\}}|\{{\#.*?\#\}})
  | (?P<LINE>(?:--|//)[^\n]*)
  | (?P<HINT>/\*\+.*?\*/)
  | (?P<BLOCK>/\*.*?\*/)
  | (?P<STRING>(?:[xX]|[uU]&)?'(?:{_TAG}|''|[^'])*')
  | (?P<NAME>`(?:{_TAG}|``|[^`])*`)
  | (?P<NUMBER>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<WORD>[^\W\d]\w*(?:\$\w+)*)
  | (?P<SIGN>\|\||<>|!=|>=|<=|=>|==|->|::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BLANK = re.compile(r"\s*")
_OPENINGS = ("'", "`", "{{", "{%", "{#", "/*")


def cut(text: str, file: str) -> list[Piece]:
    """Cut a text into its pieces. Raises SqlSyntaxError for a string, comment or tag without an end."""
    pieces: list[Piece] = []
    at = 0
    while True:
        blank = _BLANK.match(text, at)
        assert blank is not None, "no blank is a match too"
        start = blank.end()
        if start == len(text):
            return pieces
        found = _PIECE.match(text, start)
        assert found is not None, "every character is a piece"
        if text.startswith(_OPENINGS, start) and found.lastgroup == "SIGN":
            raise _endless(text, start, file)
        name = "BLOCK" if found.lastgroup == "HINT" else found.lastgroup
        pieces.append(
            Piece(
                kind=Kind[str(name)],
                text=found[0].rstrip() if name == "LINE" else found[0],
                start=start,
                newlines=blank[0].count("\n"),
                glued=start == at and bool(pieces),
            )
        )
        at = found.end()


def _endless(text: str, start: int, file: str) -> SqlSyntaxError:
    first = text.rfind("\n", 0, start) + 1
    line_text = text[first:].split("\n", 1)[0]
    span = Span(
        file=file,
        line=text.count("\n", 0, start) + 1,
        column=start - first + 1,
        length=1,
        line_text=line_text,
    )
    return SqlSyntaxError("what begins here has no end", span=span)
