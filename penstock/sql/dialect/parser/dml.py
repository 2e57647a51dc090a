"""Read the statements that change rows: INSERT, UPDATE, DELETE, TRUNCATE, ANALYZE, CALL.

INSERT is an Insert whose `partition` is a PartitionSpec and whose `conflict` is a Var; EXECUTE INSERT is the same
statement in longer words.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.parser.parts import (
    HINTS,
    QUERY_STARTS,
    expect_words,
    match_one_of,
    parse_list,
    parse_name,
    parse_name_list,
    parse_partition_spec,
    parse_table_options,
    parse_target,
    require_expression,
    require_query,
)
from penstock.sql.syntax.nodes import AnalyzeTable, CallProcedureStatement
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

SOURCE_STARTS = (*QUERY_STARTS, TokenType.L_PAREN)

CONFLICT_ACTIONS = (("DO", "NOTHING"), ("DO", "ERROR"), ("DO", "DEDUPLICATE"))


def parse_insert(parser: ReportingParser) -> exp.Insert | exp.MultitableInserts:
    """What follows INSERT."""
    overwrite = bool(parser._match(TokenType.OVERWRITE))
    if not overwrite and not parser._match(TokenType.INTO):
        parser.raise_error("Expected INTO or OVERWRITE")
    table: exp.Expr = parse_target(parser)
    parse_table_options(parser, table)  # type: ignore[arg-type]
    table.meta.pop(HINTS, None)
    partition = parse_partition_spec(parser) if parser._match(TokenType.PARTITION) else None
    if (
        parser._curr.token_type == TokenType.L_PAREN
        and parser._next.token_type not in SOURCE_STARTS
    ):
        table = exp.Schema(this=table, expressions=parse_name_list(parser))
    insert = exp.Insert(
        this=table,
        expression=require_query(parser),
        overwrite=overwrite or None,
        partition=partition,
    )
    if parser._match(TokenType.ON):
        insert.set("conflict", _parse_conflict(parser))
    return insert


def _parse_conflict(parser: ReportingParser) -> exp.Var:
    first = parser._prev
    expect_words(parser, "CONFLICT")
    action = match_one_of(parser, CONFLICT_ACTIONS)
    if action is None:
        parser.raise_error("Expected DO NOTHING, DO ERROR or DO DEDUPLICATE")
    return mark(exp.var(action), first, parser._prev)


def parse_update_table(parser: ReportingParser) -> exp.Update:
    """What follows UPDATE."""
    table = parse_target(parser)
    parse_table_options(parser, table)
    table.meta.pop(HINTS, None)
    if not parser._match(TokenType.SET):
        parser.raise_error("Expected SET")
    changes = parse_list(parser, _parse_assignment_of_column)
    return exp.Update(this=table, expressions=changes, where=parser._parse_where())


def _parse_assignment_of_column(parser: ReportingParser) -> exp.Expr:
    first = parser._curr
    column = exp.Column(this=parse_name(parser, "a column"))
    mark(column, first, parser._prev)
    if not parser._match(TokenType.EQ):
        parser.raise_error("Expected =")
    return mark(exp.EQ(this=column, expression=require_expression(parser)), first, parser._prev)


def parse_delete_from(parser: ReportingParser) -> exp.Delete:
    """What follows DELETE."""
    if not parser._match(TokenType.FROM):
        parser.raise_error("Expected FROM")
    return exp.Delete(this=parse_target(parser), where=parser._parse_where())


def parse_truncate(parser: ReportingParser) -> exp.TruncateTable:
    """What follows TRUNCATE."""
    if not parser._match(TokenType.TABLE):
        parser.raise_error("Expected TABLE")
    return exp.TruncateTable(expressions=[parse_target(parser)])


def parse_analyze_table(parser: ReportingParser) -> AnalyzeTable:
    """What follows ANALYZE."""
    if not parser._match(TokenType.TABLE):
        parser.raise_error("Expected TABLE")
    node = AnalyzeTable(this=parse_target(parser))
    if parser._match(TokenType.PARTITION):
        node.set("partition", parse_partition_spec(parser))
    expect_words(parser, "COMPUTE", "STATISTICS")
    if not parser._match(TokenType.FOR):
        return node
    if parser._match_text_seq("ALL"):
        expect_words(parser, "COLUMNS")
        node.set("all", True)
    else:
        expect_words(parser, "COLUMNS")
        node.set("columns", parser._parse_csv(lambda: parse_name(parser, "a column")))
    return node


def parse_call(parser: ReportingParser) -> CallProcedureStatement:
    """What follows CALL."""
    name = parse_target(parser)
    parser._match_l_paren()
    arguments: list[exp.Expr] = []
    if parser._curr.token_type != TokenType.R_PAREN:
        arguments = parse_list(parser, _parse_call_argument)
    parser._match_r_paren()
    return CallProcedureStatement(this=name, expressions=arguments)


def _parse_call_argument(parser: ReportingParser) -> exp.Expr:
    first = parser._curr
    if parser._next.token_type != TokenType.FARROW:
        return require_expression(parser)
    keyword = exp.var(first.text)
    parser._advance(2)
    value = require_expression(parser)
    return mark(exp.Kwarg(this=keyword, expression=value), first, parser._prev)
