"""Split a SQL file into tokens, and group the tokens of a statement by brackets and clauses.

Tokens are words, strings, comments, Jinja tags and signs; the blanks between two of them are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from penstock.catalog.errors import Span, SqlSyntaxError


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


_NESTED = {"ARRAY", "MAP", "MULTISET", "ROW", "STRUCTURED"}
"""Types that have others in angles."""


@dataclass(frozen=True, slots=True)
class Group:
    """Something in parentheses."""

    opening: Token
    nodes: tuple[Node, ...]
    closing: Token


Node = Token | Group


def grouped(pieces: Sequence[Token]) -> tuple[Node, ...] | None:
    """Find the parentheses; None where they do not match, as in half a statement of a template."""
    stack: list[tuple[Token | None, list[Node]]] = [(None, [])]
    for piece in pieces:
        if piece.kind is TokenKind.SIGN and piece.text == "(":
            stack.append((piece, []))
        elif piece.kind is TokenKind.SIGN and piece.text == ")":
            opening, nodes = stack.pop()
            if opening is None:
                return None
            stack[-1][1].append(Group(opening, tuple(nodes), piece))
        else:
            stack[-1][1].append(piece)
    return tuple(stack[0][1]) if len(stack) == 1 else None


def tokens_of(nodes: Sequence[Node]) -> Iterator[Token]:
    """Return all pieces in order, parentheses too."""
    for node in nodes:
        if isinstance(node, Group):
            yield node.opening
            yield from tokens_of(node.nodes)
            yield node.closing
        else:
            yield node


def items_of(nodes: Sequence[Node]) -> list[list[Node]]:
    """Cut a list at its commas, which stay with what is before them, as does a comment behind one on its line.

    Those in the angles of a type (MAP<STRING, INT>) are not the list's.
    """
    items: list[list[Node]] = [[]]
    after_comma, angles, before = False, 0, ""
    for node in nodes:
        piece = node if isinstance(node, Token) else None
        behind = piece is not None and piece.is_remark and not piece.newlines
        if after_comma and not behind:
            items.append([])
        items[-1].append(node)
        if piece is not None and piece.kind is TokenKind.SIGN:
            angles += piece.text == "<" and (angles > 0 or before in _NESTED)
            angles -= piece.text == ">" and angles > 0
        ends = piece is not None and piece.text == "," and not angles
        after_comma = (after_comma and behind) or ends
        before = piece.word if piece is not None else ""
    return [item for item in items if item]


LISTS = ("SELECT", "VALUES", "GROUP", "ORDER", "FROM")
"""Clauses whose items have lines of their own where they do not fit on one."""

_OPEN = ("SELECT", "VALUES")

_STARTS = {
    "EXCEPT", "FETCH", "FROM", "GROUP", "HAVING", "INTERSECT", "LIMIT", "OFFSET", "ORDER",
    "QUALIFY", "SELECT", "UNION", "VALUES", "WHERE", "WINDOW",
}  # fmt: skip

_JOINS = {"NATURAL", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "JOIN"}

_HEADS = {
    "SELECT": ("DISTINCT", "ALL"), "GROUP": ("BY",), "ORDER": ("BY",), "UNION": ("ALL", "DISTINCT"),
    "EXCEPT": ("ALL", "DISTINCT"), "INTERSECT": ("ALL", "DISTINCT"),
}  # fmt: skip


def is_query(nodes: Sequence[Node]) -> bool:
    """Return whether what stands in parentheses is a query and not a list."""
    first = next((n for n in nodes if not (isinstance(n, Token) and n.is_remark)), None)
    return isinstance(first, Token) and first.word in {*_OPEN, "WITH"}


def clauses_of(nodes: Sequence[Node]) -> list[Sequence[Node]]:
    """Cut a statement, or a query, into its clauses, with the comments on lines of their own in front of each.

    What stands in front of the first SELECT or VALUES (INSERT INTO t, CREATE VIEW v AS) is one clause.
    """
    cuts = [0]
    inside = False
    for index, node in enumerate(nodes):
        word = node.word if isinstance(node, Token) else ""
        if word and _joined(nodes[index - 1 : index], node):
            continue
        named = word == "WITH" and isinstance(nodes[min(index + 1, len(nodes) - 1)], Token)
        if not inside and word not in _OPEN and not named:
            continue
        if named and not inside and index:
            cuts.append(index)
        inside = True
        before = [_word(nodes, index - 1), _word(nodes, index - 2)]
        if index not in cuts and _starts(word, before, nodes, index):
            cuts.append(_with_remarks(nodes, index, cuts[-1]))
    ends = [*cuts[1:], len(nodes)]
    return [nodes[a:b] for a, b in zip(cuts, ends, strict=True) if a < b]


def _joined(before: Sequence[Node], node: Node) -> bool:
    """Return whether a word is one with the template's value before it: {{ prefix }}from."""
    left = before[0] if before else None
    is_value = isinstance(left, Token) and left.kind is TokenKind.VALUE
    return is_value and isinstance(node, Token) and node.glued


def _with_remarks(nodes: Sequence[Node], index: int, lowest: int) -> int:
    """Return where the comments begin that stand on lines of their own in front of a clause: they are its own."""
    while index - 1 > lowest:
        node = nodes[index - 1]
        if not (isinstance(node, Token) and node.is_remark and node.newlines):
            break
        index -= 1
    return index


def _starts(word: str, before: Sequence[str], nodes: Sequence[Node], index: int) -> bool:
    if word == "FROM":
        return before[0] != "DISTINCT" or before[1] not in {"IS", "NOT"}
    if word in _JOINS:
        if before[0] in _JOINS or before[0] == "OUTER":
            return False
        # LEFT(a, 1) is a function
        return any(_word(nodes, i) == "JOIN" for i in range(index, index + 4))
    return word in _STARTS


def _word(nodes: Sequence[Node], index: int) -> str:
    node = nodes[index] if 0 <= index < len(nodes) else None
    return node.word if isinstance(node, Token) else ""


def head_length(nodes: Sequence[Node]) -> int:
    """Return how many of a clause's nodes are its keywords."""
    first = _word(nodes, 0)
    if first not in _STARTS:
        return 0
    return 2 if _word(nodes, 1) in _HEADS.get(first, ()) else 1
