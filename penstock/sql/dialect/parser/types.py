"""Read Flink's data types, every spelling of them, into one tree each.

The trees are sqlglot's own DataType nodes, so that every generator knows them: TIMESTAMP is
TIMESTAMPNTZ, TIMESTAMP_LTZ is TIMESTAMPLTZ, ROW is STRUCT, MULTISET<t> is MAP<t, INT> with
`kind` = MULTISET, a NOT NULL type has `nullable` = False; RAW, STRUCTURED, BITMAP and DESCRIPTOR are
USERDEFINED with their name as `kind`. CHAR and BINARY without a length have length 1; VARCHAR and VARBINARY are
STRING and BYTES then, as Flink's planner reads them (FlinkTypeSystem; its data type page says 1, and its tests do not).
"""

from __future__ import annotations

import difflib

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.parser.parts import (
    WORD_EXCLUDED,
    expect_words,
    parse_list,
    parse_name,
    parse_quoted,
)
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

MAX_LENGTH = 2_147_483_647

PLAIN = {
    "BOOLEAN": exp.DType.BOOLEAN,
    "TINYINT": exp.DType.TINYINT,
    "SMALLINT": exp.DType.SMALLINT,
    "INT": exp.DType.INT,
    "INTEGER": exp.DType.INT,
    "BIGINT": exp.DType.BIGINT,
    "FLOAT": exp.DType.FLOAT,
    "DOUBLE": exp.DType.DOUBLE,
    "STRING": exp.DType.TEXT,
    "BYTES": exp.DType.VARBINARY,
    "DATE": exp.DType.DATE,
    "NULL": exp.DType.NULL,
    "VARIANT": exp.DType.VARIANT,
}

SIZED = {
    "CHAR": exp.DType.CHAR,
    "VARCHAR": exp.DType.VARCHAR,
    "BINARY": exp.DType.BINARY,
    "VARBINARY": exp.DType.VARBINARY,
}

DECIMALS = {"DECIMAL", "DEC", "NUMERIC"}

TIMES = {
    "TIME": exp.DType.TIME,
    "TIMESTAMP": exp.DType.TIMESTAMPNTZ,
    "TIMESTAMP_LTZ": exp.DType.TIMESTAMPLTZ,
}

NESTED = ("ARRAY", "MAP", "MULTISET", "ROW")

OPAQUE = ("RAW", "STRUCTURED", "BITMAP", "GEOGRAPHY", "DESCRIPTOR")

YEAR_MONTH = ("YEAR", "MONTH", "QUARTER")

DAY_TIME = ("DAY", "WEEK", "HOUR", "MINUTE", "SECOND")

NAMES = (*PLAIN, *SIZED, *DECIMALS, *TIMES, *NESTED, *OPAQUE, "INTERVAL")

LITERALS = (TokenType.DATE, TokenType.TIME, TokenType.TIMESTAMPNTZ, TokenType.TIMESTAMPLTZ)


def parse_types(
    parser: ReportingParser,
    check_func: bool = False,
    schema: bool = False,
    allow_identifiers: bool = True,
    with_collation: bool = False,
) -> exp.Expr | None:
    # check_func: sqlglot asks whether a typed literal (DATE '2026-01-01') starts here.
    """A type where one may stand, as sqlglot asks for it: in CAST, or before a typed literal."""
    if check_func and not (
        parser._curr.token_type in LITERALS and parser._next.token_type == TokenType.STRING
    ):
        return None
    # with_collation: CAST, where a type must follow; elsewhere it may be missing.
    if not with_collation and parser._curr.text.upper() not in NAMES:
        return None
    return parse_data_type(parser, literal=check_func)


def parse_data_type(parser: ReportingParser, *, literal: bool = False) -> exp.DataType:
    """A type with its nullability, and the ARRAY or MULTISET behind it."""
    first = parser._curr
    kind = mark(_parse_type_name(parser, first, literal=literal), first, parser._prev)
    if not literal:
        _parse_nullability(parser, kind)
        while parser._match_texts(("ARRAY", "MULTISET")):  # the standard's postfix: INT ARRAY
            kind = _collection(parser._prev.text.upper(), kind)
            _parse_nullability(parser, kind)
    return mark(kind, first, parser._prev)


def _parse_nullability(parser: ReportingParser, kind: exp.DataType) -> None:
    if parser._match_pair(TokenType.NOT, TokenType.NULL):
        kind.set("nullable", False)
    elif parser._next.token_type != TokenType.ON:  # RETURNING INT NULL ON EMPTY
        parser._match(TokenType.NULL)


def _parse_type_name(parser: ReportingParser, token: Token, *, literal: bool) -> exp.DataType:
    name = "" if token.token_type in WORD_EXCLUDED else token.text.upper()
    if name not in NAMES:
        _raise_no_type(parser, token, name)
    parser._advance()
    if name in PLAIN:
        if name == "DOUBLE":
            parser._match_text_seq("PRECISION")
        return exp.DataType(this=PLAIN[name])
    if name in SIZED:
        return _parse_sized(parser, name)
    if name in DECIMALS:
        return exp.DataType(this=exp.DType.DECIMAL, expressions=parse_sizes(parser, 2))
    if name in TIMES:
        return _parse_time(parser, name, literal=literal)
    if name == "INTERVAL":
        return _parse_interval_type(parser)
    if name in OPAQUE:
        return _parse_opaque_type(parser, name)
    return _parse_row_type(parser) if name == "ROW" else _parse_collection_type(parser, name)


def _raise_no_type(parser: ReportingParser, token: Token, name: str) -> None:
    if not name or not name.replace("_", "").isalnum():
        parser.raise_error("Expected TYPE", token)
    near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else None
    parser.raise_error(f"unknown type '{token.text}'", token, hint=hint)


def parse_sizes(parser: ReportingParser, most: int) -> list[exp.Expr]:
    """[(n [, m])], at most `most` numbers."""
    sizes: list[exp.Expr] = []
    if not parser._match(TokenType.L_PAREN):
        return sizes
    while True:
        if not parser._match(TokenType.NUMBER) or not parser._prev.text.isdecimal():
            parser.raise_error("Expected a whole number", parser._curr)
        sizes.append(exp.DataTypeParam(this=exp.Literal.number(parser._prev.text)))
        if len(sizes) == most or not parser._match(TokenType.COMMA):
            break
    parser._match_r_paren()
    return sizes


def _parse_sized(parser: ReportingParser, name: str) -> exp.DataType:
    sizes = parse_sizes(parser, 1)
    _parse_text_encoding(parser)
    longest = not sizes or int(sizes[0].name) == MAX_LENGTH
    if longest and name in ("VARCHAR", "VARBINARY"):
        return exp.DataType(this=PLAIN["STRING" if name == "VARCHAR" else "BYTES"])
    one: list[exp.Expr] = [exp.DataTypeParam(this=exp.Literal.number(1))]
    return exp.DataType(this=SIZED[name], expressions=sizes or one)


def _parse_text_encoding(parser: ReportingParser) -> None:
    """Pass over CHARACTER SET name, as Flink's planner writes types: texts are Unicode in any case."""
    if parser._match_text_seq("CHARACTER", "SET"):
        parse_name(parser, "a character set")


def _parse_time(parser: ReportingParser, name: str, *, literal: bool) -> exp.DataType:
    kind = exp.DataType(this=TIMES[name], expressions=parse_sizes(parser, 1))
    if literal or name == "TIMESTAMP_LTZ":
        return kind
    if parser._match_text_seq("WITHOUT"):
        expect_words(parser, "TIME", "ZONE")
    elif parser._match_text_seq("WITH", "LOCAL") and name == "TIMESTAMP":
        expect_words(parser, "TIME", "ZONE")
        kind.set("this", exp.DType.TIMESTAMPLTZ)
    elif name == "TIMESTAMP" and parser._match_text_seq("WITH"):
        expect_words(parser, "TIME", "ZONE")
        kind.set("this", exp.DType.TIMESTAMPTZ)
    return kind


def _parse_opaque_type(parser: ReportingParser, name: str) -> exp.DataType:
    """RAW('class', 'snapshot'), STRUCTURED<'class', name TYPE, ...> and types without parameters."""
    parts: list[exp.Expr] = []
    if name == "RAW":
        parser._match_l_paren()
        parts = [parse_quoted(parser)]
        if parser._match(TokenType.COMMA):
            parts.append(parse_quoted(parser))
        parser._match_r_paren()
    elif name == "STRUCTURED":
        if not parser._match(TokenType.LT):
            parser.raise_error("Expected <")
        parts = [parse_quoted(parser)]
        while parser._match(TokenType.COMMA):
            parts.append(_parse_row_field(parser))
        if not parser._match(TokenType.GT):
            parser.raise_error("Expected >")
    return exp.DataType(this=exp.DType.USERDEFINED, kind=name, expressions=parts)


def _parse_interval_type(parser: ReportingParser) -> exp.DataType:
    units = []
    while parser._match_texts((*YEAR_MONTH, *DAY_TIME)):
        units.append(parser._prev.text.upper())
        parse_sizes(parser, 2)
        if not parser._match_text_seq("TO"):
            break
    if not units:
        parser.raise_error("Expected a unit such as DAY TO SECOND")
    family = "YEAR TO MONTH" if units[0] in YEAR_MONTH else "DAY TO SECOND"
    return exp.DataType(this=exp.DType.INTERVAL, expressions=[exp.var(family)])


def _parse_collection_type(parser: ReportingParser, name: str) -> exp.DataType:
    if not parser._match(TokenType.LT):
        parser.raise_error("Expected <")
    elements = [parse_data_type(parser)]
    if name == "MAP":
        if not parser._match(TokenType.COMMA):
            parser.raise_error("Expected ,")
        elements.append(parse_data_type(parser))
    if not parser._match(TokenType.GT):
        parser.raise_error("Expected >")
    return _collection(name, *elements)


def _collection(name: str, *elements: exp.DataType) -> exp.DataType:
    if name == "MULTISET":
        count = exp.DataType(this=exp.DType.INT)
        return exp.DataType(
            this=exp.DType.MAP, expressions=[*elements, count], nested=True, kind="MULTISET"
        )
    return exp.DataType(this=exp.DType[name], expressions=list(elements), nested=True)


def _parse_row_type(parser: ReportingParser) -> exp.DataType:
    if parser._match(TokenType.NEQ):  # ROW<>, of no fields, as ROW()
        return exp.DataType(this=exp.DType.STRUCT, nested=True)
    closing = {TokenType.LT: TokenType.GT, TokenType.L_PAREN: TokenType.R_PAREN}.get(
        parser._curr.token_type
    )
    if closing is None:
        parser.raise_error("Expected <")
    assert closing is not None
    parser._advance()
    fields = [] if parser._curr.token_type == closing else parse_list(parser, _parse_row_field)
    if not parser._match(closing):
        parser.raise_error("Expected >" if closing == TokenType.GT else "Expected )")
    return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)


def _parse_row_field(parser: ReportingParser) -> exp.ColumnDef:
    first = parser._curr
    name = parse_name(parser, "a field name")
    kind = parse_data_type(parser)
    constraints = []
    if parser._match(TokenType.STRING):
        comment = exp.CommentColumnConstraint(this=exp.Literal.string(parser._prev.text))
        constraints.append(exp.ColumnConstraint(kind=comment))
    return mark(exp.ColumnDef(this=name, kind=kind, constraints=constraints), first, parser._prev)
