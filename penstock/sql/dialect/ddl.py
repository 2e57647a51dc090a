"""Parses Flink's statements other than queries into sqlglot's nodes; unknown ones are refused.

The parser is put together of one class a family of statements (`ddl_*.py`). RESET is a Set with `unset`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.ddl_catalogs import CatalogParser
from penstock.sql.dialect.ddl_session import STATEMENT_WORDS, SessionParser
from penstock.sql.positions import mark

__all__ = ["FlinkParser"]

DATA_STARTS = (TokenType.SELECT, TokenType.INSERT, TokenType.WITH, TokenType.EXECUTE)
STATEMENT_PARTS = (
    TokenType.VAR,
    TokenType.IDENTIFIER,
    TokenType.DATABASE,
    TokenType.VALUES,
    TokenType.CREATE,
    TokenType.REPLACE,
    *DATA_STARTS,
)
CREATED = ("TABLE", "VIEW", "DATABASE", "CATALOG")
REFUSED_OBJECTS = ("FUNCTION", "MODEL", "CONNECTION", "MATERIALIZED", "SYSTEM")
REFUSED = (TokenType.MERGE,)


class FlinkParser(CatalogParser, SessionParser):
    """The whole parser of the dialect `flink`."""

    STATEMENT_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SessionParser.STATEMENT_PARSERS,
        TokenType.CREATE: lambda self: self._parse_other_create() or self._parse_create(),
        TokenType.DROP: lambda self: self._parse_other_drop() or self._parse_drop(),
        TokenType.REPLACE: lambda self: self._parse_replace_table(),
        TokenType.SEMICOLON: lambda _: exp.Semicolon(),
        TokenType.SET: lambda self: self._parse_set(),
        TokenType.USE: lambda self: self._parse_use(),
        **dict.fromkeys(REFUSED, lambda self: self.refuse(self._prev.text.upper())),
        TokenType.ALTER: lambda self: self._parse_other_alter() or self._parse_alter(),
    }

    def _parse_statement(self) -> exp.Expr | None:
        first = self._curr
        word = first.text.upper() if first.token_type == TokenType.VAR else ""
        statement: exp.Expr | None
        if word == "RESET":
            self._advance()
            statement = self._parse_set(unset=True)
        elif (word in STATEMENT_WORDS and self._next.token_type in STATEMENT_PARTS) or (
            word == "COMPILE" and self._next.token_type == TokenType.AND
        ):
            self._advance()
            statement = STATEMENT_WORDS[word](self)
        else:
            statement = super()._parse_statement()
        if statement is not None and first and not isinstance(statement, exp.Query):
            mark(statement, first, self._prev)
        return statement

    # --- definitions ---

    def _parse_create(self) -> exp.Create | exp.Command:
        if self._match(TokenType.OR):
            self._require_words("REPLACE", "TABLE")
            return self._parse_create_table(replace=True)
        temporary = bool(self._match(TokenType.TEMPORARY))
        match self._match_word(*(("TABLE", "VIEW") if temporary else CREATED)):
            case "TABLE":
                return self._parse_create_table(temporary=temporary)
            case "VIEW":
                return self._parse_create_view(temporary=temporary)
            case str() as kind:
                return self._parse_create_container(kind)
        self._refuse_object("CREATE")
        return self.raise_error("Expected TABLE, VIEW, DATABASE or CATALOG")

    def _parse_replace_table(self) -> exp.Create:
        self._require_words("TABLE")
        return self._parse_create_table(replace=True, create=False)

    def _parse_alter(self) -> exp.Alter | exp.Command:
        match self._match_word(*CREATED):
            case "TABLE":
                return self._parse_alter_table()
            case "VIEW":
                return self._parse_alter_view()
            case str() as kind:
                return self._parse_alter_container(kind)
        self._refuse_object("ALTER")
        return self.raise_error("Expected TABLE, VIEW, DATABASE or CATALOG")

    def _parse_drop(self, exists: bool = False, kind: str | None = None) -> exp.Drop | exp.Command:  # noqa: ARG002
        temporary = bool(self._match(TokenType.TEMPORARY))
        match self._match_word(*(("TABLE", "VIEW") if temporary else CREATED)):
            case "TABLE" | "VIEW" as word:
                return self._parse_drop_object(word, temporary=temporary)
            case str() as word:
                return self._parse_drop_container(word)
        self._refuse_object("DROP")
        return self.raise_error("Expected TABLE, VIEW, DATABASE or CATALOG")

    def _refuse_object(self, verb: str) -> None:
        """Refuse what Flink has beside tables, views, databases and catalogs."""
        if self._is_word(*REFUSED_OBJECTS):
            self.refuse(f"{verb} {self._curr.text.upper()}")

    def _parse_set(self, unset: bool = False, tag: bool = False) -> exp.Set | exp.Command:  # noqa: ARG002
        """SET 'key' = 'value' and RESET 'key', with or without quotes, as Flink's SetOperationParseStrategy."""
        first = self._curr
        if not first:
            return exp.Set(expressions=[], unset=unset or None)
        hint = "quote the key: RESET 'key'" if unset else "quote both: SET 'key' = 'value'"
        key = self._parse_string() or self._parse_bare_text(hint, key=True)
        if unset:
            return exp.Set(expressions=[exp.SetItem(this=key)], unset=True)
        if not self._match(TokenType.EQ):
            self.raise_error("Expected =", hint=hint)
        value = self._parse_string() or self._parse_bare_text(hint)
        if self._curr and self._curr.token_type != TokenType.SEMICOLON:
            self.raise_error("Expected the end of the statement", hint=hint)
        item = exp.EQ(this=key, expression=value)
        return exp.Set(expressions=[mark(exp.SetItem(this=item), first, self._prev)])

    def _parse_bare_text(self, hint: str, *, key: bool = False) -> exp.Expr:
        """A key or a value without quotes: what stands up to the next blank, a key's also up to the `=`."""
        first = last = self._curr
        ends = (TokenType.EQ,) if key else ()
        while self._curr and self._curr.token_type not in (*ends, TokenType.STRING):
            if self._curr is not first and self._curr.start > last.end + 1:
                break
            last = self._curr
            self._advance()
        if self._prev is not last or not last:
            self.raise_error("Expected a string", hint=hint)
        rest = self.sql[last.end + 1 : last.end + 2]
        if rest.strip(";" if not key else ";=").strip():  # a quote, or what is read as a comment
            self.raise_error("Expected a string", hint=hint)
        text = self.sql[first.start : last.end + 1]
        return mark(exp.Literal.string(text), first, last)

    def _parse_use(self) -> exp.Expr:  # type: ignore[override]  # MODULES has a node of its own
        kind = None
        if self._curr.text.upper() == "CATALOG" and self._next:
            self._advance()
            kind = exp.var("CATALOG")
        elif self._curr.text.upper() == "MODULES" and self._next:
            return self._parse_modules("USE")
        return exp.Use(kind=kind, this=self._require_object("a database"))
