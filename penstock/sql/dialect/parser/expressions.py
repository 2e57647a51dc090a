"""Parse operators, predicates, CASE and names as Calcite does, and functions with words between arguments (CAST,
TRIM).

sqlglot takes the forms of every dialect and ignores missing words (BETWEEN 1 2); here what is not Flink's is an
error at its position. Trees are sqlglot's own. A method for a function begins behind the opening parenthesis
and stops before the closing one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.parser.json_functions import JSON_KINDS
from penstock.sql.dialect.parser.relations import RelationParser
from penstock.sql.dialect.parser.table_functions import QUERY_STARTS
from penstock.sql.syntax.intervals import FINER, UNITS
from penstock.sql.syntax.positions import mark

__all__ = ["SYNTAX", "PredicateParser", "SpecialCallParser", "closed"]

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
