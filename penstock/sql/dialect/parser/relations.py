"""Parses what stands in FROM: tables, functions, subqueries, LATERAL, UNNEST, VALUES and joins; nothing else.

sqlglot's own methods take every dialect's forms of a table and are lenient about what is missing; these
take Calcite's, and say at once what is wrong. A windowing or other table function is a Table whose `this`
is an Anonymous call; `TABLE t` is a query (SELECT * FROM t), as in the standard.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.parser.hints import HINTS
from penstock.sql.dialect.parser.table_functions import TableFunctionGenerator, TableFunctionParser
from penstock.sql.syntax.positions import mark

__all__ = ["RelationGenerator", "RelationParser"]

UNCONDITIONAL = ("CROSS",)
NO_ALIAS = (TokenType.L_PAREN, TokenType.STRING, TokenType.NUMBER)


class RelationParser(TableFunctionParser):
    """The part of the parser that reads relations."""

    # --- joins ---

    def _parse_join(
        self,
        skip_join_token: bool = False,  # noqa: ARG002
        parse_bracket: bool = False,  # noqa: ARG002
        alias_tokens: Collection[TokenType] | None = None,  # noqa: ARG002
    ) -> exp.Join | None:
        if self._match(TokenType.COMMA):
            return exp.Join(this=self._require_relation())
        first = self._curr
        method, side, kind = self._parse_join_parts()
        if not self._match(TokenType.JOIN):
            if method or side or kind:
                self.raise_error("Expected JOIN")
            return None
        names = {"method": method, "side": side, "kind": kind}
        words = {key: token.text.upper() for key, token in names.items() if token}
        join = exp.Join(this=self._require_relation(), **words)
        mark(join, first, self._prev)
        if words.get("kind") in UNCONDITIONAL or "method" in words:
            return join
        if self._match(TokenType.ON):
            join.set("on", self._parse_item())
        elif self._match(TokenType.USING):
            join.set("using", self._parse_using())
        else:
            self.raise_error(
                "Expected ON", hint="a join needs ON or USING; CROSS JOIN does without"
            )
        return join

    def _parse_using(self) -> list[exp.Identifier]:
        self._match_l_paren()
        names = self._parse_csv(lambda: self._parse_name("a column"))
        self._match_r_paren()
        return names

    def _require_relation(self) -> exp.Expr:
        relation = self._parse_table()
        if relation is None:
            self.raise_error("Expected table name")
        return relation

    # --- one relation ---

    def _parse_table(self, *args: Any, joins: bool = False, **kwargs: Any) -> exp.Expr | None:  # noqa: ARG002
        relation = self._parse_derived_relation() or self._parse_named_relation()
        if self._curr.token_type == TokenType.MATCH_RECOGNIZE:
            relation.set("match", self._parse_match_recognize())
        if joins:
            for join in self._parse_joins():
                relation.append("joins", join)
        return relation

    def _parse_derived_relation(self) -> exp.Expr | None:
        """LATERAL ..., UNNEST(...), VALUES ..., (query) and (a JOIN b ON ...)."""
        kind = self._curr.token_type
        if kind == TokenType.LATERAL:
            return self._parse_lateral()
        if kind == TokenType.UNNEST:
            return self._parse_unnest()
        if kind == TokenType.VALUES or (
            kind == TokenType.L_PAREN and self._next.token_type == TokenType.VALUES
        ):
            return self._parse_derived_table_values()
        return self._parse_select(table=True) if kind == TokenType.L_PAREN else None

    def _parse_named_relation(self) -> exp.Table:
        """Name or TABLE(function), hints, FOR SYSTEM_TIME AS OF, alias."""
        table = self._parse_table_parts()
        assert isinstance(table, exp.Table)
        hints = table.meta.pop(HINTS, None)
        if self._curr.token_type == TokenType.FOR:
            if isinstance(table.this, exp.Anonymous):
                self.raise_error("a table function has no versions")
            table.set("version", self._parse_version())
        if alias := self._parse_table_alias():
            table.set("alias", alias)
        if hints is None and self._curr.token_type == TokenType.HINT:
            self.raise_error("a hint stands directly behind the table's name", self._curr)
        return table

    def _parse_table_parts(
        self,
        schema: bool = False,
        is_db_reference: bool = False,
        wildcard: bool = False,  # noqa: ARG002
        fast: bool = False,  # noqa: ARG002
    ) -> exp.Table | exp.Dot | None:
        if not schema and not is_db_reference:
            if self._match_pair(TokenType.TABLE, TokenType.L_PAREN):
                table = self._parse_called_table()
                self._match_r_paren()
                return table
            if self._next.token_type == TokenType.L_PAREN and self._curr.token_type not in NO_ALIAS:
                return self._parse_called_table()
        first = self._curr
        parts = [self._parse_name("table name")]
        while self._match(TokenType.DOT):
            if len(parts) == 3:
                self.raise_error(
                    "a name has at most three parts: catalog.database.table", self._prev
                )
            parts.append(self._parse_name("table name"))
        names = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
        if is_db_reference:
            names = dict(zip(("db", "catalog"), reversed(parts), strict=False))
        table = mark(exp.Table(**names), first, self._prev)
        if not schema and not is_db_reference:
            if self._curr.token_type == TokenType.L_PAREN:
                self.raise_error("a table function is called by one name", self._curr)
            self._parse_table_options(table)
        return table

    def _parse_called_table(self) -> exp.Table:
        first = self._curr
        function = self._parse_function(optional_parens=False)
        if not isinstance(function, exp.Func):
            self.raise_error("Expected a table function", first)
        return exp.Table(this=function)

    def _parse_version(self) -> exp.Version | None:
        """FOR SYSTEM_TIME AS OF expression."""
        first = self._curr
        self._expect_words("FOR", "SYSTEM_TIME", "AS", "OF")
        point = self._parse_bitwise()
        if point is None:
            self.raise_error("Expected an expression")
        return mark(
            exp.Version(this="TIMESTAMP", expression=point, kind="AS OF"), first, self._prev
        )

    def _parse_lateral(self) -> exp.Lateral | None:
        """LATERAL (query), LATERAL TABLE(call), LATERAL SNAPSHOT(...), with an alias."""
        first = self._curr
        if not self._match(TokenType.LATERAL):
            return None
        if self._curr.token_type == TokenType.L_PAREN:
            this = self._parse_select(table=True, parse_subquery_alias=False)
        else:
            this = self._parse_unnest(with_alias=False) or self._parse_function()
        if not isinstance(this, exp.Subquery | exp.Unnest | exp.Func):
            self.raise_error(
                "Expected TABLE", hint="write LATERAL TABLE(f(...)) or LATERAL (query)"
            )
        if (
            isinstance(this, exp.Anonymous)
            and this.name.upper() == "TABLE"
            and (len(this.expressions) != 1 or not isinstance(this.expressions[0], exp.Func))
        ):
            self.raise_error("Expected a table function", first)
        lateral = mark(exp.Lateral(this=this), first, self._prev)
        if alias := self._parse_table_alias():
            lateral.set("alias", alias)
        return lateral

    def _parse_unnest(self, with_alias: bool = True) -> exp.Unnest | None:
        """UNNEST(value) [WITH ORDINALITY] [AS t (columns)]; `offset` is whether there is an ordinality."""
        first = self._curr
        if not self._match_pair(TokenType.UNNEST, TokenType.L_PAREN):
            return None
        values = self._parse_csv(self._parse_item)
        self._match_r_paren()
        ordinality = self._match_text_seq("WITH", "ORDINALITY") or None
        node = mark(exp.Unnest(expressions=values, offset=ordinality), first, self._prev)
        if with_alias and (alias := self._parse_table_alias()):
            node.set("alias", alias)
        return node

    def _parse_table_alias(
        self, alias_tokens: Collection[TokenType] | None = None
    ) -> exp.TableAlias | None:
        """[AS] name [(column, ...)]"""
        first = self._curr
        if self._match(TokenType.ALIAS):
            name: exp.Expr = self._parse_name("a name")
        elif first.token_type == TokenType.IDENTIFIER or (
            first.token_type in (alias_tokens or self.TABLE_ALIAS_TOKENS)
        ):
            name = self._parse_name("a name")
        else:
            return None
        columns: list[exp.Identifier] | None = None
        if self._match(TokenType.L_PAREN):
            columns = self._parse_csv(lambda: self._parse_name("a column"))
            self._match_r_paren()
        return mark(exp.TableAlias(this=name, columns=columns), first, self._prev)

    # --- what other dialects have behind a relation ---

    def _parse_pivots(self) -> list[exp.Pivot] | None:
        return None

    def _parse_table_sample(self, as_modifier: bool = False) -> exp.TableSample | None:  # noqa: ARG002
        return None

    def _parse_connect(self, skip_start_token: bool = False) -> exp.Connect | None:  # noqa: ARG002
        return None


class RelationGenerator(TableFunctionGenerator):
    """The part of the writer that writes relations."""

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        """A table with its hints, version and alias; a table function in TABLE(...)."""
        joins = self.expressions(expression, key="joins", sep="", flat=True)
        alias = self.sql(expression, "alias")
        named = f"{sep}{alias}" if alias else ""
        match = self.sql(expression, "match")
        if isinstance(expression.this, exp.Func):
            return f"TABLE({self.sql(expression, 'this')}){named}{match}{joins}"
        hints = self.expressions(expression, key="hints", sep=" ", flat=True)
        parts = (self.table_parts(expression), hints, self.sql(expression, "version"))
        return " ".join(part for part in parts if part) + named + match + joins

    def subquery_sql(self, expression: exp.Subquery, sep: str = " AS ") -> str:
        """(query) AS s."""
        match = expression.args.get("match")
        expression.set("match", None)  # sqlglot's query modifiers would write it a second time
        try:
            return super().subquery_sql(expression, sep) + self.sql(match)
        finally:
            expression.set("match", match)

    def version_sql(self, expression: exp.Version) -> str:
        """FOR SYSTEM_TIME AS OF of a temporal join."""
        return f"FOR SYSTEM_TIME AS OF {self.sql(expression, 'expression')}"

    def lateral_sql(self, expression: exp.Lateral) -> str:
        """LATERAL (query), LATERAL TABLE(call)."""
        alias = self.sql(expression, "alias")
        return f"LATERAL {self.sql(expression, 'this')}" + (f" AS {alias}" if alias else "")

    def unnest_sql(self, expression: exp.Unnest) -> str:
        """UNNEST(value) WITH ORDINALITY AS t(x, n)."""
        alias = self.sql(expression, "alias")
        ordinality = " WITH ORDINALITY" if expression.args.get("offset") else ""
        values = self.expressions(expression, flat=True)
        return f"UNNEST({values}){ordinality}" + (f" AS {alias}" if alias else "")
