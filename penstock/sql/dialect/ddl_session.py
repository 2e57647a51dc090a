"""Parses the statements about a session: jars, jobs, modules, EXPLAIN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.ddl_functions import FunctionParser
from penstock.sql.dialect.nodes import (
    ExplainStatement,
    JarStatement,
    ModuleStatement,
    StatementSetBlock,
    StopJobStatement,
)
from penstock.sql.positions import mark

__all__ = ["EXPLAIN_DETAILS", "STATEMENT_WORDS", "SessionParser"]

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
