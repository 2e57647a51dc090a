"""Keywords in capital letters, where that leaves the statement's meaning as it is.

Names are case-sensitive in Flink, and many keywords may be names: the statement is parsed both ways, and where the
trees differ, or it does not parse (a template, say), its words stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot.errors import SqlglotError

from penstock.sql.dialect.flink.dialect import Flink
from penstock.sql.formatter.tokens import Token, TokenKind

__all__ = ["in_capitals"]

_KEYWORDS = {
    "ALL", "ALTER", "AND", "ARRAY", "AS", "ASC", "BEGIN", "BETWEEN", "BIGINT", "BOOLEAN", "BY",
    "BYTES", "CASE", "CAST", "CREATE", "CROSS", "DATE", "DECIMAL", "DESC", "DESCRIPTOR", "DISTINCT",
    "DOUBLE", "DROP", "ELSE", "END", "ENFORCED", "EXCEPT", "EXECUTE", "EXISTS", "EXPLAIN", "FALSE",
    "FETCH", "FLOAT", "FOR", "FROM", "FULL", "GROUP", "HAVING", "IF", "IN", "INNER", "INSERT",
    "INT", "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN", "KEY", "LATERAL", "LEFT", "LIKE", "LIMIT",
    "MAP", "METADATA", "NATURAL", "NOT", "NULL", "OFFSET", "ON", "OR", "ORDER", "OUTER", "OVER",
    "OVERWRITE", "PARTITION", "PARTITIONED", "PRIMARY", "RESET", "RIGHT", "ROW", "SELECT", "SET",
    "SHOW", "SMALLINT", "STATEMENT", "STRING", "TABLE", "TABLES", "TEMPORARY", "THEN", "TIME",
    "TIMESTAMP", "TIMESTAMP_LTZ", "TINYINT", "TRUE", "UNION", "USE", "VALUES", "VARCHAR", "VIEW",
    "VIEWS", "VIRTUAL", "WATERMARK", "WHEN", "WHERE", "WITH",
}  # fmt: skip


_OBJECTS = {"SECRET", "SECRETS"}
"""Words that are common as names: keywords right behind one of _VERBS."""
_VERBS = {"ALTER", "CREATE", "DROP", "SHOW"}

_FRAME = {"BEGIN", "END", "EXECUTE", "EXPLAIN", "SET", "STATEMENT"}
"""Words around the statements of a set, which are laid out by themselves."""


def in_capitals(run: Sequence[Token], text: str) -> Sequence[Token]:
    """Return a statement's pieces with its keywords in capitals."""
    changed = [
        replace(piece, text=piece.word) if _is_keyword(piece.word, left) else piece
        for left, piece in zip(["", *(piece.text for piece in run)], run, strict=False)
    ]
    if all(a.text == b.text for a, b in zip(run, changed, strict=True)):
        return run
    if all(piece.word in _FRAME or piece.text == ";" for piece in run):
        return changed
    start, end = run[0].start, run[-1].start + len(run[-1].text)
    before = text[start:end]
    after = before
    for piece in reversed(changed):
        if piece.kind is TokenKind.WORD:
            at = piece.start - start
            after = after[:at] + piece.text + after[at + len(piece.text) :]
    return changed if _same_meaning(before, after) else run


def _is_keyword(word: str, left: str) -> bool:
    if word in _OBJECTS:
        return left.upper() in _VERBS
    return word in _KEYWORDS and left != "."


def _same_meaning(before: str, after: str) -> bool:
    try:
        return repr(_trees(before)) == repr(_trees(after))
    except (SqlglotError, RecursionError):
        return False


def _trees(text: str) -> list[object]:
    return [tree for tree in Flink().parse(text.rstrip().removesuffix(";")) if tree is not None]
