"""Parses the functions whose arguments have words between them: CAST, EXTRACT, TRIM, FLOOR ... TO and their like.

sqlglot's own methods take several dialects' forms of each and pass over what is missing. Each method here
begins behind the opening parenthesis and stops before the closing one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.intervals import FINER, UNITS
from penstock.sql.dialect.predicates import PredicateParser
from penstock.sql.positions import mark

__all__ = ["SYNTAX", "SpecialCallParser", "closed"]

FIELDS = (
    *UNITS,
    *FINER,
    "DOY",
    "DOW",
    "ISODOW",
    "ISOYEAR",
    "EPOCH",
    "DECADE",
    "CENTURY",
    "MILLENNIUM",
)
ROUNDED_TO = (*UNITS, *FINER, "DECADE", "CENTURY", "MILLENNIUM")
TRIMMED = ("BOTH", "LEADING", "TRAILING")
TREATED: dict[str, type[exp.Expr] | None] = {
    "ARRAY_AGG": None,
    "FIRST_VALUE": exp.FirstValue,
    "LAST_VALUE": exp.LastValue,
}
"""Aggregates that are told what to do with NULLs, and sqlglot's nodes for them."""
NULLS: dict[str, type[exp.Expr]] = {"IGNORE": exp.IgnoreNulls, "RESPECT": exp.RespectNulls}


class SpecialCallParser(PredicateParser):
    """The part of the parser that reads functions with a syntax of their own."""

    def _parse_flink_cast(self, *, strict: bool) -> exp.Expr:
        """CAST(x AS type)"""
        this = self._parse_item()
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS")
        to = self._parse_types(with_collation=True)
        return self.build_cast(strict=strict, this=this, to=to)

    def _parse_flink_extract(self) -> exp.Extract:
        """EXTRACT(unit FROM x)"""
        unit = self._parse_unit(FIELDS)
        if not self._match(TokenType.FROM):
            self.raise_error("Expected FROM")
        return exp.Extract(this=unit, expression=self._parse_item())

    def _parse_rounded(self, kind: type[exp.Ceil | exp.Floor]) -> exp.Expr:
        """FLOOR(x) and FLOOR(x TO unit)"""
        this = self._parse_item()
        to = self._parse_unit(ROUNDED_TO) if self._match_text_seq("TO") else None
        return kind(this=this, to=to)

    def _parse_flink_overlay(self) -> exp.Overlay:
        """OVERLAY(x PLACING y FROM start [FOR length])"""
        this = self._parse_item()
        self._expect_words("PLACING")
        placed = self._parse_item()
        if not self._match(TokenType.FROM):
            self.raise_error("Expected FROM")
        start = self._parse_item()
        length = self._parse_item() if self._match(TokenType.FOR) else None
        return exp.Overlay(this=this, expression=placed, from_=start, for_=length)

    def _parse_flink_position(self) -> exp.StrPosition:
        """POSITION(x IN y)"""
        part = self._parse_bitwise()
        if part is None or not self._match(TokenType.IN):
            self.raise_error("Expected IN" if part is not None else "Expected an expression")
        return exp.StrPosition(this=self._parse_item(), substr=part)

    def _parse_flink_substring(self) -> exp.Substring:
        """SUBSTRING(x FROM start [FOR length]) and SUBSTRING(x, start [, length])"""
        this, length = self._parse_item(), None
        if self._match(TokenType.FROM):
            start = self._parse_item()
            length = self._parse_item() if self._match(TokenType.FOR) else None
        elif self._match(TokenType.COMMA):
            start = self._parse_item()
            length = self._parse_item() if self._match(TokenType.COMMA) else None
        else:
            self.raise_error("Expected FROM")
        return exp.Substring(this=this, start=start, length=length)

    def _parse_flink_trim(self) -> exp.Trim:
        """TRIM([[BOTH | LEADING | TRAILING] [characters] FROM] x)"""
        position = self._prev.text.upper() if self._match_texts(TRIMMED) else None
        first = None if self._curr.token_type == TokenType.FROM else self._parse_item()
        if self._match(TokenType.FROM):
            return exp.Trim(this=self._parse_item(), position=position, expression=first)
        if position is not None or first is None:
            self.raise_error("Expected FROM")
        return exp.Trim(this=first)

    def _parse_flink_listagg(self) -> exp.GroupConcat:
        """LISTAGG([ALL | DISTINCT] x [, separator])"""
        if self._match(TokenType.DISTINCT):
            this: exp.Expr = exp.Distinct(expressions=[self._parse_item()])
        else:
            self._match(TokenType.ALL)
            this = self._parse_item()
        separator = self._parse_item() if self._match(TokenType.COMMA) else None
        return exp.GroupConcat(this=this, separator=separator)

    def _parse_null_treatment(self, name: str) -> exp.Expr:
        """ARRAY_AGG([ALL | DISTINCT] x [IGNORE NULLS | RESPECT NULLS] [ORDER BY y]), and its like"""
        token = self._name_before_paren()
        if self._match(TokenType.DISTINCT):
            this: exp.Expr = exp.Distinct(expressions=[self._parse_item()])
        else:
            self._match(TokenType.ALL)
            this = self._parse_item()
        around = next((n for w, n in NULLS.items() if self._match_text_seq(w, "NULLS")), None)
        this = self._parse_order(this) or this
        kind = TREATED[name]
        call = kind(this=this) if kind else exp.AnonymousAggFunc(this=name, expressions=[this])
        mark(call, token, token)
        return call if around is None else around(this=call)

    def _parse_function_unit(self, name: str) -> exp.Anonymous:
        """TIMESTAMPADD(unit, ...) and TIMESTAMPDIFF(unit, ...): the unit is a word, not a column."""
        token = self._name_before_paren()
        arguments: list[exp.Expr] = [self._parse_unit(UNITS, "SQL_TSI_")]
        if self._match(TokenType.COMMA):
            arguments += self._parse_function_args()
        return mark(exp.Anonymous(this=name, expressions=arguments), token, token)

    def _parse_unit(self, units: tuple[str, ...], prefix: str = "") -> exp.Var:
        token = self._curr
        spelled = token.text.upper().removeprefix(prefix)
        spelled = spelled if spelled in units else spelled.removesuffix("S")
        if spelled not in units:
            self.raise_error("Expected a unit", hint=f"units are {', '.join(units)}")
        self._advance()
        return mark(exp.var(spelled), token, token)


def closed(parse: Callable[[Any], exp.Expr]) -> Callable[[Any], exp.Expr]:
    """A parser of a call that sees to it that its parenthesis comes: sqlglot only passes over it."""

    def parse_and_look(parser: SpecialCallParser) -> exp.Expr:
        call = parse(parser)
        if parser._curr.token_type != TokenType.R_PAREN:  # noqa: SLF001 - it is the parser's own method
            parser.raise_error("Expected )")
        return call

    return parse_and_look


SYNTAX: dict[str, Callable[[Any], exp.Expr]] = {
    "ARRAY_AGG": lambda self: self._parse_null_treatment("ARRAY_AGG"),
    "CAST": lambda self: self._parse_flink_cast(strict=True),
    "CEIL": lambda self: self._parse_rounded(exp.Ceil),
    "CEILING": lambda self: self._parse_rounded(exp.Ceil),
    "EXTRACT": lambda self: self._parse_flink_extract(),
    "FIRST_VALUE": lambda self: self._parse_null_treatment("FIRST_VALUE"),
    "FLOOR": lambda self: self._parse_rounded(exp.Floor),
    "LAST_VALUE": lambda self: self._parse_null_treatment("LAST_VALUE"),
    "LISTAGG": lambda self: self._parse_flink_listagg(),
    "OVERLAY": lambda self: self._parse_flink_overlay(),
    "POSITION": lambda self: self._parse_flink_position(),
    "SUBSTRING": lambda self: self._parse_flink_substring(),
    "TIMESTAMPADD": lambda self: self._parse_function_unit("TIMESTAMPADD"),
    "TIMESTAMPDIFF": lambda self: self._parse_function_unit("TIMESTAMPDIFF"),
    "TRIM": lambda self: self._parse_flink_trim(),
    "TRY_CAST": lambda self: self._parse_flink_cast(strict=False),
}
"""The parsers of this module by the names of their functions."""
