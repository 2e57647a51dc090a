"""Read MATCH_RECOGNIZE: rows that match a pattern, Calcite's grammar of it.

The node is sqlglot's MatchRecognize, in `match` of the relation that it reads; SUBSET is in `subset`
(Aliases of pattern variables), WITHIN in `within` (an Interval). A pattern is kept as one Var, its tokens
parted by spaces.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.parser.parts import expect_words, parse_item, parse_list, parse_name
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

__all__ = ["parse_match_recognize"]

CONTAINED = {
    TokenType.L_PAREN: TokenType.R_PAREN,
    TokenType.L_BRACE: TokenType.R_BRACE,
}

QUANTIFIERS = (TokenType.STAR, TokenType.PLUS, TokenType.PLACEHOLDER, TokenType.L_BRACE)

CLOSING = (TokenType.R_PAREN, TokenType.R_BRACE)


def parse_match_recognize(parser: ReportingParser) -> exp.MatchRecognize | None:
    """MATCH_RECOGNIZE (...) [AS m]"""
    first = parser._curr
    if not parser._match(TokenType.MATCH_RECOGNIZE):
        return None
    parser._match_l_paren()
    partition, order = parser._parse_partition_by(), parser._parse_order()
    measures = None
    if parser._match_text_seq("MEASURES"):
        measures = parser._parse_csv(parser._parse_match_recognize_measure)
    rows, after = _parse_rows_per_match(parser), _parse_after_match(parser)
    expect_words(parser, "PATTERN")
    node = exp.MatchRecognize(
        partition_by=partition,
        order=order,
        measures=measures,
        rows=rows,
        after=after,
        pattern=_parse_pattern(parser),
        within=parser._parse_interval() if parser._match_text_seq("WITHIN") else None,
        subset=_parse_subsets(parser) if parser._match_text_seq("SUBSET") else None,
    )
    expect_words(parser, "DEFINE")
    node.set("define", parse_list(parser, _parse_definition))
    parser._match_r_paren()
    mark(node, first, parser._prev)
    node.set("alias", parser._parse_table_alias())
    return node


def _parse_rows_per_match(parser: ReportingParser) -> exp.Var | None:
    for words in ("ONE ROW PER MATCH", "ALL ROWS PER MATCH"):
        if parser._match_text_seq(*words.split()):
            return exp.var(words)
    return None


def _parse_after_match(parser: ReportingParser) -> exp.Var | None:
    if not parser._match_text_seq("AFTER", "MATCH", "SKIP"):
        return None
    for words in ("PAST LAST ROW", "TO NEXT ROW"):
        if parser._match_text_seq(*words.split()):
            return exp.var(f"AFTER MATCH SKIP {words}")
    expect_words(parser, "TO")
    end = "FIRST " if parser._match_text_seq("FIRST") else "LAST "
    if end == "LAST ":
        parser._match_text_seq("LAST")  # TO B is TO LAST B
    return exp.var(
        f"AFTER MATCH SKIP TO {end}{parse_name(parser, 'a pattern variable').sql('flink')}"
    )


def _parse_pattern(parser: ReportingParser) -> exp.Var:
    """Everything in the parentheses of PATTERN: variables, quantifiers, groups and alternatives."""
    first = parser._curr
    parser._match_l_paren()
    open_: list[TokenType] = [TokenType.R_PAREN]
    tokens: list[Token] = []
    while open_:
        token = parser._curr
        if not token or token.token_type == TokenType.HINT:
            parser.raise_error(f"Expected {')' if open_[-1] == TokenType.R_PAREN else '}'}")
        if token.token_type in CONTAINED:
            open_.append(CONTAINED[token.token_type])
        elif token.token_type in CLOSING and token.token_type != open_.pop():
            parser.raise_error(f"unexpected '{token.text}'", token)
        tokens.append(token)
        parser._advance()
    if len(tokens) == 1:
        parser.raise_error("Expected a pattern variable", tokens[0])
    return mark(exp.var(_pattern_text(tokens[:-1])), first, parser._prev)


def _pattern_text(tokens: list[Token]) -> str:
    text, before = "", TokenType.L_PAREN
    for token in tokens:
        kind = token.token_type
        word = f"`{token.text.replace('`', '``')}`" if kind == TokenType.IDENTIFIER else token.text
        apart = not (
            kind in (*QUANTIFIERS, *CLOSING, TokenType.COMMA)
            or before in (TokenType.L_PAREN, TokenType.L_BRACE, TokenType.COMMA)
            or (before == TokenType.NUMBER and kind == TokenType.NUMBER)
        )
        text += f" {word}" if apart and text else word
        before = kind
    return text


def _parse_subsets(parser: ReportingParser) -> list[exp.Expr]:
    """S = (A, B), ..."""

    def subset() -> exp.Expr:
        name = parse_name(parser, "a pattern variable")
        if not parser._match(TokenType.EQ):
            parser.raise_error("Expected =")
        parser._match_l_paren()
        members = parser._parse_csv(lambda: parse_name(parser, "a pattern variable"))
        parser._match_r_paren()
        return exp.Aliases(this=name, expressions=list[exp.Expr](members))

    return parser._parse_csv(subset)


def _parse_definition(parser: ReportingParser) -> exp.Expr:
    name = parse_name(parser, "a pattern variable")
    if not parser._match(TokenType.ALIAS):
        parser.raise_error("Expected AS")
    return exp.Alias(this=parse_item(parser), alias=name)
