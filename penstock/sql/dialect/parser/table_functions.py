"""Read calls whose arguments are tables.

Windowing functions, process table functions, and TABLE(f(x)) in FROM. A table argument is a Table or Subquery,
followed by a Kwarg named PARTITION BY or ORDER BY where the call has these; DESCRIPTOR(...) is an Anonymous of
columns, MODEL m an Anonymous of identifiers, a named argument a Kwarg. Grammar: Calcite's table arguments, and
FLIP-440 for ORDER BY. The functions in TABLE(f(x)) are users' own.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.parser.parts import (
    HINTS,
    QUERY_STARTS,
    name_before_paren,
    parse_list,
    parse_name,
)
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")

PARTITION_ARGUMENT = "PARTITION BY"

ORDER_ARGUMENT = "ORDER BY"

COLLECTING = ("ARRAY", "MAP")

NAME_STARTS = (TokenType.VAR, TokenType.IDENTIFIER)


def parse_function_args(parser: ReportingParser, alias: bool = False) -> list[exp.Expr]:
    """The arguments of any call; several nodes stand for a table that is partitioned."""
    if parser._curr.token_type in QUERY_STARTS:
        return [_parse_query_argument(parser, name_before_paren(parser))]
    arguments: list[exp.Expr] = []
    while True:
        separator = parser._prev
        if _at_table_argument(parser):
            arguments += _parse_table_argument(parser)
        elif (argument := parser._parse_lambda(alias=alias)) is not None:
            arguments.append(argument)
        elif separator.token_type == TokenType.COMMA:
            parser.raise_error(f"unexpected '{separator.text}'", separator)
        elif parser._curr.token_type == TokenType.COMMA:
            parser.raise_error(f"unexpected '{parser._curr.text}'", parser._curr)
        if not parser._match(TokenType.COMMA):
            return arguments


def _parse_query_argument(parser: ReportingParser, name: Token) -> exp.Expr:
    """ARRAY(SELECT ...) and MAP(SELECT ...)."""
    if name.text.upper() not in COLLECTING or name.token_type == TokenType.IDENTIFIER:
        parser.raise_error("Expected an expression", hint="put the query in parentheses of its own")
    query = parser._parse_ddl_select()
    assert query is not None, "one begins here"
    return query


def _at_table_argument(parser: ReportingParser) -> bool:
    """Whether an argument is named, a table, a model or a DESCRIPTOR."""
    kind, then, word = parser._curr.token_type, parser._next.token_type, parser._curr.text.upper()
    return (
        then == TokenType.FARROW
        or (kind == TokenType.TABLE and then != TokenType.L_PAREN)
        or (word == "MODEL" and kind == TokenType.VAR and then in NAME_STARTS)
        or (word == "DESCRIPTOR" and kind == TokenType.VAR and then == TokenType.L_PAREN)
    )


def parse_table_function(parser: ReportingParser, name: Token) -> exp.Anonymous:
    """The arguments of a windowing function, behind the parenthesis; its end stays unread."""
    arguments: list[exp.Expr] = []
    while True:
        arguments += _parse_table_argument(parser)
        if not parser._match(TokenType.COMMA):
            break
    return mark(
        exp.Anonymous(this=name.text.upper(), expressions=arguments), name, parser._curr or name
    )


def _parse_table_argument(parser: ReportingParser) -> list[exp.Expr]:
    first, keyword = parser._curr, None
    if parser._next.token_type == TokenType.FARROW:
        keyword = exp.var(parse_name(parser, "the name of an argument").name.upper())
        parser._match(TokenType.FARROW)
    value, more = _parse_table_value(parser)
    if value is None:
        parser.raise_error("Expected an argument")
    if keyword is not None:
        value = mark(exp.Kwarg(this=keyword, expression=value), first, parser._prev)
    assert value is not None
    return [value, *more]


def _parse_table_value(parser: ReportingParser) -> tuple[exp.Expr | None, list[exp.Expr]]:
    first = parser._curr
    if parser._match(TokenType.TABLE):
        return _parse_named_table(parser), _parse_table_semantics(parser)
    if first.token_type == TokenType.L_PAREN and parser._next.token_type in QUERY_STARTS:
        return parser._parse_select(table=True), _parse_table_semantics(parser)
    if not _at_table_argument(parser):
        if parser._match(TokenType.DEFAULT):
            return mark(exp.var("DEFAULT"), first, first), []
        return parser._parse_disjunction(), []
    parser._advance()
    if first.text.upper() == "MODEL":
        parts = [parse_name(parser, "a model")]
        while parser._match(TokenType.DOT):
            parts.append(parse_name(parser, "a model"))
        call = exp.Anonymous(this="MODEL", expressions=parts)
        return mark(call, first, parser._prev), []
    parser._match_l_paren()
    columns = parse_list(parser, _parse_descriptor_column)
    parser._match_r_paren()
    call = exp.Anonymous(this="DESCRIPTOR", expressions=columns)
    return mark(call, first, parser._prev), []


def _parse_descriptor_column(parser: ReportingParser) -> exp.Expr:
    """A column; a data type behind its name, which Flink takes for ML functions, is refused."""
    column = parser._parse_column()
    if not isinstance(column, exp.Column):
        parser.raise_error("Expected a column")
    return column


def _parse_named_table(parser: ReportingParser) -> exp.Expr | None:
    table = parser._parse_table_parts()
    if table is not None:
        table.meta.pop(HINTS, None)
    return table


def _parse_table_semantics(parser: ReportingParser) -> list[exp.Expr]:
    """[PARTITION BY k | PARTITION BY (k, l)] [ORDER BY c | ORDER BY (c, d DESC)]"""
    found: list[exp.Expr] = []
    if parser._match(TokenType.PARTITION_BY):
        found.append(_parse_keys(parser, PARTITION_ARGUMENT, ordered=False))
    if parser._match(TokenType.ORDER_BY):
        found.append(_parse_keys(parser, ORDER_ARGUMENT, ordered=True))
    return found


def _parse_keys(parser: ReportingParser, name: str, *, ordered: bool) -> exp.Kwarg:
    first = parser._prev
    parse = parser._parse_ordered if ordered else parser._parse_column
    keys: list[exp.Expr] = []
    if parser._match(TokenType.L_PAREN):
        keys += parser._parse_csv(parse)
        parser._match_r_paren()
    elif (key := parse()) is not None:
        keys.append(key)
    if not keys:
        parser.raise_error("Expected a column")
    node = exp.Kwarg(this=exp.var(name), expression=exp.Tuple(expressions=keys))
    return mark(node, first, parser._prev)


WRAPPER = "TABLE"

KEEPING = "penstock_left_"


def table_call(relation: exp.Expr) -> exp.Anonymous | None:
    """The call f(x) of TABLE(f(x)) and of LATERAL TABLE(f(x)); None for windowing functions and other relations."""
    call = relation.this if isinstance(relation, exp.Table | exp.Lateral) else None
    if not isinstance(call, exp.Anonymous):
        return None
    if isinstance(relation, exp.Table):
        return None if call.name.upper() in WINDOW_FUNCTIONS else call
    inner = call.expressions[0] if call.name.upper() == WRAPPER and call.expressions else None
    return inner if isinstance(inner, exp.Anonymous) else None


def calling_relation(call: exp.Anonymous) -> exp.Table | exp.Lateral | None:
    """The relation in FROM that a call makes; None for one that stands where a value does."""
    above = call.parent
    if isinstance(above, exp.Anonymous) and above.name.upper() == WRAPPER:
        above = above.parent
    if not isinstance(above, exp.Table | exp.Lateral):
        return None
    return above if table_call(above) is call else None


def takes_values(call: exp.Anonymous) -> bool:
    """Whether the arguments are values, as a user's function takes them: no tables, no descriptors, no names."""
    return not any(
        isinstance(argument, exp.Table | exp.Kwarg)
        or (
            isinstance(argument, exp.Anonymous) and argument.name.upper() in ("DESCRIPTOR", "MODEL")
        )
        for argument in call.expressions
    )


def is_left(relation: exp.Expr) -> bool:
    """Whether a relation is the right side of a LEFT JOIN."""
    join = relation.parent
    return isinstance(join, exp.Join) and join.side.upper() == "LEFT"


def is_always(join: exp.Join) -> bool:
    """Whether a join has no condition but ON TRUE."""
    on = join.args.get("on")
    bare = None if on is None else on.unnest()
    return isinstance(bare, exp.Boolean) and bool(bare.this)


def keeping_name(name: str) -> str:
    """The name in Spark of a table function that gives a row of NULLs where it would give none: for LEFT JOIN."""
    return f"{KEEPING}{name.lower()}"
