"""Finds the misspelt keyword behind a syntax error.

sqlglot takes an unknown word for an alias, so the error lands one token late: in FROM t WHRE x it is
reported at x. The word in front is then looked at, too; and the one behind a LEFT that has no JOIN, and the name of
the function that a token stands in. Some slips parse: FROM t LEFTT JOIN u is an inner join with the alias LEFTT.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

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
    "SESSION", "CUMULATE", "SECOND", "MINUTE", "HOUR", "MONTH", "YEAR", "KEY", "FOR", "FILTER",
    "OFFSET", "FETCH", "CASE", "CAST", "DATABASES", "CATALOGS", "FUNCTIONS", "MODULES", "COLUMNS",
    "PARTITIONS", "JOBS", "JARS", "CURRENT", "DAY", "WEEK", "QUARTER",
    "ALTER", "DATABASE", "RENAME", "MODIFY", "REPLACE", "INCLUDING", "EXCLUDING", "OVERWRITING",
    "CONSTRAINTS", "GENERATED", "OPTIONS", "WATERMARKS", "DISTRIBUTED", "BUCKETS", "CASCADE",
    "RESTRICT",
)  # fmt: skip
IN_FRONT = (*CLAUSES, "OVER", "WATERMARK", "PRIMARY", "CONSTRAINT", "FILTER", "INTERVAL")
"""What a word in front of the error's token may have been meant for."""

BEFORE_BY = ("ORDER", "GROUP")
"""What a word in front of BY was most likely meant for."""

SHORT = ("AS", "BY", "IN", "IS", "ON", "OR")
"""Words of two letters, where only swapped letters count as a typo."""

JOIN_TYPES = ("LEFT", "RIGHT", "FULL", "INNER", "CROSS", "OUTER", "NATURAL")
LATE = ("DISTINCT", "NULL", "TRUE", "FALSE", "CASE", "CURRENT_DATE", "CURRENT_TIMESTAMP")
"""Words that are taken for a column where they are misspelt."""

WINDOWS = ("TUMBLE", "HOP", "CUMULATE", "SESSION", "DESCRIPTOR")
"""Functions that stand where a table does, and what names their column."""


def suspect(
    token: Token | None, previous: Token | None, tokens: Sequence[Token] = ()
) -> tuple[Token, str] | None:
    """The misspelt token of an error at `token`, and the keyword that it resembles.

    `previous` is the token in front, `tokens` are those of the statement.
    """
    index = next((i for i, one in enumerate(tokens) if one is token), None)
    for one, keywords in ((token, (*CLAUSES, *OTHERS)), (previous, IN_FRONT)):
        if one is not None and (near := _nearest_here(one, keywords, tokens)):
            return one, near
    if token is None or index is None:
        return None
    if token.text.upper() in JOIN_TYPES:
        for one in tokens[index + 1 : index + 3]:
            if near := nearest_keyword(one, ("JOIN", "OUTER")):
                return one, near
    function = _function_around(tokens, index)
    if function is not None and (near := nearest_keyword(function, WINDOWS)):
        return function, near
    return None


def _nearest_here(token: Token, keywords: Sequence[str], tokens: Sequence[Token]) -> str | None:
    """The keyword that a word resembles where it stands: ODER BY is ORDER BY, and not OVER BY."""
    behind = next((b for a, b in pairwise(tokens) if a is token), None)
    if behind is not None and behind.text.upper() == "BY":
        keywords = BEFORE_BY if nearest_keyword(token, BEFORE_BY) else keywords
    return nearest_keyword(token, keywords)


def mistaken_join(tokens: Sequence[Token]) -> tuple[Token, str] | None:
    """The alias in front of a JOIN that was meant as LEFT, INNER, ..., one typo away, and that word.

    One that is given with AS is an alias.
    """
    if not any(token.token_type == TokenType.JOIN for token in tokens):
        return None  # most statements
    for front, name, join in zip(tokens, tokens[1:], tokens[2:], strict=False):
        ended = front.token_type in {TokenType.ALIAS, TokenType.DOT}
        if join.token_type == TokenType.JOIN and name.token_type == TokenType.VAR and not ended:
            near = nearest_keyword(name, JOIN_TYPES)
            if near is not None and _edits(name.text.upper(), near) == 1:
                return name, near
    return None


def _function_around(tokens: Sequence[Token], before: int) -> Token | None:
    """The name in front of the parenthesis that a token stands in."""
    depth = 0
    for index in range(before - 1, 0, -1):
        kind = tokens[index].token_type
        depth += (kind == TokenType.R_PAREN) - (kind == TokenType.L_PAREN)
        if depth < 0:
            return tokens[index - 1]
    return None


def nearest_keyword(token: Token, keywords: Sequence[str]) -> str | None:
    """The keyword that a plain word resembles; None if none, or where the token is no such word."""
    return nearest_word(token.text, keywords) if token.token_type == TokenType.VAR else None


def nearest_word(text: str, keywords: Sequence[str]) -> str | None:
    """The keyword within two edits of a word (one, of a word of up to four letters); None if none."""
    word = text.upper()
    if word in keywords:
        return None
    if len(word) < 3:
        return next((k for k in SHORT if len(word) == 2 and k == word[::-1]), None)
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
