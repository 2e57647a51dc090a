"""Read calls: arguments, functions with words between them (CAST, TRIM), JSON functions; list the built-in ones.

A function for a call begins behind the opening parenthesis and stops before the closing one. JSON_OBJECT and
JSON_OBJECTAGG have JSONKeyValue nodes; JSON_QUERY is a JSONExtract with `json_query`, `option` (a Var with the
wrapper as written out in full) and `returning`; JSON_VALUE and JSON_EXISTS are sqlglot's nodes. `null_handling` is a
text, an OnCondition has texts, or expressions for DEFAULT. Grammar: Flink's page of JSON functions and Calcite's
JsonQueryFunctionCall and its like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.functions.table import FUNCTIONS
from penstock.sql.dialect.parser.expressions import parse_bitwise
from penstock.sql.dialect.parser.parts import (
    expect_words,
    name_before_paren,
    parse_item,
    parse_list,
)
from penstock.sql.dialect.parser.table_functions import (
    WINDOW_FUNCTIONS,
    parse_function_args,
    parse_table_function,
)
from penstock.sql.dialect.parser.types import parse_data_type, parse_types
from penstock.sql.syntax.intervals import FINER, UNITS
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

EXISTS_ON_ERROR = ("TRUE", "FALSE", "UNKNOWN", "ERROR")

QUERY_ON = ("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT")

VALUE_ON = ("NULL", "ERROR")

NULL_HANDLING = ("NULL ON NULL", "ABSENT ON NULL")

WRAPPERS = {
    ("WITHOUT",): "WITHOUT ARRAY WRAPPER",
    ("WITH", "CONDITIONAL"): "WITH CONDITIONAL ARRAY WRAPPER",
    ("WITH", "UNCONDITIONAL"): "WITH UNCONDITIONAL ARRAY WRAPPER",
    ("WITH",): "WITH UNCONDITIONAL ARRAY WRAPPER",
}


def _parse_json_object(parser: ReportingParser) -> exp.JSONObject:
    pairs: list[exp.Expr] = []
    if parser._curr.token_type != TokenType.R_PAREN and not _at_null_handling(parser):
        pairs = parse_list(parser, _parse_pair)
    return exp.JSONObject(expressions=pairs, null_handling=_parse_null_handling(parser))


def _parse_json_objectagg(parser: ReportingParser) -> exp.JSONObjectAgg:
    pairs = [_parse_pair(parser)]
    return exp.JSONObjectAgg(expressions=pairs, null_handling=_parse_null_handling(parser))


def _parse_json_array(parser: ReportingParser) -> exp.JSONArray:
    items: list[exp.Expr] = []
    if parser._curr.token_type != TokenType.R_PAREN and not _at_null_handling(parser):
        items = parse_list(parser, parse_item)
    return exp.JSONArray(expressions=items, null_handling=_parse_null_handling(parser))


def _parse_json_arrayagg(parser: ReportingParser) -> exp.JSONArrayAgg:
    item = parse_item(parser)
    return exp.JSONArrayAgg(this=item, null_handling=_parse_null_handling(parser))


def _parse_json_value(parser: ReportingParser) -> exp.JSONValue:
    this, path = _parse_json_and_path(parser)
    returning = parse_data_type(parser) if parser._match_text_seq("RETURNING") else None
    empty, error = _parse_on(parser, "EMPTY", VALUE_ON), _parse_on(parser, "ERROR", VALUE_ON)
    condition = exp.OnCondition(empty=empty, error=error) if empty or error else None
    return exp.JSONValue(this=this, path=path, returning=returning, on_condition=condition)


def _parse_json_exists(parser: ReportingParser) -> exp.JSONExists:
    this, path = _parse_json_and_path(parser)
    error = _parse_on(parser, "ERROR", EXISTS_ON_ERROR)
    condition = exp.OnCondition(error=error) if error else None
    return exp.JSONExists(this=this, path=path, on_condition=condition)


def _parse_json_query(parser: ReportingParser) -> exp.JSONExtract:
    this, path = _parse_json_and_path(parser)
    returning = parse_data_type(parser) if parser._match_text_seq("RETURNING") else None
    option = _parse_wrapper(parser)
    empty, error = _parse_on(parser, "EMPTY", QUERY_ON), _parse_on(parser, "ERROR", QUERY_ON)
    return exp.JSONExtract(
        this=this,
        expression=path,
        json_query=True,
        returning=returning,
        option=option,
        on_condition=exp.OnCondition(empty=empty, error=error) if empty or error else None,
    )


def _parse_json_and_path(parser: ReportingParser) -> tuple[exp.Expr, exp.Expr]:
    this = parse_item(parser)
    if not parser._match(TokenType.COMMA):
        parser.raise_error("Expected ,")
    return this, parse_item(parser)


def _parse_pair(parser: ReportingParser) -> exp.JSONKeyValue:
    """[KEY] key VALUE value, or key : value."""
    if parser._curr.text.upper() == "KEY" and parser._next.token_type not in (
        TokenType.COLON,
        TokenType.DOT,
    ):
        parser._match_text_seq("KEY")
    key = parse_item(parser)
    if not parser._match(TokenType.COLON) and not parser._match_text_seq("VALUE"):
        parser.raise_error("Expected VALUE")
    return exp.JSONKeyValue(this=key, expression=parse_item(parser))


def _at_null_handling(parser: ReportingParser) -> bool:
    return any(parser._match_text_seq(*words.split(), advance=False) for words in NULL_HANDLING)


def _parse_null_handling(parser: ReportingParser) -> str | None:
    for words in NULL_HANDLING:
        if parser._match_text_seq(*words.split()):
            return words
    return None


def _parse_on(
    parser: ReportingParser, event: str, behaviours: Sequence[str]
) -> str | exp.Expr | None:
    """NULL ON EMPTY, DEFAULT x ON ERROR and their like."""
    for words in behaviours:
        if parser._match_text_seq(*words.split(), "ON", event):
            return f"{words} ON {event}"
    if "NULL" not in behaviours or "EMPTY ARRAY" in behaviours:
        return None
    index = parser._index
    if parser._match(TokenType.DEFAULT):
        value = parse_item(parser)
        if parser._match_text_seq("ON", event):
            return value
        parser._retreat(index)
    return None


def _parse_wrapper(parser: ReportingParser) -> exp.Var | None:
    for words, option in WRAPPERS.items():
        if parser._match_text_seq(*words):
            parser._match_text_seq("ARRAY")
            if not parser._match_text_seq("WRAPPER"):
                parser.raise_error("Expected WRAPPER")
            return exp.var(option)
    return None


FIELDS = (
    *UNITS,
    *FINER,
    "DOY",
    "DOW",
    "ISODOW",
    "ISOYEAR",
    "EPOCH",
    "DECADE",
    "CENTURY",
    "MILLENNIUM",
)

ROUNDED_TO = (*UNITS, *FINER, "DECADE", "CENTURY", "MILLENNIUM")

TRIMMED = ("BOTH", "LEADING", "TRAILING")

TREATED: dict[str, type[exp.Expr] | None] = {
    "ARRAY_AGG": None,
    "FIRST_VALUE": exp.FirstValue,
    "LAST_VALUE": exp.LastValue,
}
"""Aggregates that are told what to do with NULLs, and sqlglot's nodes for them."""

NULLS: dict[str, type[exp.Expr]] = {"IGNORE": exp.IgnoreNulls, "RESPECT": exp.RespectNulls}


def _parse_cast(parser: ReportingParser, *, strict: bool) -> exp.Expr:
    """CAST(x AS type)"""
    this = parse_item(parser)
    if not parser._match(TokenType.ALIAS):
        parser.raise_error("Expected AS")
    to = parse_types(parser, with_collation=True)
    return parser.build_cast(strict=strict, this=this, to=to)


def _parse_extract(parser: ReportingParser) -> exp.Extract:
    """EXTRACT(unit FROM x)"""
    unit = _parse_unit(parser, FIELDS)
    if not parser._match(TokenType.FROM):
        parser.raise_error("Expected FROM")
    return exp.Extract(this=unit, expression=parse_item(parser))


def _parse_rounded(parser: ReportingParser, kind: type[exp.Ceil | exp.Floor]) -> exp.Expr:
    """FLOOR(x) and FLOOR(x TO unit)"""
    this = parse_item(parser)
    to = _parse_unit(parser, ROUNDED_TO) if parser._match_text_seq("TO") else None
    return kind(this=this, to=to)


def _parse_overlay(parser: ReportingParser) -> exp.Overlay:
    """OVERLAY(x PLACING y FROM start [FOR length])"""
    this = parse_item(parser)
    expect_words(parser, "PLACING")
    placed = parse_item(parser)
    if not parser._match(TokenType.FROM):
        parser.raise_error("Expected FROM")
    start = parse_item(parser)
    length = parse_item(parser) if parser._match(TokenType.FOR) else None
    return exp.Overlay(this=this, expression=placed, from_=start, for_=length)


def _parse_position(parser: ReportingParser) -> exp.StrPosition:
    """POSITION(x IN y)"""
    part = parse_bitwise(parser)
    if part is None or not parser._match(TokenType.IN):
        parser.raise_error("Expected IN" if part is not None else "Expected an expression")
    return exp.StrPosition(this=parse_item(parser), substr=part)


def _parse_substring(parser: ReportingParser) -> exp.Substring:
    """SUBSTRING(x FROM start [FOR length]) and SUBSTRING(x, start [, length])"""
    this, length = parse_item(parser), None
    if parser._match(TokenType.FROM):
        start = parse_item(parser)
        length = parse_item(parser) if parser._match(TokenType.FOR) else None
    elif parser._match(TokenType.COMMA):
        start = parse_item(parser)
        length = parse_item(parser) if parser._match(TokenType.COMMA) else None
    else:
        parser.raise_error("Expected FROM")
    return exp.Substring(this=this, start=start, length=length)


def _parse_trim(parser: ReportingParser) -> exp.Trim:
    """TRIM([[BOTH | LEADING | TRAILING] [characters] FROM] x)"""
    position = parser._prev.text.upper() if parser._match_texts(TRIMMED) else None
    first = None if parser._curr.token_type == TokenType.FROM else parse_item(parser)
    if parser._match(TokenType.FROM):
        return exp.Trim(this=parse_item(parser), position=position, expression=first)
    if position is not None or first is None:
        parser.raise_error("Expected FROM")
    return exp.Trim(this=first)


def _parse_listagg(parser: ReportingParser) -> exp.GroupConcat:
    """LISTAGG([ALL | DISTINCT] x [, separator])"""
    if parser._match(TokenType.DISTINCT):
        this: exp.Expr = exp.Distinct(expressions=[parse_item(parser)])
    else:
        parser._match(TokenType.ALL)
        this = parse_item(parser)
    separator = parse_item(parser) if parser._match(TokenType.COMMA) else None
    return exp.GroupConcat(this=this, separator=separator)


def _parse_null_treatment(parser: ReportingParser, name: str) -> exp.Expr:
    """ARRAY_AGG([ALL | DISTINCT] x [IGNORE NULLS | RESPECT NULLS] [ORDER BY y]), and its like"""
    token = name_before_paren(parser)
    if parser._match(TokenType.DISTINCT):
        this: exp.Expr = exp.Distinct(expressions=[parse_item(parser)])
    else:
        parser._match(TokenType.ALL)
        this = parse_item(parser)
    around = next((n for w, n in NULLS.items() if parser._match_text_seq(w, "NULLS")), None)
    this = parser._parse_order(this) or this
    kind = TREATED[name]
    call = kind(this=this) if kind else exp.AnonymousAggFunc(this=name, expressions=[this])
    mark(call, token, token)
    return call if around is None else around(this=call)


def _parse_function_unit(parser: ReportingParser, name: str) -> exp.Anonymous:
    """TIMESTAMPADD(unit, ...) and TIMESTAMPDIFF(unit, ...): the unit is a word, not a column."""
    token = name_before_paren(parser)
    arguments: list[exp.Expr] = [_parse_unit(parser, UNITS, "SQL_TSI_")]
    if parser._match(TokenType.COMMA):
        arguments += parse_function_args(parser)
    return mark(exp.Anonymous(this=name, expressions=arguments), token, token)


def _parse_unit(parser: ReportingParser, units: tuple[str, ...], prefix: str = "") -> exp.Var:
    token = parser._curr
    spelled = token.text.upper().removeprefix(prefix)
    spelled = spelled if spelled in units else spelled.removesuffix("S")
    if spelled not in units:
        parser.raise_error("Expected a unit", hint=f"units are {', '.join(units)}")
    parser._advance()
    return mark(exp.var(spelled), token, token)


def closed(parse: Callable[[Any], exp.Expr]) -> Callable[[Any], exp.Expr]:
    """A parser of a call that sees to it that its parenthesis comes: sqlglot only passes over it."""

    def parse_and_look(parser: ReportingParser) -> exp.Expr:
        call = parse(parser)
        if parser._curr.token_type != TokenType.R_PAREN:
            parser.raise_error("Expected )")
        return call

    return parse_and_look


SYNTAX: dict[str, Callable[[Any], exp.Expr]] = {
    "ARRAY_AGG": lambda parser: _parse_null_treatment(parser, "ARRAY_AGG"),
    "CAST": lambda parser: _parse_cast(parser, strict=True),
    "CEIL": lambda parser: _parse_rounded(parser, exp.Ceil),
    "CEILING": lambda parser: _parse_rounded(parser, exp.Ceil),
    "EXTRACT": _parse_extract,
    "FIRST_VALUE": lambda parser: _parse_null_treatment(parser, "FIRST_VALUE"),
    "FLOOR": lambda parser: _parse_rounded(parser, exp.Floor),
    "LAST_VALUE": lambda parser: _parse_null_treatment(parser, "LAST_VALUE"),
    "LISTAGG": _parse_listagg,
    "OVERLAY": _parse_overlay,
    "POSITION": _parse_position,
    "SUBSTRING": _parse_substring,
    "TIMESTAMPADD": lambda parser: _parse_function_unit(parser, "TIMESTAMPADD"),
    "TIMESTAMPDIFF": lambda parser: _parse_function_unit(parser, "TIMESTAMPDIFF"),
    "TRIM": _parse_trim,
    "TRY_CAST": lambda parser: _parse_cast(parser, strict=False),
}
"""The parsers of this module by the names of their functions."""


# --- arguments and constructors ---


def parse_lambda(parser: ReportingParser, alias: bool = False) -> exp.Expr | None:
    """One argument: [ALL | DISTINCT] value [ORDER BY ...]."""
    if parser._match(TokenType.DISTINCT):
        return parser._parse_order(exp.Distinct(expressions=parse_list(parser, parse_item)))
    parser._match(TokenType.ALL)
    return parser._parse_order(parser._parse_disjunction())


def parse_map_constructor(parser: ReportingParser, token: Token) -> exp.Anonymous:
    """The [k, v, ...] of MAP[k, v, ...]; `token` is its MAP."""
    parser._advance()
    items: list[exp.Expr] = []
    if not parser._match(TokenType.R_BRACKET):
        items = parse_list(parser, parse_item)
        if not parser._match(TokenType.R_BRACKET):
            parser.raise_error("Expected ]")
    if len(items) % 2:
        parser.raise_error("MAP[...] takes keys and values in turn", token)
    return mark(exp.Anonymous(this="MAP", expressions=items), token, parser._prev)


# Functions that are nodes of sqlglot, so that its optimizer knows them. All others are Anonymous:
# they keep their name, and the table in functions.py says what they are.
NODES = (
    "COUNT", "SUM", "AVG", "MIN", "MAX", "STDDEV_POP", "STDDEV_SAMP", "STDDEV", "VAR_POP",
    "VAR_SAMP", "VARIANCE", "FIRST_VALUE", "LAST_VALUE", "LEAD", "LAG", "ROW_NUMBER", "RANK",
    "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "COALESCE", "NULLIF", "GREATEST", "LEAST",
    "GROUPING", "UNNEST",
)  # fmt: skip

PARSED: dict[str, Callable[[Any], exp.Expr]] = {
    **SYNTAX,
    "ALL": lambda parser: exp.All(this=_require_subquery(parser)),
    "ANY": lambda parser: exp.Any(this=_require_subquery(parser)),
    "EXISTS": lambda parser: exp.Exists(this=_require_subquery(parser)),
    "JSON_ARRAY": _parse_json_array,
    "JSON_ARRAYAGG": _parse_json_arrayagg,
    "JSON_EXISTS": _parse_json_exists,
    "JSON_OBJECT": _parse_json_object,
    "JSON_OBJECTAGG": _parse_json_objectagg,
    "JSON_QUERY": _parse_json_query,
    "JSON_VALUE": _parse_json_value,
    "SOME": lambda parser: exp.Any(this=_require_subquery(parser)),
    **dict.fromkeys(
        WINDOW_FUNCTIONS, lambda parser: parse_table_function(parser, name_before_paren(parser))
    ),
}
"""What stands in the parentheses of a call that has words, queries or tables in it."""


def _require_subquery(parser: ReportingParser) -> exp.Expr:
    """The query of EXISTS and ANY, without its own parentheses."""
    query = parser._parse_ddl_select()
    while isinstance(query, exp.Subquery) and query.is_wrapper:
        query = query.this
    if query is None:
        parser.raise_error("Expected a query")
    return parser._values_to_select(query) if isinstance(query, exp.Values) else query


def built_in_functions() -> list[str]:
    """The functions that run, in lower case, sorted."""
    names = [name for name, row in FUNCTIONS.items() if row.refusal is None]
    return sorted({name.lower() for name in (*names, *NODES, *SYNTAX)})


def is_built_in(name: str) -> bool:
    """Whether Flink has a function of this name, which may be one that is refused here."""
    return name.upper() in {*FUNCTIONS, *NODES, *SYNTAX}
