"""Read queries: blocks with their clauses in order, WITH, set operations, VALUES. Trees are sqlglot's own nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.parser.parts import (
    expect_words,
    parse_hint,
    parse_item,
    parse_list,
    parse_name,
)
from penstock.sql.dialect.parser.relations import parse_table, parse_table_alias, parse_table_parts
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

CLAUSES = {
    "where": 1,
    "group": 2,
    "having": 3,
    "windows": 4,
    "qualify": 5,
    "order": 6,
    "limit": 7,
    "offset": 7,
}
"""The clauses of a block in their order; LIMIT and OFFSET may change places."""

OF_ANY_QUERY = ("order", "limit", "offset")
"""Clauses that may stand behind a set operation, VALUES or a query in parentheses, too."""


def parse_query_modifiers(parser: ReportingParser, this: Any) -> Any:
    """The clauses behind FROM, each once and in their order."""
    if not isinstance(this, exp.Query | exp.Values):
        return this
    block = isinstance(this, exp.Select)
    step, before = -1, ""
    clauses: dict[TokenType, Callable[..., Any]] = parser.QUERY_MODIFIER_PARSERS
    while parser._curr.token_type in clauses:
        token = parser._curr
        key, clause = clauses[token.token_type](parser)
        if not block and key not in OF_ANY_QUERY:
            parser.raise_error("Invalid expression", token)
        if this.args.get(key):
            parser.raise_error(f"there is a second {token.text.upper()}", token)
        if CLAUSES[key] < step:
            parser.raise_error(f"{token.text.upper()} has to precede {before}", token)
        this.set(key, clause)
        step, before = CLAUSES[key], token.text.upper()
    return this


def parse_group(parser: ReportingParser, skip_group_by_token: bool = False) -> exp.Group | None:
    """GROUP BY item, ..."""
    if not parser._match(TokenType.GROUP_BY):
        return None
    return exp.Group(expressions=parse_list(parser, _parse_group_item))


def _parse_group_item(parser: ReportingParser) -> exp.Expr:
    """An expression, (), or GROUPING SETS, CUBE and ROLLUP of such items."""
    kinds = {
        TokenType.GROUPING_SETS: exp.GroupingSets,
        TokenType.CUBE: exp.Cube,
        TokenType.ROLLUP: exp.Rollup,
    }
    kind = kinds.get(parser._curr.token_type)
    if kind is None or parser._next.token_type != TokenType.L_PAREN:
        return parse_item(parser)
    parser._advance(2)
    items = parse_list(parser, _parse_group_item)
    parser._match_r_paren()
    return kind(expressions=items)


def parse_partition_by(parser: ReportingParser) -> list[exp.Expr]:
    """PARTITION BY item, ..."""
    return parse_list(parser, parse_item) if parser._match(TokenType.PARTITION_BY) else []


def parse_qualify(parser: ReportingParser) -> exp.Qualify | None:
    """QUALIFY condition"""
    return exp.Qualify(this=parse_item(parser)) if parser._match(TokenType.QUALIFY) else None


def parse_limit(
    parser: ReportingParser,
    this: exp.Expr | None = None,
    top: bool = False,
    skip_limit_token: bool = False,
) -> exp.Expr | None:
    """LIMIT n | LIMIT ALL | FETCH FIRST [n] ROWS ONLY"""
    if top:
        return this
    if parser._match(TokenType.LIMIT):
        if parser._match(TokenType.ALL):
            return None  # no limit
        return exp.Limit(expression=_require_number(parser))
    if not parser._match(TokenType.FETCH):
        return this
    if not parser._match_set((TokenType.FIRST, TokenType.NEXT)):
        parser.raise_error("Expected FIRST or NEXT")
    direction = parser._prev.text.upper()
    rows = (TokenType.ROW, TokenType.ROWS)
    count = None if parser._curr.token_type in rows else _require_number(parser)
    if not parser._match_set(rows):
        parser.raise_error("Expected ROWS")
    expect_words(parser, "ONLY")
    return exp.Fetch(direction=direction, count=count)


def parse_offset(parser: ReportingParser, this: exp.Expr | None = None) -> exp.Expr | None:
    """OFFSET n [ROW | ROWS]"""
    if not parser._match(TokenType.OFFSET):
        return this
    count = _require_number(parser)
    parser._match_set((TokenType.ROW, TokenType.ROWS))
    return exp.Offset(expression=count)


def _require_number(parser: ReportingParser) -> exp.Expr:
    token = parser._curr
    if not parser._match(TokenType.NUMBER) or not token.text.isdecimal():
        parser.raise_error("Expected a whole number", token)
    return mark(exp.Literal.number(token.text), token, token)


# --- queries ---


def parse_select_query(
    parser: ReportingParser,
    nested: bool = False,
    table: bool = False,
    parse_subquery_alias: bool = True,
    parse_set_operation: bool = True,
) -> exp.Expr | None:
    """A block, VALUES, TABLE t, a query in parentheses, or one with WITH; None if none begins here."""
    this: exp.Expr | None = None
    match parser._curr.token_type:
        case TokenType.WITH:
            return _parse_query_with(parser)
        case TokenType.SELECT:
            this = _parse_select_block(parser)
        case TokenType.VALUES:
            this = parse_derived_table_values(parser)
        case TokenType.L_PAREN if table or nested:
            parser._advance()
            inner = parse_wrapped_select(parser, table=table)
            parser._match_r_paren()
            return parser._parse_subquery(inner, parse_alias=parse_subquery_alias)
        case TokenType.TABLE if not table and is_table_query(parser):
            first = parser._curr
            parser._advance()
            relation = parse_table_parts(parser)
            this = exp.Select(expressions=[exp.Star()], from_=exp.From(this=relation))
            this = parse_query_modifiers(parser, mark(this, first, parser._prev))
    return parser._parse_set_operations(this) if parse_set_operation else this


def _parse_query_with(parser: ReportingParser) -> exp.Expr:
    with_ = parse_with(parser)
    query = parse_ddl_select(parser)
    while isinstance(query, exp.Subquery) and query.is_wrapper:
        query = query.this
    if not isinstance(query, exp.Query):
        parser.raise_error("Expected SELECT")
    if query.args.get("with_") is not None:
        parser.raise_error("a query has one WITH", hint="put the names of both behind one WITH")
    query.set("with_", with_)
    return query


def parse_with(parser: ReportingParser, skip_with_token: bool = False) -> exp.With | None:
    """WITH [RECURSIVE] name AS (query), ..."""
    first = parser._curr
    if not parser._match(TokenType.WITH):
        return None
    recursive = parser._match(TokenType.RECURSIVE) or None
    queries = parse_list(parser, parse_cte)
    return mark(exp.With(expressions=queries, recursive=recursive), first, parser._prev)


def parse_cte(parser: ReportingParser) -> exp.CTE:
    """Name [(column, ...)] AS (query)"""
    first = parser._curr
    alias = exp.TableAlias(this=parse_name(parser, "CTE to have alias"))
    if parser._match(TokenType.L_PAREN):
        alias.set("columns", parser._parse_csv(lambda: parse_name(parser, "a column")))
        parser._match_r_paren()
    if not parser._match(TokenType.ALIAS):
        parser.raise_error("Expected AS")
    parser._match_l_paren()
    query = parse_ddl_select(parser)
    if query is None:
        parser.raise_error("Expected a query")
    if isinstance(query, exp.Values):
        query = parser._values_to_select(query)
    parser._match_r_paren()
    return mark(exp.CTE(this=query, alias=alias), first, parser._prev)


def parse_ddl_select(parser: ReportingParser) -> exp.Expr | None:
    """A whole query, its parentheses and set operations included; None if none begins here."""
    if parser._curr.token_type != TokenType.L_PAREN:
        return _with_modifiers(parser, parser._parse_select())
    found = parser._parse_select(nested=True, parse_subquery_alias=False)
    return _with_modifiers(parser, parser._parse_set_operations(found))


def _with_modifiers(parser: ReportingParser, query: exp.Expr | None) -> exp.Expr | None:
    found: exp.Expr | None = parse_query_modifiers(parser, query)
    return found


def is_table_query(parser: ReportingParser) -> bool:
    """Whether TABLE t comes next, which is short for SELECT * FROM t."""
    names = (TokenType.VAR, TokenType.IDENTIFIER)
    return parser._curr.token_type == TokenType.TABLE and parser._next.token_type in names


def _parse_select_block(parser: ReportingParser) -> exp.Expr | None:
    """SELECT [hint] [ALL | DISTINCT] projections [FROM ...] and the clauses behind."""
    parser._advance()
    comments = parser._prev_comments
    hint = parse_hint(parser)
    distinct = exp.Distinct() if parser._match(TokenType.DISTINCT) else None
    if distinct is None:
        parser._match(TokenType.ALL)
    projections = parser._parse_csv(parser._parse_expression)
    if not projections:
        parser.raise_error("Expected an expression")
    block = exp.Select(hint=hint, distinct=distinct, expressions=projections)
    block.add_comments(comments)
    if from_ := parser._parse_from():
        block.set("from_", from_)
        for join in parser._parse_joins():
            block.append("joins", join)
    return _with_modifiers(parser, block)


def parse_wrapped_select(parser: ReportingParser, table: bool = False) -> exp.Expr | None:
    """What stands in parentheses: a query or, in FROM, joined relations."""
    starts = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES)
    if not table or parser._curr.token_type in starts or is_table_query(parser):
        found = parser._parse_select(nested=True, parse_set_operation=False)
        if found is None:
            parser.raise_error("Expected a query")
        return _with_modifiers(parser, parser._parse_set_operations(found))
    relation = parse_table(parser)
    if isinstance(relation, exp.Values) and relation.alias:
        relation = exp.Table(this=relation, alias=relation.args["alias"].pop())
    if isinstance(relation, exp.Subquery) and not relation.alias:
        combined = _with_modifiers(parser, parser._parse_set_operations(relation))
        if combined is not relation:
            return combined
    assert relation is not None
    for join in parser._parse_joins():
        relation.append("joins", join)
    return relation


def parse_set_operation(
    parser: ReportingParser,
    this: exp.Expr | None,
    consume_pipe: bool = False,
    intersect_only: bool = False,
) -> exp.SetOperation | None:
    """UNION, INTERSECT or EXCEPT [ALL | DISTINCT] and its right side, behind `this`."""
    kind = parser._curr.token_type
    if kind not in parser.SET_OPERATIONS or (intersect_only and kind != TokenType.INTERSECT):
        return None
    if isinstance(this, exp.Select) and any(this.args.get(key) for key in OF_ANY_QUERY):
        parser.raise_error(
            f"{parser._curr.text.upper()} follows a query that is ordered or limited",
            hint="put the query in front of it in parentheses",
        )
    parser._advance()
    distinct = not parser._match(TokenType.ALL)
    if distinct:
        parser._match(TokenType.DISTINCT)
    right = parser._parse_select(nested=True, parse_set_operation=False, parse_subquery_alias=False)
    if right is None:
        parser.raise_error("Expected a query")
    sides = [
        parser._values_to_select(side) if isinstance(side, exp.Values) else side
        for side in (this, right)
    ]
    types = {TokenType.UNION: exp.Union, TokenType.EXCEPT: exp.Except}
    operation = types.get(kind, exp.Intersect)
    return parser.expression(operation(this=sides[0], expression=sides[1], distinct=distinct))


def parse_derived_table_values(
    parser: ReportingParser, allow_value_synonym: bool = False
) -> exp.Values | None:
    """VALUES row, ... or, in FROM, (VALUES row, ...) [AS t (columns)]."""
    first = parser._curr
    derived = parser._match_pair(TokenType.L_PAREN, TokenType.VALUES)
    if not derived and not parser._match(TokenType.VALUES):
        return None
    values = exp.Values(expressions=parse_list(parser, parse_value))
    if derived:
        parser._match_r_paren()
        values.set("alias", parse_table_alias(parser))
    return mark(values, first, parser._prev)


def parse_value(parser: ReportingParser, values: bool = True) -> exp.Tuple | None:
    """(a, b), ROW(a, b), or one value alone."""
    first = parser._curr
    if first.token_type == TokenType.ROW and parser._next.token_type == TokenType.L_PAREN:
        parser._advance()
    if not parser._match(TokenType.L_PAREN):
        return mark(exp.Tuple(expressions=[parse_item(parser)]), first, parser._prev)
    row = parse_list(parser, parse_item)
    parser._match_r_paren()
    return mark(exp.Tuple(expressions=row), first, parser._prev)
