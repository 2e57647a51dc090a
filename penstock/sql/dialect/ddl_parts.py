"""The parts that definitions share: words, names of objects, comments, keys of options."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.parts import PartParser

__all__ = ["StatementParts", "properties_of"]

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
