"""Parses queries: blocks, their clauses in their order, WITH, set operations, and calls of functions.

Trees are sqlglot's own nodes. The parts below this one are types.py -> literals.py -> hints.py ->
json_functions.py -> matching.py -> table_functions.py -> relations.py -> predicates.py ->
special_calls.py -> clauses.py, each a class that the next one extends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.clauses import OF_ANY_QUERY, ClauseParser
from penstock.sql.dialect.functions import FUNCTIONS
from penstock.sql.dialect.hints import HINTS
from penstock.sql.dialect.special_calls import SYNTAX, closed
from penstock.sql.dialect.table_functions import (
    ORDER_ARGUMENT,
    PARTITION_ARGUMENT,
    WINDOW_FUNCTIONS,
)
from penstock.sql.positions import mark

__all__ = ["HINTS", "ORDER_ARGUMENT", "PARTITION_ARGUMENT", "WINDOW_FUNCTIONS", "QueryParser"]

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
