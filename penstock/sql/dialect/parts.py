"""Parts that several statements have: options, lists of names, and things that have to be there."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.query import QueryParser
from penstock.sql.positions import mark

__all__ = ["PartParser"]


class PartParser(QueryParser):
    """The part of the parser that statements share."""

    def _parse_options(self) -> list[exp.Expr]:
        """('key' = 'value', ...)"""
        self._match_l_paren()
        options = self._parse_csv(self._parse_option)
        self._match_r_paren()
        return options

    def _parse_option(self) -> exp.Expr | None:
        first = self._curr
        if first.token_type == TokenType.R_PAREN:
            return None
        key = self._require_string("quote the key and the value: 'key' = 'value'")
        if not self._match(TokenType.EQ):
            self.raise_error("Expected =")
        value = self._require_string("quote the key and the value: 'key' = 'value'")
        return mark(exp.Property(this=key, value=value), first, self._prev)

    def _require_string(self, hint: str | None = None) -> exp.Expr:
        value = self._parse_string()
        if value is None:
            self.raise_error("Expected a string", hint=hint)
        return value

    def _require_expression(self) -> exp.Expr:
        first = self._curr
        expression = self._parse_disjunction()
        if expression is None:
            self.raise_error("Expected an expression")
        return mark(expression, first, self._prev)

    def _require_query(self) -> exp.Expr:
        first = self._curr
        query = self._parse_ddl_select()
        if query is None or first is self._curr:
            self.raise_error("Expected a query")
        return query

    def _parse_name_list(self) -> list[exp.Expr]:
        self._match_l_paren()
        names: list[exp.Expr] = []
        names += self._parse_csv(lambda: self._parse_name("a column"))
        self._match_r_paren()
        return names
