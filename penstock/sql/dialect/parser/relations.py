"""Read what stands in FROM: tables, functions, subqueries, LATERAL, UNNEST, VALUES, joins and MATCH_RECOGNIZE.

MATCH_RECOGNIZE, rows that match a pattern, has Calcite's grammar.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.parser.parts import (
    HINTS,
    expect_words,
    parse_item,
    parse_list,
    parse_name,
    parse_table_options,
)
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

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


UNCONDITIONAL = ("CROSS",)

NO_ALIAS = (TokenType.L_PAREN, TokenType.STRING, TokenType.NUMBER)


def parse_join(
    parser: ReportingParser,
    skip_join_token: bool = False,
    parse_bracket: bool = False,
    alias_tokens: Collection[TokenType] | None = None,
) -> exp.Join | None:
    """A comma or [NATURAL] [side] [kind] JOIN with its relation, and ON or USING."""
    if parser._match(TokenType.COMMA):
        return exp.Join(this=_require_relation(parser))
    first = parser._curr
    method, side, kind = parser._parse_join_parts()
    if not parser._match(TokenType.JOIN):
        if method or side or kind:
            parser.raise_error("Expected JOIN")
        return None
    names = {"method": method, "side": side, "kind": kind}
    words = {key: token.text.upper() for key, token in names.items() if token}
    join = exp.Join(this=_require_relation(parser), **words)
    mark(join, first, parser._prev)
    if words.get("kind") in UNCONDITIONAL or "method" in words:
        return join
    if parser._match(TokenType.ON):
        join.set("on", parse_item(parser))
    elif parser._match(TokenType.USING):
        join.set("using", _parse_using(parser))
    else:
        parser.raise_error("Expected ON", hint="a join needs ON or USING; CROSS JOIN does without")
    return join


def _parse_using(parser: ReportingParser) -> list[exp.Identifier]:
    parser._match_l_paren()
    names = parser._parse_csv(lambda: parse_name(parser, "a column"))
    parser._match_r_paren()
    return names


def _require_relation(parser: ReportingParser) -> exp.Expr:
    relation = parse_table(parser)
    if relation is None:
        parser.raise_error("Expected table name")
    return relation


# --- one relation ---


def parse_table(
    parser: ReportingParser, *args: Any, joins: bool = False, **kwargs: Any
) -> exp.Expr | None:
    """One relation with its MATCH_RECOGNIZE, and with `joins` those behind it."""
    relation = _parse_derived_relation(parser) or _parse_named_relation(parser)
    if parser._curr.token_type == TokenType.MATCH_RECOGNIZE:
        relation.set("match", parse_match_recognize(parser))
    if joins:
        for join in parser._parse_joins():
            relation.append("joins", join)
    return relation


def _parse_derived_relation(parser: ReportingParser) -> exp.Expr | None:
    """LATERAL ..., UNNEST(...), VALUES ..., (query) and (a JOIN b ON ...)."""
    kind = parser._curr.token_type
    if kind == TokenType.LATERAL:
        return parse_lateral(parser)
    if kind == TokenType.UNNEST:
        return parse_unnest(parser)
    if kind == TokenType.VALUES or (
        kind == TokenType.L_PAREN and parser._next.token_type == TokenType.VALUES
    ):
        return parser._parse_derived_table_values()
    return parser._parse_select(table=True) if kind == TokenType.L_PAREN else None


def _parse_named_relation(parser: ReportingParser) -> exp.Table:
    """Name or TABLE(function), hints, FOR SYSTEM_TIME AS OF, alias."""
    table = parse_table_parts(parser)
    assert isinstance(table, exp.Table)
    hints = table.meta.pop(HINTS, None)
    if parser._curr.token_type == TokenType.FOR:
        if isinstance(table.this, exp.Anonymous):
            parser.raise_error("a table function has no versions")
        table.set("version", parse_version(parser))
    if alias := parse_table_alias(parser):
        table.set("alias", alias)
    if hints is None and parser._curr.token_type == TokenType.HINT:
        parser.raise_error("a hint follows the table's name directly", parser._curr)
    return table


def parse_table_parts(
    parser: ReportingParser,
    schema: bool = False,
    is_db_reference: bool = False,
    wildcard: bool = False,
    fast: bool = False,
) -> exp.Table | exp.Dot | None:
    """A name of up to three parts with its hints, or the call of a table function."""
    if not schema and not is_db_reference:
        if parser._match_pair(TokenType.TABLE, TokenType.L_PAREN):
            table = _parse_called_table(parser)
            parser._match_r_paren()
            return table
        if parser._next.token_type == TokenType.L_PAREN and parser._curr.token_type not in NO_ALIAS:
            return _parse_called_table(parser)
    first = parser._curr
    parts = [parse_name(parser, "table name")]
    while parser._match(TokenType.DOT):
        if len(parts) == 3:
            parser.raise_error(
                "a name has at most three parts: catalog.database.table", parser._prev
            )
        parts.append(parse_name(parser, "table name"))
    names = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
    if is_db_reference:
        names = dict(zip(("db", "catalog"), reversed(parts), strict=False))
    table = mark(exp.Table(**names), first, parser._prev)
    if not schema and not is_db_reference:
        if parser._curr.token_type == TokenType.L_PAREN:
            parser.raise_error("a table function is called by one name", parser._curr)
        parse_table_options(parser, table)
    return table


def _parse_called_table(parser: ReportingParser) -> exp.Table:
    first = parser._curr
    function = parser._parse_function(optional_parens=False)
    if not isinstance(function, exp.Func):
        parser.raise_error("Expected a table function", first)
    return exp.Table(this=function)


def parse_version(parser: ReportingParser) -> exp.Version | None:
    """FOR SYSTEM_TIME AS OF expression."""
    first = parser._curr
    expect_words(parser, "FOR", "SYSTEM_TIME", "AS", "OF")
    point = parser._parse_bitwise()
    if point is None:
        parser.raise_error("Expected an expression")
    return mark(exp.Version(this="TIMESTAMP", expression=point, kind="AS OF"), first, parser._prev)


def parse_lateral(parser: ReportingParser) -> exp.Lateral | None:
    """LATERAL (query), LATERAL TABLE(call), LATERAL SNAPSHOT(...), with an alias."""
    first = parser._curr
    if not parser._match(TokenType.LATERAL):
        return None
    if parser._curr.token_type == TokenType.L_PAREN:
        this = parser._parse_select(table=True, parse_subquery_alias=False)
    else:
        this = parse_unnest(parser, with_alias=False) or parser._parse_function()
    if not isinstance(this, exp.Subquery | exp.Unnest | exp.Func):
        parser.raise_error("Expected TABLE", hint="write LATERAL TABLE(f(...)) or LATERAL (query)")
    if (
        isinstance(this, exp.Anonymous)
        and this.name.upper() == "TABLE"
        and (len(this.expressions) != 1 or not isinstance(this.expressions[0], exp.Func))
    ):
        parser.raise_error("Expected a table function", first)
    lateral = mark(exp.Lateral(this=this), first, parser._prev)
    if alias := parse_table_alias(parser):
        lateral.set("alias", alias)
    return lateral


def parse_unnest(parser: ReportingParser, with_alias: bool = True) -> exp.Unnest | None:
    """UNNEST(value) [WITH ORDINALITY] [AS t (columns)]; `offset` is whether there is an ordinality."""
    first = parser._curr
    if not parser._match_pair(TokenType.UNNEST, TokenType.L_PAREN):
        return None
    values = parse_list(parser, parse_item)
    parser._match_r_paren()
    ordinality = parser._match_text_seq("WITH", "ORDINALITY") or None
    node = mark(exp.Unnest(expressions=values, offset=ordinality), first, parser._prev)
    if with_alias and (alias := parse_table_alias(parser)):
        node.set("alias", alias)
    return node


def parse_table_alias(
    parser: ReportingParser, alias_tokens: Collection[TokenType] | None = None
) -> exp.TableAlias | None:
    """[AS] name [(column, ...)]"""
    first = parser._curr
    if parser._match(TokenType.ALIAS):
        name: exp.Expr = parse_name(parser, "a name")
    elif first.token_type == TokenType.IDENTIFIER or (
        first.token_type in (alias_tokens or parser.TABLE_ALIAS_TOKENS)
    ):
        name = parse_name(parser, "a name")
    else:
        return None
    columns: list[exp.Identifier] | None = None
    if parser._match(TokenType.L_PAREN):
        columns = parser._parse_csv(lambda: parse_name(parser, "a column"))
        parser._match_r_paren()
    return mark(exp.TableAlias(this=name, columns=columns), first, parser._prev)
