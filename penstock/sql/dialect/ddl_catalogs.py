"""Parses CREATE, ALTER and DROP of catalogs and databases, DROP of tables and views.

A catalog or database is named by a Table node: its parts are the name's.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.ddl_alter import AlterParser
from penstock.sql.dialect.ddl_parts import properties_of
from penstock.sql.positions import mark

__all__ = ["CatalogParser"]


class CatalogParser(AlterParser):
    """The part of the parser that reads what tables live in."""

    def _parse_create_container(self, kind: str) -> exp.Create:
        """What follows CREATE CATALOG or CREATE DATABASE."""
        exists = bool(self._parse_exists(not_=True))
        name = self._require_object(f"a {kind.lower()}")
        properties = self._parse_comment_clause()
        if self._match(TokenType.WITH):
            properties += self._parse_options()
        return exp.Create(this=name, kind=kind, exists=exists, properties=properties_of(properties))

    def _parse_alter_container(self, kind: str) -> exp.Alter:
        """What follows ALTER CATALOG or ALTER DATABASE: SET for both, RESET and COMMENT for catalogs."""
        name = self._require_object(f"a {kind.lower()}")
        first = self._curr
        words = ("SET", "RESET", "COMMENT") if kind == "CATALOG" else ("SET",)
        action: exp.Expr
        match self._match_word(*words):
            case "COMMENT":
                action = exp.SchemaCommentProperty(this=self._require_string())
            case "SET" | "RESET" as word:
                action = self._parse_changed_options(word)
            case _:
                self.raise_error(f"Expected {', '.join(words)}")
        actions = [mark(action, first, self._prev)]
        return exp.Alter(this=name, kind=kind, actions=actions)

    def _parse_drop_container(self, kind: str) -> exp.Drop:
        """What follows DROP CATALOG or DROP DATABASE."""
        exists = bool(self._parse_exists())
        name = self._require_object(f"a {kind.lower()}")
        word = self._match_word("RESTRICT", "CASCADE") if kind == "DATABASE" else None
        return exp.Drop(
            kind=kind,
            tables=[name],
            exists=exists,
            cascade=word == "CASCADE",
            restrict=word == "RESTRICT",
        )

    def _parse_drop_object(self, kind: str, *, temporary: bool) -> exp.Drop:
        """What follows DROP [TEMPORARY] TABLE or VIEW."""
        exists = bool(self._parse_exists())
        table = self._require_object(f"a {kind.lower()}")
        return exp.Drop(kind=kind, tables=[table], exists=exists, temporary=temporary)
