"""Parses the statements that change rows: INSERT, UPDATE, DELETE, TRUNCATE, ANALYZE, CALL.

INSERT is an Insert whose `partition` is a PartitionSpec and whose `conflict` is a Var; EXECUTE INSERT is the same
statement in longer words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.parser.queries import HINTS
from penstock.sql.dialect.parser.show import ShowParser
from penstock.sql.syntax.nodes import AnalyzeTable, CallProcedure
from penstock.sql.syntax.positions import mark

__all__ = ["ChangeParser"]

QUERY_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN)
CONFLICT_ACTIONS = (("DO", "NOTHING"), ("DO", "ERROR"), ("DO", "DEDUPLICATE"))


class ChangeParser(ShowParser):
    """The part of the parser that reads statements that change rows."""

    STATEMENT_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **ShowParser.STATEMENT_PARSERS,
        TokenType.INSERT: lambda self: self._parse_insert(),
        TokenType.UPDATE: lambda self: self._parse_update_table(),
        TokenType.DELETE: lambda self: self._parse_delete_from(),
        TokenType.TRUNCATE: lambda self: self._parse_truncate(),
        TokenType.ANALYZE: lambda self: self._parse_analyze_table(),
    }

    def _parse_insert(self) -> exp.Insert | exp.MultitableInserts:
        overwrite = bool(self._match(TokenType.OVERWRITE))
        if not overwrite and not self._match(TokenType.INTO):
            self.raise_error("Expected INTO or OVERWRITE")
        table: exp.Expr = self._parse_target()
        self._parse_table_options(table)  # type: ignore[arg-type]
        table.meta.pop(HINTS, None)
        partition = self._parse_partition_spec() if self._match(TokenType.PARTITION) else None
        if self._curr.token_type == TokenType.L_PAREN and self._next.token_type not in QUERY_STARTS:
            table = exp.Schema(this=table, expressions=self._parse_name_list())
        insert = exp.Insert(
            this=table,
            expression=self._require_query(),
            overwrite=overwrite or None,
            partition=partition,
        )
        if self._match(TokenType.ON):
            insert.set("conflict", self._parse_conflict())
        return insert

    def _parse_conflict(self) -> exp.Var:
        first = self._prev
        self._expect_words("CONFLICT")
        action = self._match_one_of(CONFLICT_ACTIONS)
        if action is None:
            self.raise_error("Expected DO NOTHING, DO ERROR or DO DEDUPLICATE")
        return mark(exp.var(action), first, self._prev)

    def _parse_update_table(self) -> exp.Update:
        table = self._parse_target()
        self._parse_table_options(table)
        table.meta.pop(HINTS, None)
        if not self._match(TokenType.SET):
            self.raise_error("Expected SET")
        changes = self._parse_csv(self._parse_assignment_of_column)
        return exp.Update(this=table, expressions=changes, where=self._parse_where())

    def _parse_assignment_of_column(self) -> exp.Expr:
        first = self._curr
        column = exp.Column(this=self._parse_name("a column"))
        mark(column, first, self._prev)
        if not self._match(TokenType.EQ):
            self.raise_error("Expected =")
        return mark(exp.EQ(this=column, expression=self._require_expression()), first, self._prev)

    def _parse_delete_from(self) -> exp.Delete:
        if not self._match(TokenType.FROM):
            self.raise_error("Expected FROM")
        return exp.Delete(this=self._parse_target(), where=self._parse_where())

    def _parse_truncate(self) -> exp.TruncateTable:
        if not self._match(TokenType.TABLE):
            self.raise_error("Expected TABLE")
        return exp.TruncateTable(expressions=[self._parse_target()])

    def _parse_analyze_table(self) -> AnalyzeTable:
        if not self._match(TokenType.TABLE):
            self.raise_error("Expected TABLE")
        node = AnalyzeTable(this=self._parse_target())
        if self._match(TokenType.PARTITION):
            node.set("partition", self._parse_partition_spec())
        self._expect_words("COMPUTE", "STATISTICS")
        if not self._match(TokenType.FOR):
            return node
        if self._match_text_seq("ALL"):
            self._expect_words("COLUMNS")
            node.set("all", True)
        else:
            self._expect_words("COLUMNS")
            node.set("columns", self._parse_csv(lambda: self._parse_name("a column")))
        return node

    def _parse_call(self) -> CallProcedure:
        name = self._parse_target()
        self._match_l_paren()
        arguments: list[exp.Expr] = []
        if self._curr.token_type != TokenType.R_PAREN:
            arguments = self._parse_csv(self._parse_call_argument)
        self._match_r_paren()
        return CallProcedure(this=name, expressions=arguments)

    def _parse_call_argument(self) -> exp.Expr:
        first = self._curr
        if self._next.token_type != TokenType.FARROW:
            return self._require_expression()
        keyword = exp.var(first.text)
        self._advance(2)
        value = self._require_expression()
        return mark(exp.Kwarg(this=keyword, expression=value), first, self._prev)

    def _parse_target(self) -> exp.Table:
        table = self._parse_table_parts(schema=True)
        assert isinstance(table, exp.Table), "a name is a table's"
        return table
