"""Finds the misspelt keyword behind a syntax error.

sqlglot takes an unknown word for an alias, so the error lands one token late: in FROM t WHRE x it is
reported at x. The word in front is then looked at, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

__all__ = ["nearest_keyword", "suspect"]

CLAUSES = (
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN", "LEFT", "RIGHT", "INNER",
    "OUTER", "FULL", "CROSS", "UNION", "INTERSECT", "EXCEPT", "SELECT", "VALUES", "LATERAL",
    "WINDOW",
)  # fmt: skip
OTHERS = (
    "WITH", "INSERT", "INTO", "CREATE", "TABLE", "VIEW", "TEMPORARY", "WATERMARK", "METADATA",
    "VIRTUAL", "PRIMARY", "ENFORCED", "COMMENT", "PARTITIONED", "DESCRIPTOR", "INTERVAL",
    "PARTITION", "OVER", "BETWEEN", "WHEN", "THEN", "ELSE", "DISTINCT", "TABLES", "VIEWS", "SHOW",
    "DROP", "DESCRIBE", "EXISTS", "CONSTRAINT", "NULL", "LIKE", "CATALOG", "RESET", "TUMBLE",
    "SESSION", "CUMULATE", "SECOND", "MINUTE", "HOUR", "MONTH", "YEAR",
)  # fmt: skip


def suspect(token: Token | None, previous: Token | None) -> tuple[Token, str] | None:
    """The misspelt token of an error at `token`, and the keyword that it resembles."""
    if token is not None and (near := nearest_keyword(token, [*CLAUSES, *OTHERS])):
        return token, near
    if previous is not None and (near := nearest_keyword(previous, CLAUSES)):
        return previous, near
    return None


def nearest_keyword(token: Token, keywords: Sequence[str]) -> str | None:
    """The keyword within two edits of a word (one, of a word of up to four letters); None if none."""
    word = token.text.upper()
    if token.token_type != TokenType.VAR or len(word) < 3 or word in keywords:
        return None
    most = 1 if len(word) <= 4 else 2
    keywords = [keyword for keyword in keywords if word != f"{keyword}S"]  # a table named orders
    near = [(d, abs(len(k) - len(word)), k) for k in keywords if (d := _edits(word, k)) <= most]
    return min(near)[2] if near else None


def _edits(one: str, other: str) -> int:
    """Edits from one word to another; swapping two neighbours is one (optimal string alignment)."""
    rows = [list(range(len(other) + 1))]
    for i, a in enumerate(one, start=1):
        row = [i]
        for j, b in enumerate(other, start=1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]
