"""Parses CREATE, ALTER and DROP SECRET, which Flink has not. What a secret is masked from here on."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from penstock.catalog.secret_mask import keep_secret
from penstock.sql.dialect.ddl_dml import ChangeParser
from penstock.sql.dialect.nodes import SecretStatement

__all__ = ["SecretParser"]


class SecretParser(ChangeParser):
    """The part of the parser that reads statements about secrets."""

    def _parse_secret(self, action: str) -> SecretStatement | None:
        """What follows CREATE, ALTER or DROP where that is about a secret; else None, and nothing is passed over."""
        if not self._match_text_seq("SECRET"):
            return None
        exists = action != "ALTER" and bool(self._parse_exists(not_=action == "CREATE"))
        node = SecretStatement(
            this=self._parse_name("the name of a secret"), action=action, exists=exists or None
        )
        if action == "DROP":
            return node
        hint = f"{action} SECRET name AS 'value'"
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS", hint=hint)
        value = self._require_string(hint)
        keep_secret(value.name)
        node.set("expression", value)
        return node
