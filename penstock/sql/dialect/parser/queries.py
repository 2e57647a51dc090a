"""Parse queries: blocks with their clauses in order, WITH, set operations and function calls.

Also lists the built-in functions. Trees are sqlglot's own nodes. The class extends those of types, literals,
hints, JSON functions, MATCH_RECOGNIZE, table functions, relations and expressions, in this order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.functions.table import FUNCTIONS
from penstock.sql.dialect.parser.expressions import SYNTAX, SpecialCallParser, closed
from penstock.sql.dialect.parser.hints import HINTS
from penstock.sql.dialect.parser.table_functions import (
    ORDER_ARGUMENT,
    PARTITION_ARGUMENT,
    WINDOW_FUNCTIONS,
)
from penstock.sql.syntax.positions import mark

__all__ = [
    "HINTS",
    "OF_ANY_QUERY",
    "ORDER_ARGUMENT",
    "PARTITION_ARGUMENT",
    "WINDOW_FUNCTIONS",
    "ClauseParser",
    "QueryParser",
    "built_in_functions",
    "is_built_in",
]

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


# Functions that are nodes of sqlglot, so that its optimizer knows them. All others are Anonymous:
# they keep their name, and the table in functions.py says what they are.
NODES = (
    "COUNT", "SUM", "AVG", "MIN", "MAX", "STDDEV_POP", "STDDEV_SAMP", "STDDEV", "VAR_POP",
    "VAR_SAMP", "VARIANCE", "FIRST_VALUE", "LAST_VALUE", "LEAD", "LAG", "ROW_NUMBER", "RANK",
    "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "COALESCE", "NULLIF", "GREATEST", "LEAST",
    "GROUPING", "UNNEST",
)  # fmt: skip

PARSED: dict[str, Callable[[Any], exp.Expr]] = {
    **SYNTAX,
    "ALL": lambda self: exp.All(this=self._require_subquery()),
    "ANY": lambda self: exp.Any(this=self._require_subquery()),
    "EXISTS": lambda self: exp.Exists(this=self._require_subquery()),
    "JSON_ARRAY": lambda self: self._parse_flink_json_array(),
    "JSON_ARRAYAGG": lambda self: self._parse_flink_json_arrayagg(),
    "JSON_EXISTS": lambda self: self._parse_flink_json_exists(),
    "JSON_OBJECT": lambda self: self._parse_flink_json_object(),
    "JSON_OBJECTAGG": lambda self: self._parse_flink_json_objectagg(),
    "JSON_QUERY": lambda self: self._parse_flink_json_query(),
    "JSON_VALUE": lambda self: self._parse_flink_json_value(),
    "SOME": lambda self: exp.Any(this=self._require_subquery()),
    **dict.fromkeys(
        WINDOW_FUNCTIONS, lambda self: self._parse_table_function(self._name_before_paren())
    ),
}
"""What stands in the parentheses of a call that has words, queries or tables in it."""


def _aggregate(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    return lambda args: exp.AnonymousAggFunc(this=name, expressions=args)


class QueryParser(ClauseParser):
    """The part of the parser that reads queries and calls."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        **{name: Parser.FUNCTIONS[name] for name in NODES if name in Parser.FUNCTIONS},
        "IFNULL": Parser.FUNCTIONS["COALESCE"],
        **{name: _aggregate(name) for name, row in FUNCTIONS.items() if row.aggregate},
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: closed(parse) for name, parse in PARSED.items()
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
    # --- queries ---

    def _parse_select_query(
        self,
        nested: bool = False,
        table: bool = False,
        parse_subquery_alias: bool = True,
        parse_set_operation: bool = True,
    ) -> exp.Expr | None:
        this: exp.Expr | None = None
        match self._curr.token_type:
            case TokenType.WITH:
                return self._parse_query_with()
            case TokenType.SELECT:
                this = self._parse_select_block()
            case TokenType.VALUES:
                this = self._parse_derived_table_values()
            case TokenType.L_PAREN if table or nested:
                self._advance()
                inner = self._parse_wrapped_select(table=table)
                self._match_r_paren()
                return self._parse_subquery(inner, parse_alias=parse_subquery_alias)
            case TokenType.TABLE if not table and self._is_table_query():
                first = self._curr
                self._advance()
                relation = self._parse_table_parts()
                this = exp.Select(expressions=[exp.Star()], from_=exp.From(this=relation))
                this = self._parse_query_modifiers(mark(this, first, self._prev))
        return self._parse_set_operations(this) if parse_set_operation else this

    def _parse_query_with(self) -> exp.Expr:
        with_ = self._parse_with()
        query = self._parse_ddl_select()
        while isinstance(query, exp.Subquery) and query.is_wrapper:
            query = query.this
        if not isinstance(query, exp.Query):
            self.raise_error("Expected SELECT")
        if query.args.get("with_") is not None:
            self.raise_error("a query has one WITH", hint="put the names of both behind one WITH")
        query.set("with_", with_)
        return query

    def _parse_with(self, skip_with_token: bool = False) -> exp.With | None:  # noqa: ARG002
        first = self._curr
        if not self._match(TokenType.WITH):
            return None
        recursive = self._match(TokenType.RECURSIVE) or None
        queries = self._parse_csv(self._parse_cte)
        return mark(exp.With(expressions=queries, recursive=recursive), first, self._prev)

    def _parse_cte(self) -> exp.CTE:
        first = self._curr
        alias = exp.TableAlias(this=self._parse_name("CTE to have alias"))
        if self._match(TokenType.L_PAREN):
            alias.set("columns", self._parse_csv(lambda: self._parse_name("a column")))
            self._match_r_paren()
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS")
        self._match_l_paren()
        query = self._parse_ddl_select()
        if query is None:
            self.raise_error("Expected a query")
        if isinstance(query, exp.Values):
            query = self._values_to_select(query)
        self._match_r_paren()
        return mark(exp.CTE(this=query, alias=alias), first, self._prev)

    def _parse_ddl_select(self) -> exp.Expr | None:
        """A whole query, its parentheses and set operations included; None if none begins here."""
        if self._curr.token_type != TokenType.L_PAREN:
            return self._with_modifiers(self._parse_select())
        found = self._parse_select(nested=True, parse_subquery_alias=False)
        return self._with_modifiers(self._parse_set_operations(found))

    def _with_modifiers(self, query: exp.Expr | None) -> exp.Expr | None:
        found: exp.Expr | None = self._parse_query_modifiers(query)
        return found

    def _is_table_query(self) -> bool:
        names = (TokenType.VAR, TokenType.IDENTIFIER)
        return self._curr.token_type == TokenType.TABLE and self._next.token_type in names

    def _parse_select_block(self) -> exp.Expr | None:
        """SELECT [hint] [ALL | DISTINCT] projections [FROM ...] and the clauses behind."""
        self._advance()
        comments = self._prev_comments
        hint = self._parse_hint()
        distinct = exp.Distinct() if self._match(TokenType.DISTINCT) else None
        if distinct is None:
            self._match(TokenType.ALL)
        projections = self._parse_csv(self._parse_expression)
        if not projections:
            self.raise_error("Expected an expression")
        block = exp.Select(hint=hint, distinct=distinct, expressions=projections)
        block.add_comments(comments)
        if from_ := self._parse_from():
            block.set("from_", from_)
            for join in self._parse_joins():
                block.append("joins", join)
        return self._with_modifiers(block)

    def _require_subquery(self) -> exp.Expr:
        """The query of EXISTS and ANY, without its own parentheses."""
        query = self._parse_ddl_select()
        while isinstance(query, exp.Subquery) and query.is_wrapper:
            query = query.this
        if query is None:
            self.raise_error("Expected a query")
        return self._values_to_select(query) if isinstance(query, exp.Values) else query

    def _parse_wrapped_select(self, table: bool = False) -> exp.Expr | None:
        """What stands in parentheses: a query or, in FROM, joined relations."""
        starts = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES)
        if not table or self._curr.token_type in starts or self._is_table_query():
            found = self._parse_select(nested=True, parse_set_operation=False)
            if found is None:
                self.raise_error("Expected a query")
            return self._with_modifiers(self._parse_set_operations(found))
        relation = self._parse_table()
        if isinstance(relation, exp.Values) and relation.alias:
            relation = exp.Table(this=relation, alias=relation.args["alias"].pop())
        if isinstance(relation, exp.Subquery) and not relation.alias:
            combined = self._with_modifiers(self._parse_set_operations(relation))
            if combined is not relation:
                return combined
        assert relation is not None
        for join in self._parse_joins():
            relation.append("joins", join)
        return relation

    def parse_set_operation(
        self,
        this: exp.Expr | None,
        consume_pipe: bool = False,  # noqa: ARG002
        intersect_only: bool = False,
    ) -> exp.SetOperation | None:
        """UNION, INTERSECT or EXCEPT [ALL | DISTINCT] and its right side, behind `this`."""
        kind = self._curr.token_type
        if kind not in self.SET_OPERATIONS or (intersect_only and kind != TokenType.INTERSECT):
            return None
        if isinstance(this, exp.Select) and any(this.args.get(key) for key in OF_ANY_QUERY):
            self.raise_error(
                f"{self._curr.text.upper()} stands behind a query that is ordered or limited",
                hint="put the query in front of it in parentheses",
            )
        self._advance()
        distinct = not self._match(TokenType.ALL)
        if distinct:
            self._match(TokenType.DISTINCT)
        right = self._parse_select(
            nested=True, parse_set_operation=False, parse_subquery_alias=False
        )
        if right is None:
            self.raise_error("Expected a query")
        sides = [
            self._values_to_select(side) if isinstance(side, exp.Values) else side
            for side in (this, right)
        ]
        types = {TokenType.UNION: exp.Union, TokenType.EXCEPT: exp.Except}
        operation = types.get(kind, exp.Intersect)
        return self.expression(operation(this=sides[0], expression=sides[1], distinct=distinct))

    def _parse_derived_table_values(self, allow_value_synonym: bool = False) -> exp.Values | None:  # noqa: ARG002
        """VALUES row, ... or, in FROM, (VALUES row, ...) [AS t (columns)]."""
        first = self._curr
        derived = self._match_pair(TokenType.L_PAREN, TokenType.VALUES)
        if not derived and not self._match(TokenType.VALUES):
            return None
        values = exp.Values(expressions=self._parse_csv(self._parse_value))
        if derived:
            self._match_r_paren()
            values.set("alias", self._parse_table_alias())
        return mark(values, first, self._prev)

    def _parse_value(self, values: bool = True) -> exp.Tuple | None:  # noqa: ARG002
        """(a, b), ROW(a, b), or one value alone."""
        first = self._curr
        if first.token_type == TokenType.ROW and self._next.token_type == TokenType.L_PAREN:
            self._advance()
        if not self._match(TokenType.L_PAREN):
            return mark(exp.Tuple(expressions=[self._parse_item()]), first, self._prev)
        row = self._parse_csv(self._parse_item)
        self._match_r_paren()
        return mark(exp.Tuple(expressions=row), first, self._prev)


def built_in_functions() -> list[str]:
    """The functions that run, in lower case, sorted."""
    names = [name for name, row in FUNCTIONS.items() if row.refusal is None]
    return sorted({name.lower() for name in (*names, *NODES, *SYNTAX)})


def is_built_in(name: str) -> bool:
    """Whether Flink has a function of this name, which may be one that is refused here."""
    return name.upper() in {*FUNCTIONS, *NODES, *SYNTAX}
