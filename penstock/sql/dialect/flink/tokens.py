"""How Flink SQL text is cut into tokens: quotes, comments, hints, keywords. Offsets are exact."""

from __future__ import annotations

from typing import ClassVar

from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

# The words that Flink's grammar treats as keywords, out of the many of sqlglot's base: a word that
# is a keyword elsewhere only (ENUM, PIVOT, ...) can name a column here.
WORDS = (
    "ALL", "ALTER", "ANALYZE", "AND", "ANY", "ARRAY", "AS", "ASC", "BEGIN", "BETWEEN", "BIGINT",
    "BINARY", "BOOLEAN", "CASE", "CHAR", "COLLATE", "COLUMN", "CONSTRAINT", "CREATE", "CROSS",
    "CUBE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "DATABASE", "DATE", "DEC",
    "DECIMAL", "DEFAULT", "DELETE", "DESC", "DESCRIBE", "DISTINCT", "DOUBLE", "DROP", "ELSE",
    "END", "ESCAPE", "EXCEPT", "EXECUTE", "EXISTS", "FALSE", "FETCH", "FILTER", "FIRST", "FLOAT",
    "FOR", "FROM", "FULL", "FUNCTION", "HAVING", "IN", "INNER", "INSERT", "INT", "INTEGER",
    "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN", "LATERAL", "LEFT", "LIKE", "LIMIT", "LOAD",
    "LOCALTIME", "LOCALTIMESTAMP", "MAP", "MERGE", "NATURAL", "NEXT", "NOT", "NULL", "NUMERIC",
    "OFFSET", "ON", "OR", "ORDINALITY", "OUTER", "OVER", "OVERLAPS", "OVERWRITE", "PARTITION",
    "PERCENT", "PROCEDURE", "QUALIFY", "RANGE", "RECURSIVE", "RENAME", "REPLACE", "RIGHT", "ROLLUP", "ROW",
    "ROWS", "SELECT", "SET", "SHOW", "SMALLINT", "SOME", "STRING", "TABLE", "TABLESAMPLE",
    "TEMPORARY", "THEN", "TIME", "TINYINT", "TRUE", "TRUNCATE", "UNION", "UNIQUE",
    "UNNEST", "UPDATE", "USE", "USING", "VALUES", "VARBINARY", "VARCHAR", "VARIANT", "VIEW",
    "WHEN", "WHERE", "WINDOW", "WITH",
)  # fmt: skip
PHRASES = (
    "GROUP BY", "GROUPING SETS", "ORDER BY", "PARTITION BY", "PARTITIONED BY", "PRIMARY KEY",
    "SIMILAR TO",
)  # fmt: skip
SIGNS = ("||", ">=", "<=", "<>", "!=", "=>", Tokenizer.HINT_START)
STRANGE = ("&", "^", "~", "@", "#", "!", "\\")
"""Signs that Flink's grammar has no use for; sqlglot's base has, for operators of other dialects."""


class FlinkTokenizer(Tokenizer):
    """Backtick identifiers, '' inside strings and no backslash escape, `--` `//` and /* */ comments.

    Hints (`/*+ ... */`) are tokens wherever they stand, so that none is taken for a comment: the
    parser decides which place may carry one. No statement is swallowed as a "command".
    """

    QUOTES: ClassVar[list[tuple[str, str] | str]] = ["'"]
    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]
    STRING_ESCAPES: ClassVar[list[str]] = ["'"]
    COMMENTS: ClassVar[list[str | tuple[str, str]]] = ["--", "//", ("/*", "*/")]
    NESTED_COMMENTS = False
    HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("x'", "'"), ("X'", "'")]
    UNICODE_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("U&'", "'"), ("u&'", "'")]
    COMMANDS: ClassVar[set[TokenType]] = set()
    SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {
        **{sign: kind for sign, kind in Tokenizer.SINGLE_TOKENS.items() if sign != "$"},
        **dict.fromkeys(STRANGE, TokenType.UNKNOWN),
    }
    TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = set(TokenType)

    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        **{word: Tokenizer.KEYWORDS[word] for word in (*WORDS, *PHRASES, *SIGNS)},
        "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
        # One SQL type has one token: TIMESTAMP is without a zone, TIMESTAMP_LTZ with the session's.
        "TIMESTAMP": TokenType.TIMESTAMPNTZ,
        "TIMESTAMP_LTZ": TokenType.TIMESTAMPLTZ,
        "BYTES": TokenType.VARBINARY,
    }

    def tokenize(self, sql: str) -> list[Token]:
        """The tokens of a text; a hint's text is not a comment of its token."""
        tokens = super().tokenize(sql)
        for token in tokens:
            if token.token_type == TokenType.HINT:
                token.comments.clear()
        return tokens
