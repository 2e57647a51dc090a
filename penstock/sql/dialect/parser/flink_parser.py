"""Own `FlinkParser`: the tables by which sqlglot's parser finds the functions of this folder.

A table says which function reads what a token or a name begins. A method that sqlglot calls by its name is the
function of the same name in another module, taken over as a method; only what adds to sqlglot's own method is
written here. The order of the modules has no meaning but that of their imports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.functions.table import FUNCTIONS
from penstock.sql.dialect.parser import (
    calls,
    dml,
    expressions,
    function_ddl,
    parts,
    queries,
    relations,
    statements,
    table_functions,
    types,
)
from penstock.sql.dialect.parser.parts import parse_item
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

T = TypeVar("T")

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

CONSTANTS = ("HEX_STRING", "NULL", "TRUE", "FALSE", "STAR")

MODIFIERS = ("WHERE", "GROUP_BY", "HAVING", "QUALIFY", "WINDOW", "ORDER_BY", "LIMIT",
             "FETCH", "OFFSET")  # fmt: skip

REFUSED = (TokenType.MERGE,)


def _aggregate(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    return lambda args: exp.AnonymousAggFunc(this=name, expressions=args)


class FlinkParser(ReportingParser):
    """The parser of the dialect `flink`."""

    # --- what begins a statement, a call, a literal ---

    STATEMENT_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        TokenType.ALTER: lambda self: function_ddl.parse_other_alter(self) or self._parse_alter(),
        TokenType.ANALYZE: dml.parse_analyze_table,
        TokenType.BEGIN: statements.parse_begin,
        TokenType.CREATE: lambda self: (
            function_ddl.parse_other_create(self) or self._parse_create()
        ),
        TokenType.DELETE: dml.parse_delete_from,
        TokenType.DESC: statements.parse_describe,
        TokenType.DESCRIBE: statements.parse_describe,
        TokenType.DROP: lambda self: function_ddl.parse_other_drop(self) or self._parse_drop(),
        TokenType.EXECUTE: statements.parse_execute,
        TokenType.INSERT: dml.parse_insert,
        TokenType.LOAD: statements.parse_load_module,
        TokenType.REPLACE: statements.parse_replace_table,
        TokenType.SEMICOLON: lambda _: exp.Semicolon(),
        TokenType.SET: statements.parse_set,
        TokenType.SHOW: statements.parse_show,
        TokenType.TRUNCATE: dml.parse_truncate,
        TokenType.UPDATE: dml.parse_update_table,
        TokenType.USE: statements.parse_use,
        **dict.fromkeys(REFUSED, lambda self: self.refuse(self._prev.text.upper())),
    }
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        **{name: Parser.FUNCTIONS[name] for name in calls.NODES if name in Parser.FUNCTIONS},
        "IFNULL": Parser.FUNCTIONS["COALESCE"],
        **{name: _aggregate(name) for name, row in FUNCTIONS.items() if row.aggregate},
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: calls.closed(parse) for name, parse in calls.PARSED.items()
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {
        TokenType.CURRENT_DATE: exp.CurrentDate,
        TokenType.CURRENT_TIME: exp.CurrentTime,
        TokenType.CURRENT_TIMESTAMP: exp.CurrentTimestamp,
        TokenType.LOCALTIME: exp.Localtime,
        TokenType.LOCALTIMESTAMP: exp.Localtimestamp,
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: Parser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("CASE", "IF")
    }
    NO_PAREN_IF_COMMANDS = False
    STRING_PARSERS: ClassVar[dict[TokenType, Any]] = {
        TokenType.STRING: lambda _, token: mark(exp.Literal.string(token.text), token, token),
        TokenType.UNICODE_STRING: expressions.parse_unicode_string,
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **STRING_PARSERS,
        TokenType.STRING: expressions.parse_pieces,
        TokenType.NUMBER: expressions.parse_number_literal,
        **{TokenType[name]: Parser.PRIMARY_PARSERS[TokenType[name]] for name in CONSTANTS},
    }
    PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Any]] = {}
    QUERY_MODIFIER_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        TokenType[name]: Parser.QUERY_MODIFIER_PARSERS[TokenType[name]] for name in MODIFIERS
    }
    QUERY_MODIFIER_TOKENS: ClassVar[set[TokenType]] = set(QUERY_MODIFIER_PARSERS)

    # --- operators and names ---

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

    # --- what sqlglot calls by its name ---

    _parse_types = types.parse_types
    _parse_hint = parts.parse_hint
    _parse_match_recognize = relations.parse_match_recognize
    _parse_function_args = table_functions.parse_function_args
    _parse_join = relations.parse_join
    _parse_table = relations.parse_table
    _parse_table_parts = relations.parse_table_parts
    _parse_version = relations.parse_version
    _parse_lateral = relations.parse_lateral
    _parse_unnest = relations.parse_unnest
    _parse_table_alias = relations.parse_table_alias
    _parse_interval = expressions.parse_interval
    _parse_id_var = expressions.parse_id_var
    _parse_alias = expressions.parse_alias
    _parse_bitwise = expressions.parse_bitwise
    _parse_is = expressions.parse_is
    _parse_between = expressions.parse_between
    _parse_in = expressions.parse_in
    _parse_case = expressions.parse_case
    _parse_window_spec = expressions.parse_window_spec
    _parse_lambda = calls.parse_lambda
    _parse_query_modifiers = queries.parse_query_modifiers
    _parse_group = queries.parse_group
    _parse_partition_by = queries.parse_partition_by
    _parse_qualify = queries.parse_qualify
    _parse_limit = queries.parse_limit
    _parse_offset = queries.parse_offset
    _parse_select_query = queries.parse_select_query
    _parse_with = queries.parse_with
    _parse_cte = queries.parse_cte
    _parse_ddl_select = queries.parse_ddl_select
    _is_table_query = queries.is_table_query
    _parse_wrapped_select = queries.parse_wrapped_select
    parse_set_operation = queries.parse_set_operation
    _parse_derived_table_values = queries.parse_derived_table_values
    _parse_value = queries.parse_value
    _parse_show = statements.parse_show
    _parse_describe = statements.parse_describe
    _parse_insert = dml.parse_insert
    _parse_create = statements.parse_create
    _parse_alter = statements.parse_alter
    _parse_drop = statements.parse_drop
    _parse_set = statements.parse_set
    _parse_use = statements.parse_use  # type: ignore[assignment]  # MODULES has a node of its own

    # --- what Flink does not have ---

    def _parse_at_time_zone(self, this: exp.Expr | None) -> exp.Expr | None:
        if self._match_text_seq("AT", "TIME", "ZONE", advance=False):
            self.raise_error(
                "Flink has no AT TIME ZONE",
                hint="write CONVERT_TZ(text, 'from', 'to'), or CAST to TIMESTAMP_LTZ",
            )
        return this

    def _parse_connect(self, skip_start_token: bool = False) -> exp.Connect | None:  # noqa: ARG002
        return None

    def _parse_pivots(self) -> list[exp.Pivot] | None:
        return None

    def _parse_slice(self, this: exp.Expr | None) -> exp.Expr | None:
        return this

    def _parse_star_ops(self) -> exp.Expr | None:
        return exp.Star().update_positions(self._prev)

    def _parse_string_as_identifier(self) -> exp.Identifier | None:
        return None  # a string names nothing in Flink

    def _parse_table_sample(self, as_modifier: bool = False) -> exp.TableSample | None:  # noqa: ARG002
        return None

    # --- what adds to sqlglot's own ---

    def _parse(
        self,
        parse_method: Callable[[Parser], exp.Expr | None],
        raw_tokens: list[Token],
        sql: str | None = None,
    ) -> list[exp.Expr | None]:
        """As sqlglot's; the semicolons inside a statement set do not end it."""
        return super()._parse(parse_method, statements.without_inner_ends(raw_tokens), sql)

    def _parse_statement(self) -> exp.Expr | None:
        first = self._curr
        statement = statements.parse_worded_statement(self)
        if statement is None:
            statement = super()._parse_statement()
        if statement is not None and first and not isinstance(statement, exp.Query):
            mark(statement, first, self._prev)
        return statement

    def _parse_primary(self) -> exp.Expr | None:
        token = self._curr
        if self._match(TokenType.STRING):
            return expressions.parse_pieces(self, token)
        return super()._parse_primary()

    def _parse_column_ops(self, this: exp.Expr | None) -> exp.Expr | None:
        constant = isinstance(this, exp.Literal | exp.Boolean | exp.Null)
        return this if constant else super()._parse_column_ops(this)  # 1 .5 has no field

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        this = self._parse_respect_or_ignore_nulls(this)  # Calcite has it in front of FILTER
        filtered = (TokenType.FILTER, TokenType.L_PAREN)
        if (self._curr.token_type, self._next.token_type) == filtered:
            self._advance(2)
            if not self._match(TokenType.WHERE):
                self.raise_error("Expected WHERE")
            this = exp.Filter(this=this, expression=exp.Where(this=parse_item(self)))
            self._match_r_paren()
        window = super()._parse_window(this, alias)
        spec = window.args.get("spec") if isinstance(window, exp.Window) else None
        if spec is not None and not spec.args.get("end"):
            spec.set("end", "CURRENT ROW")  # what ROWS 2 PRECEDING is short for
        return window

    def _parse_ordered(
        self, parse_method: Callable[[], exp.Expr | None] | None = None
    ) -> exp.Ordered | None:
        ordered = super()._parse_ordered(parse_method)
        if ordered is None:
            self.raise_error("Expected an expression")
        return ordered

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

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """MAP[k, v, ...] is a constructor; sqlglot reads it as access to a column named MAP."""
        token = self._prev
        opens = self._curr.token_type == TokenType.L_BRACKET
        if opens and token.token_type == TokenType.MAP and isinstance(this, exp.Column):
            return self._parse_bracket(calls.parse_map_constructor(self, token))
        access = super()._parse_bracket(this)
        step = access
        while isinstance(step, exp.Bracket) and "offset" not in step.args:
            if len(step.expressions) != 1:
                self.raise_error("Expected one index", token)
            if not step.expressions[0].is_string:
                step.set("offset", 1)  # arrays count from 1
            step = step.this
        return access
