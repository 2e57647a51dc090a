"""Parses operators, predicates, CASE and names in expressions as Calcite does, where sqlglot is more lenient.

sqlglot takes the operators of every dialect and passes over words that are missing (BETWEEN 1 2). Here
what is not Flink's is an error at its place. Trees are sqlglot's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.json_functions import JSON_KINDS
from penstock.sql.dialect.relations import RelationParser
from penstock.sql.dialect.table_functions import QUERY_STARTS
from penstock.sql.positions import mark

__all__ = ["PredicateParser"]

NO_COLUMNS = {
    TokenType.ALL, TokenType.CASE, TokenType.COLLATE, TokenType.CONSTRAINT, TokenType.DEFAULT,
    TokenType.END, TokenType.ESCAPE, TokenType.EXISTS, TokenType.FALSE, TokenType.FULL,
    TokenType.IN, TokenType.IS, TokenType.LEFT, TokenType.LIMIT, TokenType.NATURAL,
    TokenType.NULL, TokenType.OVERLAPS, TokenType.RECURSIVE, TokenType.RIGHT, TokenType.TABLE,
    TokenType.TRUE, TokenType.UNNEST, TokenType.WINDOW,
}  # fmt: skip
"""Words that begin or end something, so that a column of that name needs its backticks, as in Flink."""

NO_ALIASES = {
    TokenType.ANY, TokenType.ARRAY, TokenType.CUBE, TokenType.FILTER, TokenType.INTERVAL,
    TokenType.MAP, TokenType.OFFSET, TokenType.OVER, TokenType.OVERWRITE, TokenType.PARTITION,
    TokenType.PERCENT, TokenType.RANGE, TokenType.ROLLUP, TokenType.ROW, TokenType.ROWS,
    TokenType.SET, TokenType.SOME, TokenType.UNIQUE,
}  # fmt: skip
"""Words that may name a column, but no alias unless AS stands in front."""

RANGES = ("BETWEEN", "IN", "IS", "LIKE", "OVERLAPS", "SIMILAR_TO")
FRAME_SIDES = ("PRECEDING", "FOLLOWING")


class PredicateParser(RelationParser):
    """The part of the parser that reads operators and predicates."""

    ID_VAR_TOKENS: ClassVar[set[TokenType]] = Parser.ID_VAR_TOKENS - NO_COLUMNS
    ALIAS_TOKENS: ClassVar[set[TokenType]] = ID_VAR_TOKENS - NO_ALIASES
    TABLE_ALIAS_TOKENS: ClassVar[set[TokenType]] = ALIAS_TOKENS
    ASSIGNMENT: ClassVar[dict[TokenType, Any]] = {}
    EQUALITY: ClassVar[dict[TokenType, Any]] = {TokenType.EQ: exp.EQ, TokenType.NEQ: exp.NEQ}
    BITWISE: ClassVar[dict[TokenType, Any]] = {}
    TERM: ClassVar[dict[TokenType, Any]] = {TokenType.DASH: exp.Sub, TokenType.PLUS: exp.Add}
    FACTOR: ClassVar[dict[TokenType, Any]] = {
        TokenType.MOD: exp.Mod,
        TokenType.SLASH: exp.Div,
        TokenType.STAR: exp.Mul,
    }
    UNARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        kind: Parser.UNARY_PARSERS[kind] for kind in (TokenType.PLUS, TokenType.NOT, TokenType.DASH)
    }
    RANGE_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        TokenType[name]: Parser.RANGE_PARSERS[TokenType[name]] for name in RANGES
    }
    COLUMN_OPERATORS: ClassVar[dict[TokenType, Any]] = {TokenType.DOT: None}
    CAST_COLUMN_OPERATORS: ClassVar[set[TokenType]] = set()
    BRACKETS: ClassVar[frozenset[TokenType]] = frozenset((TokenType.L_BRACKET,))

    # --- names ---

    def _parse_id_var(
        self,
        any_token: bool = True,
        tokens: Collection[TokenType] | None = None,
    ) -> exp.Expr | None:
        kind = self._curr.token_type
        if kind != TokenType.IDENTIFIER:
            allowed = (
                self._may_be_name(self._curr)
                if any_token
                else kind in (tokens or self.ID_VAR_TOKENS)
            )
            if not allowed:
                return None
        return self._parse_name("a name")

    def _parse_string_as_identifier(self) -> exp.Identifier | None:
        return None  # a string names nothing in Flink

    def _parse_alias(self, this: exp.Expr | None, explicit: bool = False) -> exp.Expr | None:
        if this is None:
            return None
        kind = self._curr.token_type
        if not self._match(TokenType.ALIAS) and (
            explicit or (kind != TokenType.IDENTIFIER and kind not in self.ALIAS_TOKENS)
        ):
            return this
        return exp.Alias(this=this, alias=self._parse_name("a name"))

    def _parse_star_ops(self) -> exp.Expr | None:
        return exp.Star().update_positions(self._prev)

    def _parse_column_ops(self, this: exp.Expr | None) -> exp.Expr | None:
        constant = isinstance(this, exp.Literal | exp.Boolean | exp.Null)
        return this if constant else super()._parse_column_ops(this)  # 1 .5 has no field

    # --- operators ---

    def _parse_bitwise(self) -> exp.Expr | None:
        this = self._parse_term()
        while self._match(TokenType.DPIPE):
            this = self.expression(exp.DPipe(this=this, expression=self._parse_term(), safe=False))
        return this

    def _parse_at_time_zone(self, this: exp.Expr | None) -> exp.Expr | None:
        if self._match_text_seq("AT", "TIME", "ZONE", advance=False):
            self.raise_error(
                "Flink has no AT TIME ZONE",
                hint="write CONVERT_TZ(text, 'from', 'to'), or CAST to TIMESTAMP_LTZ",
            )
        return this

    def _parse_slice(self, this: exp.Expr | None) -> exp.Expr | None:
        return this

    # --- predicates ---

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
        """IS [NOT] NULL | TRUE | FALSE | UNKNOWN | DISTINCT FROM x | JSON [kind]"""
        negate = self._match(TokenType.NOT)
        if self._match_text_seq("DISTINCT", "FROM"):
            kind = exp.NullSafeEQ if negate else exp.NullSafeNEQ
            return self._build_predicate(kind, this, self._parse_is_rhs(distinct=True))
        if self._match_text_seq("JSON"):
            word = self._match_texts(JSON_KINDS) and self._prev.text.upper()
            right: exp.Expr = exp.JSON(this=word or None)
        elif self._match(TokenType.NULL) or self._match_text_seq("UNKNOWN"):
            right = exp.Null()
        elif self._match_set((TokenType.TRUE, TokenType.FALSE)):
            right = exp.Boolean(this=self._prev.token_type == TokenType.TRUE)
        else:
            self.raise_error("Expected NULL, TRUE, FALSE, UNKNOWN, DISTINCT FROM or JSON")
        found = self._build_predicate(exp.Is, this, right)
        return exp.Not(this=found) if negate else found

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        symmetric = self._match_text_seq("SYMMETRIC") or None
        if not symmetric:
            self._match_text_seq("ASYMMETRIC")
        if isinstance(this, exp.Is | exp.NullSafeEQ | exp.NullSafeNEQ):
            this = exp.Paren(this=this)
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.raise_error("Expected AND")
        high = self._parse_bitwise()
        return self.expression(exp.Between(this=this, low=low, high=high, symmetric=symmetric))

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:  # noqa: ARG002
        self._match_l_paren()
        if self._curr.token_type in QUERY_STARTS or self._is_table_query():
            query = self._parse_ddl_select()
        else:
            values = self._parse_csv(self._parse_item)
            query = self._parse_set_operations(values[0]) if len(values) == 1 else None
            if not isinstance(query, exp.Query):
                self._match_r_paren()
                return self.expression(exp.In(this=this, expressions=values))
        self._match_r_paren()
        if isinstance(query, exp.Values):
            query = self._values_to_select(query)
        assert isinstance(query, exp.Query), "it begins as a query does"
        if not isinstance(query, exp.Subquery):
            query = query.subquery(copy=False)
        return self.expression(exp.In(this=this, query=query))

    def _parse_case(self) -> exp.Expr | None:
        """CASE [x] WHEN a [, b] THEN y ... [ELSE z] END"""
        first = self._prev
        case = exp.Case(
            this=None if self._curr.token_type == TokenType.WHEN else self._parse_item()
        )
        while self._match(TokenType.WHEN):
            values = self._parse_csv(self._parse_item)
            if len(values) > 1 and case.this is None:
                self.raise_error("Expected THEN", self._curr)
            if not self._match(TokenType.THEN):
                self.raise_error("Expected THEN")
            result = self._parse_item()
            for value in values:
                case.append("ifs", exp.If(this=value, true=result.copy()))
        if not case.args.get("ifs"):
            self.raise_error("Expected WHEN")
        if self._match(TokenType.ELSE):
            case.set("default", self._parse_item())
        if not self._match(TokenType.END):
            self.raise_error("Expected END")
        return mark(case, first, self._prev)

    # --- windows ---

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        this = self._parse_respect_or_ignore_nulls(this)  # Calcite has it in front of FILTER
        filtered = (TokenType.FILTER, TokenType.L_PAREN)
        if (self._curr.token_type, self._next.token_type) == filtered:
            self._advance(2)
            if not self._match(TokenType.WHERE):
                self.raise_error("Expected WHERE")
            this = exp.Filter(this=this, expression=exp.Where(this=self._parse_item()))
            self._match_r_paren()
        window = super()._parse_window(this, alias)
        spec = window.args.get("spec") if isinstance(window, exp.Window) else None
        if spec is not None and not spec.args.get("end"):
            spec.set("end", "CURRENT ROW")  # what ROWS 2 PRECEDING is short for
        return window

    def _parse_window_spec(self) -> dict[str, str | exp.Expr | None]:
        if self._match_text_seq("CURRENT", "ROW"):
            return {"value": "CURRENT ROW", "side": None}
        unbounded = self._match_text_seq("UNBOUNDED")
        value = "UNBOUNDED" if unbounded else self._parse_bitwise()
        if value is None or not self._match_texts(FRAME_SIDES):
            self.raise_error("Expected PRECEDING, FOLLOWING or CURRENT ROW")
        return {"value": value, "side": self._prev.text.upper()}
