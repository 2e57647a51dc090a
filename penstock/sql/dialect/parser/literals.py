r"""Parses literals: U&'...' UESCAPE, strings in several pieces, intervals.

A string is a Literal whatever its spelling. An interval is an Interval with a string and a Var (the
unit) or an IntervalSpan of two; its text is checked here, so that every Interval node has a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.parser.types import TypeParser
from penstock.sql.syntax.intervals import FINER, UNITS, read_interval
from penstock.sql.syntax.positions import mark

__all__ = ["LiteralParser"]

NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)


class LiteralParser(TypeParser):
    """The part of the parser that reads literals."""

    STRING_PARSERS: ClassVar[dict[TokenType, Any]] = {
        TokenType.STRING: lambda _, token: mark(exp.Literal.string(token.text), token, token),
        TokenType.UNICODE_STRING: lambda self, token: self._parse_unicode_string(token),
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **STRING_PARSERS,
        TokenType.STRING: lambda self, token: self._parse_pieces(token),
        TokenType.NUMBER: lambda self, token: self._parse_number_literal(token),
        **{
            kind: Parser.PRIMARY_PARSERS[kind]
            for kind in (
                TokenType.HEX_STRING,
                TokenType.NULL,
                TokenType.TRUE,
                TokenType.FALSE,
                TokenType.STAR,
            )
        },
    }
    PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Any]] = {}

    def _parse_primary(self) -> exp.Expr | None:
        token = self._curr
        if self._match(TokenType.STRING):
            return self._parse_pieces(token)
        return super()._parse_primary()

    def _parse_number_literal(self, token: Token) -> exp.Literal:
        after = self._curr
        joined = bool(after) and after.start == token.end + 1 and after.text[:1].isidentifier()
        if joined or NUMBER.fullmatch(token.text) is None:
            text = token.text + (after.text if joined else "")
            self.raise_error(f"'{text}' is no number", token)
        return mark(exp.Literal(this=token.text, is_string=False), token, token)

    def _parse_pieces(self, token: Token) -> exp.Literal:
        """A string may go on on the next line, as in the standard; on the same line it may not."""
        text = token.text
        while self._curr.token_type == TokenType.STRING and self._curr.line > self._prev.line:
            self._advance()
            text += self._prev.text
        return mark(exp.Literal.string(text), token, self._prev)

    def _parse_unicode_string(self, token: Token) -> exp.Literal:
        r"""U&'\0041' or, with `UESCAPE '!'`, U&'!0041': four hexadecimal digits behind the mark."""
        escape = "\\"
        if self._match_text_seq("UESCAPE"):
            if self._curr.token_type != TokenType.STRING or len(self._curr.text) != 1:
                self.raise_error("Expected a string of one character")
            escape = self._curr.text
            if escape.isspace() or escape in "'+\"" or re.match("[0-9A-Fa-f]", escape):
                self.raise_error("Expected a character that is no digit, space, quote or plus")
            self._advance()
        mark_ = re.escape(escape)
        if re.search(
            f"(?<!{mark_})(?:{mark_}{mark_})*{mark_}(?!{mark_}|[0-9A-Fa-f]{{4}})", token.text
        ):
            self.raise_error(
                f"four hexadecimal digits have to follow each {escape} in this string", token
            )
        text = re.sub(
            f"{mark_}{mark_}|{mark_}([0-9A-Fa-f]{{4}})",
            lambda m: chr(int(m[1], 16)) if m[1] else escape,
            token.text,
        )
        return mark(exp.Literal.string(text), token, self._prev)

    # --- intervals ---

    def _parse_interval(
        self,
        require_interval: bool = True,
        parse_function_unit: bool = True,  # noqa: ARG002
    ) -> exp.Add | exp.Interval | None:
        first = self._curr
        if require_interval and not self._match(TokenType.INTERVAL):
            return None
        sign = "-" if self._match(TokenType.DASH) else ""
        value = self._curr
        if value.token_type != TokenType.STRING:
            self.raise_error("Expected a string", value, hint="write INTERVAL '10' SECOND")
        self._advance()
        units = [self._parse_interval_unit()]
        if self._match_text_seq("TO"):
            units.append(self._parse_interval_unit())
        text = sign + value.text if not value.text.startswith("-") or not sign else value.text[1:]
        try:
            read_interval(text, units[0].name, units[-1].name)
        except ValueError as error:
            self.raise_error(str(error), value)
        unit = units[0] if len(units) == 1 else exp.IntervalSpan(this=units[0], expression=units[1])
        return mark(exp.Interval(this=exp.Literal.string(text), unit=unit), first, self._prev)

    def _parse_interval_unit(self) -> exp.Var:
        token = self._curr
        name = token.text.upper().removesuffix("S") if token else ""  # DAYS is DAY in Calcite too
        if name in FINER:
            self.raise_error(
                f"Flink has no interval of {name}", hint="write INTERVAL '0.001' SECOND"
            )
        if name not in UNITS:
            self.raise_error("Expected a unit", hint=f"units are {', '.join(UNITS)}")
        self._advance()
        self._parse_sizes(2)  # precision, as in SECOND(3): every one fits
        return exp.var(name)
