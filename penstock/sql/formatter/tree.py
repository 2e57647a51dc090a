"""Statements as nested groups of tokens, and where the clauses of a query begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.sql.formatter.tokens import Token, TokenKind

__all__ = [
    "LISTS",
    "Group",
    "Node",
    "clauses_of",
    "grouped",
    "head_length",
    "is_query",
    "items_of",
    "tokens_of",
]


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
