"""Read hints: /*+ OPTIONS('k'='v') */ behind a table, /*+ STATE_TTL('t'='1d') */ behind SELECT.

A hint is a Hint node of Anonymous calls; a key and its value are a PropertyEQ. Hints of a table are in
its `hints`, those of a query in the `hint` of its Select. What they mean is for others to say.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.parser.parts import parse_list
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

__all__ = ["HINTS", "parse_hint", "parse_table_options"]

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
