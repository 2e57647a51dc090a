"""Read what all other modules of this folder share: names, words, lists, options, required expressions, hints.

Hints are /*+ OPTIONS('k'='v') */ behind a table, /*+ STATE_TTL('t'='1d') */ behind SELECT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.syntax.nodes import PartitionSpec, RefusedStatement
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

QUERY_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES)
"""What a query begins with that is not in parentheses."""

T = TypeVar("T")


def parse_list(parser: ReportingParser, parse: Callable[[ReportingParser], T | None]) -> list[T]:
    """item, item, ..., each of them read by `parse`."""
    return parser._parse_csv(lambda: parse(parser))


WORD_EXCLUDED = (
    TokenType.IDENTIFIER,
    TokenType.STRING,
    TokenType.UNICODE_STRING,
    TokenType.HEX_STRING,
    TokenType.NUMBER,
    TokenType.HINT,
    TokenType.UNKNOWN,
)

NO_NAMES = frozenset(
    (
        "ALTER", "AND", "AS", "BETWEEN", "CREATE", "CROSS", "DISTINCT", "DROP", "ELSE", "EXCEPT",
        "FETCH", "FOR", "FROM", "HAVING", "INNER", "INSERT", "INTERSECT", "INTO", "JOIN", "LATERAL",
        "LIKE", "NOT", "ON", "OR", "OUTER", "SELECT", "THEN", "UNION", "USING", "VALUES", "WHEN",
        "WHERE", "WITH",
    )
)  # fmt: skip
"""Words that are never a name without backticks: what they begin would be swallowed."""


def parse_quoted(parser: ReportingParser) -> exp.Literal:
    """'text', in one piece."""
    token = parser._curr
    if not parser._match(TokenType.STRING):
        parser.raise_error("Expected a string", token)
    return mark(exp.Literal.string(token.text), token, token)


def expect_words(parser: ReportingParser, *words: str) -> None:
    """Pass over `words`, or raise at the first that is missing."""
    for word in words:
        if not parser._match_text_seq(word):
            parser.raise_error(f"Expected {word}")


def may_be_name(token: Token) -> bool:
    """Whether a token is a word that may be a name: no sign, number, string, and none of NO_NAMES."""
    return (
        bool(token)
        and token.token_type not in WORD_EXCLUDED
        and token.text.upper() not in NO_NAMES
        and (token.text[:1].isalpha() or token.text[:1] in ("_", "$"))
        and " " not in token.text
    )


def parse_name(parser: ReportingParser, what: str) -> exp.Identifier:
    """One part of a name: `quoted` or a word."""
    token = parser._curr
    if token.token_type != TokenType.IDENTIFIER and not may_be_name(token):
        parser.raise_error(f"Expected {what}")
    parser._advance()
    name = exp.Identifier(this=token.text, quoted=token.token_type == TokenType.IDENTIFIER)
    return mark(name.update_positions(token), token, token)


def parse_item(parser: ReportingParser) -> exp.Expr:
    """An expression, which must be there."""
    item = parser._parse_disjunction()
    if item is None:
        parser.raise_error("Expected an expression")
    return item


def name_before_paren(parser: ReportingParser) -> Token:
    """The token in front of the parenthesis that was read last."""
    return parser._tokens[parser._index - 2]


def parse_options(parser: ReportingParser) -> list[exp.Expr]:
    """('key' = 'value', ...)"""
    parser._match_l_paren()
    options = parse_list(parser, _parse_option)
    parser._match_r_paren()
    return options


def _parse_option(parser: ReportingParser) -> exp.Expr | None:
    first = parser._curr
    if first.token_type == TokenType.R_PAREN:
        return None
    key = require_string(parser, "quote the key and the value: 'key' = 'value'")
    if not parser._match(TokenType.EQ):
        parser.raise_error("Expected =")
    value = require_string(parser, "quote the key and the value: 'key' = 'value'")
    return mark(exp.Property(this=key, value=value), first, parser._prev)


def require_string(parser: ReportingParser, hint: str | None = None) -> exp.Expr:
    """A string, which must be there."""
    value = parser._parse_string()
    if value is None:
        parser.raise_error("Expected a string", hint=hint)
    return value


def require_expression(parser: ReportingParser) -> exp.Expr:
    """An expression with its position, which must be there."""
    first = parser._curr
    expression = parser._parse_disjunction()
    if expression is None:
        parser.raise_error("Expected an expression")
    return mark(expression, first, parser._prev)


def require_query(parser: ReportingParser) -> exp.Expr:
    """A query, which must be there."""
    first = parser._curr
    query = parser._parse_ddl_select()
    if query is None or first is parser._curr:
        parser.raise_error("Expected a query")
    return query


def parse_name_list(parser: ReportingParser) -> list[exp.Expr]:
    """(column, ...)"""
    parser._match_l_paren()
    names: list[exp.Expr] = []
    names += parser._parse_csv(lambda: parse_name(parser, "a column"))
    parser._match_r_paren()
    return names


NO_WORDS = (TokenType.IDENTIFIER, TokenType.STRING)


def is_word(parser: ReportingParser, *words: str) -> bool:
    """Whether one of `words` comes next; a quoted name is no word."""
    token = parser._curr
    return bool(token) and token.token_type not in NO_WORDS and token.text.upper() in words


def match_word(parser: ReportingParser, *words: str) -> str | None:
    """Pass over one of `words`, and give it; None if another token comes next."""
    if not is_word(parser, *words):
        return None
    parser._advance()
    return parser._prev.text.upper()


def require_object(parser: ReportingParser, what: str) -> exp.Expr:
    """The name of a table, view, database or catalog."""
    if not parser._curr:
        parser.raise_error(f"Expected {what}")
    table = parser._parse_table_parts(schema=True)
    if table is None:
        parser.raise_error(f"Expected {what}")
    return table


def require_words(parser: ReportingParser, *words: str) -> None:
    """Pass over `words`, which may not be in backticks, or raise at the first that is missing."""
    for word in words:
        if not match_word(parser, word):
            parser.raise_error(f"Expected {word}")


def parse_comment_clause(parser: ReportingParser) -> list[exp.Expr]:
    """[COMMENT 'text']"""
    if not match_word(parser, "COMMENT"):
        return []
    return [exp.SchemaCommentProperty(this=require_string(parser))]


def parse_option_keys(parser: ReportingParser) -> list[exp.Expr]:
    """('key', ...)"""
    parser._match_l_paren()
    keys: list[exp.Expr] = []
    if parser._curr.token_type != TokenType.R_PAREN:
        keys += parser._parse_csv(lambda: require_string(parser, "quote the key: 'key'"))
    parser._match_r_paren()
    return keys


def properties_of(found: list[exp.Expr]) -> exp.Properties | None:
    """The properties of a statement as its node holds them."""
    return exp.Properties(expressions=found) if found else None


def match_one_of(parser: ReportingParser, forms: tuple[tuple[str, ...], ...]) -> str | None:
    """Pass over the words of one of `forms`, and give them."""
    for words in forms:
        if parser._match_text_seq(*words):
            return " ".join(words)
    return None


def parse_partition_spec(parser: ReportingParser) -> PartitionSpec:
    """(column = value, column), behind the word PARTITION."""
    first = parser._prev
    parser._match_l_paren()
    parts = parse_list(parser, _parse_partition_part)
    parser._match_r_paren()
    return mark(PartitionSpec(expressions=parts), first, parser._prev)


def _parse_partition_part(parser: ReportingParser) -> exp.Expr:
    first = parser._curr
    name = parse_name(parser, "a column")
    if not parser._match(TokenType.EQ):
        return name
    value = require_expression(parser)
    return mark(exp.Property(this=name, value=value), first, parser._prev)


def parse_target(parser: ReportingParser) -> exp.Table:
    """The name of a table, function or procedure."""
    table = parser._parse_table_parts(schema=True)
    assert isinstance(table, exp.Table), "a name is a table's"
    return table


def parse_rest(parser: ReportingParser, words: str) -> RefusedStatement:
    """Pass over the rest of the statement, and keep it as text."""
    first = last = parser._curr
    while parser._curr:
        last = parser._curr
        parser._advance()
    rest = parser.sql[first.start : last.end + 1] if first else ""
    return RefusedStatement(this=words, expression=rest or None)


HINTS = "hints"
"""The key of a table's `meta` under which its hints wait until the table is whole."""


def parse_table_options(parser: ReportingParser, table: exp.Table) -> None:
    """/*+ OPTIONS('k'='v', ...) */ behind a table name."""
    hints: list[exp.Expr] = []
    while parser._match(TokenType.HINT):
        hints.append(_parse_hint_text(parser, parser._prev))
    if hints:
        table.set("hints", hints)
        table.meta[HINTS] = hints


def parse_hint(parser: ReportingParser) -> exp.Hint | None:
    """The hint of a whole query block, behind SELECT."""
    return _parse_hint_text(parser, parser._prev) if parser._match(TokenType.HINT) else None


def _parse_hint_text(parser: ReportingParser, token: Token) -> exp.Hint:
    shift = token.start + len("/*+")
    body = parser.sql[shift : token.end + 1 - len("*/")]
    try:
        inner = parser.dialect.tokenize(body)
    except TokenError:
        parser.raise_error("this hint cannot be read", token)
    for part in inner:
        part.start, part.end = part.start + shift, part.end + shift
    saved = (parser._tokens, parser._tokens_size, parser._index)
    parser._tokens, parser._tokens_size, parser._index = inner, len(inner), -1
    try:
        parser._advance()
        hints = parse_list(parser, _parse_one_hint)
        if parser._curr:
            parser.raise_error("Invalid expression")
    finally:
        parser._tokens, parser._tokens_size, parser._index = saved
        parser._advance(0)
    return mark(exp.Hint(expressions=hints), token, token)


def _parse_one_hint(parser: ReportingParser) -> exp.Expr:
    first = parser._curr
    if not first or not parser._match(TokenType.VAR):
        parser.raise_error("Expected the name of a hint")
    arguments: list[exp.Expr] = []
    if parser._match(TokenType.L_PAREN):
        arguments = parse_list(parser, _parse_hint_argument)
        parser._match_r_paren()
    return mark(exp.Anonymous(this=first.text.upper(), expressions=arguments), first, parser._prev)


def _parse_hint_argument(parser: ReportingParser) -> exp.Expr | None:
    first = parser._curr
    key = parser._parse_string() or parser._parse_number() or _parse_hinted_name(parser)
    if key is not None and parser._match(TokenType.EQ):
        if not (value := parser._parse_string()):
            parser.raise_error("Expected a string")
        return mark(exp.PropertyEQ(this=key, expression=value), first, parser._prev)
    return key


def _parse_hinted_name(parser: ReportingParser) -> exp.Expr | None:
    """A table's name: t, or db.t."""
    name = parser._parse_id_var()
    while name is not None and parser._match(TokenType.DOT):
        name = exp.Dot(this=name, expression=parser._parse_id_var())
    return name
