"""Parses and writes hints: /*+ OPTIONS('k'='v') */ behind a table, /*+ STATE_TTL('t'='1d') */ behind SELECT.

A hint is a Hint node of Anonymous calls; a key and its value are a PropertyEQ. Hints of a table are in
its `hints`, those of a query in the `hint` of its Select. What they mean is for others to say.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.generator import Generator
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.parser.literals import LiteralParser
from penstock.sql.syntax.positions import mark

__all__ = ["HINTS", "HintGenerator", "HintParser"]

HINTS = "hints"
"""The key of a table's `meta` under which its hints wait until the table is whole."""


class HintParser(LiteralParser):
    """The part of the parser that reads hints."""

    def _parse_table_options(self, table: exp.Table) -> None:
        """/*+ OPTIONS('k'='v', ...) */ behind a table name."""
        hints: list[exp.Expr] = []
        while self._match(TokenType.HINT):
            hints.append(self._parse_hint_text(self._prev))
        if hints:
            table.set("hints", hints)
            table.meta[HINTS] = hints

    def _parse_hint(self) -> exp.Hint | None:
        """The hint of a whole query block, behind SELECT."""
        return self._parse_hint_text(self._prev) if self._match(TokenType.HINT) else None

    def _parse_hint_text(self, token: Token) -> exp.Hint:
        shift = token.start + len("/*+")
        body = self.sql[shift : token.end + 1 - len("*/")]
        try:
            inner = self.dialect.tokenize(body)
        except TokenError:
            self.raise_error("this hint cannot be read", token)
        for part in inner:
            part.start, part.end = part.start + shift, part.end + shift
        saved = (self._tokens, self._tokens_size, self._index)
        self._tokens, self._tokens_size, self._index = inner, len(inner), -1
        try:
            self._advance()
            hints = self._parse_csv(self._parse_one_hint)
            if self._curr:
                self.raise_error("Invalid expression")
        finally:
            self._tokens, self._tokens_size, self._index = saved
            self._advance(0)
        return mark(exp.Hint(expressions=hints), token, token)

    def _parse_one_hint(self) -> exp.Expr:
        first = self._curr
        if not first or not self._match(TokenType.VAR):
            self.raise_error("Expected the name of a hint")
        arguments: list[exp.Expr] = []
        if self._match(TokenType.L_PAREN):
            arguments = self._parse_csv(self._parse_hint_argument)
            self._match_r_paren()
        return mark(
            exp.Anonymous(this=first.text.upper(), expressions=arguments), first, self._prev
        )

    def _parse_hint_argument(self) -> exp.Expr | None:
        first = self._curr
        key = self._parse_string() or self._parse_number() or self._parse_hinted_name()
        if key is not None and self._match(TokenType.EQ):
            if not (value := self._parse_string()):
                self.raise_error("Expected a string")
            return mark(exp.PropertyEQ(this=key, expression=value), first, self._prev)
        return key

    def _parse_hinted_name(self) -> exp.Expr | None:
        """A table's name: t, or db.t."""
        name = self._parse_id_var()
        while name is not None and self._match(TokenType.DOT):
            name = exp.Dot(this=name, expression=self._parse_id_var())
        return name


class HintGenerator(Generator):
    """The part of the writer that writes hints."""

    def hint_sql(self, expression: exp.Hint) -> str:
        """/*+ NAME('k'='v') */, with the space that parts it from the word in front."""
        calls = ", ".join(self._hint_call(call) for call in expression.expressions)
        space = " " if isinstance(expression.parent, exp.Select) else ""
        return f"{space}/*+ {calls} */"

    def _hint_call(self, call: exp.Expr) -> str:
        arguments = self.expressions(call, flat=True)
        return f"{call.name}({arguments})" if arguments else call.name

    def propertyeq_sql(self, expression: exp.PropertyEQ) -> str:
        """'k'='v' of a hint."""
        return f"{self.sql(expression, 'this')}={self.sql(expression, 'expression')}"
