"""Parses the clauses of a query, each once and in its order, and the arguments and elements in expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.special_calls import SpecialCallParser
from penstock.sql.positions import mark

__all__ = ["OF_ANY_QUERY", "ClauseParser"]

T = TypeVar("T")

CLAUSES = {
    "where": 1,
    "group": 2,
    "having": 3,
    "windows": 4,
    "qualify": 5,
    "order": 6,
    "limit": 7,
    "offset": 7,
}
"""The clauses of a block in their order; LIMIT and OFFSET may change places."""
OF_ANY_QUERY = ("order", "limit", "offset")
"""Clauses that may stand behind a set operation, VALUES or a query in parentheses, too."""
MODIFIERS = ("WHERE", "GROUP_BY", "HAVING", "QUALIFY", "WINDOW", "ORDER_BY", "LIMIT",
             "FETCH", "OFFSET")  # fmt: skip


class ClauseParser(SpecialCallParser):
    """The part of the parser that reads clauses and lists."""

    QUERY_MODIFIER_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        TokenType[name]: Parser.QUERY_MODIFIER_PARSERS[TokenType[name]] for name in MODIFIERS
    }
    QUERY_MODIFIER_TOKENS: ClassVar[set[TokenType]] = set(QUERY_MODIFIER_PARSERS)

    # --- clauses ---

    def _parse_query_modifiers(self, this: Any) -> Any:
        """The clauses behind FROM, each once and in their order."""
        if not isinstance(this, exp.Query | exp.Values):
            return this
        block = isinstance(this, exp.Select)
        step, before = -1, ""
        while self._curr.token_type in self.QUERY_MODIFIER_PARSERS:
            token = self._curr
            key, clause = self.QUERY_MODIFIER_PARSERS[token.token_type](self)
            if not block and key not in OF_ANY_QUERY:
                self.raise_error("Invalid expression", token)
            if this.args.get(key):
                self.raise_error(f"there is a second {token.text.upper()}", token)
            if CLAUSES[key] < step:
                self.raise_error(f"{token.text.upper()} has to stand before {before}", token)
            this.set(key, clause)
            step, before = CLAUSES[key], token.text.upper()
        return this

    def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:  # noqa: ARG002
        if not self._match(TokenType.GROUP_BY):
            return None
        return exp.Group(expressions=self._parse_csv(self._parse_group_item))

    def _parse_group_item(self) -> exp.Expr:
        """An expression, (), or GROUPING SETS, CUBE and ROLLUP of such items."""
        kinds = {
            TokenType.GROUPING_SETS: exp.GroupingSets,
            TokenType.CUBE: exp.Cube,
            TokenType.ROLLUP: exp.Rollup,
        }
        kind = kinds.get(self._curr.token_type)
        if kind is None or self._next.token_type != TokenType.L_PAREN:
            return self._parse_item()
        self._advance(2)
        items = self._parse_csv(self._parse_group_item)
        self._match_r_paren()
        return kind(expressions=items)

    def _parse_partition_by(self) -> list[exp.Expr]:
        return self._parse_csv(self._parse_item) if self._match(TokenType.PARTITION_BY) else []

    def _parse_ordered(
        self, parse_method: Callable[[], exp.Expr | None] | None = None
    ) -> exp.Ordered | None:
        ordered = super()._parse_ordered(parse_method)
        if ordered is None:
            self.raise_error("Expected an expression")
        return ordered

    def _parse_qualify(self) -> exp.Qualify | None:
        return exp.Qualify(this=self._parse_item()) if self._match(TokenType.QUALIFY) else None

    def _parse_limit(
        self,
        this: exp.Expr | None = None,
        top: bool = False,
        skip_limit_token: bool = False,  # noqa: ARG002
    ) -> exp.Expr | None:
        """LIMIT n | LIMIT ALL | FETCH FIRST [n] ROWS ONLY"""
        if top:
            return this
        if self._match(TokenType.LIMIT):
            if self._match(TokenType.ALL):
                return None  # no limit
            return exp.Limit(expression=self._require_number())
        if not self._match(TokenType.FETCH):
            return this
        if not self._match_set((TokenType.FIRST, TokenType.NEXT)):
            self.raise_error("Expected FIRST or NEXT")
        direction = self._prev.text.upper()
        rows = (TokenType.ROW, TokenType.ROWS)
        count = None if self._curr.token_type in rows else self._require_number()
        if not self._match_set(rows):
            self.raise_error("Expected ROWS")
        self._expect_words("ONLY")
        return exp.Fetch(direction=direction, count=count)

    def _parse_offset(self, this: exp.Expr | None = None) -> exp.Expr | None:
        if not self._match(TokenType.OFFSET):
            return this
        count = self._require_number()
        self._match_set((TokenType.ROW, TokenType.ROWS))
        return exp.Offset(expression=count)

    def _require_number(self) -> exp.Expr:
        token = self._curr
        if not self._match(TokenType.NUMBER) or not token.text.isdecimal():
            self.raise_error("Expected a whole number", token)
        return mark(exp.Literal.number(token.text), token, token)

    # --- lists ---

    def _parse_csv(
        self, parse_method: Callable[[], T | None], sep: TokenType = TokenType.COMMA
    ) -> list[T]:
        """As sqlglot's, but a separator with nothing before or behind it is an error, as in Flink."""

        def item() -> T | None:
            separator = self._prev
            value = parse_method()
            if value is None and separator.token_type == sep and separator is self._prev:
                self.raise_error(f"unexpected '{separator.text}'", separator)
            if value is None and self._curr.token_type == sep:
                self.raise_error(f"unexpected '{self._curr.text}'", self._curr)
            return value

        return super()._parse_csv(item, sep)

    # --- functions and constructors ---

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:  # noqa: ARG002
        """One argument: [ALL | DISTINCT] value [ORDER BY ...]."""
        if self._match(TokenType.DISTINCT):
            return self._parse_order(exp.Distinct(expressions=self._parse_csv(self._parse_item)))
        self._match(TokenType.ALL)
        return self._parse_order(self._parse_disjunction())

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """MAP[k, v, ...] is a constructor; sqlglot reads it as access to a column named MAP."""
        token = self._prev
        opens = self._curr.token_type == TokenType.L_BRACKET
        if opens and token.token_type == TokenType.MAP and isinstance(this, exp.Column):
            return self._parse_bracket(self._parse_map_constructor(token))
        access = super()._parse_bracket(this)
        step = access
        while isinstance(step, exp.Bracket) and "offset" not in step.args:
            if len(step.expressions) != 1:
                self.raise_error("Expected one index", token)
            if not step.expressions[0].is_string:
                step.set("offset", 1)  # arrays count from 1
            step = step.this
        return access

    def _parse_map_constructor(self, token: Token) -> exp.Anonymous:
        self._advance()
        items: list[exp.Expr] = []
        if not self._match(TokenType.R_BRACKET):
            items = self._parse_csv(self._parse_item)
            if not self._match(TokenType.R_BRACKET):
                self.raise_error("Expected ]")
        if len(items) % 2:
            self.raise_error("MAP[...] takes keys and values in turn", token)
        return mark(exp.Anonymous(this="MAP", expressions=items), token, self._prev)
