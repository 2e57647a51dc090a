"""Parses what Flink's queries have beyond the standard: windowing table functions, hints, intervals.

Trees are sqlglot's own nodes. A windowing table function is a Table whose `this` is an Anonymous
function; its data argument is a Table or Subquery, DESCRIPTOR an Anonymous, a named argument a
Kwarg, and the PARTITION BY of a data argument a Kwarg of that name behind it. A hint on a table is
in its `hints`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.functions import FUNCTIONS
from penstock.sql.dialect.intervals import FINER, UNITS, read_interval
from penstock.sql.dialect.types import TypeParser
from penstock.sql.positions import mark

__all__ = ["PARTITION_ARGUMENT", "WINDOW_FUNCTIONS", "QueryParser"]

T = TypeVar("T")

WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
PARTITION_ARGUMENT = "PARTITION BY"
HINTS = "hints"

# Functions that are nodes of sqlglot, so that its optimizer knows them. All others are Anonymous:
# they keep their name, and the table in functions.py says what they are.
NODES = (
    "COUNT", "SUM", "AVG", "MIN", "MAX", "STDDEV_POP", "STDDEV_SAMP", "STDDEV", "VAR_POP",
    "VAR_SAMP", "VARIANCE", "FIRST_VALUE", "LAST_VALUE", "LEAD", "LAG", "ROW_NUMBER", "RANK",
    "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "COALESCE", "NULLIF", "GREATEST", "LEAST",
    "GROUPING", "UNNEST",
)  # fmt: skip
SYNTAX = (
    "CAST",
    "CEIL",
    "EXTRACT",
    "FLOOR",
    "OVERLAY",
    "POSITION",
    "SUBSTRING",
    "TRIM",
    "TRY_CAST",
)


def _aggregate(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    return lambda args: exp.AnonymousAggFunc(this=name, expressions=args)


class QueryParser(TypeParser):
    """The part of the parser that reads queries and expressions."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        **{name: Parser.FUNCTIONS[name] for name in NODES if name in Parser.FUNCTIONS},
        "IFNULL": Parser.FUNCTIONS["COALESCE"],
        **{name: _aggregate(name) for name, row in FUNCTIONS.items() if row.aggregate},
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        **{name: Parser.FUNCTION_PARSERS[name] for name in SYNTAX},
        "JSON_VALUE": lambda self: self._parse_flink_json_value(),
        "LISTAGG": lambda self: self._parse_string_agg(),
        "TIMESTAMPADD": lambda self: self._parse_function_unit("TIMESTAMPADD"),
        "TIMESTAMPDIFF": lambda self: self._parse_function_unit("TIMESTAMPDIFF"),
        **dict.fromkeys(
            WINDOW_FUNCTIONS, lambda self: self._parse_table_function(self._name_before_paren())
        ),
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {
        TokenType.CURRENT_DATE: exp.CurrentDate,
        TokenType.CURRENT_TIME: exp.CurrentTime,
        TokenType.CURRENT_TIMESTAMP: exp.CurrentTimestamp,
        TokenType.LOCALTIME: exp.Localtime,
        TokenType.LOCALTIMESTAMP: exp.Localtimestamp,
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: Parser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE", "IF")
    }
    NO_PAREN_IF_COMMANDS = False
    STRING_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **Parser.STRING_PARSERS,
        TokenType.UNICODE_STRING: lambda self, token: self._parse_unicode_string(token),
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **Parser.PRIMARY_PARSERS,
        TokenType.UNICODE_STRING: STRING_PARSERS[TokenType.UNICODE_STRING],
    }

    def _name_before_paren(self) -> Token:
        return self._tokens[self._index - 2]

    def _parse_csv(
        self, parse_method: Callable[[], T | None], sep: TokenType = TokenType.COMMA
    ) -> list[T]:
        """As sqlglot's, but a separator with nothing behind it is an error, as in Flink."""

        def item() -> T | None:
            separator = self._prev
            value = parse_method()
            if value is None and separator.token_type == sep and separator is self._prev:
                self.raise_error(f"unexpected '{separator.text}'", separator)
            return value

        return super()._parse_csv(item, sep)

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        projections, exclude = super()._parse_projections()
        if not projections:
            self.raise_error("Expected an expression")
        return projections, exclude

    # --- functions and constructors ---

    def _parse_unicode_string(self, token: Token) -> exp.Literal:
        r"""U&'\0041' or, with `UESCAPE '!'`, U&'!0041': four hexadecimal digits behind the mark."""
        escape = "\\"
        if self._match_text_seq("UESCAPE"):
            if self._curr.token_type != TokenType.STRING or len(self._curr.text) != 1:
                self.raise_error("Expected a string of one character")
            escape = self._curr.text
            self._advance()
        mark_ = re.escape(escape)
        text = re.sub(
            f"{mark_}{mark_}|{mark_}([0-9A-Fa-f]{{4}})",
            lambda m: chr(int(m[1], 16)) if m[1] else escape,
            token.text,
        )
        return mark(exp.Literal.string(text), token, self._prev)

    def _parse_function_unit(self, name: str) -> exp.Anonymous:
        """TIMESTAMPADD(unit, ...) and TIMESTAMPDIFF(unit, ...): the unit is a word, not a column."""
        token = self._name_before_paren()
        unit = self._curr
        spelled = unit.text.upper().removeprefix("SQL_TSI_").removesuffix("S")
        if spelled not in UNITS:
            self.raise_error("Expected a unit", hint=f"units are {', '.join(UNITS)}")
        self._advance()
        arguments: list[exp.Expr] = [mark(exp.var(spelled), unit, unit)]
        if self._match(TokenType.COMMA):
            arguments += self._parse_function_args()
        return mark(exp.Anonymous(this=name, expressions=arguments), token, token)

    def _parse_flink_json_value(self) -> exp.JSONValue:
        this = self._parse_bitwise()
        if not self._match(TokenType.COMMA):
            self.raise_error("Expected ,")
        path = self._parse_bitwise()
        returning = self._parse_data_type() if self._match_text_seq("RETURNING") else None
        node = exp.JSONValue(
            this=this, path=path, returning=returning, on_condition=self._parse_on_condition()
        )
        return self.expression(node)

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """MAP[k, v, ...] is a constructor; sqlglot reads it as access to a column named MAP."""
        token = self._prev
        opens = self._curr.token_type == TokenType.L_BRACKET
        if opens and token.token_type == TokenType.MAP and isinstance(this, exp.Column):
            return self._parse_bracket(self._parse_map_constructor(token))
        access = super()._parse_bracket(this)
        step = access
        while isinstance(step, exp.Bracket) and "offset" not in step.args:
            if not step.expressions[0].is_string:
                step.set("offset", 1)  # arrays count from 1
            step = step.this
        return access

    def _parse_map_constructor(self, token: Token) -> exp.Anonymous:
        self._advance()
        items: list[exp.Expr] = []
        if not self._match(TokenType.R_BRACKET):
            items = self._parse_expressions()
            if not self._match(TokenType.R_BRACKET):
                self.raise_error("Expected ]")
        if len(items) % 2:
            self.raise_error("MAP[...] takes keys and values in turn", token)
        return mark(exp.Anonymous(this="MAP", expressions=items), token, self._prev)

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

    # --- tables ---

    def _parse_table_parts(
        self,
        schema: bool = False,
        is_db_reference: bool = False,
        wildcard: bool = False,
        fast: bool = False,
    ) -> exp.Table | exp.Dot | None:
        if not fast and not schema and self._match_pair(TokenType.TABLE, TokenType.L_PAREN):
            function = self._parse_function()
            if function is None:
                self.raise_error("Expected a table function")
            self._match_r_paren()
            return self.expression(exp.Table(this=function))
        table = super()._parse_table_parts(schema, is_db_reference, wildcard, fast)
        if not fast and not schema and isinstance(table, exp.Table):
            self._parse_table_options(table)
        return table

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        table = super()._parse_table(*args, **kwargs)
        # sqlglot looks for hints behind the alias (and finds none): put ours back.
        if isinstance(table, exp.Table) and (hints := table.meta.pop(HINTS, None)):
            table.set("hints", hints)
        return table

    def _parse_table_hints(self) -> list[exp.Expr] | None:
        return None

    def _parse_string_as_identifier(self) -> exp.Identifier | None:
        return None  # a string names nothing in Flink

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
        key = self._parse_string() or self._parse_id_var()
        if self._match(TokenType.EQ):
            if not (value := self._parse_string()):
                self.raise_error("Expected a string")
            return mark(exp.PropertyEQ(this=key, expression=value), first, self._prev)
        return key

    # --- table functions ---

    def _parse_table_function(self, name: Token) -> exp.Anonymous:
        """The arguments of a windowing function, behind the parenthesis; its end stays unread."""
        arguments: list[exp.Expr] = []
        while True:
            arguments += self._parse_table_argument()
            if not self._match(TokenType.COMMA):
                break
        return mark(
            exp.Anonymous(this=name.text.upper(), expressions=arguments), name, self._curr or name
        )

    def _parse_table_argument(self) -> list[exp.Expr]:
        first, keyword = self._curr, None
        if self._next.token_type == TokenType.FARROW:
            keyword = exp.var(first.text.upper())
            self._advance(2)
        value, more = self._parse_table_value()
        if value is None:
            self.raise_error("Expected an argument")
        if keyword is not None:
            value = mark(exp.Kwarg(this=keyword, expression=value), first, self._prev)
        assert value is not None
        return [value, *more]

    def _parse_table_value(self) -> tuple[exp.Expr | None, list[exp.Expr]]:
        if self._match(TokenType.TABLE):
            return self._parse_named_table(), self._parse_table_semantics()
        if self._curr.token_type == TokenType.L_PAREN and self._next.token_type in (
            TokenType.SELECT,
            TokenType.WITH,
            TokenType.VALUES,
        ):
            return self._parse_select(table=True), self._parse_table_semantics()
        if self._curr.text.upper() == "DESCRIPTOR" and self._next.token_type == TokenType.L_PAREN:
            first = self._curr
            self._advance(2)
            columns = self._parse_csv(self._parse_column)
            self._match_r_paren()
            call = exp.Anonymous(this="DESCRIPTOR", expressions=columns)
            return mark(call, first, self._prev), []
        return self._parse_disjunction(), []

    def _parse_named_table(self) -> exp.Expr | None:
        table = self._parse_table_parts()
        if table is not None:
            table.meta.pop(HINTS, None)
        return table

    def _parse_table_semantics(self) -> list[exp.Expr]:
        if not self._match(TokenType.PARTITION_BY):
            return []
        first = self._prev
        if self._match(TokenType.L_PAREN):
            columns = self._parse_csv(self._parse_column)
            self._match_r_paren()
        else:
            columns = [c for c in [self._parse_column()] if c]
        keys = exp.Tuple(expressions=columns)
        node = exp.Kwarg(this=exp.var(PARTITION_ARGUMENT), expression=keys)
        return [mark(node, first, self._prev)]
