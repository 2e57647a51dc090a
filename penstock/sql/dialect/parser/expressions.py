r"""Read literals, names, operators, predicates, CASE and frames of windows as Calcite does.

sqlglot takes the forms of every dialect and ignores missing words (BETWEEN 1 2); here what is not Flink's is an
error at its position. Trees are sqlglot's own. A string is a Literal whatever its spelling: in several pieces, or
U&'...' UESCAPE. An interval is an Interval with a string and a Var (the unit) or an IntervalSpan of two; its text is
checked here, so that every Interval node has a value.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.parser.parts import (
    QUERY_STARTS,
    may_be_name,
    parse_item,
    parse_list,
    parse_name,
)
from penstock.sql.dialect.parser.types import parse_sizes
from penstock.sql.syntax.intervals import FINER, UNITS, read_interval
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)


def parse_number_literal(parser: ReportingParser, token: Token) -> exp.Literal:
    """A number; one that runs into a word is refused."""
    after = parser._curr
    joined = bool(after) and after.start == token.end + 1 and after.text[:1].isidentifier()
    if joined or NUMBER.fullmatch(token.text) is None:
        text = token.text + (after.text if joined else "")
        parser.raise_error(f"'{text}' is no number", token)
    return mark(exp.Literal(this=token.text, is_string=False), token, token)


def parse_pieces(parser: ReportingParser, token: Token) -> exp.Literal:
    """A string may go on on the next line, as in the standard; on the same line it may not."""
    text = token.text
    while parser._curr.token_type == TokenType.STRING and parser._curr.line > parser._prev.line:
        parser._advance()
        text += parser._prev.text
    return mark(exp.Literal.string(text), token, parser._prev)


def parse_unicode_string(parser: ReportingParser, token: Token) -> exp.Literal:
    r"""U&'\0041' or, with `UESCAPE '!'`, U&'!0041': four hexadecimal digits behind the mark."""
    escape = "\\"
    if parser._match_text_seq("UESCAPE"):
        if parser._curr.token_type != TokenType.STRING or len(parser._curr.text) != 1:
            parser.raise_error("Expected a string of one character")
        escape = parser._curr.text
        if escape.isspace() or escape in "'+\"" or re.match("[0-9A-Fa-f]", escape):
            parser.raise_error("Expected a character that is no digit, space, quote or plus")
        parser._advance()
    mark_ = re.escape(escape)
    if re.search(f"(?<!{mark_})(?:{mark_}{mark_})*{mark_}(?!{mark_}|[0-9A-Fa-f]{{4}})", token.text):
        parser.raise_error(
            f"four hexadecimal digits have to follow each {escape} in this string", token
        )
    text = re.sub(
        f"{mark_}{mark_}|{mark_}([0-9A-Fa-f]{{4}})",
        lambda m: chr(int(m[1], 16)) if m[1] else escape,
        token.text,
    )
    return mark(exp.Literal.string(text), token, parser._prev)


# --- intervals ---


def parse_interval(
    parser: ReportingParser,
    require_interval: bool = True,
    parse_function_unit: bool = True,
) -> exp.Add | exp.Interval | None:
    """INTERVAL 'text' unit [TO unit]"""
    first = parser._curr
    if require_interval and not parser._match(TokenType.INTERVAL):
        return None
    sign = "-" if parser._match(TokenType.DASH) else ""
    value = parser._curr
    if value.token_type != TokenType.STRING:
        parser.raise_error("Expected a string", value, hint="write INTERVAL '10' SECOND")
    parser._advance()
    units = [_parse_interval_unit(parser)]
    if parser._match_text_seq("TO"):
        units.append(_parse_interval_unit(parser))
    text = sign + value.text if not value.text.startswith("-") or not sign else value.text[1:]
    try:
        read_interval(text, units[0].name, units[-1].name)
    except ValueError as error:
        parser.raise_error(str(error), value)
    unit = units[0] if len(units) == 1 else exp.IntervalSpan(this=units[0], expression=units[1])
    return mark(exp.Interval(this=exp.Literal.string(text), unit=unit), first, parser._prev)


def _parse_interval_unit(parser: ReportingParser) -> exp.Var:
    token = parser._curr
    name = token.text.upper().removesuffix("S") if token else ""  # DAYS is DAY in Calcite too
    if name in FINER:
        parser.raise_error(f"Flink has no interval of {name}", hint="write INTERVAL '0.001' SECOND")
    if name not in UNITS:
        parser.raise_error("Expected a unit", hint=f"units are {', '.join(UNITS)}")
    parser._advance()
    parse_sizes(parser, 2)  # precision, as in SECOND(3): every one fits
    return exp.var(name)


JSON_KINDS = ("VALUE", "SCALAR", "ARRAY", "OBJECT")

FRAME_SIDES = ("PRECEDING", "FOLLOWING")


# --- names ---


def parse_id_var(
    parser: ReportingParser,
    any_token: bool = True,
    tokens: Collection[TokenType] | None = None,
) -> exp.Expr | None:
    """A name, or None where the token is none; `any_token` takes every word that may be a name."""
    kind = parser._curr.token_type
    if kind != TokenType.IDENTIFIER:
        allowed = (
            may_be_name(parser._curr) if any_token else kind in (tokens or parser.ID_VAR_TOKENS)
        )
        if not allowed:
            return None
    return parse_name(parser, "a name")


def parse_alias(
    parser: ReportingParser, this: exp.Expr | None, explicit: bool = False
) -> exp.Expr | None:
    """[AS] name behind an expression."""
    if this is None:
        return None
    kind = parser._curr.token_type
    if not parser._match(TokenType.ALIAS) and (
        explicit or (kind != TokenType.IDENTIFIER and kind not in parser.ALIAS_TOKENS)
    ):
        return this
    return exp.Alias(this=this, alias=parse_name(parser, "a name"))


# --- operators ---


def parse_bitwise(parser: ReportingParser) -> exp.Expr | None:
    """A sum, or texts joined by ||; Flink has no operators on bits."""
    this = parser._parse_term()
    while parser._match(TokenType.DPIPE):
        this = parser.expression(exp.DPipe(this=this, expression=parser._parse_term(), safe=False))
    return this


# --- predicates ---


def parse_is(parser: ReportingParser, this: exp.Expr | None) -> exp.Expr | None:
    """IS [NOT] NULL | TRUE | FALSE | UNKNOWN | DISTINCT FROM x | JSON [kind]"""
    negate = parser._match(TokenType.NOT)
    if parser._match_text_seq("DISTINCT", "FROM"):
        kind = exp.NullSafeEQ if negate else exp.NullSafeNEQ
        return parser._build_predicate(kind, this, parser._parse_is_rhs(distinct=True))
    if parser._match_text_seq("JSON"):
        word = parser._match_texts(JSON_KINDS) and parser._prev.text.upper()
        right: exp.Expr = exp.JSON(this=word or None)
    elif parser._match(TokenType.NULL) or parser._match_text_seq("UNKNOWN"):
        right = exp.Null()
    elif parser._match_set((TokenType.TRUE, TokenType.FALSE)):
        right = exp.Boolean(this=parser._prev.token_type == TokenType.TRUE)
    else:
        parser.raise_error("Expected NULL, TRUE, FALSE, UNKNOWN, DISTINCT FROM or JSON")
    found = parser._build_predicate(exp.Is, this, right)
    return exp.Not(this=found) if negate else found


def parse_between(parser: ReportingParser, this: exp.Expr | None) -> exp.Between:
    """BETWEEN [SYMMETRIC | ASYMMETRIC] low AND high"""
    symmetric = parser._match_text_seq("SYMMETRIC") or None
    if not symmetric:
        parser._match_text_seq("ASYMMETRIC")
    if isinstance(this, exp.Is | exp.NullSafeEQ | exp.NullSafeNEQ):
        this = exp.Paren(this=this)
    low = parse_bitwise(parser)
    if not parser._match(TokenType.AND):
        parser.raise_error("Expected AND")
    high = parse_bitwise(parser)
    return parser.expression(exp.Between(this=this, low=low, high=high, symmetric=symmetric))


def parse_in(parser: ReportingParser, this: exp.Expr | None, alias: bool = False) -> exp.In:
    """IN (value, ...) and IN (query)"""
    parser._match_l_paren()
    if parser._curr.token_type in QUERY_STARTS or parser._is_table_query():
        query = parser._parse_ddl_select()
    else:
        values = parse_list(parser, parse_item)
        query = parser._parse_set_operations(values[0]) if len(values) == 1 else None
        if not isinstance(query, exp.Query):
            parser._match_r_paren()
            return parser.expression(exp.In(this=this, expressions=values))
    parser._match_r_paren()
    if isinstance(query, exp.Values):
        query = parser._values_to_select(query)
    assert isinstance(query, exp.Query), "it begins as a query does"
    if not isinstance(query, exp.Subquery):
        query = query.subquery(copy=False)
    return parser.expression(exp.In(this=this, query=query))


def parse_case(parser: ReportingParser) -> exp.Expr | None:
    """CASE [x] WHEN a [, b] THEN y ... [ELSE z] END"""
    first = parser._prev
    case = exp.Case(this=None if parser._curr.token_type == TokenType.WHEN else parse_item(parser))
    while parser._match(TokenType.WHEN):
        values = parse_list(parser, parse_item)
        if len(values) > 1 and case.this is None:
            parser.raise_error("Expected THEN", parser._curr)
        if not parser._match(TokenType.THEN):
            parser.raise_error("Expected THEN")
        result = parse_item(parser)
        for value in values:
            case.append("ifs", exp.If(this=value, true=result.copy()))
    if not case.args.get("ifs"):
        parser.raise_error("Expected WHEN")
    if parser._match(TokenType.ELSE):
        case.set("default", parse_item(parser))
    if not parser._match(TokenType.END):
        parser.raise_error("Expected END")
    return mark(case, first, parser._prev)


def parse_window_spec(parser: ReportingParser) -> dict[str, str | exp.Expr | None]:
    """One end of a frame: CURRENT ROW, or UNBOUNDED or a value with PRECEDING or FOLLOWING."""
    if parser._match_text_seq("CURRENT", "ROW"):
        return {"value": "CURRENT ROW", "side": None}
    unbounded = parser._match_text_seq("UNBOUNDED")
    value = "UNBOUNDED" if unbounded else parse_bitwise(parser)
    if value is None or not parser._match_texts(FRAME_SIDES):
        parser.raise_error("Expected PRECEDING, FOLLOWING or CURRENT ROW")
    return {"value": value, "side": parser._prev.text.upper()}
