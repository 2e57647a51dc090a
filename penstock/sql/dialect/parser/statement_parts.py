"""Parse the parts that statements share: options, lists of names, object names, comments and required words."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.parser.queries import QueryParser
from penstock.sql.syntax.positions import mark

__all__ = ["PartParser", "StatementParts", "properties_of"]


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


NO_WORDS = (TokenType.IDENTIFIER, TokenType.STRING)


class StatementParts(PartParser):
    """What the parsers of definitions are built on; it reads no statement itself."""

    def _is_word(self, *words: str) -> bool:
        """Whether one of `words` comes next; a quoted name is no word."""
        token = self._curr
        return bool(token) and token.token_type not in NO_WORDS and token.text.upper() in words

    def _match_word(self, *words: str) -> str | None:
        """Pass over one of `words`, and give it; None if another token comes next."""
        if not self._is_word(*words):
            return None
        self._advance()
        return self._prev.text.upper()

    def _require_object(self, what: str) -> exp.Expr:
        """The name of a table, view, database or catalog."""
        if not self._curr:
            self.raise_error(f"Expected {what}")
        table = self._parse_table_parts(schema=True)
        if table is None:
            self.raise_error(f"Expected {what}")
        return table

    def _require_words(self, *words: str) -> None:
        for word in words:
            if not self._match_word(word):
                self.raise_error(f"Expected {word}")

    def _parse_comment_clause(self) -> list[exp.Expr]:
        """[COMMENT 'text']"""
        if not self._match_word("COMMENT"):
            return []
        return [exp.SchemaCommentProperty(this=self._require_string())]

    def _parse_option_keys(self) -> list[exp.Expr]:
        """('key', ...)"""
        self._match_l_paren()
        keys: list[exp.Expr] = []
        if self._curr.token_type != TokenType.R_PAREN:
            keys += self._parse_csv(lambda: self._require_string("quote the key: 'key'"))
        self._match_r_paren()
        return keys


def properties_of(found: list[exp.Expr]) -> exp.Properties | None:
    """The properties of a statement as its node holds them."""
    return exp.Properties(expressions=found) if found else None
