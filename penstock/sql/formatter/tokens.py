"""Split a SQL file into tokens: words, strings, comments, Jinja tags, signs; and the blanks between two of them.

Jinja is looked for first, in strings too, as it is read first: in '{{ var('x') }}' the inner quotes are its
own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from penstock.catalog.errors import Span, SqlSyntaxError

__all__ = ["Token", "TokenKind", "blank_between", "tokenize"]


class TokenKind(Enum):
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
class Token:
    """A piece of text. `newlines` is how many line ends stood before it, `glued` whether nothing did."""

    kind: TokenKind
    text: str
    start: int
    newlines: int
    glued: bool

    @property
    def word(self) -> str:
        """A word in upper case; empty for what is no word."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""

    @property
    def is_remark(self) -> bool:
        """Whether it is no SQL: a comment or a tag."""
        return self.kind in {TokenKind.LINE, TokenKind.BLOCK, TokenKind.TAG}


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


def tokenize(text: str, file: str) -> list[Token]:
    """Cut a text into its pieces. Raises SqlSyntaxError for a string, comment or tag without an end."""
    pieces: list[Token] = []
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
            Token(
                kind=TokenKind[str(name)],
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


_SPACED = {"=", "==", "<>", "!=", ">=", "<=", "=>", "||", "/", "%"}
"""Signs that stand alone; others may be part of a type or a sign of a number, and stay as they were."""

_BEFORE_GROUP = {
    "AND", "AS", "BY", "ELSE", "ENFORCED", "EXCEPT", "EXISTS", "FROM", "IN", "INTERSECT", "INTO",
    "KEY", "LIKE", "NOT", "ON", "OR", "OVER", "SELECT", "SETS", "THEN", "UNION", "USING", "VALUES",
    "WHEN", "WHERE", "WITH",
}  # fmt: skip
"""Words that no function has as its name: a blank stands between them and a parenthesis."""


def blank_between(left: Token, right: Token) -> bool:
    """Return whether one blank, or none, stands between two pieces.

    Beside a template's value, and between a word and a string (X'00'), it is as it was: there it means something.
    """
    if right.text in {",", ";", ")"} or left.text == "(":
        return False
    if left.text in {",", ";"}:
        return True
    if TokenKind.VALUE in {left.kind, right.kind}:
        return not right.glued
    if right.kind is TokenKind.SIGN:
        if right.text in _SPACED:
            return True
        if right.text == "(":
            return left.word in _BEFORE_GROUP or not right.glued
    if left.kind is TokenKind.SIGN:
        if left.text in _SPACED:
            return True
        if left.text == ")":
            # a word that follows a parenthesis would be read as one with it by nobody
            return (
                right.kind in {TokenKind.WORD, TokenKind.NAME, TokenKind.STRING, TokenKind.NUMBER}
                or not right.glued
            )
    return not right.glued
