"""Statements as nested lists: pieces, and groups of them in parentheses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.sql.layout.pieces import Kind, Piece

__all__ = ["Group", "Node", "grouped", "items_of", "pieces_of"]


_NESTED = {"ARRAY", "MAP", "MULTISET", "ROW", "STRUCTURED"}
"""Types that have others in angles."""


@dataclass(frozen=True, slots=True)
class Group:
    """Something in parentheses."""

    opening: Piece
    nodes: tuple[Node, ...]
    closing: Piece


Node = Piece | Group


def grouped(pieces: Sequence[Piece]) -> tuple[Node, ...] | None:
    """Find the parentheses; None where they do not match, as in half a statement of a template."""
    stack: list[tuple[Piece | None, list[Node]]] = [(None, [])]
    for piece in pieces:
        if piece.kind is Kind.SIGN and piece.text == "(":
            stack.append((piece, []))
        elif piece.kind is Kind.SIGN and piece.text == ")":
            opening, nodes = stack.pop()
            if opening is None:
                return None
            stack[-1][1].append(Group(opening, tuple(nodes), piece))
        else:
            stack[-1][1].append(piece)
    return tuple(stack[0][1]) if len(stack) == 1 else None


def pieces_of(nodes: Sequence[Node]) -> Iterator[Piece]:
    """Give all pieces in order, parentheses too."""
    for node in nodes:
        if isinstance(node, Group):
            yield node.opening
            yield from pieces_of(node.nodes)
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
        piece = node if isinstance(node, Piece) else None
        behind = piece is not None and piece.is_remark and not piece.newlines
        if after_comma and not behind:
            items.append([])
        items[-1].append(node)
        if piece is not None and piece.kind is Kind.SIGN:
            angles += piece.text == "<" and (angles > 0 or before in _NESTED)
            angles -= piece.text == ">" and angles > 0
        ends = piece is not None and piece.text == "," and not angles
        after_comma = (after_comma and behind) or ends
        before = piece.word if piece is not None else ""
    return [item for item in items if item]
