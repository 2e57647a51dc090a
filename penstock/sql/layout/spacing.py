"""Whether a blank stands between two pieces on one line."""

from __future__ import annotations

from penstock.sql.layout.pieces import Kind, Piece

__all__ = ["blank_between"]

_SPACED = {"=", "==", "<>", "!=", ">=", "<=", "=>", "||", "/", "%"}
"""Signs that stand alone; others may be part of a type or a sign of a number, and stay as they were."""

_BEFORE_GROUP = {
    "AND", "AS", "BY", "ELSE", "ENFORCED", "EXCEPT", "EXISTS", "FROM", "IN", "INTERSECT", "INTO",
    "KEY", "LIKE", "NOT", "ON", "OR", "OVER", "SELECT", "SETS", "THEN", "UNION", "USING", "VALUES",
    "WHEN", "WHERE", "WITH",
}  # fmt: skip
"""Words that no function has as its name: a blank stands between them and a parenthesis."""


def blank_between(left: Piece, right: Piece) -> bool:
    """Tell whether one blank, or none, stands between two pieces.

    Beside a template's value, and between a word and a string (X'00'), it is as it was: there it means something.
    """
    if right.text in {",", ";", ")"} or left.text == "(":
        return False
    if left.text in {",", ";"}:
        return True
    if Kind.VALUE in {left.kind, right.kind}:
        return not right.glued
    if right.kind is Kind.SIGN:
        if right.text in _SPACED:
            return True
        if right.text == "(":
            return left.word in _BEFORE_GROUP or not right.glued
    if left.kind is Kind.SIGN:
        if left.text in _SPACED:
            return True
        if left.text == ")":
            # a word that follows a parenthesis would be read as one with it by nobody
            return right.kind in {Kind.WORD, Kind.NAME, Kind.STRING, Kind.NUMBER} or not right.glued
    return not right.glued
