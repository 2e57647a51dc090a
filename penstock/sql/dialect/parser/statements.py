"""Parse a statement by its first words, among them those about a session: jars, jobs, modules, SET, EXPLAIN.

`FlinkParser` is the whole parser, one class per family of statements. RESET is a Set with `unset`. Unknown
statements are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.parser.function_ddl import FunctionParser
from penstock.sql.dialect.parser.table_ddl import CatalogParser
from penstock.sql.syntax.nodes import (
    ExplainStatement,
    JarStatement,
    ModuleStatement,
    StatementSetBlock,
    StopJobStatement,
)
from penstock.sql.syntax.positions import mark

__all__ = ["EXPLAIN_DETAILS", "STATEMENT_WORDS", "FlinkParser", "SessionParser"]

EXPLAIN_DETAILS = ("CHANGELOG_MODE", "ESTIMATED_COST", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
"""What EXPLAIN may be asked for beside the plan (Flink's ExplainDetail)."""

INNER_END = TokenType.BREAK
"""What a semicolon inside a statement set becomes: a token that nothing else takes for a part of it."""

QUERY_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES)

SET_STARTS = (
    ("EXECUTE", "STATEMENT", "SET", "BEGIN"),
    ("STATEMENT", "SET", "BEGIN"),
    ("BEGIN", "STATEMENT", "SET", ";"),
)


class SessionParser(FunctionParser):
    """The part of the parser that reads statements about a session."""

    STATEMENT_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **FunctionParser.STATEMENT_PARSERS,
        TokenType.LOAD: lambda self: self._parse_load_module(),
        TokenType.EXECUTE: lambda self: self._parse_execute(),
        TokenType.BEGIN: lambda self: self._parse_begin(),
    }

    def _parse(
        self,
        parse_method: Callable[[Parser], exp.Expr | None],
        raw_tokens: list[Token],
        sql: str | None = None,
    ) -> list[exp.Expr | None]:
        """As sqlglot's; the semicolons inside a statement set do not end it."""
        return super()._parse(parse_method, _without_inner_ends(raw_tokens), sql)

    # --- statements that hold statements ---

    def _parse_execute(self) -> exp.Expr | None:
        if self._match(TokenType.INSERT):
            return self._parse_insert()
        if self._match_text_seq("STATEMENT", "SET", "BEGIN"):
            return self._parse_set_block()
        if self._match_text_seq("PLAN"):
            return self._parse_rest("EXECUTE PLAN")
        if self._curr.token_type in QUERY_STARTS:
            return self._parse_statement()
        return self.raise_error("Expected INSERT, SELECT or STATEMENT SET")

    def _parse_begin(self) -> StatementSetBlock:
        self._expect_words("STATEMENT", "SET")
        if not self._match(INNER_END):
            self.raise_error("Expected ;")
        return self._parse_set_block()

    def _parse_set_block(self) -> StatementSetBlock:
        inserts: list[exp.Expr] = []
        while not self._match(TokenType.END):
            inserts.append(self._parse_set_member())
            if not self._match(INNER_END):
                self.raise_error("Expected ;")
        return StatementSetBlock(expressions=inserts)

    def _parse_set_member(self) -> exp.Expr:
        """An INSERT, or CREATE TABLE ... AS as Flink's SQL client takes it."""
        if self._match(TokenType.INSERT):
            return self._parse_insert()
        first = self._curr
        if first.token_type in (TokenType.CREATE, TokenType.REPLACE):
            made = self._parse_statement()
            if (
                isinstance(made, exp.Create)
                and made.kind == "TABLE"
                and isinstance(made.expression, exp.Query)
            ):
                return made
        return self.raise_error("Expected INSERT, CREATE TABLE ... AS or END", first)

    def _parse_compile(self) -> exp.Expr:
        for words in (("PLAN",), ("AND", "EXECUTE", "PLAN")):
            if self._match_text_seq(*words):
                return self._parse_rest(f"COMPILE {' '.join(words)}")
        return self.raise_error("Expected PLAN")

    # --- jars, jobs, modules ---

    def _parse_jar(self, action: str) -> JarStatement:
        self._expect_words("JAR")
        return JarStatement(this=self._require_string(), action=action)

    def _parse_stop(self) -> StopJobStatement:
        self._expect_words("JOB")
        node = StopJobStatement(this=self._require_string())
        while self._match(TokenType.WITH):
            if self._match_text_seq("SAVEPOINT"):
                node.set("savepoint", True)
            elif self._match_text_seq("DRAIN"):
                node.set("drain", True)
            else:
                self.raise_error("Expected SAVEPOINT or DRAIN")
        return node

    def _parse_load_module(self) -> ModuleStatement:
        self._expect_words("MODULE")
        return self._parse_modules("LOAD")

    def _parse_unload(self) -> ModuleStatement:
        self._expect_words("MODULE")
        return self._parse_modules("UNLOAD")

    def _parse_modules(self, action: str) -> ModuleStatement:
        """The names behind LOAD MODULE, UNLOAD MODULE and USE MODULES; one, but for USE."""
        if action == "USE" and self._curr.text.upper() == "MODULES":
            self._advance()
        names = [self._parse_name("the name of a module")]
        while action == "USE" and self._match(TokenType.COMMA):
            names.append(self._parse_name("the name of a module"))
        node = ModuleStatement(expressions=names, action=action)
        if action == "LOAD" and self._match(TokenType.WITH):
            node.set("options", self._parse_options())
        return node

    def _parse_explain(self) -> ExplainStatement:
        details: list[exp.Expr] = []
        if not self._match_text_seq("PLAN", "FOR"):
            while self._match_texts(EXPLAIN_DETAILS):
                details.append(mark(exp.var(self._prev.text.upper()), self._prev, self._prev))
                if not self._match(TokenType.COMMA):
                    break
        inside = self._match_text_seq("STATEMENT", "SET", "BEGIN")
        statement = self._parse_set_block() if inside else self._parse_statement()
        if statement is None:
            self.raise_error("Expected a statement")
        return ExplainStatement(this=statement, details=details)


STATEMENT_WORDS: dict[str, Callable[[Any], exp.Expr]] = {
    "ADD": lambda self: self._parse_jar("ADD"),
    "CALL": lambda self: self._parse_call(),
    "COMPILE": lambda self: self._parse_compile(),
    "EXPLAIN": lambda self: self._parse_explain(),
    "REMOVE": lambda self: self._parse_jar("REMOVE"),
    "STOP": lambda self: self._parse_stop(),
    "UNLOAD": lambda self: self._parse_unload(),
}
"""Statements whose first word is no keyword of the tokenizer, and what reads the rest of them."""


def _without_inner_ends(tokens: Sequence[Token]) -> list[Token]:
    """The tokens, with the semicolons of statement sets made INNER_END."""
    if not any(token.token_type == TokenType.SEMICOLON for token in tokens):
        return list(tokens)
    found: list[Token] = []
    depth = 0
    for index, token in enumerate(tokens):
        words = tuple(each.text.upper() for each in tokens[index : index + 4])
        if depth == 0 and any(words[: len(start)] == start for start in SET_STARTS):
            depth = 1
        elif depth and token.token_type == TokenType.CASE:
            depth += 1  # each CASE has an END of its own
        elif depth and token.token_type == TokenType.END:
            depth -= 1
        inner = depth > 0 and token.token_type == TokenType.SEMICOLON
        found.append(_inner_end(token) if inner else token)
    return found


def _inner_end(token: Token) -> Token:
    return Token(
        INNER_END, token.text, token.line, token.col, token.start, token.end, token.comments
    )


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
